# SPDX-License-Identifier: BSD-2-Clause
"""What the attackers of these tests send, as whole inner packets, and what counts as having done something."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from hand_operations import EV_PROBE, PORT_STATUS_UPDATE, request, response
from hand_peer import LAST_IMMEDIATE, MIDDLE, ONLY, ONLY_IMMEDIATE, REGION_VA, HandPeer, Sent, icrc, in_ipv6

from mrc.wire.packet import encode_transport

STRANGER = 0xFD00_0000_0000_0000_0000_0000_0000_BAD0
TRIMMED_DSCP = 12
UNEXP_EVENT, TRIMMED, NO_RESOURCE = 0x19, 0x01, 0x0A
OPCODES = (0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE)


def every_kind(hand: HandPeer, source: int | None, dqp: int | None = None) -> dict[str, bytes]:
    """One good packet of every kind to the QP of `hand`, from `source` (None: its peer)."""
    carried: dict[str, Any] = {} if source is None else {"source": source}
    bth = {} if dqp is None else {"dqp": dqp}
    packets = {
        "write": hand.request(0, b"x" * 64, op=ONLY, bth=bth, **carried),
        "write of nothing": hand.request(0, b"", op=ONLY, bth=bth, **carried),
        "middle": hand.request(3, b"x" * 256, op=MIDDLE, dmalen=1024, bth=bth, **carried),
        "immediate": hand.request(0, b"x", op=ONLY_IMMEDIATE, immediate=7, bth=bth, **carried),
        "last with immediate": hand.request(1, b"x", op=LAST_IMMEDIATE, dmalen=257, bth=bth, **carried),
        "wrong R_Key": hand.request(0, b"x" * 64, rkey=hand.region.rkey ^ 1, bth=bth, **carried),
        "outside": hand.request(0, b"x" * 64, va=REGION_VA + len(hand.buffer), bth=bth, **carried),
        "old": hand.request(-5, b"x" * 64, bth=bth, **carried),
        "beyond the window": hand.request(5000, b"x" * 64, bth=bth, **carried),
        "probe": hand.probe(**carried),
        "SACK": hand.sack(0, **carried),
        "ACK": hand.ack(0, **carried),
        "NAK": hand.ack(0, syndrome=0x62, **carried),
        "NACK": hand.nack(0, TRIMMED, **carried),
        "UNEXP_EVENT": hand.nack(0, UNEXP_EVENT, **carried),
        "EV probe": request(1, EV_PROBE, **carried),
        "port status": request(2, PORT_STATUS_UPDATE, port_status_mask=0b10, **carried),
        "EV probe answer": response(0, EV_PROBE, **carried),
        "port status answer": response(0, PORT_STATUS_UPDATE, **carried),
    }
    return packets | {"trimmed": trimmed(packets["write"])}


def trimmed(packet: bytes) -> bytes:
    """As a switch leaves it, or as anybody can make it: there is no ICRC."""
    head = bytearray(packet[: 48 + 12 + 8])
    head[0], head[1] = 0x60 | TRIMMED_DSCP >> 2, (TRIMMED_DSCP << 6 | head[1] & 0x3F) & 0xFF
    return bytes(head)


def any_packet(chance: random.Random, dqps: Iterable[int], source: int) -> bytes:
    """Random headers and payload behind a right ICRC, to one of these QPs."""
    opcode, dqp = chance.choice(OPCODES), chance.choice(list(dqps))
    bth = {
        "opcode": opcode,
        "pkey": 0xFFFF,
        "dqp": dqp,
        "psn": chance.randrange(1 << 24),
        "ackreq": chance.randrange(2),
    }
    bth |= {"rtx": chance.randrange(2), "ts": chance.randrange(2)}
    body = chance.randbytes(chance.choice((4, 16, 20, 24, 28, 36, 40, 64, 300)))
    packet = in_ipv6(encode_transport([("bth", bth)]) + body, plane=chance.randrange(2), source=source)
    return packet[:-4] + icrc(packet[:-4])


def length_of(packets: Iterable[bytes]) -> int:
    """Bytes of IP packets; an outer header is on requests and answers alike and only lowers what is compared."""
    return sum(len(packet) for packet in packets)


def answered_bytes(sent: Iterable[Sent]) -> int:
    return length_of(packet.whole for packet in sent)


def standing(hand: HandPeer) -> tuple[object, ...]:
    """Everything a stranger must not be able to move."""
    endpoint, qp = hand.endpoint, hand.qp
    paths = qp.paths
    return (
        qp.state,
        qp.responder.received.epsn,
        qp.responder.received.highest,
        qp.requestor.sent.una,
        qp.requestor.sent.next_psn,
        tuple(paths.state.tolist()) if paths is not None else None,
        bytes(hand.buffer),
        len(endpoint.qps),
        len(endpoint.peer_nodes),
        [sorted(node.planes_down) for node in endpoint.peer_nodes.values()],
        list(endpoint.completions),
        list(endpoint.events),
        endpoint.next_deadline(),
    )
