# SPDX-License-Identifier: BSD-2-Clause
"""Requestors whose probes are wrong, or that learn nothing from their answers."""

from __future__ import annotations

from mrc.endpoint.requestor.feedback import Feedback
from mrc.wire.fields import COMMON
from mrc.wire.opcodes import Op
from mrc.wire.rows import BTH_AT, EXTENSION_AT
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant
from mutants.packets import _Repacked


@mutant("MRC-PROBE-01")
class ProbeIdTwoBytesLate(_Repacked):
    """The probe_id stands in the reserved bytes behind its own."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        for row in range(start, batch.count):
            if batch.headers[row, BTH_AT] == Op.PROBE:
                batch.headers[row, EXTENSION_AT + 6 : EXTENSION_AT + 8] = batch.headers[
                    row, EXTENSION_AT + 4 : EXTENSION_AT + 6
                ]
                batch.headers[row, EXTENSION_AT + 4 : EXTENSION_AT + 6] = 0xFF


@mutant("MRC-PROBE-02")
class ProbesWithoutFtype(_Repacked):
    """ftype is 0 in a probe that has a timestamp."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        opcodes = batch.fields(COMMON, start, batch.count)["opcode"]
        for row in range(start, batch.count):
            if opcodes[row - start] == Op.PROBE:
                batch.headers[row, EXTENSION_AT + 15] &= 0xF0


@mutant("MRC-PROBE-05", "MRC-PROBE-06")
class ProbeAnswersFindNoLoss(Feedback):
    """The answer to a probe acknowledges what it reports, but what it does not report is not taken for lost."""

    def _probe_answered(self, probe_id: int, m: int, now: int) -> None:
        self._probes.on_answer(probe_id, m, now)
