"""SACKs as a requestor reads them: a handful a batch, so one after the other in plain numbers.

Arrays would cost more than they save: a batch of 128 data packets is answered by a few SACKs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mrc.endpoint.congestion import PENALTY_UNKNOWN
from mrc.endpoint.counters import Counters
from mrc.endpoint.sent import PsnState, SentPackets
from mrc.wire.psn import unwrap
from mrc.wire.rows import PSN_BITS_MASK, RTX, SACK, SETH_M_SHIFT, SETH_PR, U8

_ACKED = int(PsnState.ACKED)
_BEGIN = SACK.fields["psn_word"][1] if SACK.fields else 0
# psn_word, SETH, CC_STATE; what a requestor does not look at is left out.
_LAYOUT = struct.Struct(">IHhI4xIBBhQH2xI")
# The part of a row that is looked at.
SACK_BYTES = slice(_BEGIN, _BEGIN + _LAYOUT.size)
# A cack_psn so far behind what is acknowledged comes from no path, however slow: as far as ack_psn_offset reaches. Half
# of all PSNs are old, and whoever guesses one must not get to say which paths are bad.
OLDEST_PSNS = 1 << 16
_PENALTY_SHIFT, _PENALTY_MASK, _RESTORE = 24, 0x7F, 1 << 31
_CC_TYPE_SHIFT = 4


@dataclass(slots=True)
class Sack:
    """One SACK that is about what was really sent; PSNs are unbounded.

    `trigger` is the PSN of the packet that triggered it (cack_psn where `probe_id`, else -1, is set); bit i of `bitmap`
    is PSN `base` + i. `news`: the triggering packet was not known to have arrived. Where its cc_type is not 0 the bytes
    of CC_STATE mean nothing here: `tx_timestamp` is 0, `penalty` PENALTY_UNKNOWN (MRC-SACK-28).
    """

    cack: int
    base: int
    bitmap: int
    trigger: int
    mark: int
    probe_id: int
    rtx: bool
    news: bool
    entropy: int
    tx_timestamp: int
    mpr: int
    penalty: int
    restore: bool


def read_sacks(rows: U8, sent: SentPackets, counters: Counters) -> list[Sack]:
    """SACKs in order of arrival, each a row of SACK_BYTES. Those about what was never sent, or
    acknowledged long ago, are dropped and counted."""
    una, next_psn, state, mask = sent.una, sent.next_psn, sent.state, sent.mask
    near = una - 1
    sacks = []
    for (
        psn_word,
        seth,
        offset,
        entropy,
        cack_word,
        kind,
        mpr,
        sack_offset,
        bitmap,
        stamp,
        cc_word,
    ) in _LAYOUT.iter_unpack(rows.tobytes()):
        cack = unwrap(cack_word & PSN_BITS_MASK, near)
        base = cack + sack_offset
        probe = seth & SETH_PR
        trigger = cack if probe else cack + offset
        if cack >= next_psn or trigger >= next_psn or base + bitmap.bit_length() > next_psn:
            counters.ack_for_unsent_psn += 1
            continue
        if cack < una - OLDEST_PSNS:
            counters.ack_too_old += 1
            continue
        has_cc_state = not kind >> _CC_TYPE_SHIFT
        news = not probe and trigger >= una and state[trigger & mask] != _ACKED
        sacks.append(
            Sack(
                cack,
                base,
                bitmap,
                trigger,
                seth >> SETH_M_SHIFT & 3,
                offset & 0xFFFF if probe else -1,
                bool(psn_word & RTX),
                bool(news),
                entropy,
                stamp if has_cc_state else 0,
                mpr,
                cc_word >> _PENALTY_SHIFT & _PENALTY_MASK if has_cc_state else PENALTY_UNKNOWN,
                has_cc_state and bool(cc_word & _RESTORE),
            )
        )
    return sacks
