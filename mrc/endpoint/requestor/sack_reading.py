# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""A SACK as a requestor reads it."""

from __future__ import annotations

from mrc.endpoint.congestion.base import PENALTY_UNKNOWN
from mrc.endpoint.counters import Counters
from mrc.endpoint.requestor.sent import PsnState, SentPackets
from mrc.wire import octets
from mrc.wire.compiled import public, unsigned
from mrc.wire.psn import PSN_MASK, unwrap
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import PSN_FLAGS_AT, RTX, SETH_M_SHIFT, SETH_PR, fields_at

_ACKED = int(PsnState.ACKED)
_PSN_MASK = PSN_MASK
# Where in a packet (mrc.wire.fields.SACK); flags of the BTH's last word in their byte, signed numbers of 16 bits.
_FLAGS_AT, _RTX, _SIGN = PSN_FLAGS_AT, RTX >> 24, 1 << 15
_SETH_AT, _OFFSET_AT, _ENTROPY_AT, _CACK_AT = fields_at("seth", "type ack_psn_offset entropy reserved3")
_CC_TYPE_AT, _MPR_AT, _SACK_OFFSET_AT, _BITMAP_AT = fields_at("seth", "cc_type mpr sack_offset bitmap")
_TIMESTAMP_AT, _CC_AT = fields_at("cc_state", "tx_timestamp restore_cwnd")
_M_SHIFT, _PR, _CC_TYPE_SHIFT = SETH_M_SHIFT, SETH_PR, 4
_PENALTY_UNKNOWN, _PENALTY_MASK, _RESTORE_SHIFT = PENALTY_UNKNOWN, 0x7F, 7
_WORD = 64
# A cack_psn so far behind what is acknowledged comes from no path, however slow: as far as ack_psn_offset reaches. Half
# of all PSNs are old, and a forger who guesses one must not decide which paths are bad.
OLDEST_PSNS = 1 << 16
_OLDEST_PSNS = OLDEST_PSNS
_NONE = -1


class Sack:
    """One SACK that is about what was really sent; PSNs are unbounded.

    `trigger` is the PSN of the packet that triggered it (cack_psn where `probe_id`, else -1, is set); bit i of `bitmap`
    is PSN `base` + i. `news`: the triggering packet was not known to have arrived. Where its cc_type is not 0 the bytes
    of CC_STATE mean nothing here: `tx_timestamp` is 0, `penalty` PENALTY_UNKNOWN (MRC-SACK-28).
    """

    cack: public[int]
    base: public[int]
    trigger: public[int]
    mark: public[int]
    probe_id: public[int]
    entropy: public[int]
    tx_timestamp: public[int]
    mpr: public[int]
    penalty: public[int]
    bitmap: public[unsigned]
    rtx: public[bool]
    news: public[bool]
    restore: public[bool]

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        """Nothing read yet."""
        self.cack = self.base = self.bitmap = self.trigger = self.mark = self.entropy = 0
        self.tx_timestamp = self.mpr = self.penalty = 0
        self.probe_id = _NONE
        self.rtx = self.news = self.restore = False

    def read(self, batch: ReceivedBatch, row: int, sent: SentPackets, counters: Counters) -> bool:
        """Become the SACK in this row. False for one about what was never sent, or acknowledged long ago: it is counted
        and to be dropped."""
        at = batch.row(row)
        self.cack = unwrap(octets.u32(batch.flat, at + _CACK_AT) & _PSN_MASK, sent.una - 1)
        self.base = self.cack + _signed(octets.u16(batch.flat, at + _SACK_OFFSET_AT))
        self.bitmap = octets.u64(batch.flat, at + _BITMAP_AT)
        seth = octets.u16(batch.flat, at + _SETH_AT)
        offset = octets.u16(batch.flat, at + _OFFSET_AT)
        probe = seth & _PR
        self.trigger = self.cack if probe else self.cack + _signed(offset)
        if self.cack >= sent.next_psn or self.trigger >= sent.next_psn or self._beyond(sent.next_psn):
            counters.ack_for_unsent_psn += 1
            return False
        if self.cack < sent.una - _OLDEST_PSNS:
            counters.ack_too_old += 1
            return False
        self.mark = seth >> _M_SHIFT & 3
        self.probe_id = offset if probe else _NONE
        self.rtx = (batch.flat[at + _FLAGS_AT] & _RTX) != 0
        self.news = not probe and self.trigger >= sent.una and sent.state[self.trigger & sent.mask] != _ACKED
        self.entropy = octets.u32(batch.flat, at + _ENTROPY_AT)
        self.mpr = batch.flat[at + _MPR_AT]
        if batch.flat[at + _CC_TYPE_AT] >> _CC_TYPE_SHIFT:
            self.tx_timestamp, self.penalty, self.restore = 0, _PENALTY_UNKNOWN, False
        else:
            self.tx_timestamp = octets.u16(batch.flat, at + _TIMESTAMP_AT)
            self.penalty = batch.flat[at + _CC_AT] & _PENALTY_MASK
            self.restore = batch.flat[at + _CC_AT] >> _RESTORE_SHIFT != 0
        return True

    def _beyond(self, next_psn: int) -> bool:
        """Whether it reports PSNs from `next_psn` on, or where its bitmap is empty begins beyond it."""
        room = next_psn - self.base
        return room < 0 or (room < _WORD and self.bitmap >> room != 0)


def _signed(value: int) -> int:
    """16 bits as a signed number."""
    return (value ^ _SIGN) - _SIGN
