# SPDX-License-Identifier: GPL-2.0-only
"""Which packet answers which, so that Scapy's `sr` and `sr1` pair them with its settings as they are.

Scapy takes a UDP packet for an answer when it goes to the port the request came from, and a tunnelled one when the
outer addresses fit. Here answers go to port 4791, a source port is half of an EV, and the outer destination is a
path that the switches use up. So two packets that both carry a BTH are compared by their innermost IP header and by
what their transport headers say; all others as before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scapy.layers.inet import UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet

from mrc.layers.icrc import ip_layers
from mrc.wire.opcodes import OPCODES, REQUEST_OPCODES, Op
from mrc.wire.psn import psn_add, psn_diff

# The request id of an endpoint operation (wire.md section 3).
_REQUEST_ID = 0xFFFF
_FIRST_NAK = 0x60
# Standard opcodes of the RC transport (IBTA chapter 9): requests are those below 0x20 that are no response.
_READ_REQUEST = 0x0C
_FIRST_READ_RESPONSES = (0x0D, 0x10)  # these carry the PSN of the READ request itself
_RC_ACKNOWLEDGE, _ATOMIC_ACKNOWLEDGE = 0x11, 0x12
_RC_RESPONSES = range(0x0D, 0x13)
_RC_REQUESTS = frozenset(value for value in OPCODES if value < 0x20 and value not in _RC_RESPONSES)


def pairing_key(bth: Packet) -> bytes:
    """Bytes that a request and its possible answers have in common; Scapy's `hashret`."""
    if bth.opcode in (Op.ENDPOINT_REQUEST, Op.ENDPOINT_RESPONSE):
        return b"endpoint" + (bth.psn & _REQUEST_ID).to_bytes(2, "big")
    probe_id = _probe_id(bth)
    return b"transport" if probe_id is None else b"probe" + probe_id.to_bytes(2, "big")


def is_answer(answer: Packet, request: Packet) -> bool:
    """Whether one BTH answers another.

    A probe is answered by the SACK with pr=1 and its probe_id, an endpoint request by the response with its id. An
    MRC write is answered by the transport ACK that covers its PSN or the NAK that names it, by the SACK it triggered
    and by the NACK for it; a standard RC request by its ACK, atomic ACK or first READ response.
    """
    if request.opcode == Op.ENDPOINT_REQUEST:
        same_id = answer.psn & _REQUEST_ID == request.psn & _REQUEST_ID
        return bool(answer.opcode == Op.ENDPOINT_RESPONSE and same_id)
    if request.opcode == Op.PROBE:
        probe_id = _probe_id(answer)
        return bool(answer.opcode == Op.SACK and probe_id is not None and probe_id == _probe_id(request))
    if request.opcode in REQUEST_OPCODES:
        return _answers_write(answer, request)
    return request.opcode in _RC_REQUESTS and _answers_rc(answer, request)


def _answers_write(answer: Packet, write: Packet) -> bool:
    header = answer.payload
    if answer.opcode == Op.ACKNOWLEDGE and header.name == "AETH":
        return _acknowledges(answer, write)
    if answer.opcode == Op.SACK and header.name == "SETH" and not header.pr:
        return psn_add(header.cack_psn, header.ack_psn_offset) == write.psn
    return bool(answer.opcode == Op.NACK and header.name == "NETH" and header.nack_psn == write.psn)


def _acknowledges(answer: Packet, request: Packet) -> bool:
    if answer.payload.syndrome >= _FIRST_NAK:
        return bool(answer.psn == request.psn)
    return psn_diff(answer.psn, request.psn) >= 0


def _answers_rc(answer: Packet, request: Packet) -> bool:
    if answer.opcode == _RC_ACKNOWLEDGE and answer.payload.name == "AETH":
        # A READ is answered by data, unless it is refused.
        refused = answer.payload.syndrome >= _FIRST_NAK
        return _acknowledges(answer, request) and (request.opcode != _READ_REQUEST or refused)
    if request.opcode == _READ_REQUEST:
        return bool(answer.opcode in _FIRST_READ_RESPONSES and answer.psn == request.psn)
    is_atomic = "atomiceth" in OPCODES[request.opcode].headers
    return bool(is_atomic and answer.opcode == _ATOMIC_ACKNOWLEDGE and answer.psn == request.psn)


def _probe_id(bth: Packet) -> int | None:
    above = bth.payload
    if bth.opcode == Op.PROBE and above.name == "PETH":
        return int(above.probe_id)
    if bth.opcode == Op.SACK and above.name == "SETH" and above.pr:
        return int(above.probe_id)
    return None


def _innermost(packet: Packet, transport: type[Packet]) -> Packet | None:
    """The innermost IP header of a packet that carries `transport` over UDP."""
    bth = packet.getlayer(transport)
    found = ip_layers(bth) if bth is not None and isinstance(bth.underlayer, UDP) else []
    return found[0] if found else None


def pair_by_transport(transport: type[Packet]) -> None:
    """Teach UDP and IPv6 to compare packets that carry `transport` by it. Call it once."""
    udp_answers: Callable[[Any, Any], Any] = UDP.answers
    ipv6_answers: Callable[[Any, Any], Any] = IPv6.answers
    ipv6_hashret: Callable[[Any], bytes] = IPv6.hashret

    def answers_over_udp(self: Any, other: Any) -> Any:
        if isinstance(self.payload, transport) and isinstance(other, UDP) and isinstance(other.payload, transport):
            return self.payload.answers(other.payload)
        return udp_answers(self, other)

    def answers_in_ipv6(self: Any, other: Any) -> Any:
        answer = _innermost(self, transport)
        request = _innermost(other, transport) if answer is not None else None
        if answer is None or request is None or (answer is self and request is other):
            return ipv6_answers(self, other)
        return answer.answers(request)

    def hashret_in_ipv6(self: Any) -> bytes:
        inner = _innermost(self, transport)
        return ipv6_hashret(self) if inner is None or inner is self else inner.hashret()

    UDP.answers = answers_over_udp
    IPv6.answers = answers_in_ipv6
    IPv6.hashret = hashret_in_ipv6
