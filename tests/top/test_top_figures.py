# SPDX-License-Identifier: BSD-2-Clause
"""Rates from two answers of a control socket, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from mrc.top.figures import picture

SECOND = 1_000_000_000


def path(ev: int, **changes: Any) -> dict[str, Any]:
    told = {"peer": "h1", "ev": ev, "plane": ev >> 24, "spine": ev & 0xFF, "port_num": 1, "state": "good", "qps": 1}
    return told | {"packets": 0, "lost": 0, "marked": 0} | changes


def qp(number: int, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"qp_num": number, "peer": "h1", "state": "RTS", "error": None}
    told |= {"data_packets_sent": 0, "data_bytes_sent": 0, "retransmitted_packets": 0, "bytes_placed": 0}
    return told | {"cwnd_bytes": 4096, "inflight_bytes": 0, "srtt_us": 250.0} | changes


def status(at_s: float, qps: list[dict[str, Any]], paths: list[dict[str, Any]], **counters: int) -> dict[str, Any]:
    return {
        "at_ns": int(at_s * SECOND),
        "endpoint": {"pid": 7, "name": "mrc/h0", "program": "mrc send"},
        "ports": [{"plane": 0, "up": True}, {"plane": 1, "up": False}],
        "peers": [{"peer": "h1", "planes_down": []}, {"peer": "h2", "planes_down": []}],
        "qps_total": len(qps),
        "qps": qps,
        "paths": paths,
        "counters": counters,
    }


def test_without_a_picture_before_there_are_totals_and_no_rates() -> None:
    found = picture(status(1, [qp(5, data_bytes_sent=10_000)], [path(0, packets=9, lost=2)], retransmitted_packets=3))
    assert (found.pid, found.name, found.program, found.qps_total, found.retransmitted) == (
        7, "mrc/h0", "mrc send", 1, 3,
    )  # fmt: skip
    assert (found.sent_gbps, found.received_gbps, found.qps[0].loss) == (None, None, None)
    assert (found.paths[0].packets_per_s, found.paths[0].share, found.paths[0].loss) == (None, None, None)
    assert found.paths[0].lost == 2
    assert found.planes[0].packets_per_s is None


def test_totals_become_rates_of_the_interval() -> None:
    """In 0.5 s 125 MB out are 2 Gbit/s and 31.25 MB in are 0.5; 1000 packets, 50 of them again, are 5 %."""
    before = qp(5, data_bytes_sent=1_000, bytes_placed=500, data_packets_sent=100, retransmitted_packets=10)
    after = qp(
        5, data_bytes_sent=125_001_000, bytes_placed=31_250_500, data_packets_sent=1100, retransmitted_packets=60
    )
    found = picture(status(2.5, [after], []), status(2.0, [before], []))
    assert found.sent_gbps == pytest.approx(2.0)
    assert found.received_gbps == pytest.approx(0.5)
    assert found.qps[0].loss == pytest.approx(0.05)


def test_paths_share_what_goes_to_their_own_peer() -> None:
    """300 of 400 packets to h1; all of h2's, which are as many, on one path. 30 of 300 lost, 3 marked."""
    before = [path(0), path(1), path(2, peer="h2")]
    after = [path(0, packets=300, lost=30, marked=3), path(1, packets=100), path(2, peer="h2", packets=400)]
    found = picture(status(12, [], after), status(10, [], before)).paths
    assert [each.share for each in found] == [0.75, 0.25, 1.0]
    assert [each.packets_per_s for each in found] == [150, 50, 200]
    assert (found[0].loss, found[0].marks, found[1].loss) == (0.1, 0.01, 0.0)


def test_no_ev_of_a_port_that_is_down_is_in_use_whatever_its_own_state() -> None:
    first, second = picture(status(1, [], [path(0), path(1 << 24)])).planes
    assert (first.up, first.evs_in_use, first.evs) == (True, 1, 1)
    assert (second.up, second.evs_in_use, second.evs) == (False, 0, 1)


def test_no_ev_towards_a_port_that_the_peer_told_is_down_is_in_use() -> None:
    """behaviour.md, Ports: the peer "then avoids that plane towards us". h1 told that its port on plane 0 is down."""
    told = status(1, [], [path(0), path(1 << 24), path(0, peer="h2"), path(1, peer="h2", state="assumed_bad")])
    told["peers"][0]["planes_down"] = [0]
    found = picture(told)
    assert [(each.peers, each.peers_down) for each in found.planes] == [(2, ("h1",)), (2, ())]
    assert [(each.evs_in_use, each.evs) for each in found.planes] == [(1, 3), (0, 1)]
    assert [each.ports_up for each in found.paths] == [False, False, True, True]


def test_a_plane_adds_up_its_paths() -> None:
    """Plane 0: 200 packets in a second, 2 + 8 lost: 5 %. Plane 1's port is down and nothing goes there."""
    before = [path(0), path(1), path(1 << 24)]
    after = [path(0, packets=100, lost=2), path(1, packets=100, lost=8, state="skip"), path(1 << 24, state="denied")]
    first, second = picture(status(1, [], after), status(0, [], before)).planes
    assert (first.plane, first.up, first.evs_in_use, first.evs, first.packets_per_s) == (0, True, 2, 2, 200)
    assert first.loss == pytest.approx(0.05)
    assert (second.plane, second.up, second.evs_in_use, second.evs) == (1, False, 0, 1)
    assert (second.packets_per_s, second.loss) == (0, None)


def test_the_busiest_qps_come_first() -> None:
    before = [qp(1), qp(2), qp(3)]
    after = [qp(1), qp(2, data_bytes_sent=10_000), qp(3, bytes_placed=20_000)]
    found = picture(status(1, after, []), status(0, before, []))
    assert [each.qp_num for each in found.qps] == [3, 2, 1]


def test_what_began_anew_or_is_new_has_no_rate() -> None:
    """A total that shrank, a QP and a path that were not there before."""
    before = status(0, [qp(1, data_bytes_sent=50)], [path(0, packets=50)])
    after = status(1, [qp(1, data_bytes_sent=10), qp(2, data_bytes_sent=10)], [path(0, packets=10), path(1, packets=4)])
    found = picture(after, before)
    assert [each.sent_gbps for each in found.qps] == [None, None]
    assert [each.packets_per_s for each in found.paths] == [None, None]
    assert found.sent_gbps is None


def test_two_answers_of_one_moment_have_no_rates() -> None:
    now = status(3, [qp(1, data_bytes_sent=50)], [path(0, packets=50)])
    assert picture(now, now).sent_gbps is None
