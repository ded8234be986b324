# SPDX-License-Identifier: BSD-2-Clause
"""Merged captures of both ends: what the receiver's place saw settles what the sender's leaves open."""

from __future__ import annotations

from typing import Any

import pytest
from analyzing import only_direction, path_of
from crafted_flows import FIRST, LAST, MICROSECOND, MIDDLE, Crafted, ev_of, pcap_of

from mrc.capture.analysis.figures import DirectionFigures

A, B = ev_of(0, 0), ev_of(1, 1)
ONE_WAY = 50
# Of what the receiver's place saw of ten packets without the fourth, where the seventh is.
SEVENTH = 10


class Ends:
    """One flow as both places see it. Times are in microseconds."""

    def __init__(self) -> None:
        self.near, self.far = Crafted(), Crafted(at="receiver")

    def data(self, sent: int, psn: int, ev: int, came: int | None = -1, **fields: Any) -> None:
        """`came`: None for a packet that was lost on its way; after the usual time if nothing is said."""
        self.near.data(sent * MICROSECOND, psn, ev, **fields)
        if came is not None:
            self.far.data(sent * MICROSECOND, psn, ev, **fields)
            self.far.records[-1] = (sent + ONE_WAY if came < 0 else came) * MICROSECOND, self.far.records[-1][1]

    def sack(self, sent: int, cack: int, trigger: int, ev: int, **fields: Any) -> None:
        self.far.sack(sent * MICROSECOND, cack, trigger, ev, **fields)
        self.near.sack((sent + ONE_WAY) * MICROSECOND, cack, trigger, ev, **fields)

    @property
    def merged(self) -> bytes:
        return pcap_of(sorted(self.near.records + self.far.records))


def ten(ends: Ends, **of_three: Any) -> None:
    """PSNs 0 to 9, even ones on A, odd ones on B, each with a SACK of its own but for 3, which the SACKs of 4 and later
    show to be missing."""
    for psn in range(10):
        opcode = FIRST if psn == 0 else LAST if psn == 9 else MIDDLE
        ends.data(4 * psn, psn, B if psn % 2 else A, opcode=opcode, **(of_three if psn == 3 else {}))
        if psn < 3:
            ends.sack(4 * psn + ONE_WAY, psn, psn, B if psn % 2 else A)
        elif psn > 3:
            ends.sack(4 * psn + ONE_WAY, 2, psn, B if psn % 2 else A, received=tuple(range(4, psn + 1)))


def after_it_all(ends: Ends) -> None:
    """More of the flow, much later, so that the file does not end too soon to tell."""
    ends.data(2000, 10, A)
    ends.sack(2000 + ONE_WAY, 10, 10, A)


def figures_of(capture: bytes, place: str) -> DirectionFigures:
    figures = only_direction(capture).figures
    assert figures.capture_point == place
    return figures


def test_what_came_to_the_receiver_was_late_and_not_lost() -> None:
    """3 comes after its retransmission, and the responder answers the retransmission alone."""
    ends = Ends()
    ten(ends, came=300)
    ends.data(120, 3, A, rtx=True)
    ends.sack(170, 9, 3, A, rtx=True)
    after_it_all(ends)
    alone = figures_of(ends.near.pcap(), "sender")
    assert (alone.lost, alone.spurious_retransmissions) == (1, 0)
    both = only_direction(ends.merged)
    assert (both.figures.lost, both.figures.lost_unsure, both.figures.spurious_retransmissions) == (0, 0, 1)
    assert (path_of(both, B).lost, path_of(both, B).resent_in_vain, path_of(both, A).resent_in_vain) == (0, 1, 0)


def test_what_did_not_come_to_the_receiver_was_lost_however_soon_the_answer_came() -> None:
    """A quick SACK of 7 is the first that covers 3, just after the resend. The sender's side alone leaves it open."""
    ends = Ends()
    ten(ends, came=None)
    ends.data(120, 3, A, came=130, rtx=True)
    ends.far.sack(145 * MICROSECOND, 9, 7, B)
    ends.near.sack(150 * MICROSECOND, 9, 7, B)
    after_it_all(ends)
    alone = figures_of(ends.near.pcap(), "sender")
    assert (alone.lost, alone.lost_unsure, alone.spurious_retransmissions) == (0, 1, 0)
    both = figures_of(ends.merged, "both")
    assert (both.lost, both.lost_unsure, both.spurious_retransmissions) == (1, 0, 0)


def test_what_came_and_came_again_before_anything_was_answered_stays_open() -> None:
    """9, the last, comes; so does its retransmission, and that is answered. The host may have lost the first."""
    ends = Ends()
    for psn in range(9):
        ends.data(4 * psn, psn, B if psn % 2 else A, opcode=FIRST if psn == 0 else MIDDLE)
        ends.sack(4 * psn + ONE_WAY, psn, psn, B if psn % 2 else A)
    ends.data(36, 9, B, opcode=LAST)
    ends.data(900, 9, A, opcode=LAST, rtx=True)
    ends.sack(950, 9, 9, A, rtx=True)
    after_it_all(ends)
    both = figures_of(ends.merged, "both")
    assert (both.lost, both.lost_unsure, both.spurious_retransmissions) == (0, 1, 0)


@pytest.mark.parametrize("lacks", [set(), {SEVENTH}])
def test_a_file_that_lacks_frames_of_the_receiver_proves_no_loss(lacks: set[int]) -> None:
    """3 came late as above and was answered, but its sighting there is missing; and with it that of 6, perhaps."""
    ends = Ends()
    ten(ends, came=None)
    ends.far.records = [each for at, each in enumerate(ends.far.records) if at not in lacks]
    ends.data(120, 3, A, rtx=True)
    ends.sack(170, 9, 3, A, rtx=True)
    ends.sack(310, 9, 3, B)
    after_it_all(ends)
    both = figures_of(ends.merged, "both")
    assert (both.lost, both.spurious_retransmissions) == (0, 1)


def test_a_responder_that_reads_one_port_after_the_other_was_not_without_what_waited_at_the_next() -> None:
    """All ten have come when its turn ends. It reads A first: its SACKs show the packets on B missing, 3 among them,
    which is sent again before the SACK of 9 tells more."""
    ends = Ends()
    for psn in range(10):
        opcode = FIRST if psn == 0 else LAST if psn == 9 else MIDDLE
        ends.data(4 * psn, psn, B if psn % 2 else A, opcode=opcode)
    for psn in range(0, 10, 2):
        ends.sack(270 + psn, 0, psn, A, received=tuple(range(2, psn + 1, 2)))
    ends.sack(300, 9, 9, B)
    ends.data(330, 3, A, rtx=True)
    ends.sack(380, 9, 3, A, rtx=True)
    after_it_all(ends)
    both = only_direction(ends.merged)
    assert (both.figures.lost, both.figures.lost_unsure, both.figures.spurious_retransmissions) == (0, 0, 1)
    assert path_of(both, B).resent_in_vain == 1
