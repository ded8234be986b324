"""Where NACKs are made (wire.md section 7)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.endpoint.answers import CAUSE, Causes, PendingAnswers, extend_control, reflected_timestamps
from mrc.endpoint.counters import Counters
from mrc.endpoint.paths import PathSet
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.wire.batch import NACK, PSN_BITS_MASK, RTX, TransmitBatch
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.profile import WireProfile

I64 = npt.NDArray[np.int64]

REFUSAL = np.dtype([*CAUSE, ("reason", "u1")])


class NackMaker:
    """Turns refusals (arrays of REFUSAL) into NACKs."""

    __slots__ = ("_cc_type", "_classes", "_counters", "_last_port", "_paths", "_peer_qpn", "_planes", "_qpn", "pending")

    def __init__(
        self,
        *,
        qpn: int,
        peer_qpn: int,
        wire: WireProfile,
        paths: PathSet,
        counters: Counters,
        classes: TrafficClasses,
    ) -> None:
        self._qpn = qpn
        self._peer_qpn = peer_qpn
        self._cc_type = wire.neth_cc_type << 4
        self._paths = paths
        self._counters = counters
        self._classes = classes
        self._planes = len(set(paths.port.tolist()))
        self._last_port = -1
        self.pending = PendingAnswers()

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        """Append up to `limit` NACKs. Returns how many."""
        sent = 0
        while self.pending.count and sent < limit:
            sent += self._transmit(batch, self.pending.take(limit - sent), now)
        return sent

    def _transmit(self, batch: TransmitBatch, refusals: Causes, now: int) -> int:
        count = len(refusals)
        indexes = self._alternating_paths(count, now)
        start, stop = extend_control(batch, self._paths, indexes, self._classes.control, HEADER_LENGTHS["neth"])
        psns = refusals["psn"] & PSN_BITS_MASK
        fields = batch.fields(NACK, start, stop)
        fields["opcode"] = Op.NACK
        fields["dqp_word"] = self._peer_qpn
        fields["psn_word"] = psns + refusals["rtx"] * np.int64(RTX)
        fields["reason"] = refusals["reason"]
        fields["entropy"] = refusals["entropy"]
        fields["spdcid"] = self._qpn & 0xFFFF
        fields["dpdcid"] = self._peer_qpn & 0xFFFF
        fields["nack_word"] = psns
        fields["cc_type"] = self._cc_type
        fields["tx_timestamp"] = reflected_timestamps(refusals, now)
        self._counters.nacks_sent += count
        return count

    def _alternating_paths(self, count: int, now: int) -> I64:
        """Successive NACKs alternate planes, and whole turns are drawn so that SACKs still do with NACKs in between."""
        turns = -(-(count + 1) // self._planes)
        drawn = self._paths.control_paths(turns * self._planes, now)
        first = int(self._paths.port[drawn[0]] == self._last_port)
        chosen = drawn[first : first + count]
        self._last_port = int(self._paths.port[chosen[-1]])
        return chosen
