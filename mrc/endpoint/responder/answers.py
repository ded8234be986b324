# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Where SACKs and NACKs are made: how they wait, what they say, which way they go (wire.md sections 6 and 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.responder.received import MAX_PENALTY, ReceiveBudget, ReceivedPsns, ReceiveWindow
from mrc.endpoint.responder.request_checks import Answer
from mrc.errors import CallerError
from mrc.wire import octets
from mrc.wire.compiled import pointer, public, python, unsigned, with_gil
from mrc.wire.names import NackReason
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.rows import (
    EXTENSION_AT,
    HEADER_ROOM,
    P_KEY,
    PSN_BITS_MASK,
    RTX,
    SETH_M_SHIFT,
    SETH_PR,
    fields_at,
    lowest_bit,
    masks_in,
    shifts_in,
)
from mrc.wire.transmit_batch import TransmitBatch

if TYPE_CHECKING:
    pass

# Where in a packet: opcode, flags, pkey and dqp, in eight bytes; psn_word.
_BTH_AT, _PSN_AT = fields_at("bth", "opcode ackreq")
_OPCODE_SHIFT, _P_KEY_SHIFT, _DQP_SHIFT = shifts_in("bth", "opcode pkey dqp")
_LEAST_PENDING, _MAX_PENDING = 8, 1024
_COLUMNS = 10
_MIN_COUNTED_BYTES = 1024  # a packet counts at least this much towards the byte trigger
_RESTORE_CWND, _PENALTY, _RCVD_MASK = masks_in("cc_state", "restore_cwnd rcv_cwnd_pen rcvd_bytes")
_PENALTY_SHIFT = lowest_bit(_PENALTY)
_BITMAP = 64  # PSNs
_RCVD_UNIT = 256  # bytes; a unit that has begun counts (MRC-SACK-14)
_MOST_COUNTED = 0x7FFF
_MOST_BELOW, _MOST_ABOVE = -0x8000, 0x7FFF  # of ack_psn_offset
_SACK, _SACK_BYTES = int(Op.SACK), HEADER_LENGTHS["seth"] + HEADER_LENGTHS["cc_state"]
# Where in a SACK: the fields of mrc.wire.fields.SACK; cc_type and mpr are one word.
_SETH_AT, _OFFSET_AT, _ENTROPY_AT = fields_at("seth", "type ack_psn_offset entropy")
_SPDCID_AT, _DPDCID_AT, _CACK_AT = fields_at("seth", "spdcid dpdcid reserved3")
_MPR_AT, _BASE_AT, _BITMAP_AT = fields_at("seth", "cc_type sack_offset bitmap")
_STAMP_AT, _OOO_AT, _RCVD_AT = fields_at("cc_state", "tx_timestamp reserved restore_cwnd")
_NACK, _NACK_BYTES = int(Op.NACK), HEADER_LENGTHS["neth"]
# Where in a NACK: the fields of mrc.wire.fields.NACK; reason and vendor_info are one word, and so are the two bytes
# from cc_type on.
_NETH_AT, _REASON_AT, _NACK_ENTROPY_AT = fields_at("neth", "type reason entropy")
_NACK_SPDCID_AT, _NACK_DPDCID_AT, _NACK_WORD_AT = fields_at("neth", "spdcid dpdcid reserved2")
_CC_TYPE_AT, _NACK_STAMP_AT = fields_at("neth", "cc_type tx_timestamp")
_CC_TYPE_SHIFT, _NO_PORT = 4, -1


def dcids(qp: QpParts) -> python[tuple[int, int]]:
    """spdcid and dpdcid of a QP's SACKs and NACKs, as QPNs whose low 16 bits they are (wire.md section 6)."""
    own = qp.qpn, qp.peer.qpn
    return own[::-1] if qp.wire.dcids_of_data else own


class PendingAnswers:
    """Answers that wait to be sent, `count` of them, bounded: under a flood the oldest give way."""

    def __init__(self) -> None:
        self.count = self._first = 0
        self._room = _LEAST_PENDING
        self._cells = octets.words(_COLUMNS * self._room)

    def __dealloc__(self) -> None:
        octets.free_words(self._cells)

    def _grow(self) -> None:
        old: pointer = self._cells
        cells: pointer = octets.words(2 * _COLUMNS * self._room)
        for number in range(self.count):
            for column in range(_COLUMNS):
                cells[number * _COLUMNS + column] = old[self._place(number) + column]
        self._cells, self._room, self._first = cells, 2 * self._room, 0
        octets.free_words(old)

    def _place(self, number: int) -> int:
        """Where in the ring the answer lies that so many others come before."""
        return (self._first + number & self._room - 1) * _COLUMNS

    def add(self, answer: Answer) -> None:
        """Let a copy of this one wait."""
        if self.count == _MAX_PENDING:
            self._first = self._first + 1 & self._room - 1
            self.count -= 1
        elif self.count == self._room:
            self._grow()
        at = self._place(self.count)
        self.count += 1
        self._cells[at] = answer.psn
        self._cells[at + 1] = answer.highest
        self._cells[at + 2] = answer.marked
        self._cells[at + 3] = answer.probe_id
        self._cells[at + 4] = answer.reason
        self._cells[at + 5] = answer.arrived_at
        self._cells[at + 6] = answer.entropy
        self._cells[at + 7] = answer.tx_timestamp
        self._cells[at + 8] = answer.unit_ns
        self._cells[at + 9] = answer.rtx

    def pop(self, answer: Answer) -> None:
        """Take the oldest of them, which there is, into `answer`."""
        at = self._place(0)
        self._first = self._first + 1 & self._room - 1
        self.count -= 1
        answer.psn = self._cells[at]
        answer.highest = self._cells[at + 1]
        answer.marked = self._cells[at + 2] != 0
        answer.probe_id = self._cells[at + 3]
        answer.reason = self._cells[at + 4]
        answer.arrived_at = self._cells[at + 5]
        answer.entropy = self._cells[at + 6]
        answer.tx_timestamp = self._cells[at + 7]
        answer.unit_ns = self._cells[at + 8]
        answer.rtx = self._cells[at + 9] != 0

    def clear(self) -> None:
        self.count = 0


class ControlPackets:
    """Begins the packets that answer those of one peer: `paths` are the ways they go, `traffic_class` their class."""

    def __init__(self, paths: PathSet, peer_qpn: int, traffic_class: int) -> None:
        self._paths = paths
        self._bth: unsigned = P_KEY << _P_KEY_SHIFT | peer_qpn << _DQP_SHIFT
        self._traffic_class = traffic_class

    def open(self, batch: TransmitBatch, index: int, opcode: int, psn_word: unsigned, length: int) -> int:
        """Append a packet on this EV with `length` bytes of headers behind the BTH, which are all it has. Returns where
        in `batch.flat` it begins."""
        row = batch.open_row(self._paths.frames, index, self._traffic_class, EXTENSION_AT + length)
        at = row * HEADER_ROOM
        begins: unsigned = opcode
        octets.put64(batch.flat, at + _BTH_AT, begins << _OPCODE_SHIFT | self._bth)
        octets.put32(batch.flat, at + _PSN_AT, psn_word)
        return at


class SackMaker:
    """Collects triggers and turns them into SACKs."""

    _spdcid: int
    _dpdcid: int

    def __init__(
        self,
        qp: QpParts,
        *,
        received: ReceivedPsns,
        window: ReceiveWindow,
        budget: ReceiveBudget,
        packets: ControlPackets,
    ) -> None:
        self._spdcid, self._dpdcid = dcids(qp)
        # Bytes that trigger a SACK: the first number that does.
        self._threshold: int = qp.config.sack_threshold_bytes + qp.config.sack_beyond_threshold
        self._received = received
        self._window = window
        self._budget = budget
        self._paths = qp.paths
        self._counters = qp.counters
        self._packets = packets
        self._bytes_since = 0
        self._penalty = self._restore_word = 0
        self.pending = PendingAnswers()
        # The one that is being sent.
        self._answer = Answer()
        # Running total of new untrimmed packets, UDP length + 40 each.
        self.received_bytes: public[int] = 0

    def set_penalty(self, penalty: int, restore: bool) -> python[None]:
        """What every SACK says from now on as rcv_cwnd_pen, at least, and restore_cwnd. Raises CallerError beyond
        0..127."""
        if not 0 <= penalty <= MAX_PENALTY:
            raise CallerError(f"a receiver penalty is 0..{MAX_PENALTY}, got {penalty}")
        self._penalty, self._restore_word = penalty, _RESTORE_CWND if restore else 0

    def _penalty_word(self) -> int:
        """restore_cwnd and rcv_cwnd_pen: the owner's, or the node's where that is more."""
        penalty = self._penalty if self._penalty > self._budget.penalty else self._budget.penalty
        return self._restore_word | penalty << _PENALTY_SHIFT

    def count(self, size: int, forced: bool) -> bool:
        """Count a packet of this nominal size. Returns whether it triggers a SACK; `forced`: it does so regardless."""
        self._bytes_since += size if size > _MIN_COUNTED_BYTES else _MIN_COUNTED_BYTES
        if not forced and self._bytes_since < self._threshold:
            return False
        self._bytes_since = 0
        return True

    def on_probe(self, probe: Answer) -> None:
        """A probe is answered with a SACK, and bytes count from the last one anew."""
        self.pending.add(probe)
        self._bytes_since = 0

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        """Append up to `limit` SACKs, all reporting the current state. Returns how many."""
        count = limit if limit < self.pending.count else self.pending.count
        if count <= 0:
            return 0
        mpr = self._window.grant(self._received.epsn, self._budget.units)
        ooo_count = self._received.held if self._received.held < _MOST_COUNTED else _MOST_COUNTED
        rcvd = (self.received_bytes + _RCVD_UNIT - 1) // _RCVD_UNIT & _RCVD_MASK
        rcvd_word = self._penalty_word() | rcvd
        for _ in range(count):
            self.pending.pop(self._answer)
            self._append(batch, mpr, ooo_count, rcvd_word, now)
        self._counters.sacks_sent += count
        return count

    def _append(self, batch: TransmitBatch, mpr: int, ooo_count: int, rcvd_word: int, now: int) -> None:
        """Append the SACK for the answer that was taken."""
        cack = self._received.epsn - 1
        probe_id = self._answer.probe_id
        base = cack + 1
        if not self._answer.rtx and probe_id < 0 and self._answer.highest - base >= _BITMAP:
            # Not so for an rtx packet or a probe: old holes must not stay unseen.
            base = self._answer.highest - (_BITMAP - 1)
        offset = self._answer.psn - cack
        if not _MOST_BELOW <= offset <= _MOST_ABOVE:
            offset = 0
        # Successive SACKs alternate planes, so that one broken reverse path cannot condemn forward ones.
        index = self._paths.control.take_one(now)
        word = cack & PSN_BITS_MASK
        at = self._packets.open(batch, index, _SACK, word | RTX if self._answer.rtx else word, _SACK_BYTES)
        marks = (1 << SETH_M_SHIFT if self._answer.marked else 0) | (SETH_PR if probe_id >= 0 else 0)
        octets.put16(batch.flat, at + _SETH_AT, marks)
        octets.put16(batch.flat, at + _OFFSET_AT, offset if probe_id < 0 else probe_id)
        octets.put32(batch.flat, at + _ENTROPY_AT, self._answer.entropy)
        octets.put16(batch.flat, at + _SPDCID_AT, self._spdcid)
        octets.put16(batch.flat, at + _DPDCID_AT, self._dpdcid)
        octets.put32(batch.flat, at + _CACK_AT, word)
        octets.put16(batch.flat, at + _MPR_AT, mpr)
        octets.put16(batch.flat, at + _BASE_AT, base - cack)
        octets.put64(batch.flat, at + _BITMAP_AT, self._received.bitmap(base))
        octets.put16(batch.flat, at + _STAMP_AT, self._answer.timestamp(now))
        octets.put16(batch.flat, at + _OOO_AT, ooo_count)
        octets.put32(batch.flat, at + _RCVD_AT, rcvd_word)


class NackMaker:
    """Turns refusals into NACKs."""

    _spdcid: int
    _dpdcid: int

    def __init__(self, qp: QpParts, packets: ControlPackets) -> None:
        self._trace = qp.trace
        self._spdcid, self._dpdcid = dcids(qp)
        self._cc_type = qp.wire.neth_cc_type << _CC_TYPE_SHIFT
        self._paths = qp.paths
        self._counters = qp.counters
        self._packets = packets
        self._planes: int = len(set(memoryview(qp.paths.table.port)))
        self._last_port = _NO_PORT
        self.pending = PendingAnswers()
        # The one that is being sent.
        self._answer = Answer()

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> None:
        """Append up to `limit` NACKs.

        Successive NACKs alternate planes, and whole turns are drawn so that SACKs still do with NACKs in between.
        """
        count = limit if limit < self.pending.count else self.pending.count
        if count <= 0:
            return
        drawn = count
        index = self._paths.control.take_one(now)
        if self._paths.frames.ports[index] == self._last_port:
            index = self._paths.control.take_one(now)
            drawn += 1
        for number in range(count):
            if number:
                index = self._paths.control.take_one(now)
            self.pending.pop(self._answer)
            self._append(batch, index, now)
        self._last_port = self._paths.frames.ports[index]
        while drawn % self._planes:
            self._paths.control.take_one(now)
            drawn += 1
        self._counters.nacks_sent += count

    def _append(self, batch: TransmitBatch, index: int, now: int) -> None:
        """Append the NACK for the answer that was taken."""
        psn = self._answer.psn & PSN_BITS_MASK
        at = self._packets.open(batch, index, _NACK, psn | RTX if self._answer.rtx else psn, _NACK_BYTES)
        octets.put16(batch.flat, at + _NETH_AT, 0)
        octets.put16(batch.flat, at + _REASON_AT, self._answer.reason << 8)
        octets.put32(batch.flat, at + _NACK_ENTROPY_AT, self._answer.entropy)
        octets.put16(batch.flat, at + _NACK_SPDCID_AT, self._spdcid)
        octets.put16(batch.flat, at + _NACK_DPDCID_AT, self._dpdcid)
        octets.put32(batch.flat, at + _NACK_WORD_AT, psn)
        octets.put16(batch.flat, at + _CC_TYPE_AT, self._cc_type << 8)
        octets.put16(batch.flat, at + _NACK_STAMP_AT, self._answer.timestamp(now))
        if self._trace is not None:
            self._trace_sent()

    def _trace_sent(self) -> with_gil[None]:
        answer: Answer = self._answer
        if self._trace is not None:
            psn = answer.psn & PSN_BITS_MASK
            self._trace.nack_sent(psn, NackReason(answer.reason).name, answer.entropy, answer.rtx)
