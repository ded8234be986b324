# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What a QP does with packets: whether they are its peer's, for which half of it they are, its turns and its times.

Its life is `mrc.endpoint.qp`'s.
"""

from __future__ import annotations

from mrc.endpoint.completion_ring import CompletionRing
from mrc.endpoint.congestion.base import CongestionController
from mrc.endpoint.counters import Counters
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.parts.flags import Away
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.qp_states import MAY_RECEIVE, MAY_SEND, QpState
from mrc.endpoint.refusals import ACK_SYNDROME, NAK_STATUS
from mrc.endpoint.requestor.feedback import Feedback
from mrc.endpoint.requestor.requestor import Requestor
from mrc.endpoint.responder.receives import Receives
from mrc.endpoint.responder.responder import Responder
from mrc.endpoint.work_rings import ADDRESS, IMMEDIATE, LENGTH, REMOTE_VA, RKEY
from mrc.errors import CallerError
from mrc.wire import octets
from mrc.wire.compiled import const_u8s, public, python, u8s, with_gil
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import fields_at, header_at, lowest_bit, masks_in
from mrc.wire.transmit_batch import TransmitBatch

_AETH_AT, _SYNDROME_SHIFT = header_at("aeth"), lowest_bit(masks_in("aeth", "syndrome msn")[0])
_NEVER = -1
MAX_PORTS = 16
(_SOURCE_AT,) = fields_at("ipv6", "src")
_ADDRESS_BYTES = 16
_PROBE, _SACK, _ACK, _NACK = int(Op.PROBE), int(Op.SACK), int(Op.ACKNOWLEDGE), int(Op.NACK)
_IS_REQUEST: const_u8s = memoryview(bytes(value in REQUEST_OPCODES for value in range(256)))
_IS_NAK: const_u8s = memoryview(bytes(value in NAK_STATUS for value in range(256)))
_IS_ENDPOINT_OPERATION: const_u8s = memoryview(
    bytes(value in (Op.ENDPOINT_REQUEST, Op.ENDPOINT_RESPONSE) for value in range(256))
)


class PeerSources:
    """The peer's inner address (128 bit) by the local port its packets come in on."""

    def __init__(self) -> None:
        self._addresses: u8s = memoryview(bytearray(MAX_PORTS * _ADDRESS_BYTES))
        self._known: u8s = memoryview(bytearray(MAX_PORTS))

    def add(self, port: int, address: int) -> python[None]:
        """Raises CallerError for a port that cannot be."""
        if not 0 <= port < MAX_PORTS:
            raise CallerError(f"ports are numbered 0..{MAX_PORTS - 1}, got {port}")
        octets.put64(self._addresses, port * _ADDRESS_BYTES, address >> 64)
        octets.put64(self._addresses, port * _ADDRESS_BYTES + 8, address & (1 << 64) - 1)
        self._known[port] = 1

    def has_sent(self, batch: ReceivedBatch, packet: ReceivedPacket) -> bool:
        """Whether a packet has the peer's address on the port it came in on as its source. No peer has one on a port
        that cannot be."""
        port = packet.port
        return (
            0 <= port < MAX_PORTS
            and self._known[port] != 0
            and octets.equal(batch.flat, packet.at + _SOURCE_AT, self._addresses, port * _ADDRESS_BYTES, _ADDRESS_BYTES)
        )


class Arrivals:
    """Packets of one QP that passed the endpoint's checks, one by one. `sources` is empty before RTR.

    `asked_at` is when the last request or probe arrived, ns; -1: never.
    """

    def __init__(self, counters: Counters, away: Away) -> None:
        self._counters = counters
        self._away = away
        self.sources = PeerSources()
        # When the peer node wants to hear of requests again.
        self.asked_at = self._learns_at = _NEVER
        self._node: PeerNode | None = None
        self._responder: Responder | None = None
        self._feedback: Feedback | None = None
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
        if syndrome <= ACK_SYNDROME:
            self._feedback.on_ack(packet.psn, now)
        elif _IS_NAK[syndrome]:
            self._feedback.on_nak(packet.psn, syndrome, now)
        else:
            self._counters.invalid_request += 1


class QpDatapath:
    """`responder`, `paths`, `controller` and `peer_node` are there from RTR on, `requestor` from RTS on, `receives`
    where a program posts into rings. Its owner keeps `may_send`, `is_over` and what `arrivals` knows of the QP's state
    up to date.

    `slot` is its place among the endpoint's QPs. `timer_at` is when the endpoint has its timers scheduled, ns, or
    FOREVER. `answers_wait`: the last packet sent went ahead of answers that are due; it is to leave before they are
    made. `doubted_ports`: bit n is set while the peer says that its port
    on the plane of our port n is down.
    """

    def __init__(self, qpn: int, counters: Counters, arrivals: Arrivals, completions: CompletionRing) -> None:
        self.qpn = qpn
        self.counters = counters
        self.arrivals = arrivals
        self.completions = completions
        self.controller: public[CongestionController | None] = None
        self.paths: public[PathSet | None] = None
        self.responder: public[Responder | None] = None
        self.requestor: public[Requestor | None] = None
        self.peer_node: public[PeerNode | None] = None
        self.receives: public[Receives | None] = None
        self.may_send: public[bool] = False
        self.is_over: public[bool] = False
        self.slot: public[int] = -1
        self.timer_at: public[int] = FOREVER
        self.answers_wait: public[bool] = False
        self.doubted_ports: public[int] = 0

    # ------------------------------------------------------------------ packets in

    def doubts(self, port: int) -> bool:
        """Whether the peer says that its port on the plane of this port of ours is down."""
        return 0 <= port < MAX_PORTS and self.doubted_ports >> port & 1 != 0

    def epsn(self) -> int:
        """The PSN that it expects; -1 where it cannot receive."""
        return -1 if self.responder is None else self.responder.received.epsn

    # ------------------------------------------------------------------ work in

    def take_posted(self) -> None:
        """Take what a program has posted into its rings, if this QP has some."""
        if self.completions.rings is None or self.receives is None:
            return
        if self.is_over:
            self.completions.rings.flush()
            return
        if self.completions.rings.receive_waits():
            while self.completions.rings.receive_waits():
                self.receives.post_at(self.completions.rings.take_receive())
            if self.responder is not None:
                self.responder.on_receive_posted()
        if not self.may_send or self.requestor is None:
            return
        while self.completions.rings.send_waits():
            at = self.completions.rings.take_send()
            self.requestor.queue.post_at(
                self.completions.rings.send(at),
                self.completions.rings.send(at + ADDRESS),
                self.completions.rings.send(at + LENGTH),
                self.completions.rings.send(at + REMOTE_VA),
                self.completions.rings.send(at + RKEY),
                self.completions.rings.send(at + IMMEDIATE),
            )

    # ------------------------------------------------------------------ packets out

    def pending(self) -> bool:
        """Whether `transmit` would send something now."""
        if self.responder is None or self.paths is None or self.paths.silent:
            return False
        return self.responder.pending() or (self.may_send and self.requestor is not None and self.requestor.ready())

    def has_work(self) -> bool:
        """Whether there is something to send, now or once a window opens."""
        if self.responder is None:
            return False
        return self.responder.pending() or (self.may_send and self.requestor is not None and self.requestor.has_work())

    def has_control(self) -> bool:
        """Whether there is something to send that no congestion window holds back: answers or probes."""
        if self.responder is None:
            return False
        return self.responder.pending() or (
            self.may_send and self.requestor is not None and self.requestor.has_probes()
        )

    def window_is_open(self) -> bool:
        """Whether the congestion window has room, if there is one."""
        return self.controller is None or self.controller.room() > 0

    def outstanding(self) -> int:
        """Packets of ours in the network."""
        return 0 if self.requestor is None else self.requestor.sent.outstanding

    def transmit(self, batch: TransmitBatch, limit: int, now: int, others_wait: bool) -> int:
        """Append up to `limit` packets, answers first. Returns how many. `others_wait` as in the requestor.

        Send a lone data packet before pending answers, once: in a ping-pong the peer waits for data. It goes alone: see
        `answers_wait`.
        """
        if self.responder is None or self.paths is None:
            return 0
        if self.paths.silent:
            # Only timers go on.
            if not self.may_send or self.requestor is None:
                return 0
            return self.requestor.transmit(batch, 0, now, others_wait)
        if (
            self.may_send
            and not self.answers_wait
            and self.requestor is not None
            and self.responder.pending()
            and self.requestor.one_packet_waits()
        ):
            sent = self.requestor.transmit(batch, min(limit, 1), now, others_wait)
            if sent:
                self.answers_wait = True
                return sent
        self.answers_wait = False
        sent = self.responder.transmit(batch, limit, now)
        if self.may_send and self.requestor is not None and self.requestor.has_work():
            sent += self.requestor.transmit(batch, limit - sent, now, others_wait)
        return sent

    # ------------------------------------------------------------------ time

    def next_deadline(self) -> int:
        """When `on_timer` wants to be called next, ns, or FOREVER."""
        of_responder = FOREVER if self.responder is None else self.responder.next_deadline()
        if not self.may_send or self.requestor is None:
            return of_responder
        return min(of_responder, self.requestor.feedback.next_deadline())

    def on_timer(self, now: int) -> None:
        """Run every timer that is due."""
        if self.responder is not None:
            self.responder.on_timer(now)
        if self.may_send and self.requestor is not None:
            self.requestor.on_timer(now)
