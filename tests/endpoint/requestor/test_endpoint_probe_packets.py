# SPDX-License-Identifier: BSD-2-Clause
"""Reliability probes as packets: every byte, which paths they take, and how many fit (wire.md section 8)."""

from __future__ import annotations

from hand_peer import MICROSECOND, MILLISECOND, PROBE, SECOND, HandPeer, Sent, of
from nacking import state_of

from mrc.endpoint.config import PathConfig, QpConfig
from mrc.endpoint.paths.states import EvState
from mrc.wire.packet import decode_transport
from mrc.wire.transmit_batch import TransmitBatch

CONFIG = QpConfig(path_mtu=256, timeout=24, exponential_retries=25, paths=PathConfig(ev_min_active=1))


def _condemned(hand: HandPeer, count: int) -> list[int]:
    """Send a write and have `count` of its EVs condemned by m=2; which."""
    hand.post(256 * 16)
    sent = hand.transmitted()
    hand.now += 100 * MICROSECOND
    evs = [path.ev for path in hand.profile[:count]]
    hand.receive(*(hand.sack(-1, ev=ev, m=2) for ev in evs))
    assert {state_of(hand, ev) for ev in evs} == {EvState.ASSUMED_BAD}
    hand.receive(hand.ack(len(sent) - 1))
    return evs


def test_the_ids_of_probes_differ_and_are_those_answers_name() -> None:
    """wire.md section 8: "The answer is a SACK with pr=1 and the probe_id."; each tells its own."""
    hand = HandPeer(CONFIG)
    hand.post(256)
    hand.transmitted()
    probes = of(hand.run(hand.now + SECOND), PROBE)
    ids = [probe["peth"]["probe_id"] for probe in probes]
    assert len(set(ids)) == len(ids) > 4
    hand.receive(*(hand.sack(-1, probe_id=probe_id) for probe_id in ids))
    assert "unknown_probe_answer" not in hand.counters


def test_successive_tail_probes_take_planes_in_turn() -> None:
    """behaviour.md: control packets "alternate planes, so that one broken reverse path cannot condemn forward ones"."""
    for planes in (2, 3):
        hand = HandPeer(CONFIG, planes=planes)
        hand.post(256)
        hand.transmitted()
        ports = [probe.port for probe in of(hand.run(hand.now + SECOND), PROBE)]
        assert len(ports) >= 6
        assert all({*ports[at : at + planes]} == {*range(planes)} for at in range(len(ports) - planes + 1))


def test_probes_that_find_no_place_in_a_batch_leave_with_the_next() -> None:
    """Several EVs fall due at once; each is probed once, on itself, in whatever pieces they leave."""
    hand = HandPeer(CONFIG)
    evs = _condemned(hand, 5)
    deadline = hand.endpoint.next_deadline()
    assert deadline is not None
    while hand.endpoint.next_deadline() == deadline or not hand.qp.has_control():
        deadline = hand.endpoint.next_deadline()
        assert deadline is not None
        hand.now = deadline
        hand.endpoint.on_timer(hand.now)
    batch = TransmitBatch(2)
    counts, seen = [], []
    while hand.qp.has_control():
        batch.clear()
        counts.append(hand.endpoint.transmit(batch, hand.now))
        for row in range(batch.count):
            whole = batch.packet(row)
            assert dict(decode_transport(whole[48:]).layers)["bth"]["opcode"] == PROBE
            seen.append((int.from_bytes(whole[:4], "big") & 0xFFFF) << 16 | int.from_bytes(whole[40:42], "big"))
    assert counts == [2, 2, 1]
    assert sorted(seen) == sorted(evs)


def test_path_probes_sent_and_failed_are_counted() -> None:
    """behaviour.md, Probing: "one path timer after it went bad, then 10 ms apart doubling to 250 ms while they fail".

    A probe has failed when the next is due; of three EVs one answers its first.
    """
    hand = HandPeer(CONFIG)
    evs = _condemned(hand, 3)
    first: list[Sent] = []
    while len(first) < 3:
        first += [packet for packet in of(hand.run(hand.now + MILLISECOND), PROBE) if packet.ev in evs]
    assert (hand.counters["path_probes_sent"], hand.counters.get("path_probes_failed", 0)) == (3, 0)
    started = first[0].at
    hand.receive(hand.sack(15, probe_id=first[0]["peth"]["probe_id"], ev=first[0].ev))
    hand.transmitted()
    hand.run(started + 9 * MILLISECOND)
    assert (hand.counters["path_probes_sent"], hand.counters.get("path_probes_failed", 0)) == (4, 0)
    hand.run(started + 11 * MILLISECOND)  # all three failed, and were tried again
    assert (hand.counters["path_probes_sent"], hand.counters["path_probes_failed"]) == (7, 3)
    hand.run(started + 35 * MILLISECOND)
    assert (hand.counters["path_probes_sent"], hand.counters["path_probes_failed"]) == (10, 6)
