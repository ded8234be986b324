"""The responder: tracks PSNs, places payload, answers (behaviour.md, Responder)."""

from __future__ import annotations

import struct
from collections.abc import Callable

from mrc.endpoint.ack_delay import AckDelay
from mrc.endpoint.answers import NO_PROBE, Answer, Reflector, append_control
from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import NO_CAPABILITIES, Capability, QpConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.deadlines import FOREVER
from mrc.endpoint.memory import VA_LIMIT, MemoryTable
from mrc.endpoint.message_checks import MessageChecks
from mrc.endpoint.nacked import NackReason
from mrc.endpoint.nacks import NackMaker
from mrc.endpoint.opcode_terms import ENDS, IMMEDIATE
from mrc.endpoint.paths import PathSet
from mrc.endpoint.rate_limit import RateLimit
from mrc.endpoint.receive_budget import ReceiveBudget
from mrc.endpoint.receive_window import ReceiveWindow
from mrc.endpoint.received import ReceivedPsns
from mrc.endpoint.receives import Receives
from mrc.endpoint.refusals import ACK_SYNDROME, NAK_STATUS, RefusedRequest
from mrc.endpoint.request_checks import RequestChecks
from mrc.endpoint.resource_limits import ResourceLimits
from mrc.endpoint.sacks import SackMaker
from mrc.endpoint.tracing import QpTrace
from mrc.endpoint.traffic_class import CE, TrafficClasses
from mrc.wire import octets
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH, Op
from mrc.wire.profile import WireProfile
from mrc.wire.psn import PSN_HALF
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import (
    ACKREQ,
    EXTENSION_AT,
    P_KEY,
    PAD_SHIFT,
    PSN_BITS_MASK,
    RTX,
    TIMESTAMP_UNIT_NS,
    TS,
    UDP_AT,
)
from mrc.wire.transmit_batch import TransmitBatch

# BTH and AETH as the fields of mrc.wire.rows.ACK lie.
_AETH = struct.Struct(">BBHIII")
# Where in a request: ip_plen, opcode, flags, psn_word, rqmsn, msn; the RETH, behind a TSETH if there is one; and the
# probe_id of a probe.
_PLEN_AT, _OPCODE_AT, _FLAGS_AT, _PSN_AT, _RQMSN_AT, _MSN_AT, _RETH_AT, _PROBE_ID_AT = 4, 48, 49, 56, 60, 62, 64, 64
_TSETH_BYTES, _RETH_BYTES, _IMMDT_BYTES = (HEADER_LENGTHS[header] for header in ("tseth", "reth", "immdt"))
_TSETH_END = EXTENSION_AT + HEADER_LENGTHS["meth"] + HEADER_LENGTHS["tseth"]
_IP_HEADER, _ICRC_BYTES, _PAD_SHIFT, _TS, _TRAFFIC_CLASS_SHIFT, _CE = UDP_AT, ICRC_LENGTH, PAD_SHIFT, TS, 4, CE
_ASKS_FOR_SACK = ACKREQ | RTX
_PSN_MASK, _PSN_MODULUS = PSN_BITS_MASK, PSN_BITS_MASK + 1
_PSN_HALF = PSN_HALF
_VA_LIMIT = VA_LIMIT
_ENDS, _IMMEDIATE = ENDS, IMMEDIATE
_PSN_OOR_WINDOW, _UNEXP_EVENT = int(NackReason.PSN_OOR_WINDOW), int(NackReason.UNEXP_EVENT)
_TRIMMED, _TRIMMED_LASTHOP = int(NackReason.TRIMMED), int(NackReason.TRIMMED_LASTHOP)
_NEVER = -1


class Responder:
    """One QP's receiving half. `fail(status, detail)` is called when a request ends the QP."""

    __slots__ = (
        "_ack_delay",
        "_ack_due",
        "_again",
        "_answers_trims",
        "_beyond",
        "_budget",
        "_checks",
        "_classes",
        "_counters",
        "_fail",
        "_gave_notice",
        "_limits",
        "_messages",
        "_nacks_beyond",
        "_nak_due",
        "_noted_at",
        "_notice_is_old",
        "_paths",
        "_peer_qpn",
        "_qpn",
        "_receives",
        "_reflector",
        "_refused",
        "_trace",
        "_trimmed",
        "nacks",
        "probes_rate",
        "received",
        "sacks",
        "window",
    )

    def __init__(
        self,
        *,
        qpn: int,
        peer_qpn: int,
        first_psn: int,
        config: QpConfig,
        wire: WireProfile,
        memory: MemoryTable,
        budget: ReceiveBudget,
        paths: PathSet,
        counters: Counters,
        classes: TrafficClasses,
        receives: Receives,
        fail: Callable[[WorkStatus, str], None],
        agreed: Capability = NO_CAPABILITIES,
        trace: QpTrace | None = None,
    ) -> None:
        self._qpn = qpn
        self._peer_qpn = peer_qpn
        self._budget = budget
        self._trace = trace
        self._paths = paths
        self._counters = counters
        self._classes = classes
        self._receives = receives
        receives.max_in_flight = config.max_wimm_dest
        self._fail = fail
        self._answers_trims = Capability.TRIM_NACK in agreed
        rate = config.responder.answers_burst, config.responder.answers_per_second
        self._again, self.probes_rate = RateLimit(*rate), RateLimit(*rate)
        self._beyond, self._trimmed = RateLimit(*rate), RateLimit(*rate)
        # The time a packet is held goes into its reflected timestamp where that is agreed.
        units_ns = (TIMESTAMP_UNIT_NS, wire.tsr1_unit_ns) if Capability.SVC_TIME in agreed else (0, 0)
        self._reflector = Reflector(wire, units_ns)
        self.window = ReceiveWindow(config.mpr_dest, first_psn, dynamic=Capability.DYNAMIC_MPR in agreed)
        self.received = ReceivedPsns(self.window.largest_span, first_psn)
        self._messages = MessageChecks(self.window.largest_span, first_psn, config.path_mtu)
        self.sacks = SackMaker(
            qpn=qpn,
            peer_qpn=peer_qpn,
            threshold_bytes=config.sack_threshold_bytes,
            received=self.received,
            window=self.window,
            budget=budget,
            paths=paths,
            counters=counters,
            classes=classes,
        )
        self.nacks = NackMaker(
            qpn=qpn, peer_qpn=peer_qpn, wire=wire, paths=paths, counters=counters, classes=classes, trace=trace
        )
        self._checks = RequestChecks(memory, config.path_mtu)
        self._limits = ResourceLimits(config.responder)
        self._nacks_beyond = config.responder.nack_out_of_window
        self._noted_at = _NEVER
        # Whether a request that came in ERROR waits for its answer, and whether it may have been acknowledged.
        self._gave_notice = self._notice_is_old = False
        self._ack_due = False
        self._ack_delay = AckDelay(config.responder.ack_after_sack_ns)
        self._nak_due = False
        # The (PSN, syndrome) that ended the QP, if a request did.
        self._refused: tuple[int, int] | None = None

    def set_mpr(self, units: int) -> None:
        """Grant the peer `units` x 128 PSNs from now on. Raises CallerError as ReceiveWindow.resize."""
        self.window.resize(units)
        self.received.make_room(self.window.largest_span)
        self._messages.make_room(self.window.largest_span)

    # ------------------------------------------------------------------ requests in

    def on_request(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """A write request of this QP, whose length, ICRC and source have been checked: the steps of the page, in order.
        Check PSN; opcode, length, R_Key and range; execute; acknowledge."""
        self._note(now)
        counters, received = self._counters, self.received
        counters.requests_received += 1
        word = octets.u32(batch.flat, batch.row(row) + _PSN_AT)
        distance = (word - received.epsn) & _PSN_MASK
        if distance >= _PSN_HALF:
            distance -= _PSN_MODULUS
        psn = received.epsn + distance
        if distance == -_PSN_HALF:
            counters.psn_out_of_range += 1
        elif distance < 0:
            counters.duplicates_old += 1
            self._ack_due = True
            self._answer_copy(batch, row, psn, now)
        elif psn >= self.window.end(received.epsn):
            counters.psn_out_of_window += 1
            if self._nacks_beyond and self._beyond.take_counted(1, now, counters):
                self._nack(batch, row, psn, _PSN_OOR_WINDOW, now)
        elif received.has(psn):
            counters.duplicates_above_epsn += 1
            self._answer_copy(batch, row, psn, now)
        else:
            self._on_new_request(batch, row, psn, distance, now)

    def _note(self, now: int) -> None:
        """Requests arrive at `now`."""
        if now != self._noted_at:
            self._noted_at = now
            self._budget.on_requests(self._qpn, now)

    def _on_new_request(self, batch: ReceivedBatch, row: int, psn: int, distance: int, now: int) -> None:
        opcode = batch.flat[batch.row(row) + _OPCODE_AT]
        lacking = self._limits.lacking(
            distance, self.received.held, self._receives.stashed if _IMMEDIATE[opcode] else -1
        )
        if lacking:
            self._counters.no_room += 1
            self._nack(batch, row, psn, lacking, now)
            return
        try:
            self._take(batch, row, psn, opcode)
        except RefusedRequest as refusal:
            self._refuse(refusal)
            return
        size = octets.u16(batch.flat, batch.row(row) + _PLEN_AT) + _IP_HEADER
        self.sacks.received_bytes += size
        marked = self._is_marked(batch, row)
        self._counters.ecn_marked_received += marked
        asked = (octets.u32(batch.flat, batch.row(row) + _PSN_AT) & _ASKS_FOR_SACK) != 0
        if self.sacks.is_triggered(size, asked or marked):
            self._sack(batch, row, psn, marked, now)

    def _take(self, batch: ReceivedBatch, row: int, psn: int, opcode: int) -> None:
        """Check a new request, count it as arrived and place its payload. Raises RefusedRequest, with nothing written,
        for one that ends the QP."""
        base, received = batch.row(row), self.received
        reth = base + _RETH_AT
        if octets.u32(batch.flat, base + _PSN_AT) & _TS:
            reth += _TSETH_BYTES
        payload = reth + _RETH_BYTES
        if _IMMEDIATE[opcode]:
            payload += _IMMDT_BYTES
        pad = batch.flat[base + _FLAGS_AT] >> _PAD_SHIFT & 3
        size = base + batch.lengths[row] - payload - pad - _ICRC_BYTES
        va, dmalen = octets.u64(batch.flat, reth), octets.u32(batch.flat, reth + 12)
        self._checks.check_length(psn, opcode, size, dmalen)
        # What no region can have is refused below: it has only to be a number here.
        address = va if va < _VA_LIMIT else _VA_LIMIT
        self._messages.take(psn, octets.u16(batch.flat, base + _MSN_AT), dmalen, address, opcode)
        region = None
        if size:
            region = self._checks.region(psn, opcode, va, octets.u32(batch.flat, reth + 8), dmalen)
        immediates = _IMMEDIATE[opcode] != 0 or self._receives.stashed > 0
        if immediates:
            self._check_immediates(batch, row, psn, opcode, reth)
        # The bitmap moves before the payload is committed.
        if received.add(psn, _ENDS[opcode] != 0):
            self._ack_due = True
        if region is not None:
            octets.copy(region.octets, address - region.va, batch.flat, payload, size)
            self._counters.bytes_placed += size
        if immediates:
            # Those with immediate wait for all before them; those whose turn it is are delivered.
            self._receives.deliver(received.epsn)

    def _check_immediates(self, batch: ReceivedBatch, row: int, psn: int, opcode: int, reth: int) -> None:
        """Keep the request's immediate, if it has one. Raises RefusedRequest where it, or one that waited for this
        request, may not be delivered."""
        edge = self.received.edge_after(psn)
        if not _IMMEDIATE[opcode]:
            self._receives.check(None, edge)
            return
        rqmsn = octets.u16(batch.flat, batch.row(row) + _RQMSN_AT)
        immediate = (psn, rqmsn, octets.u32(batch.flat, reth + _RETH_BYTES), octets.u32(batch.flat, reth + 12))
        self._receives.check(immediate, edge)
        self._receives.take(immediate)

    def _refuse(self, refusal: RefusedRequest) -> None:
        """This request ends the QP. What came before it keeps its answers; they go before the NAK (MRC-RESP-20)."""
        setattr(self._counters, refusal.counter, getattr(self._counters, refusal.counter) + 1)
        self._refused = (refusal.psn & PSN_BITS_MASK, refusal.syndrome)
        self._nak_due = True
        self._fail(NAK_STATUS[refusal.syndrome], str(refusal))

    def _answer_copy(self, batch: ReceivedBatch, row: int, psn: int, now: int) -> None:
        """What brings nothing new is due a SACK too, as far as the rate of such answers allows."""
        if not self._again.take_counted(1, now, self._counters):
            return
        marked = self._is_marked(batch, row)
        self._counters.ecn_marked_received += marked
        self.sacks.is_triggered(0, True)
        self._sack(batch, row, psn, marked, now)

    def _sack(self, batch: ReceivedBatch, row: int, psn: int, marked: bool, now: int) -> None:
        answer = Answer(psn, self.received.highest, marked, NO_PROBE, 0, now)
        self._reflector.of_request(answer, batch, row, True)
        self.sacks.pending.add(answer)

    # ------------------------------------------------------------------ other packets in

    def on_trimmed(self, batch: ReceivedBatch, row: int, lasthop: bool, now: int) -> None:
        """A request that a switch cut short, on the last hop or before it. Nothing but BTH and METH is trusted."""
        if not self._answers_trims:
            return
        distance = (octets.u32(batch.flat, batch.row(row) + _PSN_AT) - self.received.epsn) & _PSN_MASK
        if distance >= _PSN_HALF:
            distance -= _PSN_MODULUS
        if distance == -_PSN_HALF:
            self._counters.psn_out_of_range += 1
        elif self._trimmed.take_counted(1, now, self._counters):
            self._nack(batch, row, self.received.epsn + distance, _TRIMMED_LASTHOP if lasthop else _TRIMMED, now)

    def on_request_in_error(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """A request that comes although the QP is over: what ended it may have been lost, so it is said again, once for
        all that came since."""
        if self._refused is not None:
            self._nak_due = True
            return
        distance = (octets.u32(batch.flat, batch.row(row) + _PSN_AT) - self.received.epsn) & _PSN_MASK
        acknowledged = distance >= _PSN_HALF
        if acknowledged:
            distance -= _PSN_MODULUS
        if self._gave_notice and (acknowledged or not self._notice_is_old):
            return
        # The first that is surely not acknowledged, if there is one.
        self._gave_notice, self._notice_is_old = True, acknowledged
        self.nacks.pending.clear()
        self._nack(batch, row, self.received.epsn + distance, _UNEXP_EVENT, now)

    def on_probe(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """A reliability probe is answered by a SACK with pr=1 and its probe_id."""
        if not self.probes_rate.take_counted(1, now, self._counters):
            return
        received = self.received
        probe_id = octets.u16(batch.flat, batch.row(row) + _PROBE_ID_AT)
        answer = Answer(received.epsn - 1, received.highest, self._is_marked(batch, row), probe_id, 0, now)
        self._reflector.of_probe(answer, batch, row)
        self.sacks.on_probe(answer)
        self._counters.probes_answered += 1

    def _nack(self, batch: ReceivedBatch, row: int, psn: int, reason: int, now: int) -> None:
        """Queue a NACK for a request; the TSETH of a trimmed one may have been cut off."""
        answer = Answer(psn, 0, False, NO_PROBE, reason, now)
        self._reflector.of_request(answer, batch, row, batch.lengths[row] >= _TSETH_END)
        self.nacks.pending.add(answer)

    def _is_marked(self, batch: ReceivedBatch, row: int) -> bool:
        """CE counts if it is on either header (wire.md section 12)."""
        inner = octets.u16(batch.flat, batch.row(row)) >> _TRAFFIC_CLASS_SHIFT
        return inner & _CE == _CE or batch.classes[row] & _CE == _CE

    # ------------------------------------------------------------------ answers out

    def pending(self) -> bool:
        """Whether `transmit` would send something."""
        return self._ack_due or self._nak_due or self.sacks.pending.count > 0 or self.nacks.pending.count > 0

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        """Append up to `limit` answers: NACKs, SACKs, one transport ACK a batch, a NAK. Returns how many."""
        start = batch.count
        limit = min(limit, batch.free)
        self._gave_notice = False
        # NACKs go before SACKs: a requestor that sees the hole first blames the path.
        self.nacks.transmit(batch, limit - (batch.count - start), now)
        told = self.sacks.transmit(batch, limit - (batch.count - start), now)
        if self._ack_due and told and self._ack_delay.may_wait(now):
            self._ack_due = False
        if self._ack_due and batch.count - start < limit:
            self._ack_due = False
            self._ack_delay.end()
            self._transmit_aeth(batch, self.received.cack_psn & PSN_BITS_MASK, ACK_SYNDROME, now)
            self._counters.acks_sent += 1
        if self._nak_due and self._refused is not None and batch.count - start < limit:
            # Last: the requestor takes nothing more after it.
            self._nak_due = False
            self._ack_delay.end()
            self._transmit_aeth(batch, *self._refused, now)
            self._counters.naks_sent += 1
        if self._trace is not None:
            self._trace.on_answers(self._counters, self.received, now)
        return batch.count - start

    def next_deadline(self) -> int:
        """When `on_timer` wants to be called next, ns, or FOREVER."""
        return FOREVER if self._ack_due else self._ack_delay.due_at

    def on_timer(self, now: int) -> None:
        """An ACK has waited long enough."""
        if self._ack_delay.has_to_go(now):
            self._ack_due = True

    def _transmit_aeth(self, batch: TransmitBatch, psn: int, syndrome: int, now: int) -> None:
        index = self._paths.control.one_aside(now)
        completed = self.received.completed & 0xFFFFFF
        headers = _AETH.pack(Op.ACKNOWLEDGE, 0, P_KEY, self._peer_qpn, psn, syndrome << 24 | completed)
        append_control(batch, self._paths, index, self._classes.control, headers)
