"""The responder: tracks PSNs, places payload, answers (behaviour.md, Responder)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mrc.endpoint.ack_delay import AckDelay
from mrc.endpoint.answers import PROBE_BYTES, REQUEST_BYTES, Reflector, append_control
from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import NO_CAPABILITIES, Capability, QpConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.memory import MemoryTable
from mrc.endpoint.message_checks import MessageChecks
from mrc.endpoint.nacked import NackReason
from mrc.endpoint.nacks import NackMaker, Refusal
from mrc.endpoint.paths import PathSet
from mrc.endpoint.psn_checks import PsnChecks, SortedRequests
from mrc.endpoint.rate_limit import RateLimit
from mrc.endpoint.receive_budget import ReceiveBudget
from mrc.endpoint.receive_window import ReceiveWindow
from mrc.endpoint.received import ReceivedPsns
from mrc.endpoint.received_requests import ENDS, IMMEDIATE, ReceivedRequests
from mrc.endpoint.receives import Immediate, Receives
from mrc.endpoint.request_checks import (
    ACK_SYNDROME,
    NAK_STATUS,
    NotTogether,
    Placement,
    RefusedRequest,
    placement,
    placements,
    shapes,
)
from mrc.endpoint.sacks import SackMaker, Trigger
from mrc.endpoint.tracing import QpTrace
from mrc.endpoint.traffic_class import CE, ECN_MASK, TrafficClasses
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH, Op
from mrc.wire.profile import WireProfile
from mrc.wire.psn import PSN_HALF, psn_diff_array
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import (
    ACKREQ,
    EXTENSION_AT,
    P_KEY,
    PAD_SHIFT,
    PSN_BITS_MASK,
    REQUEST_LENGTH,
    REQUEST_TS,
    REQUEST_TS_LENGTH,
    RTX,
    TIMESTAMP_UNIT_NS,
    TS,
    Fields,
)
from mrc.wire.transmit_batch import TransmitBatch

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# BTH and AETH as the fields of mrc.wire.rows.ACK lie.
_AETH = struct.Struct(">BBHIII")
# Of a request: ip_word, opcode, flags, psn_word, msn.
_REQUEST = struct.Struct(">I44xBB6xI2xH")
_PROBE = struct.Struct(">I60xH")  # ip_word, probe_id
_RETH = struct.Struct(">QII")
_PAYLOAD_AT = EXTENSION_AT + REQUEST_LENGTH
_PAYLOAD_AT_TS = EXTENSION_AT + REQUEST_TS_LENGTH
_TSETH_END = EXTENSION_AT + HEADER_LENGTHS["meth"] + HEADER_LENGTHS["tseth"]


class Responder:
    """One QP's receiving half. `fail(status, detail)` is called when a request ends the QP."""

    __slots__ = (
        "_ack_delay",
        "_ack_due",
        "_again",
        "_agreed",
        "_budget",
        "_classes",
        "_config",
        "_counters",
        "_fail",
        "_memory",
        "_messages",
        "_nak_due",
        "_paths",
        "_peer_qpn",
        "_psn_checks",
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
        self._config = config
        self._memory = memory
        self._paths = paths
        self._counters = counters
        self._classes = classes
        self._receives = receives
        receives.max_in_flight = config.max_wimm_dest
        self._fail = fail
        self._agreed = agreed
        rate = config.responder.answers_burst, config.responder.answers_per_second
        self._again, self.probes_rate, beyond, self._trimmed = (RateLimit(*rate) for _ in range(4))
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
        self._psn_checks = PsnChecks(
            config=config.responder,
            received=self.received,
            window=self.window,
            receives=receives,
            counters=counters,
            beyond=beyond,
            refuse=self._nack,
        )
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
        self.on_requests(batch, np.array([row], np.int64), now)

    def on_probe(self, batch: ReceivedBatch, row: int, now: int) -> None:
        self.on_probes(batch, [row], now)

    def on_request_in_error(self, batch: ReceivedBatch, row: int, now: int) -> None:
        self.on_requests_in_error(batch, np.array([row], np.int64), now)

    def on_requests(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        """Write requests of this QP, whose length, ICRC and source have been checked.

        Raises NotTogether, and nothing has happened, where several have to be taken in smaller groups.
        """
        requests = ReceivedRequests(batch, rows)
        counters, received = self._counters, self.received
        self._budget.on_requests(self._qpn, now)
        # The steps of the page, in order: check PSN; opcode, length, R_Key and range; execute; acknowledge.
        found = self._psn_checks.sort(requests)
        new, highest_before = found.new, received.highest
        try:
            writes, immediates = self._judge(requests, found)
        except RefusedRequest as refusal:
            if len(rows) > 1:
                raise NotTogether from None
            counters.requests_received += 1
            self._refuse(refusal)
            return
        counters.requests_received += len(rows)
        self._psn_checks.report(requests, found, now)
        moved = False
        if len(new):
            # The bitmap moves before the payload is committed.
            ends = ENDS[requests.opcodes[new]]
            if found.in_order:
                received.add_run(len(new), int(np.count_nonzero(ends)))
                moved = True
            else:
                moved = received.add(found.psns[new], ends)
            for write in writes:
                counters.bytes_placed += write.execute(batch.data)
            # Those with immediate wait for all before them; those whose turn it is are delivered.
            self._receives.take(immediates)
            self._receives.deliver(received.epsn)
            self.sacks.received_bytes += int(requests.sizes[new].sum())
        if moved or found.old.any():
            self._ack_due = True
        self._trigger_sacks(requests, found, highest_before, now)

    def _judge(self, requests: ReceivedRequests, found: SortedRequests) -> tuple[list[Placement], list[Immediate]]:
        """What the new ones of these write where, and their immediates. Raises RefusedRequest where one may not be."""
        new, path_mtu = found.new, self._config.path_mtu
        if not len(new):
            return [], []
        lengths = shapes(requests, new, found.psns, path_mtu)
        undo = self._messages.take(
            found.psns[new],
            requests.fields["msn"][new].astype(np.int64),
            lengths.dmalen,
            requests.extension("va", new).astype(np.uint64).view(np.int64),
            requests.opcodes[new],
            in_order=found.in_order,
        )
        try:
            writes = placements(requests, lengths, found.psns, path_mtu, self._memory)
            return writes, self._immediates(requests, found)
        except RefusedRequest:
            self._messages.undo(undo)
            raise

    def _immediates(self, requests: ReceivedRequests, found: SortedRequests) -> list[Immediate]:
        """The immediates among the new requests. Raises RefusedRequest where one of them, or one that waited for these,
        may not be delivered."""
        receives, new = self._receives, found.new
        chosen = new[IMMEDIATE[requests.opcodes[new]]]
        if not len(chosen) and not receives.stashed:
            return []
        immediates = list(
            zip(
                found.psns[chosen].tolist(),
                requests.fields["rqmsn"][chosen].tolist(),
                requests.extension("immediate", chosen).tolist(),
                requests.extension("dmalen", chosen).tolist(),
                strict=True,
            )
        )
        final = found.edges_after(np.array([len(requests.rows) - 1]))
        receives.check(immediates, found.edges_after(chosen).tolist(), int(final[0]))
        return immediates

    def on_few_requests(self, batch: ReceivedBatch, rows: list[int], now: int) -> int:
        """`on_requests` in plain numbers, as far as they are plain writes that are new. Returns how many it took, up to
        the first that is not."""
        self._budget.on_requests(self._qpn, now)
        for position, row in enumerate(rows):
            if not self._take_one(batch, row, now):
                return position
        return len(rows)

    def _take_one(self, batch: ReceivedBatch, row: int, now: int) -> bool:
        """Take a plain write request that is new and in the window. False, and nothing has happened, for any other."""
        received = self.received
        length = int(batch.length[row])
        head = batch.view(row, 0, min(length, batch.room))
        ip_word, opcode, flags, psn_word, msn = _REQUEST.unpack_from(head)
        if self._receives.stashed or IMMEDIATE[opcode]:
            return False
        psn = received.epsn + ((psn_word - received.epsn) & PSN_BITS_MASK)
        in_order = psn == received.epsn and not received.held
        if not in_order and not self._psn_checks.has_room_for(psn):
            return False
        payload_at = _PAYLOAD_AT_TS if psn_word & TS else _PAYLOAD_AT
        size = length - payload_at - (flags >> PAD_SHIFT & 3) - ICRC_LENGTH
        va, rkey, dmalen = _RETH.unpack_from(head, payload_at - _RETH.size)
        found = placement(opcode, size, va, rkey, dmalen, self._config.path_mtu, self._memory)
        if found is None or not self._messages.take_one(psn, msn, dmalen, va, opcode):
            return False
        if in_order:
            received.add_run(1, int(ENDS[opcode]))
            moved = True
        else:
            moved = received.add_one(psn, bool(ENDS[opcode]))
        region, offset = found
        region.view[offset : offset + size] = head[payload_at : payload_at + size]
        counters = self._counters
        counters.requests_received += 1
        counters.bytes_placed += size
        self.sacks.received_bytes += length
        self._ack_due |= moved
        marked = CE in (ip_word >> 20 & ECN_MASK, int(batch.traffic_class[row]) & ECN_MASK)
        counters.ecn_marked_received += marked
        if self.sacks.triggered_by_one(length, bool(psn_word & (ACKREQ | RTX)) or marked):
            self.sacks.pending.add(Trigger(psn, self._reflector.of_request(head, now), received.highest, marked))
        return True

    def _refuse(self, refusal: RefusedRequest) -> None:
        """This request ends the QP. What came before it keeps its answers; they go before the NAK (MRC-RESP-20)."""
        setattr(self._counters, refusal.counter, getattr(self._counters, refusal.counter) + 1)
        self._refused = (refusal.psn & PSN_BITS_MASK, refusal.syndrome)
        self._nak_due = True
        self._fail(NAK_STATUS[refusal.syndrome], str(refusal))

    def _trigger_sacks(self, requests: ReceivedRequests, found: SortedRequests, highest_before: int, now: int) -> None:
        if found.in_order:
            chosen = found.new
        else:
            chosen = np.flatnonzero(found.answered)
            chosen = self._without_too_many_copies(chosen, found, now)
            if not len(chosen):
                return
        marked = self._marked(requests.batch, requests.rows, requests.fields)[chosen]
        forced = ((requests.words[chosen] & (ACKREQ | RTX)) != 0) | marked
        self._counters.ecn_marked_received += int(np.count_nonzero(marked))
        if not found.in_order:
            forced |= (found.old | found.above)[chosen]
        positions = self.sacks.triggered_by(requests.sizes[chosen], forced)
        if not positions:
            return
        which = chosen[positions]
        highest = np.maximum.accumulate(np.where(found.answered, found.psns, highest_before))
        highest = np.maximum(highest[which], highest_before)
        reflected = self._reflector.of_requests(requests.batch.data[requests.rows[which], :REQUEST_BYTES], now)
        for each in zip(
            found.psns[which].tolist(), reflected, highest.tolist(), marked[positions].tolist(), strict=True
        ):
            self.sacks.pending.add(Trigger(*each))

    def _without_too_many_copies(self, chosen: I64, found: SortedRequests, now: int) -> I64:
        """Those of `chosen` that are due a SACK: of duplicates no more than their rate allows."""
        again = np.flatnonzero((found.old | found.above)[chosen])
        if not len(again):
            return chosen
        return np.delete(chosen, again[self._again.take_counted(len(again), now, self._counters) :])

    # ------------------------------------------------------------------ other packets in

    def on_trimmed(self, batch: ReceivedBatch, row: int, whether: bool, now: int) -> None:
        rows, lasthop = np.array([row], np.int64), np.array([whether])
        """Requests that a switch cut short, on the last hop or before it. Nothing but BTH and METH is trusted."""
        if Capability.TRIM_NACK not in self._agreed:
            return
        fields = batch.fields(REQUEST_TS)[rows]
        epsn = self.received.epsn
        distance = psn_diff_array(fields["psn_word"].astype(np.int64) & PSN_BITS_MASK, epsn & PSN_BITS_MASK)
        in_range = distance > -PSN_HALF
        self._counters.psn_out_of_range += int(np.count_nonzero(~in_range))
        answered = np.flatnonzero(in_range)
        in_range[answered[self._trimmed.take_counted(len(answered), now, self._counters) :]] = False
        reasons = np.where(lasthop, NackReason.TRIMMED_LASTHOP, NackReason.TRIMMED)
        whole = batch.length[rows] >= _TSETH_END
        self._nack(batch, rows[in_range], (epsn + distance)[in_range], reasons[in_range].tolist(), now, whole[in_range])

    def on_requests_in_error(self, batch: ReceivedBatch, rows: I64, now: int) -> None:
        """Requests that come although the QP is over: what ended it may have been lost, so it is said once a batch."""
        if self._refused is not None:
            self._nak_due = True
            return
        requests = ReceivedRequests(batch, rows)
        epsn = self.received.epsn
        distance = psn_diff_array(requests.words & PSN_BITS_MASK, epsn & PSN_BITS_MASK)
        # One that is surely not acknowledged, if there is one.
        position = int(np.flatnonzero(distance >= 0)[0]) if bool((distance >= 0).any()) else len(rows) - 1
        self.nacks.pending.clear()
        which = slice(position, position + 1)
        self._nack(batch, rows[which], epsn + distance[which], [NackReason.UNEXP_EVENT], now)

    def on_probes(self, batch: ReceivedBatch, rows: Iterable[int], now: int) -> None:
        """Reliability probes: each is answered by a SACK with pr=1 and its probe_id."""
        received, rows = self.received, list(rows)
        for row in rows[: self.probes_rate.take_counted(len(rows), now, self._counters)]:
            head = batch.view(row, 0, PROBE_BYTES)
            ip_word, probe_id = _PROBE.unpack_from(head)
            marked = CE in (ip_word >> 20 & ECN_MASK, int(batch.traffic_class[row]) & ECN_MASK)
            reflected = self._reflector.of_probe(head, now)
            self.sacks.on_probe(Trigger(received.cack_psn, reflected, received.highest, marked, probe_id))
            self._counters.probes_answered += 1

    def _nack(
        self, batch: ReceivedBatch, rows: I64, psns: I64, reasons: Sequence[int], now: int, whole: Bools | None = None
    ) -> None:
        """Queue a NACK for each of these requests; `whole` tells where the TSETH, if any, was not cut off."""
        reflected = self._reflector.of_requests(
            batch.data[rows, :REQUEST_BYTES], now, None if whole is None else whole.tolist()
        )
        for each in zip(psns.tolist(), reflected, reasons, strict=True):
            self.nacks.pending.add(Refusal(*each))

    def _marked(self, batch: ReceivedBatch, rows: I64, fields: Fields) -> Bools:
        """CE counts if it is on either header (wire.md section 12)."""
        inner = fields["ip_word"] >> 20 & ECN_MASK
        outer = batch.traffic_class[rows] & ECN_MASK
        return np.asarray((inner == CE) | (outer == CE))

    # ------------------------------------------------------------------ answers out

    @property
    def pending(self) -> bool:
        """Whether `transmit` would send something."""
        return self._ack_due or self._nak_due or self.sacks.pending.count > 0 or self.nacks.pending.count > 0

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        """Append up to `limit` answers: NACKs, SACKs, one transport ACK a batch, a NAK. Returns how many."""
        start = batch.count
        limit = min(limit, batch.free)
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

    def next_deadline(self) -> int | None:
        """When `on_timer` wants to be called next, ns, or None."""
        return None if self._ack_due else self._ack_delay.due_at

    def on_timer(self, now: int) -> None:
        """An ACK has waited long enough."""
        if self._ack_delay.has_to_go(now):
            self._ack_due = True

    def _transmit_aeth(self, batch: TransmitBatch, psn: int, syndrome: int, now: int) -> None:
        index = self._paths.control.one_aside(now)
        completed = self.received.completed & 0xFFFFFF
        headers = _AETH.pack(Op.ACKNOWLEDGE, 0, P_KEY, self._peer_qpn, psn, syndrome << 24 | completed)
        append_control(batch, self._paths, index, self._classes.control, headers)
