"""Reliability probes a requestor sends: one to find a lost tail, others to bring bad EVs back (wire.md section 8)."""

from __future__ import annotations

from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.parts.numbers import column
from mrc.endpoint.paths.probing import PathProbing
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.requestor.sent import SentPackets
from mrc.wire import octets
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.rows import HEADER_ROOM, P_KEY, TIMESTAMP_FTYPE, TIMESTAMP_UNIT_NS, fields_at, header_at
from mrc.wire.transmit_batch import TransmitBatch

_TAIL = _NONE = -1
_REMEMBERED = 1024
_PLACES, _ID_MASK = _REMEMBERED - 1, 0xFFFF
_FOREVER, _ROOM, _HEADERS = FOREVER, HEADER_ROOM, header_at("peth") + HEADER_LENGTHS["peth"]
# Where in a probe: the fields of mrc.wire.fields.PROBE; flags are in the word of the opcode.
_OPCODE_AT, _PKEY_AT, _DQP_AT, _PSN_AT = fields_at("bth", "opcode pkey reserved ackreq")
_PETH_AT, _PROBE_ID_AT, _RESERVED_AT = fields_at("peth", "type probe_id reserved3")
_SPDCID_AT, _DPDCID_AT, _STAMP_AT = fields_at("peth", "spdcid dpdcid tx_timestamp")
_PROBE, _P_KEY, _FTYPE, _UNIT_NS = int(Op.PROBE), P_KEY, TIMESTAMP_FTYPE, TIMESTAMP_UNIT_NS


class Probes:
    """Probe ids, and what each probe was for: of the last 1024, by the low bits of their ids.

    Probes are counted: id and place follow from the number. Those from `_unsent` to `_next` wait to be sent.
    """

    __slots__ = (
        "_after",
        "_asked_at",
        "_counters",
        "_known",
        "_longest_interval",
        "_next",
        "_path_probing",
        "_paths",
        "_peer_qpn",
        "_qpn",
        "_tail_at",
        "_tail_interval",
        "_target",
        "_trace",
        "_traffic_class",
        "_unsent",
        "asked_at",
        "tail_armed",
        "waiting",
    )

    def __init__(self, qp: QpParts) -> None:
        self._qpn = qp.qpn
        self._trace = qp.trace
        self._peer_qpn = qp.peer.qpn
        self._longest_interval = qp.config.local_ack_timeout_ns
        self._paths = qp.paths
        self._counters = qp.counters
        self._traffic_class = qp.classes.probe
        self._path_probing = PathProbing(qp.paths, qp.config.paths, qp.trace)
        self._next = self._unsent = 0
        # By place: whether the probe there is remembered, what it is for (the EV index of a path probe or _TAIL), after
        # which transmissions and when a tail probe was asked for.
        self._known = memoryview(bytearray(_REMEMBERED))
        self._target, self._after, self._asked_at = column(_REMEMBERED), column(_REMEMBERED), column(_REMEMBERED)
        # When the tail probe that was answered last had been asked for, ns.
        self.asked_at = 0
        self.waiting = False
        self.tail_armed = False
        self._tail_at = FOREVER
        self._tail_interval = 0

    def arm_tail(self, now: int, timer_ns: int) -> None:
        """Data was sent: a probe follows if nothing else is for `timer_ns`, and then again at twice the distance
        while it is not answered, up to the local ACK timeout."""
        self._tail_interval = timer_ns
        self._tail_at = now + timer_ns
        self.tail_armed = True

    def take_up_bad_evs(self, now: int, path_timer_ns: int) -> None:
        self._path_probing.take_up(now, path_timer_ns)

    def next_deadline(self) -> int:
        """When a probe is due, ns, or FOREVER."""
        return min(self._path_probing.next_deadline(), self._tail_at)

    def tail_is_due(self, now: int) -> bool:
        return now >= self._tail_at

    def on_timer(self, now: int, sent: SentPackets, path_timer_ns: int, asks: bool, goes_on: bool) -> None:
        """Queue the probes that are due. `asks`: with nothing outstanding there is still something to learn. `goes_on`:
        data may leave now, so what was sent last is no tail, and the timer starts afresh."""
        if self.tail_is_due(now):
            self._tail_at = _FOREVER
            if goes_on:
                self._tail_at = now + self._tail_interval
            elif sent.outstanding or asks:
                longest = max(self._longest_interval, path_timer_ns)
                self._tail_interval = min(2 * self._tail_interval, longest)
                self._tail_at = now + self._tail_interval
                self._enqueue(_TAIL, sent.next_transmission, now)
                self._counters.tail_probes_sent += 1
            self.tail_armed = self._tail_at != _FOREVER
        failed = self._path_probing.failed
        self._path_probing.due(now, path_timer_ns)
        for place in range(self._path_probing.found_count):
            probe_id = self._enqueue(self._path_probing.found[place], 0, 0)
            self._path_probing.sent(self._path_probing.found[place], probe_id)
            self._counters.path_probes_sent += 1
        self._counters.path_probes_failed += self._path_probing.failed - failed

    def _enqueue(self, target: int, after: int, asked_at: int) -> int:
        """One more probe waits. Returns its id. What is not sent by the time it is forgotten never is."""
        place = self._next & _PLACES
        self._known[place] = 1
        self._target[place], self._after[place], self._asked_at[place] = target, after, asked_at
        self._next += 1
        if self._next - self._unsent > _REMEMBERED:
            self._unsent = self._next - _REMEMBERED
        self.waiting = True
        return self._next - 1 & _ID_MASK

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        """Append up to `limit` of the probes that wait. A probe uses up no PSN and sends 0."""
        count = 0
        self._skip_forbidden()
        while count < limit and self._unsent < self._next:
            self._append(batch, self._unsent & _ID_MASK, self._target[self._unsent & _PLACES], now)
            self._unsent += 1
            count += 1
            self._skip_forbidden()
        self.waiting = self._unsent < self._next
        return count

    def _skip_forbidden(self) -> None:
        """Leave out probes on EVs that were denied since they were due, and what was answered before it was sent."""
        while self._unsent < self._next:
            target = self._target[self._unsent & _PLACES]
            if self._known[self._unsent & _PLACES] and (target == _TAIL or not self._paths.is_denied(target)):
                return
            self._unsent += 1

    def _append(self, batch: TransmitBatch, probe_id: int, target: int, now: int) -> None:
        index = self._paths.control.take_one(now) if target == _TAIL else target
        at = batch.open_row(self._paths.frames, index, self._traffic_class, _HEADERS) * _ROOM
        octets.put16(batch.flat, at + _OPCODE_AT, _PROBE << 8)
        octets.put16(batch.flat, at + _PKEY_AT, _P_KEY)
        octets.put32(batch.flat, at + _DQP_AT, self._peer_qpn)
        octets.put32(batch.flat, at + _PSN_AT, 0)
        octets.put32(batch.flat, at + _PETH_AT, 0)
        octets.put16(batch.flat, at + _PROBE_ID_AT, probe_id)
        octets.put16(batch.flat, at + _RESERVED_AT, 0)
        octets.put16(batch.flat, at + _SPDCID_AT, self._qpn)
        octets.put16(batch.flat, at + _DPDCID_AT, self._peer_qpn)
        octets.put16(batch.flat, at + _STAMP_AT, now // _UNIT_NS)
        octets.put16(batch.flat, at + _STAMP_AT + 2, _FTYPE)
        if self._trace is not None:
            self._trace_sent(probe_id, index, target)

    def _trace_sent(self, probe_id: int, index: int, target: int) -> None:
        if self._trace is not None:
            self._trace.probe_sent(probe_id, index, tail=target == _TAIL)

    def on_answer(self, probe_id: int, m: int, now: int) -> int:
        """An answer came. Returns the transmission before which a tail probe was asked for, at `asked_at`; -1 for any
        other probe."""
        place = probe_id & _PLACES
        # Of the ids that fall on this place the last one counts.
        number = self._next - 1 - (self._next - 1 - place & _PLACES)
        if not self._known[place] or number & _ID_MASK != probe_id:
            self._counters.unknown_probe_answer += 1
            return _NONE
        self._known[place] = 0
        if self._trace is not None:
            self._trace_answered(probe_id, m, self._target[place])
        if self._target[place] == _TAIL:
            self.asked_at = self._asked_at[place]
            return self._after[place]
        self._path_probing.on_answer(self._target[place], probe_id, m, now)
        return _NONE

    def _trace_answered(self, probe_id: int, m: int, target: int) -> None:
        if self._trace is not None:
            self._trace.probe_answered(probe_id, m, tail=target == _TAIL)
