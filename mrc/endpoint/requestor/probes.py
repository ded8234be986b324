# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Reliability probes a requestor sends: one to find a lost tail, others to bring bad EVs back (wire.md section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.paths.probing import PathProbing
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.requestor.sent import SentPackets
from mrc.wire import octets
from mrc.wire.compiled import pointer, readonly, with_gil
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.rows import HEADER_ROOM, P_KEY, TIMESTAMP_FTYPE, TIMESTAMP_UNIT_NS, fields_at, header_at
from mrc.wire.transmit_batch import TransmitBatch

if TYPE_CHECKING:
    from mrc.endpoint.tracing import QpTrace

_TAIL = _NONE = -1
_LEAST_REMEMBERED, _REMEMBERED = 4, 1024
_ID_MASK = 0xFFFF
# What is known of a probe: whether it is remembered, what it is for (the EV index of a path probe or _TAIL), after
# which transmissions and when a tail probe was asked for.
_KNOWN, _TARGET, _AFTER, _ASKED_AT = range(4)
_COLUMNS = 4
_HEADERS = header_at("peth") + HEADER_LENGTHS["peth"]
# Where in a probe: the fields of mrc.wire.fields.PROBE; flags are in the word of the opcode.
_OPCODE_AT, _PKEY_AT, _DQP_AT, _PSN_AT = fields_at("bth", "opcode pkey reserved ackreq")
_PETH_AT, _PROBE_ID_AT, _RESERVED_AT = fields_at("peth", "type probe_id reserved3")
_SPDCID_AT, _DPDCID_AT, _STAMP_AT = fields_at("peth", "spdcid dpdcid tx_timestamp")
_PROBE = int(Op.PROBE)


class Probes:
    """Probe ids, and what each probe was for, by the low bits of their ids: of the last 1024, and less where fewer than
    that wait for their answers.

    Probes are counted: id and place follow from the number. Those from `_unsent` to `_next` wait to be sent.
    """

    def __init__(self, qp: QpParts, waits_at_most_ns: int) -> None:
        """`waits_at_most_ns`: how long the peer may be silent."""
        self._qpn = qp.qpn
        self._trace: readonly[QpTrace | None] = qp.trace
        self._peer_qpn = qp.peer.qpn
        self._longest_interval = qp.config.local_ack_timeout_ns
        self._longest_held = min(waits_at_most_ns // 4, qp.config.paths.probe_interval_max_ns)
        self._paths = qp.paths
        self._counters = qp.counters
        self._traffic_class = qp.classes.probe
        self._path_probing: readonly[PathProbing] = PathProbing(qp.paths, qp.config.paths, qp.trace)
        self._next = self._unsent = 0
        # A ring of those remembered; its last place.
        self._places = _LEAST_REMEMBERED - 1
        self._cells = octets.words(_LEAST_REMEMBERED * _COLUMNS)
        # When the tail probe that was answered last had been asked for, ns.
        self.asked_at = 0
        self.waiting = False
        self.tail_armed = self.tail_guessed = False
        self._tail_from = 0
        self._tail_at: int = FOREVER
        self._tail_interval = 0
        self._hastened = False

    def __dealloc__(self) -> None:
        octets.free_words(self._cells)

    def arm_tail(self, now: int, timer_ns: int, guessed: bool = False) -> None:
        """Data was sent: a probe follows if nothing else is for `timer_ns`, and then again at twice the distance
        while it is not answered, up to the local ACK timeout. `guessed`: there is no RTT sample yet."""
        self._tail_interval = timer_ns
        self._tail_from = now
        self._tail_at = now + timer_ns
        self.tail_armed = True
        self.tail_guessed = guessed
        self._hastened = False

    def hasten_tail(self, now: int, since_ns: int) -> None:
        """Ask now, not when the timer runs out. Once, until data is sent or the answer is here; and again as the timer
        does, but from `since_ns` on, how long ago the oldest packet that waits was sent: the probe may be trimmed. 0
        counts as 1 ns, as a round trip does."""
        if not self._hastened and self.tail_armed:
            self._hastened = True
            self._tail_interval = max(since_ns, 1)
            self._tail_from = self._tail_at = now

    def time_tail(self, timer_ns: int) -> None:
        """There is an RTT sample: no guess decides any longer when the tail is asked about."""
        self.tail_guessed = False
        if self.tail_armed:
            self._tail_interval = timer_ns
            self._tail_at = self._tail_from + timer_ns

    def take_up_bad_evs(self, now: int, path_timer_ns: int) -> None:
        self._path_probing.take_up(now, path_timer_ns)

    def next_deadline(self) -> int:
        """When a probe is due, ns, or FOREVER."""
        return min(self._path_probing.next_deadline, self._tail_at)

    def tail_is_due(self, now: int) -> bool:
        return now >= self._tail_at

    def on_timer(self, now: int, sent: SentPackets, path_timer_ns: int, held: bool, asks: bool, goes_on: bool) -> None:
        """Queue the probes that are due. `asks`: with nothing outstanding there is still something to learn. `held`:
        namely when the peer acknowledges what has arrived, which may take long. `goes_on`: data may leave now, so what
        was sent last is no tail, and the timer starts afresh."""
        if self.tail_is_due(now):
            self._tail_from = now
            self._tail_at = FOREVER
            if goes_on:
                self._tail_at = now + self._tail_interval
            elif sent.outstanding or asks:
                longest = max(self._longest_held if held else self._longest_interval, path_timer_ns)
                self._tail_interval = min(2 * self._tail_interval, longest)
                self._tail_at = now + self._tail_interval
                self._enqueue(_TAIL, sent.next_transmission, now)
                self._counters.tail_probes_sent += 1
            self.tail_armed = self._tail_at != FOREVER
        self.probe_paths(now, path_timer_ns)

    def probe_paths(self, now: int, path_timer_ns: int) -> None:
        """Queue the probes of bad EVs that are due."""
        failed = self._path_probing.failed
        self._path_probing.due(now, path_timer_ns)
        for place in range(self._path_probing.found_count):
            probe_id = self._enqueue(self._path_probing.found[place], 0, 0)
            self._path_probing.sent(self._path_probing.found[place], probe_id)
            self._counters.path_probes_sent += 1
        self._counters.path_probes_failed += self._path_probing.failed - failed

    def _enqueue(self, target: int, after: int, asked_at: int) -> int:
        """One more probe waits. Returns its id. What is not sent by the time it is forgotten never is."""
        if self._cells[self._at(self._next) + _KNOWN] and self._places < _REMEMBERED - 1:
            self._remember_more()
        at = self._at(self._next)
        self._cells[at + _KNOWN], self._cells[at + _TARGET] = 1, target
        self._cells[at + _AFTER], self._cells[at + _ASKED_AT] = after, asked_at
        self._next += 1
        if self._next - self._unsent > _REMEMBERED:
            self._unsent = self._next - _REMEMBERED
        self.waiting = True
        return self._next - 1 & _ID_MASK

    def _at(self, number: int) -> int:
        """Where what is known of a probe lies, by its number or its id."""
        return (number & self._places) * _COLUMNS

    def _remember_more(self) -> None:
        """Twice as many places."""
        old: pointer = self._cells
        room = self._places + 1
        cells: pointer = octets.words(2 * room * _COLUMNS)
        number = max(0, self._next - room)
        while number < self._next:
            source, at = (number & self._places) * _COLUMNS, (number & 2 * room - 1) * _COLUMNS
            for column in range(_COLUMNS):
                cells[at + column] = old[source + column]
            number += 1
        self._cells, self._places = cells, 2 * room - 1
        octets.free_words(old)

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        """Append up to `limit` of the probes that wait. A probe uses up no PSN and sends 0."""
        count = 0
        self._skip_forbidden()
        while count < limit and self._unsent < self._next:
            self._append(batch, self._unsent & _ID_MASK, self._cells[self._at(self._unsent) + _TARGET], now)
            self._unsent += 1
            count += 1
            self._skip_forbidden()
        self.waiting = self._unsent < self._next
        return count

    def _skip_forbidden(self) -> None:
        """Leave out probes on EVs that were denied since they were due, and what was answered before it was sent."""
        while self._unsent < self._next:
            target = self._cells[self._at(self._unsent) + _TARGET]
            known = self._cells[self._at(self._unsent) + _KNOWN] != 0
            if known and (target == _TAIL or not self._paths.is_denied(target)):
                return
            self._unsent += 1

    def _append(self, batch: TransmitBatch, probe_id: int, target: int, now: int) -> None:
        index = self._paths.control.take_one(now) if target == _TAIL else target
        at = batch.open_row(self._paths.frames, index, self._traffic_class, _HEADERS) * HEADER_ROOM
        octets.put16(batch.flat, at + _OPCODE_AT, _PROBE << 8)
        octets.put16(batch.flat, at + _PKEY_AT, P_KEY)
        octets.put32(batch.flat, at + _DQP_AT, self._peer_qpn)
        octets.put32(batch.flat, at + _PSN_AT, 0)
        octets.put32(batch.flat, at + _PETH_AT, 0)
        octets.put16(batch.flat, at + _PROBE_ID_AT, probe_id)
        octets.put16(batch.flat, at + _RESERVED_AT, 0)
        octets.put16(batch.flat, at + _SPDCID_AT, self._qpn)
        octets.put16(batch.flat, at + _DPDCID_AT, self._peer_qpn)
        octets.put16(batch.flat, at + _STAMP_AT, now // TIMESTAMP_UNIT_NS)
        octets.put16(batch.flat, at + _STAMP_AT + 2, TIMESTAMP_FTYPE)
        if self._trace is not None:
            self._trace_sent(probe_id, index, target)

    def _trace_sent(self, probe_id: int, index: int, target: int) -> with_gil[None]:
        if self._trace is not None:
            self._trace.probe_sent(probe_id, index, tail=target == _TAIL)

    def on_answer(self, probe_id: int, m: int, now: int) -> int:
        """An answer came. Returns the transmission before which a tail probe was asked for, at `asked_at`; -1 for any
        other probe."""
        at = self._at(probe_id)
        # Of the ids that fall on this place the last one counts.
        number = self._next - 1 - (self._next - 1 - probe_id & self._places)
        if not self._cells[at + _KNOWN] or number & _ID_MASK != probe_id:
            self._counters.unknown_probe_answer += 1
            return _NONE
        self._cells[at + _KNOWN] = 0
        if self._trace is not None:
            self._trace_answered(probe_id, m, self._cells[at + _TARGET])
        if self._cells[at + _TARGET] == _TAIL:
            self.asked_at = self._cells[at + _ASKED_AT]
            self._hastened = False
            return self._cells[at + _AFTER]
        self._path_probing.on_answer(self._cells[at + _TARGET], probe_id, m, now)
        return _NONE

    def _trace_answered(self, probe_id: int, m: int, target: int) -> with_gil[None]:
        if self._trace is not None:
            self._trace.probe_answered(probe_id, m, tail=target == _TAIL)
