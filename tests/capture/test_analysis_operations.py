# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint requests: round trips are those of the host that asked, whatever the clocks of two places are; probes and
packets that the network doubled are counted once."""

from __future__ import annotations

import pytest
from analyzing import analysis_of, found_in, only_direction, path_of
from crafted_flows import FIRST, LAST, MICROSECOND, MIDDLE, Crafted, ev_of, pcap_of

A, B = ev_of(0, 0), ev_of(1, 1)
WAY = 50 * MICROSECOND


class Ends:
    """A flow as both hosts see it, the receiver's clock ahead by `ahead`."""

    def __init__(self, ahead: int, *, srv6: bool = True) -> None:
        self.ahead = ahead
        self.near = Crafted(srv6=srv6)
        self.far = Crafted(at="receiver", srv6=srv6, hop_limits=(61, 64) if srv6 else (64, 64))
        if srv6:
            self.near.hop_limits = (64, 61)
        for psn in range(40):
            sent, ev = 4 * psn * MICROSECOND, B if psn % 2 else A
            opcode = FIRST if not psn else LAST if psn == 39 else MIDDLE
            self.near.data(sent, psn, ev, opcode=opcode)
            self.far.data(sent, psn, ev, opcode=opcode)
            self.far.records[-1] = sent + WAY + ahead, self.far.records[-1][1]
            self.back(psn, ev, sent + WAY)

    def back(self, psn: int, ev: int, sent: int) -> None:
        self.far.sack(sent + self.ahead, psn, psn, ev)
        self.near.sack(sent + WAY, psn, psn, ev)

    def asked_by_requestor(self, sent: int, number: int, thinks: int) -> None:
        self.near.port_status(sent, number, 3)
        self.far.port_status(sent + WAY + self.ahead, number, 3)
        self.far.port_status_response(sent + WAY + thinks + self.ahead, number)
        self.near.port_status_response(sent + 2 * WAY + thinks, number)

    def asked_by_responder(self, sent: int, number: int, thinks: int) -> None:
        self.far.port_status(sent + self.ahead, number, 3, forward=False)
        self.near.port_status(sent + WAY, number, 3, forward=False)
        self.near.port_status_response(sent + WAY + thinks, number, forward=True)
        self.far.port_status_response(sent + 2 * WAY + thinks + self.ahead, number, forward=True)

    @property
    def merged(self) -> bytes:
        earliest = min(0, *(time for time, _ in self.far.records))
        records = sorted((time - earliest, frame) for time, frame in (*self.near.records, *self.far.records))
        return pcap_of(records)


@pytest.mark.parametrize("srv6", [True, False], ids=["uSIDs", "flat"])
@pytest.mark.parametrize("ahead_ms", [0, 37, -37])
def test_both_hosts_ask(ahead_ms: int, srv6: bool) -> None:
    ends = Ends(1000 * ahead_ms * MICROSECOND, srv6=srv6)
    ends.asked_by_requestor(20 * MICROSECOND, 1, 300 * MICROSECOND)
    ends.asked_by_responder(40 * MICROSECOND, 2, 15 * MICROSECOND)
    found = {each.request_id: each for each in analysis_of(ends.merged).operations}
    assert found.keys() == {1, 2}
    assert all(each.answered for each in found.values())
    assert [found[number].rtt_ns for number in (1, 2)] == [400 * MICROSECOND, 115 * MICROSECOND]
    assert "unanswered-endpoint-requests" not in found_in(ends.merged)


def test_a_response_that_only_the_far_place_has_may_have_been_lost_on_its_way() -> None:
    ends = Ends(0)
    ends.asked_by_requestor(20 * MICROSECOND, 1, 0)
    del ends.near.records[-1]
    (only,) = analysis_of(ends.merged).operations
    assert (only.answered, only.rtt_ns) == (None, None)
    del ends.far.records[-1]
    (only,) = analysis_of(ends.merged).operations
    assert (only.answered, only.rtt_ns) == (False, None)


def test_a_probe_that_the_network_doubles_is_one() -> None:
    ends = Ends(0)
    ends.near.probe(100 * MICROSECOND, A, 7)
    for after in (0, 3 * MICROSECOND):
        ends.far.probe(100 * MICROSECOND + WAY + after, A, 7)
    answer = {"probe_id": 7, "own_ev": A}
    ends.far.sack(100 * MICROSECOND + WAY, 39, 39, A, **answer)
    ends.near.sack(100 * MICROSECOND + 2 * WAY, 39, 39, A, **answer)
    path = path_of(only_direction(ends.merged), A)
    assert (path.probes, path.probes_answered) == (1, 1)


def test_what_the_network_doubles_has_its_path() -> None:
    ends = Ends(0)
    for psn in (10, 20):
        ends.far.data(4 * psn * MICROSECOND, psn, A)
        ends.far.records[-1] = 4 * psn * MICROSECOND + WAY + 2000, ends.far.records[-1][1]
    (found,) = found_in(ends.merged)["duplicates"]
    assert found.text.startswith("2 packets doubled by the network, all on path EV 0x00000000")
    assert (found.ev, found.place) == (A, "between the sender and the receiver")


def test_what_came_with_a_wrong_icrc_is_what_was_sent_again() -> None:
    crafted = Crafted(at="receiver")
    for psn in range(60):
        ev, sent = B if psn % 2 else A, 4 * psn * MICROSECOND
        bad = psn in (11, 21, 31)
        crafted.data(sent, psn, ev, corrupt=bad)
        if bad:
            crafted.data(sent + 20 * MICROSECOND, psn, A, rtx=True)
    for psn in (11, 21, 31):
        crafted.sack((4 * psn + 21) * MICROSECOND, psn, psn, A, rtx=True)
    found = found_in(crafted.pcap())
    assert found["corrupting-path"][0].text.endswith(
        "corrupts: 3 of 30 packets (10.0 %) of it came with a wrong ICRC, and of no other path any"
    )
    (again,) = found["loss-before-capture"]
    assert again.text == "3 packets sent again: the first transmission had come with a wrong ICRC"
    assert again.ev == B
    assert again.cause is not None


def test_between_the_two_a_path_that_is_asked_about_is_named_and_its_state_unknown() -> None:
    crafted = Crafted(at="middle")
    for turn in range(60):
        for psn, ev in ((2 * turn, A), (2 * turn + 1, B)):
            if ev == A or turn < 10:
                crafted.data(4 * psn * MICROSECOND, psn, ev)
                crafted.sack((4 * psn + 90) * MICROSECOND, psn, psn, ev)
    for number in range(12):
        crafted.probe((100 + 30 * number) * MICROSECOND, B, number)
    (found,) = found_in(crafted.pcap())["loss-before-capture"]
    assert "out of use, as far as probes show: it asked 12 times whether it works" in found.text
    assert (found.ev, found.place) == (B, "before the place of capture")
    path = path_of(only_direction(crafted.pcap()), B)
    assert (path.state, path.outs, path.probes_text("middle")) == (None, None, "0+/12")


def test_probes_behind_the_last_data_tell_that_a_path_was_taken_out_of_use() -> None:
    """At the receiver, where the first of four packets never came, and later nothing but probes on one path."""
    crafted = Crafted(at="receiver")
    for psn in range(400):
        ev, sent = B if psn % 2 else A, 4 * psn * MICROSECOND
        if ev == B and psn > 80:
            continue
        if psn in (41, 51, 61, 71):
            crafted.data(sent + 200 * MICROSECOND, psn, A, rtx=True)
            continue
        crafted.data(sent, psn, ev)
    for probes, words in ((0, "nothing came any more"), (2, "no data came any more behind packet")):
        for number in range(probes):
            crafted.probe((900 + 100 * number) * MICROSECOND, B, number)
        (found,) = found_in(pcap_of(sorted(crafted.records)))["loss-before-capture"]
        assert words in found.text
