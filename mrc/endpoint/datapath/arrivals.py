# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What comes for one QP: whether it is the peer's, and which half of the QP it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.counters import Counters
from mrc.endpoint.parts.flags import Away
from mrc.endpoint.qp_states import MAY_RECEIVE, MAY_SEND, QpState
from mrc.endpoint.refusals import ACK_SYNDROME, NAK_STATUS
from mrc.endpoint.requestor.feedback import Feedback
from mrc.endpoint.responder.responder import Responder
from mrc.errors import CallerError
from mrc.wire import octets
from mrc.wire.compiled import const_u8s, python, u8s, with_gil
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import fields_at, header_at, lowest_bit, masks_in

if TYPE_CHECKING:
    from mrc.endpoint.node.peer_node import PeerNode

_AETH_AT, _SYNDROME_SHIFT = header_at("aeth"), lowest_bit(masks_in("aeth", "syndrome msn")[0])
_ACK_SYNDROME = ACK_SYNDROME
_NEVER = -1
MAX_PORTS = 16
(_SOURCE_AT,) = fields_at("ipv6", "src")
_ADDRESS, _MAX_PORTS = 16, MAX_PORTS
_PROBE, _SACK, _ACK, _NACK = int(Op.PROBE), int(Op.SACK), int(Op.ACKNOWLEDGE), int(Op.NACK)
_IS_REQUEST: const_u8s = memoryview(bytes(value in REQUEST_OPCODES for value in range(256)))
_IS_NAK: const_u8s = memoryview(bytes(value in NAK_STATUS for value in range(256)))
_IS_ENDPOINT_OPERATION: const_u8s = memoryview(
    bytes(value in (Op.ENDPOINT_REQUEST, Op.ENDPOINT_RESPONSE) for value in range(256))
)


class PeerSources:
    """The peer's inner address (128 bit) by the local port its packets come in on."""

    _addresses: u8s
    _known: u8s

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        self._addresses = memoryview(bytearray(MAX_PORTS * _ADDRESS))
        self._known = memoryview(bytearray(MAX_PORTS))

    def add(self, port: int, address: int) -> python[None]:
        """Raises CallerError for a port that cannot be."""
        if not 0 <= port < MAX_PORTS:
            raise CallerError(f"ports are numbered 0..{MAX_PORTS - 1}, got {port}")
        octets.put64(self._addresses, port * _ADDRESS, address >> 64)
        octets.put64(self._addresses, port * _ADDRESS + 8, address & (1 << 64) - 1)
        self._known[port] = 1

    def has_sent(self, batch: ReceivedBatch, packet: ReceivedPacket) -> bool:
        """Whether a packet has the peer's address on the port it came in on as its source. No peer has one on a port
        that cannot be."""
        port = packet.port
        return (
            0 <= port < _MAX_PORTS
            and self._known[port] != 0
            and octets.equal(batch.flat, packet.at + _SOURCE_AT, self._addresses, port * _ADDRESS, _ADDRESS)
        )


class Arrivals:
    """Packets of one QP that passed the endpoint's checks, one by one. `sources` is empty before RTR.

    `asked_at` is when the last request or probe arrived, ns; -1: never.
    """

    _node: PeerNode | None
    _counters: Counters
    _away: Away
    _feedback: Feedback | None
    _responder: Responder | None
    _is_over: bool
    _may_receive: bool
    _may_send: bool
    _learns_at: int
    asked_at: int
    sources: PeerSources

    __slots__ = tuple(__annotations__)

    def __init__(self, counters: Counters, away: Away) -> None:
        self._counters = counters
        self._away = away
        self.sources = PeerSources()
        # When the peer node wants to hear of requests again.
        self.asked_at = self._learns_at = _NEVER
        self._node = None
        self._responder = None
        self._feedback = None
        self._may_receive = self._may_send = self._is_over = False

    def enter(
        self, state: QpState, node: PeerNode | None, responder: Responder | None, feedback: Feedback | None
    ) -> python[None]:
        """The QP is in this state; the rest it has once it knows its peer, its halves each for a kind of packet."""
        self._may_receive = state in MAY_RECEIVE
        self._may_send = state in MAY_SEND
        self._is_over = state == QpState.ERROR
        self._node = node
        self._responder, self._feedback = responder, feedback

    def receive(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        """A packet for this QP that passed the endpoint's checks."""
        opcode = packet.opcode
        if not self._may_receive:
            self._counters.wrong_qp_state += 1
            # Nothing else is answered in ERROR, so two QPs in ERROR leave each other alone.
            answered = _IS_REQUEST[opcode] and self._is_over and self.sources.has_sent(batch, packet)
            if answered and self._responder is not None:
                self._responder.on_request_in_error(batch, packet, now)
        elif not self.sources.has_sent(batch, packet):
            self._counters.bad_source += 1
        elif _IS_REQUEST[opcode]:
            self._note(now)
            if self._responder is not None:
                self._responder.on_request(batch, packet, now)
        elif opcode == _PROBE:
            self._note(now)
            if self._responder is not None:
                self._responder.on_probe(batch, packet, now)
        elif _IS_ENDPOINT_OPERATION[opcode]:
            self._counters.misdirected += 1
        elif not self._may_send or self._feedback is None:
            self._counters.wrong_qp_state += 1
        elif opcode == _SACK:
            self._feedback.on_sack(batch, packet.row, now)
        elif opcode == _ACK:
            self._on_aeth(batch, packet, now)
        elif opcode == _NACK:
            self._feedback.on_nack(batch, packet.row, now)

    def _note(self, now: int) -> None:
        """Requests or probes arrive at `now`."""
        if now != self.asked_at:
            self.asked_at = now
            if now >= self._learns_at:
                if self._away.up:
                    self._away.waits = True
                else:
                    self._report_to_node(now)

    def _report_to_node(self, now: int) -> with_gil[None]:
        if self._node is not None:
            self._node.on_requests(now)
            learns_at = self._node.next_learning_at
            self._learns_at = _NEVER if learns_at is None else learns_at

    def receive_trimmed(self, batch: ReceivedBatch, packet: ReceivedPacket, lasthop: bool, now: int) -> None:
        """A packet for this QP that a switch cut short, on the last hop or before it. It has no ICRC."""
        if not self._may_receive:
            self._counters.wrong_qp_state += 1
        elif not self.sources.has_sent(batch, packet):
            self._counters.bad_source += 1
        elif _IS_REQUEST[packet.opcode] and self._responder is not None:
            self.asked_at = now
            self._responder.on_trimmed(batch, packet, lasthop, now)

    def _on_aeth(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        """A transport ACK; a syndrome beyond them is a NAK."""
        syndrome = octets.u32(batch.flat, packet.at + _AETH_AT) >> _SYNDROME_SHIFT
        if self._feedback is None:
            return
        if syndrome <= _ACK_SYNDROME:
            self._feedback.on_ack(packet.psn, now)
        elif _IS_NAK[syndrome]:
            self._feedback.on_nak(packet.psn, syndrome, now)
        else:
            self._counters.invalid_request += 1
