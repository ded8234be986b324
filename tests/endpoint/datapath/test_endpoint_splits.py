# SPDX-License-Identifier: BSD-2-Clause
"""How many packets the host hands over at a time changes nothing (behaviour.md, Responder; MRC-RESP-20).

The same arrivals in one batch, one by one, and in random parts: the same memory, the same answers, the same counters.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from draws import draws
from hand_peer import FIRST, LAST, LAST_IMMEDIATE, MIDDLE, ONLY, ONLY_IMMEDIATE, REGION_VA, HandPeer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mrc.endpoint.config import EndpointConfig, QpConfig, ResponderConfig

MTU = 256
Make = Callable[[HandPeer], bytes]


@dataclass
class Scenario:
    """`packets` in order of arrival; each is made for the QP it is for."""

    config: QpConfig
    receives: int
    packets: list[Make] = field(default_factory=list)


def _scenario(chance: random.Random) -> Scenario:
    """Messages of one to four packets, out of order, doubled, some missing; now and then something wrong."""
    limits = ResponderConfig(
        answers_burst=chance.choice((4, 1000)),
        max_held_packets=chance.choice((None, None, None, 3)),
        max_stashed_immediates=chance.choice((None, None, 1)),
    )
    found = Scenario(
        QpConfig(path_mtu=MTU, mpr_dest=1, max_wimm_dest=chance.choice((2, 32)), responder=limits),
        chance.choice((0, 3, 30)),
    )
    sent: list[tuple[float, Make]] = []
    number = rqmsn = 0
    disorder = chance.choice((0, 2, 20))
    for msn in range(chance.randrange(1, 14)):
        packets = chance.randrange(1, 5)
        immediate = chance.random() < 0.3
        dmalen = (packets - 1) * MTU + chance.randrange(packets > 1, MTU + 1)
        va = REGION_VA + chance.randrange(1 << 14)
        for at in range(packets):
            last = at == packets - 1
            op = MIDDLE if at and not last else LAST if last and at else FIRST if not last else ONLY
            if immediate and last:
                op = ONLY_IMMEDIATE if op == ONLY else LAST_IMMEDIATE
            fields = {
                "payload": bytes(((msn * 4 + at) & 0x7F | 0x80,)) * (dmalen - at * MTU if last else MTU),
                "op": op,
                "va": va + at * MTU,
                "dmalen": dmalen,
                "msn": msn,
                "rqmsn": rqmsn if immediate else 0,
                "immediate": msn,
                "bth": {"ackreq": int(chance.random() < 0.1), "rtx": int(chance.random() < 0.1)},
            }
            if chance.random() < 0.01:
                fields |= chance.choice(
                    (
                        {"rkey": 1},
                        {"dmalen": dmalen + 1},
                        {"va": va + at * MTU + 4},
                        {"va": REGION_VA - MTU},
                        {"msn": msn + 1},
                        {"rqmsn": rqmsn + 1},
                        {"op": ONLY},
                    )
                )
            copies = chance.choice((0, 1, 1, 1, 1, 1, 1, 1, 2))
            sent += [(number + chance.random() * disorder, _request(number, dict(fields))) for _ in range(copies)]
            if chance.random() < 0.05:
                place = number + chance.choice((-(1 << 23) - 1, -(1 << 23), 128 - chance.randrange(9), 1 << 22))
                sent.append((number + chance.random() * disorder, _request(place, {"payload": b"far", "msn": 77})))
            number += 1
        rqmsn += immediate
    if chance.random() < 0.5:
        sent.append((chance.random() * number, _ack))
    found.packets = [make for _, make in sorted(sent, key=lambda each: each[0])]
    return found


def _request(number: int, fields: dict[str, object]) -> Make:
    return lambda hand: hand.request(number, **fields)  # type: ignore[arg-type]


def _ack(hand: HandPeer) -> bytes:
    return hand.ack(1)


def _outcome(scenario: Scenario, parts: list[int]) -> dict[str, object]:
    """What there is to see after these packets came in parts of such sizes."""
    hand = HandPeer(scenario.config, memory=1 << 15, endpoint=EndpointConfig(seed=1))
    for wr_id in range(scenario.receives):
        hand.qp.post_receive(1000 + wr_id)
    hand.post(MTU * 3)
    hand.post(8)
    hand.transmitted()
    packets = [make(hand) for make in scenario.packets]
    at = 0
    for size in parts:
        hand.receive(*packets[at : at + size])
        at += size
    assert at == len(packets)
    return {
        "memory": bytes(hand.buffer),
        "state": hand.qp.state,
        "error": hand.qp.error,
        "sent": [packet.whole for packet in hand.transmitted()],
        "counters": hand.counters,
        "completions": list(hand.endpoint.completions),
        "events": [event.detail for event in hand.endpoint.events],
        "messages": hand.qp.responder._messages.open.rows(),
    }


def _parts(chance: random.Random, count: int) -> list[int]:
    parts = []
    while count:
        parts.append(chance.randrange(1, count + 1) if chance.random() < 0.5 else min(count, chance.randrange(1, 5)))
        count -= parts[-1]
    return parts


@settings(max_examples=draws(20))
@given(st.integers(0, 1 << 32))
@example(3)
def test_batches_change_nothing(seed: int) -> None:
    scenario = _scenario(random.Random(seed))
    count = len(scenario.packets)
    if not count:
        return
    singly = _outcome(scenario, [1] * count)
    for parts in ([count], _parts(random.Random(seed + 1), count), _parts(random.Random(seed + 2), count)):
        assert _outcome(scenario, parts) == singly
