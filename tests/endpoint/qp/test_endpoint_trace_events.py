# SPDX-License-Identifier: BSD-2-Clause
"""What an endpoint tells its tracer besides losses: QP life, paths, probes, counts at intervals, completions."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hand_operations import PORT_STATUS_UPDATE, request
from hand_peer import (
    ECT0,
    MICROSECOND,
    MILLISECOND,
    NACK,
    PEER_FIRST_PSN,
    PEER_QPN,
    PROBE,
    SECOND,
    HandPeer,
    Sent,
    data,
    numbers,
    of,
)
from trace_recorder import Recorder, traced

from mrc.endpoint.config import Capability, EndpointConfig, PathConfig, QpConfig, TraceConfig
from mrc.errors import CallerError

RTT = 100 * MICROSECOND
CONFIG = QpConfig(path_mtu=256, timeout=20, paths=PathConfig(ev_min_active=1))
EV_STATE, QP_STATE = "path:ev_state", "connectivity:qp_state"
PROBES = ("recovery:probe_sent", "recovery:probe_answered", "recovery:probe_failed")


def _changes(recorder: Recorder) -> list[tuple[str, str, str]]:
    return [(each["old"], each["new"], each["cause"]) for each in recorder.take(EV_STATE)]


# ------------------------------------------------------------------ QP life


def test_the_life_of_a_qp() -> None:
    """behaviour.md, QP life: RESET -> INIT -> RTR -> RTS, with what the peers told each other."""
    hand, recorder = traced(CONFIG, capabilities=Capability.TRIM_NACK, first_psn=0x1ABCDEF0)
    told = recorder.take()
    assert [each.name for each in told] == [
        QP_STATE, "connectivity:responder_started", QP_STATE, QP_STATE, "connectivity:requestor_started",
    ]  # fmt: skip
    states = [(each["old"], each["new"]) for each in told if each.name == QP_STATE]
    assert states == [("RESET", "INIT"), ("INIT", "RTR"), ("RTR", "RTS")]
    assert told[1].data == {
        "peer_qpn": PEER_QPN,
        "peer_first_psn": PEER_FIRST_PSN,
        "path_mtu": 256,
        "mpr_dest": 8,
        "capabilities": ["TRIM_NACK"],
        "paths": [{"ev": p << 24 | s, "plane": p, "port": p, "spine": s} for p in range(2) for s in range(4)],
    }
    # On the wire a PSN has 24 bits; a local ACK timeout is 1.024 us x 2^20.
    assert told[4].data == {"first_psn": 0xBCDEF0, "mpr": 8, "local_ack_timeout_ns": 1024 << 20}
    assert {(each.at, each.qpn) for each in told} == {(hand.now, hand.qp.qpn)}


def test_a_qp_given_up_between_entries_is_told_with_the_tracers_time() -> None:
    hand, recorder = traced(CONFIG)
    recorder.take()
    hand.now += 5 * SECOND
    hand.qp.to_error("enough")
    (state,) = recorder.take(QP_STATE)
    assert (state.at, state.data) == (hand.now, {"old": "RTS", "new": "ERROR", "why": "enough"})


def test_a_qp_let_go_of_tells_its_totals() -> None:
    """By EV what was sent on it and lost, then every counter; what was not told of intervals before."""
    hand, recorder = traced(CONFIG)
    sent: list[Sent] = []
    for _ in range(20):
        hand.post(256)
        sent += data(hand.transmitted())
        hand.now += 10 * MICROSECOND
    hand.now += RTT
    again = data(hand.exchange(hand.sack(4, above=range(6, 20), trigger=19)))
    hand.now += RTT
    hand.receive(hand.ack(19))
    hand.receive(hand.request(0, b"abcd"))
    recorder.take()
    hand.endpoint.destroy_qp(hand.qp)
    told = recorder.take()
    totals = {each["ev"]: each.data for each in told if each.name == "path:ev_totals"}
    on_wire = [packet.ev for packet in sent + again]
    assert {ev: each["packets"] for ev, each in totals.items()} == {p.ev: on_wire.count(p.ev) for p in hand.profile}
    assert {ev: each["lost"] for ev, each in totals.items()} == {p.ev: int(p.ev == sent[5].ev) for p in hand.profile}
    assert totals[sent[5].ev]["state"] == "ASSUMED_BAD"
    assert told[-1].name == "connectivity:qp_destroyed"
    counters = told[-1]["counters"]
    assert (counters["data_packets_sent"], counters["retransmitted_packets"], counters["losses_by_hole"]) == (21, 1, 1)
    assert told[-1]["work_omitted"] == 0
    (rest,) = (each for each in told if each.name == "transport:sacks_received")
    assert (rest["sacks"], rest["acks"], rest["data_packets"], rest["retransmitted"]) == (0, 1, 1, 1)
    (answers,) = (each for each in told if each.name == "transport:sacks_sent")
    assert (answers["requests"], answers["bytes_placed"]) == (1, 4)


# ------------------------------------------------------------------ paths


def test_a_mark_and_the_rotation_that_passes() -> None:
    """behaviour.md, Paths: SACK m=1 -> SKIP; the rotation passes it -> GOOD."""
    hand, recorder = traced(CONFIG)
    hand.post(256)
    (packet,) = data(hand.transmitted())
    recorder.take()
    hand.receive(hand.sack(0, ev=packet.ev, m=1))
    assert _changes(recorder) == [("GOOD", "SKIP", "MARKED")]
    hand.post(256 * 64)
    hand.transmitted()
    assert _changes(recorder) == [("SKIP", "GOOD", "PASSED")]


def test_always_skip() -> None:
    """behaviour.md, Paths: SACK m=2 -> ASSUMED_BAD."""
    hand, recorder = traced(CONFIG)
    hand.post(256)
    (packet,) = data(hand.transmitted())
    recorder.take()
    hand.receive(hand.sack(0, ev=packet.ev, m=2))
    (state,) = recorder.take(EV_STATE)
    assert state.data == {"ev": packet.ev, "old": "GOOD", "new": "ASSUMED_BAD", "cause": "ALWAYS_SKIP"}


def test_what_the_controller_does_is_told_with_the_tracers_time() -> None:
    """behaviour.md, Paths: "any | controller | DENIED, and back only by the controller"."""
    hand, recorder = traced(CONFIG)
    assert hand.qp.paths is not None
    recorder.take()
    hand.now += SECOND
    hand.qp.paths.deny(hand.profile[3].ev)
    hand.now += SECOND
    hand.qp.paths.allow(hand.profile[3].ev)
    denied, allowed = recorder.take(EV_STATE)
    assert denied.data == {"ev": hand.profile[3].ev, "old": "GOOD", "new": "DENIED", "cause": "DENY"}
    assert allowed.data == {"ev": hand.profile[3].ev, "old": "DENIED", "new": "GOOD", "cause": "ALLOW"}
    assert (denied.at, allowed.at) == (hand.now - SECOND, hand.now)


def test_ports_of_both_ends() -> None:
    """behaviour.md, Ports. wire.md section 8: port n, counted from 1, is bit n - 1, 1 is up. About no QP."""
    hand, recorder = traced(CONFIG)
    recorder.take()
    hand.endpoint.set_port(1, False, hand.now)
    hand.endpoint.set_port(1, True, hand.now)
    hand.receive(request(1, PORT_STATUS_UPDATE, port_status_mask=0b10, plane=1), port=1)
    hand.receive(request(2, PORT_STATUS_UPDATE, port_status_mask=0b11, plane=1), port=1)
    told = recorder.take("path:port")
    assert [(each["side"], each["port"], each["up"]) for each in told] == [
        ("local", 1, False), ("local", 1, True), ("peer", 0, False), ("peer", 0, True),
    ]  # fmt: skip
    assert {each.qpn for each in told} == {None}


# ------------------------------------------------------------------ probes


def _one_bad_ev(hand: HandPeer) -> Sent:
    """Lose one packet of twenty; everything else is acknowledged. Returns the packet lost."""
    sent: list[Sent] = []
    for _ in range(20):
        hand.post(256)
        sent += data(hand.transmitted())
        hand.now += 10 * MICROSECOND
    hand.now += RTT
    assert numbers(hand, hand.exchange(hand.sack(4, above=range(6, 20), trigger=19))) == [5]
    hand.now += RTT
    hand.exchange(hand.ack(19))
    return sent[5]


@pytest.mark.parametrize(("last_mark", "state", "cause"), [(0, "GOOD", "PROBED_CLEAR"), (1, "SKIP", "PROBED_MARKED")])
def test_probes_that_bring_an_ev_back(last_mark: int, state: str, cause: str) -> None:
    """behaviour.md, Probing: one fails, then three consecutive ones are answered."""
    hand, recorder = traced(CONFIG)
    lost = _one_bad_ev(hand)
    recorder.take()
    (failing,) = of(hand.run(hand.now + 50 * MILLISECOND, stop_at_first=True), PROBE)
    expected = [("recovery:probe_sent", failing["peth"]["probe_id"])]
    for at in range(3):
        (probe,) = of(hand.run(hand.now + 50 * MILLISECOND, stop_at_first=True), PROBE)
        if not at:
            expected.append(("recovery:probe_failed", failing["peth"]["probe_id"]))
        hand.now += RTT
        number = probe["peth"]["probe_id"]
        hand.receive(hand.sack(19, probe_id=number, ev=lost.ev, m=last_mark if at == 2 else 0))
        expected += [("recovery:probe_sent", number), ("recovery:probe_answered", number)]
    told = recorder.take(*PROBES, EV_STATE)
    assert [(each.name, each["probe_id"]) for each in told if each.name in PROBES] == expected
    assert {each["purpose"] for each in told if "purpose" in each.data} == {"path"}
    assert {each["ev"] for each in told if "ev" in each.data} == {lost.ev}
    answers = [each["m"] for each in told if each.name == "recovery:probe_answered"]
    assert answers == [0, 0, last_mark]
    assert told[-1].data == {"ev": lost.ev, "old": "ASSUMED_BAD", "new": state, "cause": cause}


def test_a_tail_probe() -> None:
    """behaviour.md, Loss: "Tail losses are found by a reliability probe". Its EV is the one it left on."""
    hand, recorder = traced(CONFIG)
    hand.post(256)
    hand.transmitted()
    recorder.take()
    (probe,) = of(hand.run(hand.now + 20 * MILLISECOND, stop_at_first=True), PROBE)
    hand.receive(hand.sack(0, probe_id=probe["peth"]["probe_id"]))
    sent, answered = recorder.take(*PROBES)
    assert sent.data == {"probe_id": probe["peth"]["probe_id"], "purpose": "tail", "ev": probe.ev}
    assert answered.data == {"probe_id": probe["peth"]["probe_id"], "purpose": "tail", "m": 0}


# ------------------------------------------------------------------ counts at intervals


@pytest.mark.parametrize(("rtt", "interval"), [(200 * MICROSECOND, MILLISECOND), (4 * MILLISECOND, 4 * MILLISECOND)])
def test_metrics_come_at_most_once_a_round_trip_and_once_an_interval(rtt: int, interval: int) -> None:
    """TraceConfig: an interval is 1 ms. A SACK each 100 us for 40 ms."""
    hand, recorder = traced(CONFIG)
    step, packets = 100 * MICROSECOND, 400
    away = rtt // step
    for number in range(packets):
        hand.post(256)
        hand.transmitted()
        hand.now += step
        if number + 1 >= away:
            hand.receive(hand.sack(number + 1 - away))
    told = recorder.take("recovery:metrics_updated", "transport:sacks_received")
    metrics = [each for each in told if each.name == "recovery:metrics_updated"]
    counts = [each for each in told if each.name == "transport:sacks_received"]
    assert [each.at for each in metrics] == [each.at for each in counts]
    assert {b.at - a.at for a, b in pairwise(metrics)} == {interval}
    assert [each["srtt_ns"] for each in metrics] == [rtt] * len(metrics)
    # UDP 8, BTH 12, METH 4, TSETH 4, RETH 16, payload 256, ICRC 4, and 40 for IPv6: 344 bytes each.
    assert {each["inflight_bytes"] for each in metrics} == {344 * (away - 1)}
    assert {each["outstanding"] for each in metrics} == {away - 1}
    # Intervals join, and nothing is counted twice.
    assert [each["since_ns"] for each in counts[1:]] == [each.at for each in counts[:-1]]
    assert {each["sacks"] for each in counts[1:]} == {interval // step}
    assert {each["data_packets"] for each in counts[1:]} == {interval // step}
    assert counts[-1]["cack_psn"] == hand.psn(sum(each["sacks"] for each in counts) - 1)


def test_what_a_responder_answers_is_counted_by_intervals() -> None:
    """A request each 100 us, every fifth twice, one missing: 40 of them."""
    hand, recorder = traced(CONFIG)
    recorder.take()
    acks = sacks = 0
    for number in range(40):
        packet = hand.request(number, bytes(64), va=0x7F0000000000 + 64 * number)
        again = [packet] if number % 5 == 4 else []
        answers = [] if number == 39 - 3 else hand.exchange(packet, *again)
        acks += sum(answer.opcode == 0xD1 for answer in answers)
        sacks += sum(answer.opcode == 0xDC for answer in answers)
        hand.now += 100 * MICROSECOND
    hand.endpoint.destroy_qp(hand.qp)
    counts = recorder.take("transport:sacks_sent")
    # The last one is told when the QP is let go of.
    assert all(b.at - a.at >= MILLISECOND for a, b in pairwise(counts[:-1]))
    assert 4 <= len(counts) <= 6
    assert (sum(each["acks"] for each in counts), sum(each["sacks"] for each in counts)) == (acks, sacks)
    assert sum(each["requests"] for each in counts) == 39 + 8
    assert sum(each["duplicates"] for each in counts) == 8
    assert sum(each["bytes_placed"] for each in counts) == 39 * 64
    assert (counts[-1]["ooo_count"], counts[-1]["cack_psn"]) == (3, PEER_FIRST_PSN + 35)


def test_a_nack_that_leaves() -> None:
    """behaviour.md, Responder: beyond the window of 8 x 128 PSNs a request is refused with NACK PSN_OOR_WINDOW."""
    hand, recorder = traced(CONFIG)
    recorder.take()
    (nack,) = of(hand.exchange(hand.request(1024, b"x", ev=0x1000003, bth={"rtx": 1})), NACK)
    (told,) = recorder.take("transport:nack_sent")
    assert told.data == {"psn": PEER_FIRST_PSN + 1024, "reason": "PSN_OOR_WINDOW", "ev": 0x1000003, "rtx": True}
    assert nack["neth"]["nack_psn"] == told["psn"]


def test_a_nack_for_a_trimmed_packet() -> None:
    """wire.md section 12: cut after the BTH and the 8 bytes behind it, DSCP_TRIMMED_LASTHOP on the outer header."""
    hand, recorder = traced(CONFIG, capabilities=Capability.TRIM_NACK)
    recorder.take()
    hand.exchange(hand.request(3, bytes(200), ev=2)[: 60 + 8], traffic_class=[16 << 2 | ECT0])
    (told,) = recorder.take("transport:nack_sent")
    assert told.data == {"psn": PEER_FIRST_PSN + 3, "reason": "TRIMMED_LASTHOP", "ev": 2, "rtx": False}


# ------------------------------------------------------------------ completions


def _completed(hand: HandPeer, recorder: Recorder, count: int) -> list[tuple[int, int]]:
    """Write `count` packets one by one, all acknowledged at once: (wr_id, omitted) of what is told."""
    base = hand.posted
    for _ in range(count):
        hand.post(256)
    hand.transmitted()
    hand.receive(hand.ack(base + count - 1))
    assert len(hand.completed()) == count
    return [(each["wr_id"], each["omitted"]) for each in recorder.take("transport:work_completed")]


def test_completions_are_told_up_to_so_many_a_second() -> None:
    """TraceConfig.work_per_second; how many were left out is told with the next."""
    hand, recorder = traced(CONFIG, endpoint=EndpointConfig(trace=TraceConfig(work_per_second=3)))
    assert _completed(hand, recorder, 2) == [(0, 0), (1, 0)]
    assert _completed(hand, recorder, 5) == [(2, 0)]
    hand.now += SECOND
    assert _completed(hand, recorder, 4) == [(7, 4), (8, 0), (9, 0)]
    hand.endpoint.destroy_qp(hand.qp)
    (destroyed,) = recorder.take("connectivity:qp_destroyed")
    assert destroyed["work_omitted"] == 1


def test_what_a_completion_says() -> None:
    hand, recorder = traced(CONFIG)
    hand.qp.post_receive(77)
    hand.post(300)
    hand.transmitted()
    hand.receive(hand.ack(1))
    hand.receive(hand.request(0, b"abc", op=0xCB, immediate=5))
    sent, received = recorder.take("transport:work_completed")
    assert sent.data == {"wr_id": 0, "kind": "RDMA_WRITE", "status": "SUCCESS", "byte_len": 300, "omitted": 0}
    assert received.data == {
        "wr_id": 77, "kind": "RECV_RDMA_WITH_IMM", "status": "SUCCESS", "byte_len": 3, "omitted": 0,
    }  # fmt: skip


def test_completions_can_be_left_out() -> None:
    hand, recorder = traced(CONFIG, endpoint=EndpointConfig(trace=TraceConfig(work_per_second=0)))
    assert _completed(hand, recorder, 2) == []


@pytest.mark.parametrize("wrong", [{"interval_ns": 0}, {"work_per_second": -1}])
def test_values_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(CallerError):
        TraceConfig(**wrong)
