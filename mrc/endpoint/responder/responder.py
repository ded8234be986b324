# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The responder: tracks PSNs, places payload, answers (behaviour.md, Responder)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mrc.endpoint.completion_ring import NO_IMMEDIATE
from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import Capability
from mrc.endpoint.memory import MemoryTable
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.parts.rate_limit import RateLimit
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.refusals import ACK_SYNDROME, NAK_STATUS, Verdict
from mrc.endpoint.responder.answers import ControlPackets, NackMaker, SackMaker
from mrc.endpoint.responder.received import ReceiveBudget, ReceivedPsns, ReceiveWindow
from mrc.endpoint.responder.receives import Receives
from mrc.endpoint.responder.request_checks import (
    IMMEDIATE,
    NO_PROBE,
    Answer,
    MessageChecks,
    PeerRequest,
    Reflector,
    RequestChecks,
    ResourceLimits,
)
from mrc.endpoint.traffic_class import CE
from mrc.endpoint.work import SOLICITED
from mrc.wire import octets
from mrc.wire.compiled import const_u8s, python, readonly, with_gil
from mrc.wire.names import NackReason
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.psn import PSN_HALF
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import (
    ACKREQ,
    PSN_BITS_MASK,
    RTX,
    TIMESTAMP_UNIT_NS,
    UDP_AT,
    fields_at,
    header_at,
    lowest_bit,
    masks_in,
)
from mrc.wire.transmit_batch import TransmitBatch

if TYPE_CHECKING:
    from mrc.endpoint.tracing import QpTrace

# Of an ACK or NAK: the opcode, its bytes behind the BTH, where in it the aeth_word is, and what that holds.
_ACKNOWLEDGE, _AETH_BYTES, _AETH_AT = int(Op.ACKNOWLEDGE), HEADER_LENGTHS["aeth"], header_at("aeth")
_SYNDROME, _MSN_MASK = masks_in("aeth", "syndrome msn")
_SYNDROME_SHIFT = lowest_bit(_SYNDROME)
(_PROBE_ID_AT,) = fields_at("peth", "probe_id")
_TSETH_END = header_at("reth", ts=True)
_ASKS_FOR_SACK = ACKREQ | RTX
_PSN_MODULUS = PSN_BITS_MASK + 1
_IMMEDIATE: const_u8s = IMMEDIATE
_PSN_OOR_WINDOW, _UNEXP_EVENT = int(NackReason.PSN_OOR_WINDOW), int(NackReason.UNEXP_EVENT)
_TRIMMED, _TRIMMED_LASTHOP = int(NackReason.TRIMMED), int(NackReason.TRIMMED_LASTHOP)
_RIGHT = int(Verdict.RIGHT)
_NEVER = -1
_NOT_REFUSED = -1


class Responder:
    """One QP's receiving half. `fail(status, detail)` is called when a request ends the QP."""

    def __init__(
        self,
        qp: QpParts,
        *,
        memory: MemoryTable,
        budget: ReceiveBudget,
        receives: Receives,
        fail: Callable[[WorkStatus, str], None],
    ) -> None:
        config, agreed, first_psn = qp.config, qp.agreed, qp.peer.first_psn
        self._qpn = qp.qpn
        self._budget = budget
        self._trace: readonly[QpTrace | None] = qp.trace
        self._paths = qp.paths
        self._counters = qp.counters
        self._packets = ControlPackets(qp.paths, qp.peer.qpn, qp.classes.control)
        self._receives = receives
        receives.max_in_flight = config.max_wimm_dest
        receives.may_wait = config.responder.wait_for_receive_ns > 0
        self._receive_wait_ns = config.responder.wait_for_receive_ns
        # When the immediate that waits for a receive is refused, ns; FOREVER while none waits.
        self._receive_due = FOREVER
        self._fail = fail
        self._se = qp.wire.solicited_event_bit
        self._answers_trims = Capability.TRIM_NACK in agreed
        rate = config.responder.answers_burst, config.responder.answers_per_second
        self._again, self.probes_rate = RateLimit(*rate), RateLimit(*rate)
        self._beyond, self._trimmed = RateLimit(*rate), RateLimit(*rate)
        # The time a packet is held goes into its reflected timestamp where that is agreed.
        units_ns = (TIMESTAMP_UNIT_NS, qp.wire.tsr1_unit_ns) if Capability.SVC_TIME in agreed else (0, 0)
        self._reflector = Reflector(qp.wire, units_ns)
        self.window = ReceiveWindow(config.mpr_dest, first_psn, dynamic=Capability.DYNAMIC_MPR in agreed)
        self.received = ReceivedPsns(self.window.largest_span, first_psn)
        self._messages: readonly[MessageChecks] = MessageChecks(
            self.window.largest_span, first_psn, config.path_mtu, receives.refusal
        )
        self.sacks = SackMaker(qp, received=self.received, window=self.window, budget=budget, packets=self._packets)
        self.nacks = NackMaker(qp, self._packets)
        # The answer that is being made, and the request that is being judged.
        self._answer, self._request = Answer(), PeerRequest()
        self._checks = RequestChecks(memory, config.path_mtu, receives.refusal)
        self._limits = ResourceLimits(config.responder)
        self._nacks_beyond = config.responder.nack_out_of_window
        self._noted_at = _NEVER
        # Whether a request that came in ERROR waits for its answer, and whether it may have been acknowledged.
        self._gave_notice = self._notice_is_old = False
        self._ack_due = False
        # A SACK that goes at once says as much as an ACK (behaviour.md, Transport ACK): that may be left to a later one
        # for so long, counted from the first that was. At 0 none waits. When it has to go, ns; FOREVER: none waits now.
        self._ack_after_ns = config.responder.ack_after_sack_ns
        self._ack_due_at = FOREVER
        self._nak_due = False
        # PSN (24 bit) and syndrome of the NAK to the request that ended the QP, if one did.
        self._refused_psn, self._refused_syndrome = _NOT_REFUSED, 0

    def set_mpr(self, units: int) -> python[None]:
        """Grant the peer `units` x 128 PSNs from now on. Raises CallerError as ReceiveWindow.resize."""
        self.window.resize(units)
        self.received.make_room(self.window.largest_span)
        self._messages.make_room(self.window.largest_span)

    # ------------------------------------------------------------------ requests in

    def on_request(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        """A write request of this QP, whose length, ICRC and source have been checked: the steps of the page, in order.
        Check PSN; opcode, length, R_Key and range; execute; acknowledge."""
        if now != self._noted_at:
            self._noted_at = now
            self._budget.on_requests(self._qpn, now)
        self._counters.requests_received += 1
        epsn = self.received.epsn
        psn = epsn + self._distance(packet)
        if psn == epsn - PSN_HALF:
            self._counters.psn_out_of_range += 1
        elif psn < epsn:
            self._counters.duplicates_old += 1
            self._ack_due = True
            self._answer_copy(batch, packet, psn, now)
        elif psn >= self.window.end(epsn):
            self._counters.psn_out_of_window += 1
            if self._nacks_beyond and self._beyond.take_counted(1, now, self._counters):
                self._nack(batch, packet, psn, _PSN_OOR_WINDOW, now)
        elif self.received.has(psn):
            self._counters.duplicates_above_epsn += 1
            self._answer_copy(batch, packet, psn, now)
        else:
            self._on_new_request(batch, packet, psn, now)

    def _on_new_request(self, batch: ReceivedBatch, packet: ReceivedPacket, psn: int, now: int) -> None:
        stashed = self._receives.stashed if _IMMEDIATE[packet.opcode] else -1
        lacking = self._limits.lacking(psn - self.received.epsn, self.received.held, stashed)
        if lacking:
            self._counters.no_room += 1
            self._nack(batch, packet, psn, lacking, now)
            return
        self._request.read(batch, packet, psn)
        if self._judge() != _RIGHT:
            self._refuse()
            return
        self._execute(batch, packet, now)
        size = packet.plen + UDP_AT
        self.sacks.received_bytes += size
        marked = _is_marked(packet)
        self._counters.ecn_marked_received += marked
        if self.sacks.count(size, marked or packet.psn_word & _ASKS_FOR_SACK != 0):
            self._sack(batch, packet, psn, marked, now)

    def _judge(self) -> int:
        """Check the new request. Returns a verdict: nothing has been written for one that ends the QP."""
        verdict = self._checks.check_length(self._request)
        if verdict == _RIGHT:
            verdict = self._messages.check(self._request)
        if verdict == _RIGHT and self._request.size:
            verdict = self._checks.check_range(self._request)
        if verdict == _RIGHT and (self._request.rqmsn != NO_IMMEDIATE or self._receives.stashed):
            psn = self._request.psn
            verdict = self._receives.check(psn, self._request.rqmsn, self.received.edge_after(psn))
        return verdict

    def _execute(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        """Count the new request as arrived and place its payload."""
        psn, rqmsn, size = self._request.psn, self._request.rqmsn, self._request.size
        # The bitmap moves before the payload is committed.
        if self.received.add(psn, self._request.ends, self._receives.stop):
            self._ack_due = True
        if size:
            if not batch.headers_only:
                octets.place(self._checks.address, batch.flat, self._request.payload_at, size)
            self._counters.bytes_placed += size
        if rqmsn != NO_IMMEDIATE:
            solicited = SOLICITED if packet.flags & self._se else 0
            self._receives.arrive(psn, rqmsn, self._request.immediate | solicited, self._request.dmalen)
        if self._receives.stashed:
            # Those with immediate wait for all before them; those whose turn it is are delivered.
            self._receives.deliver(self.received.epsn)
            self._time_receive(now)

    def _distance(self, packet: ReceivedPacket) -> int:
        """How far the PSN of a packet is above epsn: -2^23 .. 2^23 - 1."""
        distance = (packet.psn - self.received.epsn) & PSN_BITS_MASK
        return distance - _PSN_MODULUS if distance >= PSN_HALF else distance

    def on_receive_posted(self) -> bool:
        """There is another receive: an immediate that waited for it is delivered, and acknowledged now (MRC-IMM-07).
        Returns whether one did."""
        if self._receives.stop == FOREVER:
            return False
        self._receives.stop = self._receive_due = FOREVER
        edge = self.received.edge_from(self.received.epsn)
        if self._receives.check(_NEVER, NO_IMMEDIATE, edge) != _RIGHT:
            self._refuse()
            return True
        self.received.go_on(self._receives.stop)
        self._receives.deliver(self.received.epsn)
        self._ack_due = True
        return True

    def _time_receive(self, now: int) -> None:
        """Where an immediate begins to wait for a receive it has so long."""
        if self._receives.stop != FOREVER and self._receive_due == FOREVER:
            self._receive_due = now + self._receive_wait_ns
            self._counters.waited_for_receive += 1

    def _refuse(self) -> with_gil[None]:
        """The request just looked at ends the QP. What came before it keeps its answers; they go before the NAK
        (MRC-RESP-20)."""
        refusal = self._receives.refusal
        reason = refusal.reason
        setattr(self._counters, reason.counter, getattr(self._counters, reason.counter) + 1)
        self._refused_psn, self._refused_syndrome = refusal.psn & PSN_BITS_MASK, reason.syndrome
        self._nak_due = True
        self._fail(NAK_STATUS[reason.syndrome], refusal.words)

    def _answer_copy(self, batch: ReceivedBatch, packet: ReceivedPacket, psn: int, now: int) -> None:
        """What brings nothing new is due a SACK too, as far as the rate of such answers allows."""
        if not self._again.take_counted(1, now, self._counters):
            return
        marked = _is_marked(packet)
        self._counters.ecn_marked_received += marked
        self.sacks.count(0, True)
        self._sack(batch, packet, psn, marked, now)

    def _sack(self, batch: ReceivedBatch, packet: ReceivedPacket, psn: int, marked: bool, now: int) -> None:
        self._answer.begin(psn, self.received.highest, marked, NO_PROBE, 0, now)
        self._reflector.of_request(self._answer, batch, packet, True)
        self.sacks.pending.add(self._answer)

    # ------------------------------------------------------------------ other packets in

    def on_trimmed(self, batch: ReceivedBatch, packet: ReceivedPacket, lasthop: bool, now: int) -> None:
        """A request that a switch cut short, on the last hop or before it. Nothing but BTH and METH is trusted."""
        if not self._answers_trims:
            return
        distance = self._distance(packet)
        if distance == -PSN_HALF:
            self._counters.psn_out_of_range += 1
        elif self._trimmed.take_counted(1, now, self._counters):
            self._nack(batch, packet, self.received.epsn + distance, _TRIMMED_LASTHOP if lasthop else _TRIMMED, now)

    def on_request_in_error(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        """A request that comes although the QP is over: what ended it may have been lost, so it is said again, once for
        all that came since."""
        if self._refused_psn != _NOT_REFUSED:
            self._nak_due = True
            return
        distance = self._distance(packet)
        acknowledged = distance < 0
        if self._gave_notice and (acknowledged or not self._notice_is_old):
            return
        # The first that is surely not acknowledged, if there is one.
        self._gave_notice, self._notice_is_old = True, acknowledged
        self.nacks.pending.clear()
        self._nack(batch, packet, self.received.epsn + distance, _UNEXP_EVENT, now)

    def on_probe(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        """A reliability probe is answered by a SACK with pr=1 and its probe_id."""
        if not self.probes_rate.take_counted(1, now, self._counters):
            return
        probe_id, marked = octets.u16(batch.flat, packet.at + _PROBE_ID_AT), _is_marked(packet)
        self._answer.begin(self.received.epsn - 1, self.received.highest, marked, probe_id, 0, now)
        self._reflector.of_probe(self._answer, batch, packet)
        self.sacks.on_probe(self._answer)
        self._counters.probes_answered += 1

    def _nack(self, batch: ReceivedBatch, packet: ReceivedPacket, psn: int, reason: int, now: int) -> None:
        """Queue a NACK for a request; the TSETH of a trimmed one may have been cut off."""
        self._answer.begin(psn, 0, False, NO_PROBE, reason, now)
        self._reflector.of_request(self._answer, batch, packet, packet.length >= _TSETH_END)
        self.nacks.pending.add(self._answer)

    # ------------------------------------------------------------------ answers out

    def owes(self) -> bool:
        """Whether an answer has not been sent, or a message has arrived in part."""
        if self.received.held > 0 or self._messages.open.count > 0:
            return True
        return self.pending() or self._ack_due_at != FOREVER

    def pending(self) -> bool:
        """Whether `transmit` would send something."""
        return self._ack_due or self._nak_due or self.sacks.pending.count > 0 or self.nacks.pending.count > 0

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        """Append up to `limit` answers: NACKs, SACKs, one transport ACK a batch, a NAK. Returns how many."""
        start = batch.count
        most = batch.capacity - start
        if limit < most:
            most = limit
        self._gave_notice = False
        # NACKs go before SACKs: a requestor that sees the hole first blames the path.
        self.nacks.transmit(batch, most, now)
        sacks_sent = self.sacks.transmit(batch, most - (batch.count - start), now)
        if self._ack_due and sacks_sent and self._ack_after_ns:
            if self._ack_due_at == FOREVER:
                self._ack_due_at = now + self._ack_after_ns
            self._ack_due = now >= self._ack_due_at
        if self._ack_due and batch.count - start < most:
            self._ack_due = False
            self._ack_due_at = FOREVER
            self._transmit_aeth(batch, self.received.epsn - 1 & PSN_BITS_MASK, ACK_SYNDROME, now)
            self._counters.acks_sent += 1
            # After a receive came, the next one that lacks one.
            self._time_receive(now)
        if self._nak_due and self._refused_psn != _NOT_REFUSED and batch.count - start < most:
            # Last: the requestor takes nothing more after it.
            self._nak_due = False
            self._ack_due_at = FOREVER
            self._transmit_aeth(batch, self._refused_psn, self._refused_syndrome, now)
            self._counters.naks_sent += 1
        if self._trace is not None:
            self._trace_answers(now)
        return batch.count - start

    def _trace_answers(self, now: int) -> with_gil[None]:
        if self._trace is not None:
            self._trace.on_answers(self._counters, self.received, now)

    def next_deadline(self) -> int:
        """When `on_timer` wants to be called next, ns, or FOREVER."""
        return min(self._receive_due, FOREVER if self._ack_due else self._ack_due_at)

    def on_timer(self, now: int) -> None:
        """An ACK has waited long enough, or an immediate for a receive."""
        if now >= self._ack_due_at:
            self._ack_due = True
        if now >= self._receive_due:
            self._receive_due = FOREVER
            # The QP may be over: then nothing waits.
            if self._receives.stop == FOREVER:
                return
            self._receives.lacks_receive(self._receive_wait_ns)
            self._refuse()

    def _transmit_aeth(self, batch: TransmitBatch, psn: int, syndrome: int, now: int) -> None:
        index = self._paths.control.one_aside(now)
        at = self._packets.open(batch, index, _ACKNOWLEDGE, psn, _AETH_BYTES)
        completed = self.received.completed & _MSN_MASK
        octets.put32(batch.flat, at + _AETH_AT, syndrome << _SYNDROME_SHIFT | completed)


def _is_marked(packet: ReceivedPacket) -> bool:
    """CE counts if it is on either header (wire.md section 12)."""
    return packet.inner & CE == CE or packet.outer & CE == CE
