# SPDX-License-Identifier: BSD-2-Clause
"""Endpoint operations of a peer node as packets built by hand (wire.md section 8)."""

from __future__ import annotations

from typing import Any

from hand_peer import HandPeer, Sent, in_ipv6, of

from mrc.wire.packet import encode_transport
from mrc.wire.profile import WireProfile

REQUEST, RESPONSE = 0xD8, 0xD9
PORT_STATUS_UPDATE, EV_PROBE = 0, 1


def request(req_id: int, op: int, *, dqp: int = 2, bth: dict[str, int] | None = None, **fields: Any) -> bytes:
    """An endpoint request; `fields` are those of the ERTH or of `in_ipv6`."""
    carried = {name: fields.pop(name) for name in ("plane", "ev", "source", "traffic_class") if name in fields}
    head = {"opcode": REQUEST, "pkey": 0xFFFF, "dqp": dqp, "psn": req_id, **(bth or {})}
    return in_ipv6(encode_transport([("bth", head), ("erth", {"op": op, **fields})]), **carried)


def response(
    req_id: int, op: int, *, tx_timestamp: int = 0, profile: WireProfile | None = None, **carried: Any
) -> bytes:
    head = {"opcode": RESPONSE, "pkey": 0xFFFF, "dqp": 2, "psn": req_id}
    layers = [("bth", head), ("eeth", {"op": op, "tx_timestamp": tx_timestamp})]
    return in_ipv6(encode_transport(layers, profile=profile or WireProfile()), **carried)


def answered(hand: HandPeer, sent: Sent, *, held: int = 0, plane: int = 0) -> None:
    """The peer answers this request now; `held` in units of 128 ns is added to the timestamp."""
    erth = sent["erth"]
    timestamp = (erth["tx_timestamp"] + held) & 0xFFFF
    hand.receive(response(sent.psn, erth["op"], tx_timestamp=timestamp, plane=plane), port=plane)


def requests(sent: list[Sent], op: int) -> list[Sent]:
    return [packet for packet in of(sent, REQUEST) if packet["erth"]["op"] == op]
