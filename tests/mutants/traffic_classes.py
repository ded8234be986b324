# SPDX-License-Identifier: BSD-2-Clause
"""Packets in another class than theirs."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrc.endpoint.traffic_class import ECT0
from mrc.wire.fields import COMMON
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.rows import RTX
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant
from mutants.packets import _Repacked

_ECN = np.uint8(3)


def _classes(batch: TransmitBatch, start: int) -> Any:
    return batch.traffic_class[start : batch.count]


@mutant("MRC-ECN-01")
class DataIsNotEcnCapable(_Repacked):
    """Requests are sent without ECT."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        opcodes = batch.fields(COMMON, start, batch.count)["opcode"]
        _classes(batch, start)[np.isin(opcodes, list(REQUEST_OPCODES))] &= ~_ECN


@mutant("MRC-ECN-05", "MRC-ECN-06", "MRC-ECN-07", "MRC-ECN-09", "MRC-ECN-10")
class EverythingIsBestEffort(_Repacked):
    """Every packet has DSCP 1."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        found = _classes(batch, start)
        found[:] = 1 << 2 | found & _ECN


@mutant("MRC-ECN-07")
class RetransmissionsAreLikeTheFirst(_Repacked):
    """Retransmissions have the codepoint of first transmissions."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        again = np.isin(fields["opcode"], list(REQUEST_OPCODES)) & (fields["psn_word"] & np.uint32(RTX) != 0)
        _classes(batch, start)[again] = self.config.wire.dscp_trimmable << 2 | ECT0


@mutant("MRC-ECN-09")
class ResponsesAreTrimmable(_Repacked):
    """Endpoint responses are in the class of data."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        opcodes = batch.fields(COMMON, start, batch.count)["opcode"]
        _classes(batch, start)[opcodes == Op.ENDPOINT_RESPONSE] = self.config.wire.dscp_trimmable << 2
