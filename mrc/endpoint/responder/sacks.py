# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Where SACKs are made: what triggers one, what it says, and which way it goes (behaviour.md, Responder)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.responder.answers import Answer, ControlPackets, PendingAnswers, dcids
from mrc.endpoint.responder.received import MAX_PENALTY, ReceiveBudget, ReceivedPsns, ReceiveWindow
from mrc.errors import CallerError
from mrc.wire import octets
from mrc.wire.compiled import public, python
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.psn import PSN_MASK
from mrc.wire.rows import RTX, SETH_M_SHIFT, SETH_PR, fields_at, lowest_bit, masks_in
from mrc.wire.transmit_batch import TransmitBatch

if TYPE_CHECKING:
    from mrc.endpoint.counters import Counters
    from mrc.endpoint.paths.path_set import PathSet

_MIN_COUNTED_BYTES = 1024  # a packet counts at least this much towards the byte trigger
_RESTORE_CWND, _PENALTY, _RCVD_MASK = masks_in("cc_state", "restore_cwnd rcv_cwnd_pen rcvd_bytes")
_PENALTY_SHIFT = lowest_bit(_PENALTY)
_BITMAP = 64  # PSNs
_RCVD_UNIT = 256  # bytes; a unit that has begun counts (MRC-SACK-14)
_MOST_COUNTED = 0x7FFF
_MOST_BELOW, _MOST_ABOVE = -0x8000, 0x7FFF  # of ack_psn_offset
_SACK, _BYTES = int(Op.SACK), HEADER_LENGTHS["seth"] + HEADER_LENGTHS["cc_state"]
_PSN_MASK, _RTX, _M_SHIFT, _PR = PSN_MASK, RTX, SETH_M_SHIFT, SETH_PR
# Where in a SACK: the fields of mrc.wire.fields.SACK; cc_type and mpr are one word.
_SETH_AT, _OFFSET_AT, _ENTROPY_AT = fields_at("seth", "type ack_psn_offset entropy")
_SPDCID_AT, _DPDCID_AT, _CACK_AT = fields_at("seth", "spdcid dpdcid reserved3")
_MPR_AT, _BASE_AT, _BITMAP_AT = fields_at("seth", "cc_type sack_offset bitmap")
_STAMP_AT, _OOO_AT, _RCVD_AT = fields_at("cc_state", "tx_timestamp reserved restore_cwnd")


class SackMaker:
    """Collects triggers and turns them into SACKs."""

    _spdcid: int
    _dpdcid: int
    _penalty: int
    _restore_word: int
    _threshold: int
    _bytes_since: int
    _answer: Answer
    _budget: ReceiveBudget
    _packets: ControlPackets
    _paths: PathSet
    _received: ReceivedPsns
    _window: ReceiveWindow
    _counters: Counters
    pending: PendingAnswers
    received_bytes: public[int]

    __slots__ = tuple(__annotations__)

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
        self._threshold = qp.config.sack_threshold_bytes + qp.config.sack_beyond_threshold
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
        self.received_bytes = 0

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
        word = cack & _PSN_MASK
        at = self._packets.open(batch, index, _SACK, word | _RTX if self._answer.rtx else word, _BYTES)
        marks = (1 << _M_SHIFT if self._answer.marked else 0) | (_PR if probe_id >= 0 else 0)
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
