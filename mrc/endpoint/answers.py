"""What SACKs and NACKs have in common: what caused them, the timestamp they reflect, how they wait and are framed.

Answers are few beside the packets they answer, so they are made one by one in plain numbers.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mrc.endpoint.paths import PathSet
from mrc.wire.entropy import fields_to_ev
from mrc.wire.profile import WireProfile
from mrc.wire.rows import BTH_AT, RTX, TIMESTAMP_FTYPE, TS, U8
from mrc.wire.transmit_batch import TransmitBatch

I64 = npt.NDArray[np.int64]

# Which bytes of a row an answer reflects: ip_word, UDP source port, psn_word, then the timestamp and the word beside it
# as fields of mrc.wire.rows.REQUEST_TS and PROBE.
_REQUEST = struct.Struct(">I36xH14xI4xHH")
_PROBE = struct.Struct(">I36xH14xI12xHH")
REQUEST_BYTES, PROBE_BYTES = _REQUEST.size, _PROBE.size
_TSR_SHIFT = 15
_MAX_PENDING = 1024


@dataclass(slots=True)
class Reflected:
    """Of the packet that causes an answer: its EV, timestamp and rtx bit go back in it. `unit_ns` is the unit of the
    timestamp, 0 where the time a packet is held is not added to it."""

    arrived_at: int
    entropy: int
    tx_timestamp: int
    unit_ns: int
    rtx: bool

    def timestamp(self, now: int) -> int:
        """tx_timestamp plus the time held, each in the packet's own unit; 0 when there was no timestamp."""
        if not self.unit_ns:
            return self.tx_timestamp
        return self.tx_timestamp + (now - self.arrived_at) // self.unit_ns & 0xFFFF


class Reflector:
    """Reads what answers reflect. `units_ns` are the units of a timestamp by its tsr, 0 where they are of no use."""

    __slots__ = ("_units_ns", "_wire")

    def __init__(self, wire: WireProfile, units_ns: tuple[int, int]) -> None:
        self._wire = wire
        self._units_ns = units_ns

    def of_requests(self, rows: U8, now: int, whole: list[bool] | None = None) -> list[Reflected]:
        """`rows` are the first REQUEST_BYTES of requests; `whole` tells where the TSETH, if any, was not cut off."""
        found = []
        for row, (ip, port, psn_word, stamp, word) in enumerate(_REQUEST.iter_unpack(rows.tobytes())):
            stamped = psn_word & TS and (whole is None or whole[row])
            found.append(self._reflected(ip, port, psn_word, stamp, word if stamped else None, now))
        return found

    def of_request(self, head: memoryview, now: int) -> Reflected:
        """`head` is one request, from its (inner) IP header on."""
        ip, port, psn_word, stamp, word = _REQUEST.unpack_from(head)
        return self._reflected(ip, port, psn_word, stamp, word if psn_word & TS else None, now)

    def of_probe(self, head: memoryview, now: int) -> Reflected:
        """`head` is the first PROBE_BYTES of a reliability probe."""
        ip, port, psn_word, stamp, word = _PROBE.unpack(head)
        return self._reflected(ip, port, psn_word, stamp, word if word & 0xF == TIMESTAMP_FTYPE else None, now)

    def _reflected(self, ip: int, port: int, psn_word: int, stamp: int, word: int | None, now: int) -> Reflected:
        """`word`, which holds the timestamp's tsr, is None where there is no timestamp."""
        if word is None:
            stamp = unit = 0
        else:
            unit = self._units_ns[word >> _TSR_SHIFT]
        return Reflected(now, fields_to_ev(port, ip & 0xFFFF, self._wire), stamp, unit, bool(psn_word & RTX))


Answer = TypeVar("Answer")


class PendingAnswers(Generic[Answer]):
    """Answers that wait to be sent, bounded: under a flood the oldest give way."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[Answer] = deque(maxlen=_MAX_PENDING)

    @property
    def count(self) -> int:
        return len(self._waiting)

    def add(self, answer: Answer) -> None:
        self._waiting.append(answer)

    def take(self, most: int) -> list[Answer]:
        """The oldest of them, up to `most`."""
        waiting = self._waiting
        if not waiting:
            return []
        return [waiting.popleft() for _ in range(min(most, len(waiting)))]

    def clear(self) -> None:
        self._waiting.clear()


def append_control(batch: TransmitBatch, paths: PathSet, index: int, traffic_class: int, headers: bytes) -> None:
    """Append a control packet on this EV: `headers` from the BTH on, which are all it has."""
    row = batch.append(paths.frames, index, traffic_class, BTH_AT + len(headers))
    batch.write_headers(row, BTH_AT, headers)
