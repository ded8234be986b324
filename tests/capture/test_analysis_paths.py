# SPDX-License-Identifier: BSD-2-Clause
"""Path states, probes, and where a capture was taken, by hand from behaviour.md."""

from __future__ import annotations

import pytest
from analyzing import analysis_of, changes, only_direction, path_of
from crafted_flows import MICROSECOND, Crafted, ev_of

A, B = ev_of(0, 0), ev_of(1, 1)


def us(count: float) -> int:
    return int(count * MICROSECOND)


def lost_on_b() -> Crafted:
    """PSN 1 is lost on B and sent again on A at 121 us, packet 6."""
    crafted = Crafted()
    for psn in range(4):
        crafted.data(us(4 * psn), psn, B if psn % 2 else A)
    crafted.sack(us(120), 0, 3, B, received=(2, 3))
    crafted.data(us(121), 1, A, rtx=True)
    crafted.sack(us(221), 3, 1, A, rtx=True)
    return crafted


def test_three_answered_probes_bring_a_path_back() -> None:
    crafted = lost_on_b()
    for number in range(3):
        crafted.probe(us(1000 + 200 * number), B, 40 + number)
        last = crafted.sack(us(1080 + 200 * number), 3, 3, B, probe_id=40 + number)
    direction = only_direction(crafted.pcap())
    path = path_of(direction, B)
    assert changes(path) == [(121, "ASSUMED_BAD", "lost", 6), (1480, "GOOD", "probes answered", last - 1)]
    assert (path.outs, path.out_s) == (1, pytest.approx(1359e-6))
    assert (path.probes, path.probes_answered, path.probe_rtt.p50_us) == (3, 3, 80.0)
    assert (direction.figures.probes, direction.figures.probes_answered) == (3, 3)


def test_two_answered_probes_do_not() -> None:
    crafted = lost_on_b()
    for number in range(3):
        crafted.probe(us(1000 + 200 * number), B, 40 + number)
        if number:
            crafted.sack(us(1080 + 200 * number), 3, 3, B, probe_id=40 + number)
    path = path_of(only_direction(crafted.pcap()), B)
    assert (path.state, path.probes, path.probes_answered) == ("ASSUMED_BAD", 3, 2)


def test_a_marked_path_is_skipped_until_it_is_used_again() -> None:
    crafted = Crafted()
    crafted.data(us(0), 0, B)
    marked = crafted.sack(us(100), 0, 0, B, m=1)
    crafted.data(us(101), 1, A)
    again = crafted.data(us(110), 2, B)
    assert changes(path_of(only_direction(crafted.pcap()), B)) == [
        (100, "SKIP", "marked", marked),
        (110, "GOOD", "used again", again),
    ]


def test_a_path_marked_for_good_is_bad() -> None:
    crafted = Crafted()
    crafted.data(us(0), 0, B)
    crafted.sack(us(100), 0, 0, B, m=2)
    assert path_of(only_direction(crafted.pcap()), B).state == "ASSUMED_BAD"


def test_what_was_in_flight_when_a_path_went_down_is_the_same_event() -> None:
    """PSNs 1 and 3 are lost on B before it goes down at 121 us; 3 is noticed after the path came back."""
    crafted = Crafted()
    for psn in range(6):
        crafted.data(us(4 * psn), psn, B if psn in (1, 3) else A)
    crafted.sack(us(120), 0, 2, A, received=(2,))
    crafted.data(us(121), 1, A, rtx=True)
    crafted.data(us(400), 6, B)
    crafted.sack(us(500), 2, 6, B, received=(4, 5, 6))
    crafted.data(us(501), 3, A, rtx=True)
    crafted.sack(us(601), 6, 3, A, rtx=True)
    path = path_of(only_direction(crafted.pcap()), B)
    assert (path.lost, path.outs) == (2, 1)
    assert [(time, state) for time, state, _, _ in changes(path)] == [(121, "ASSUMED_BAD"), (400, "GOOD")]


@pytest.mark.parametrize("at", ["sender", "middle", "receiver"])
def test_usids_left_tell_the_capture_point(at: str) -> None:
    crafted = Crafted(at=at)
    crafted.data(us(0), 0, A)
    crafted.sack(us(100), 0, 0, A)
    assert only_direction(crafted.pcap()).figures.capture_point == at


@pytest.mark.parametrize(
    ("hop_limits", "expected"),
    [((64, 61), "sender"), ((61, 64), "receiver"), ((62, 63), "middle"), ((64, 64), "unknown"), ((255, 252), "sender")],
)
def test_hop_limits_tell_the_capture_point_without_srv6(hop_limits: tuple[int, int], expected: str) -> None:
    crafted = Crafted(srv6=False, hop_limits=hop_limits)
    crafted.data(us(0), 0, A)
    crafted.sack(us(100), 0, 0, A)
    assert only_direction(crafted.pcap()).figures.capture_point == expected


@pytest.mark.parametrize(("reaction", "round_trip", "expected"), [(2, 200, "sender"), (200, 2, "receiver")])
def test_reaction_times_tell_it_where_hop_limits_do_not(reaction: int, round_trip: int, expected: str) -> None:
    """On one cable. Three losses: a SACK follows its packet after `round_trip` us, a retransmission the SACK with the
    hole after `reaction`."""
    crafted = Crafted(srv6=False)
    now = 0
    for round_ in range(3):
        base = 3 * round_
        for psn in range(base, base + 3):
            crafted.data(us(now + psn - base), psn, A)
        now += 2 + round_trip
        crafted.sack(us(now), base, base + 2, A, received=(base + 2,))
        crafted.data(us(now + reaction), base + 1, A, rtx=True)
        crafted.sack(us(now + reaction + round_trip), base + 2, base + 1, A, rtx=True)
        now += 400
    assert only_direction(crafted.pcap()).figures.capture_point == expected


def test_planes_without_srv6_are_pairs_of_addresses() -> None:
    crafted = Crafted(srv6=False)
    crafted.data(us(0), 0, A)
    crafted.data(us(1), 1, B)
    crafted.data(us(2), 2, B)
    direction = only_direction(crafted.pcap())
    assert [(plane.plane, plane.packets) for plane in direction.figures.planes] == [(0, 1), (1, 2)]
    assert path_of(direction, B).route == f"EV=0x{B:08x}"


def test_port_status_updates_and_their_responses() -> None:
    crafted = lost_on_b()
    crafted.port_status(us(300), 7, 0b01)
    crafted.port_status_response(us(340), 7)
    crafted.port_status(us(900), 8, 0b11)
    first, second = analysis_of(crafted.pcap()).operations
    assert (first.op, first.port_status_mask, first.rtt_us, first.request_id) == ("PORT_STATUS_UPDATE", 1, 40.0, 7)
    assert (second.port_status_mask, second.rtt_us, second.source) == (3, None, "fd4d:5243::1")
