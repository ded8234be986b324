# SPDX-License-Identifier: BSD-2-Clause
"""What carries a packet says nothing of it: hop limits and marks of a tunnel are those of another network."""

from __future__ import annotations

import pytest
from analyzing import only_direction
from crafted_flows import Crafted, ev_of, pcap_of, transfer
from drawn_forms import FORMS

PATHS = [ev_of(plane, spine) for plane in range(2) for spine in range(2)]


def flow() -> list[tuple[int, bytes]]:
    crafted = Crafted(payload=64, srv6=False)
    transfer(crafted, 400, PATHS, lambda chance, ev: chance.random() < 0.02)
    return crafted.records


@pytest.mark.parametrize("form", sorted(FORMS))
def test_the_place_and_the_losses_are_those_without_the_tunnel(form: str) -> None:
    records = flow()
    plain = only_direction(pcap_of(records)).figures
    wrapped = [(time, FORMS[form](frame, number)) for number, (time, frame) in enumerate(records)]
    figures = only_direction(pcap_of(wrapped)).figures
    assert figures.capture_point == plain.capture_point
    assert (figures.lost, figures.retransmissions) == (plain.lost, plain.retransmissions)
    assert figures.rtt == plain.rtt


def test_a_mark_of_the_mirror_s_network_is_no_mark_of_the_packet() -> None:
    records = []
    for number, (time, frame) in enumerate(flow()):
        wrapped = bytearray(FORMS["erspan2"](frame, number))
        wrapped[15] |= 3
        records.append((time, bytes(wrapped)))
    assert only_direction(pcap_of(records)).figures.ce_packets == 0


def test_a_mark_of_the_packet_is_one_inside_a_mirror_too() -> None:
    crafted = Crafted(payload=64)
    for psn in range(20):
        crafted.data(psn * 4_000, psn, PATHS[0], ce=psn % 4 == 0)
        crafted.sack(psn * 4_000 + 80_000, psn, psn, PATHS[0])
    wrapped = [(time, FORMS["vxlan"](frame, number)) for number, (time, frame) in enumerate(sorted(crafted.records))]
    assert only_direction(pcap_of(wrapped)).figures.ce_packets == 5


def test_a_nack_names_the_transmission_with_its_rtx_bit() -> None:
    """The requestor sends again at the time of the NACK, on the same EV."""
    crafted = Crafted(payload=64)
    for psn in range(20):
        crafted.data(psn * 4_000, psn, PATHS[0])
        if psn != 10:
            above = tuple(range(11, psn + 1))
            crafted.sack(psn * 4_000 + 80_000, min(psn, 9), psn, PATHS[0], received=above)
    crafted.nack(120_000, 10, PATHS[0], 0x01)
    crafted.data(120_000, 10, PATHS[0], rtx=True)
    crafted.sack(200_000, 19, 10, PATHS[0], rtx=True)
    figures = only_direction(pcap_of(sorted(crafted.records, key=lambda each: each[0]))).figures
    assert (figures.trimmed, figures.lost, figures.spurious_retransmissions) == (1, 0, 0)
