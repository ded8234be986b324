# SPDX-License-Identifier: BSD-2-Clause
"""What carries a packet says nothing of it: hop limits and marks of a tunnel are those of another network."""

from __future__ import annotations

import struct

import pytest
from analyzing import analysis_of, found_in, only_direction
from crafted_flows import Crafted, ev_of, pcap_of, transfer
from drawn_forms import FORMS

from mrc.capture.analysis.mirrors import Mirror

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


def mirrored(numbers: list[int], session: int = 0x64) -> list[tuple[int, bytes]]:
    """A flow in ERSPAN II whose packets have these numbers."""
    wrapped = []
    for (time, frame), number in zip(flow(), numbers, strict=False):
        one = bytearray(FORMS["erspan2"](frame, number % 2**32))
        one[44:46] = struct.pack("!H", session)
        wrapped.append((time, bytes(one)))
    return wrapped


def test_gaps_of_a_mirror_s_numbers_are_what_the_mirror_lost() -> None:
    """Across the end of 32 bits, with two packets that it sent out of order."""
    count = len(flow())
    numbers = [2**32 - 50 + each for each in range(count)]
    numbers[10], numbers[11] = numbers[11], numbers[10]
    records = [record for place, record in enumerate(mirrored(numbers)) if place not in (30, 31, 90)]
    analysis = analysis_of(pcap_of(records))
    assert analysis.mirrors == [Mirror("ERSPAN II", "192.0.2.1", "192.0.2.2", 0x64, count - 3, 3, 31)]
    found = found_in(pcap_of(records))
    assert (
        found["mirrored"][0].text == f"{count - 3} packets came through a mirror: ERSPAN II from 192.0.2.1, session 100"
    )
    assert found["mirror-lost"][0].text.startswith(f"the mirror lost 3 of {count} packets (")
    assert analysis.directions[0].figures.place.endswith(", mirror")
    assert "mirror-lost" not in found_in(pcap_of(mirrored(numbers)))


def test_each_session_has_numbers_of_its_own() -> None:
    one, other = mirrored(list(range(40)), 1), mirrored(list(range(1000, 1040)), 2)
    records = [record for pair in zip(one, other, strict=True) for record in pair]
    assert [(each.session, each.packets, each.lost) for each in analysis_of(pcap_of(records)).mirrors] == [
        (1, 40, 0),
        (2, 40, 0),
    ]


def test_numbers_that_do_not_count_show_no_loss() -> None:
    for numbers in ([0] * 40, [7]):
        (mirror,) = analysis_of(pcap_of(mirrored(numbers))).mirrors
        assert mirror.lost is None
    # A mirror that was set up again begins anew.
    (mirror,) = analysis_of(pcap_of(mirrored([*range(3_000_000_000, 3_000_000_020), *range(20)]))).mirrors
    assert mirror.lost == 0


@pytest.mark.parametrize("form", ["plain", "gre", "vxlan", "geneve", "mpls", "vlan"])
def test_what_has_no_sequence_numbers_is_no_mirror(form: str) -> None:
    records = [(time, FORMS[form](frame, number)) for number, (time, frame) in enumerate(flow())]
    assert analysis_of(pcap_of(records)).mirrors == []
    assert only_direction(pcap_of(records)).figures.place in ("sender", "receiver", "middle", "unknown")


def test_gre_with_sequence_numbers_is_one() -> None:
    records = []
    for number, (time, frame) in enumerate(flow()[:40]):
        one = FORMS["gre"](frame, number)
        # Key and number behind the first four bytes.
        flags = struct.pack("!H", 0x3000)
        head = bytearray(one[:34] + flags + one[36:38] + struct.pack("!II", 9, number) + one[38:])
        head[16:18] = struct.pack("!H", len(head) - 14)
        if number != 20:
            records.append((time, bytes(head)))
    assert analysis_of(pcap_of(records)).mirrors == [Mirror("GRE", "192.0.2.1", "192.0.2.2", None, 39, 1, 21)]
