# SPDX-License-Identifier: BSD-2-Clause
"""SACKs whose PSNs count from somewhere else."""

from __future__ import annotations

import numpy as np

from mrc.wire.fields import Fields
from mrc.wire.rows import PSN_BITS_MASK, SETH_PR
from mutants.mutant import mutant
from mutants.sacks import _Rewritten


class _Shifted(_Rewritten):
    """cack_psn is `ahead` PSNs too high, and all that counts from it as much too low."""

    def ahead(self) -> int:
        raise NotImplementedError

    def rewrite(self, fields: Fields) -> None:
        ahead = self.ahead()
        fields["cack_word"] = (fields["cack_word"] + np.uint32(ahead)) & PSN_BITS_MASK
        words = fields["psn_word"]
        fields["psn_word"] = words & ~np.uint32(PSN_BITS_MASK) | (words + np.uint32(ahead)) & PSN_BITS_MASK
        fields["sack_offset"] -= ahead
        fields["ack_psn_offset"] -= np.where(fields["seth_word"] & SETH_PR, 0, ahead).astype(np.int16)


@mutant("MRC-SACK-06")
class CackPsnIsEpsn(_Shifted):
    """cack_psn is the PSN that is expected next, and not the one before it."""

    def ahead(self) -> int:
        return 1


@mutant("MRC-SACK-06")
class CackPsnIsTheHighest(_Shifted):
    """cack_psn is the highest PSN received, whatever is missing below it."""

    def ahead(self) -> int:
        return self._received.highest - self._received.cack_psn


@mutant("MRC-SACK-02")
class OffsetsBelowZeroAreZero(_Rewritten):
    """ack_psn_offset has no sign: of a packet below cack_psn it is 0."""

    def rewrite(self, fields: Fields) -> None:
        below = (fields["ack_psn_offset"] < 0) & (fields["seth_word"] & SETH_PR == 0)
        fields["ack_psn_offset"][below] = 0


@mutant("MRC-SACK-02")
class ProbeIdsAreOffsets(_Rewritten):
    """A probe_id counts from cack_psn, as ack_psn_offset in its place does."""

    def rewrite(self, fields: Fields) -> None:
        probes = fields["seth_word"] & SETH_PR != 0
        told = fields["ack_psn_offset"].astype(np.int64) - self._received.cack_psn
        fields["ack_psn_offset"][probes] = told[probes].astype(np.int16)
