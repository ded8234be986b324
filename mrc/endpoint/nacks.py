"""Where NACKs are made (wire.md section 7)."""

from __future__ import annotations

import struct

from mrc.endpoint.answers import PendingAnswers, append_control
from mrc.endpoint.counters import Counters
from mrc.endpoint.nacked import NackReason
from mrc.endpoint.paths import PathSet
from mrc.endpoint.tracing import QpTrace
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.wire.opcodes import Op
from mrc.wire.profile import WireProfile
from mrc.wire.rows import P_KEY, PSN_BITS_MASK, RTX
from mrc.wire.transmit_batch import TransmitBatch

# BTH and NETH as the fields of mrc.wire.rows.NACK lie.
_PACKED = struct.Struct(">BBHII HBBIHHIBBH")


class NackMaker:
    """Turns refusals into NACKs."""

    __slots__ = (
        "_cc_type",
        "_classes",
        "_counters",
        "_last_port",
        "_paths",
        "_peer_qpn",
        "_planes",
        "_qpn",
        "_trace",
        "pending",
    )

    def __init__(
        self,
        *,
        qpn: int,
        peer_qpn: int,
        wire: WireProfile,
        paths: PathSet,
        counters: Counters,
        classes: TrafficClasses,
        trace: QpTrace | None = None,
    ) -> None:
        self._qpn = qpn
        self._trace = trace
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
        answers = self.pending.take(limit)
        if not answers:
            return 0
        count = len(answers)
        indexes = self._alternating_paths(count, now)
        for answer, index in zip(answers, indexes, strict=True):
            psn = answer.psn & PSN_BITS_MASK
            headers = _PACKED.pack(
                Op.NACK,
                0,
                P_KEY,
                self._peer_qpn,
                psn | (RTX if answer.rtx else 0),
                0,
                answer.reason,
                0,
                answer.entropy,
                self._qpn & 0xFFFF,
                self._peer_qpn & 0xFFFF,
                psn,
                self._cc_type,
                0,
                answer.timestamp(now),
            )
            append_control(batch, self._paths, index, self._classes.control, headers)
            if self._trace is not None:
                self._trace.nack_sent(psn, NackReason(answer.reason).name, answer.entropy, answer.rtx)
        self._counters.nacks_sent += count
        return count

    def _alternating_paths(self, count: int, now: int) -> list[int]:
        """Successive NACKs alternate planes, and whole turns are drawn so that SACKs still do with NACKs in between."""
        turns = -(-(count + 1) // self._planes)
        drawn = [self._paths.control.take_one(now) for _ in range(turns * self._planes)]
        first = int(self._paths.port[drawn[0]] == self._last_port)
        chosen = drawn[first : first + count]
        self._last_port = int(self._paths.port[chosen[-1]])
        return chosen
