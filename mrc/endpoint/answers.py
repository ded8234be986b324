"""What SACKs and NACKs have in common: what caused them, the timestamp they reflect, how they wait and are framed."""

from __future__ import annotations

from collections import deque

from mrc.endpoint.paths import PathSet
from mrc.wire import octets
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import BTH_AT, RTX, TIMESTAMP_FTYPE, TS, TSR_BIT
from mrc.wire.transmit_batch import TransmitBatch

# Where in a packet: the low half of ip_word, the UDP source port, psn_word; the timestamp and the word beside it in a
# request, and in a probe.
_LABEL_AT, _SPORT_AT, _PSN_AT, _REQUEST_STAMP_AT, _PROBE_STAMP_AT = 2, 40, 56, 64, 72
_TS, _RTX, _FTYPE, _TSR = TS, RTX, TIMESTAMP_FTYPE, TSR_BIT
_MAX_PENDING = 1024
NO_PROBE = -1


class Answer:
    """A packet that is to be answered by a SACK or, where `reason` is not 0, refused by a NACK.

    `psn` is unbounded, `highest` the highest PSN received when it came; `probe_id` is -1 unless it is a probe. Its EV
    (`entropy`), timestamp and rtx bit go back in the answer; `unit_ns` is the unit of the timestamp, 0 where the time
    the packet is held is not added to it.
    """

    __slots__ = (
        "arrived_at",
        "entropy",
        "highest",
        "marked",
        "probe_id",
        "psn",
        "reason",
        "rtx",
        "tx_timestamp",
        "unit_ns",
    )

    def __init__(self, psn: int, highest: int, marked: bool, probe_id: int, reason: int, arrived_at: int) -> None:
        self.psn = psn
        self.highest = highest
        self.marked = marked
        self.probe_id = probe_id
        self.reason = reason
        self.arrived_at = arrived_at
        self.entropy = 0
        self.tx_timestamp = 0
        self.unit_ns = 0
        self.rtx = False

    def timestamp(self, now: int) -> int:
        """tx_timestamp plus the time held, each in the packet's own unit; 0 when there was no timestamp."""
        if not self.unit_ns:
            return self.tx_timestamp
        return self.tx_timestamp + (now - self.arrived_at) // self.unit_ns & 0xFFFF


class Reflector:
    """Reads what answers reflect. `units_ns` are the units of a timestamp by its tsr, 0 where they are of no use."""

    __slots__ = ("_low_half_in_port", "_unit_0_ns", "_unit_1_ns")

    def __init__(self, wire: WireProfile, units_ns: tuple[int, int]) -> None:
        self._low_half_in_port = wire.ev_low_half_in_source_port
        self._unit_0_ns, self._unit_1_ns = units_ns

    def of_request(self, answer: Answer, batch: ReceivedBatch, row: int, whole: bool) -> None:
        """Fill in what a request's answer reflects; `whole` tells that the TSETH, if any, was not cut off."""
        base = batch.row(row)
        self._common(answer, batch, base)
        if whole and octets.u32(batch.flat, base + _PSN_AT) & _TS:
            self._stamp(answer, batch, base + _REQUEST_STAMP_AT)

    def of_probe(self, answer: Answer, batch: ReceivedBatch, row: int) -> None:
        """Fill in what the answer to a reliability probe reflects."""
        base = batch.row(row)
        self._common(answer, batch, base)
        if octets.u16(batch.flat, base + _PROBE_STAMP_AT + 2) & 0xF == _FTYPE:
            self._stamp(answer, batch, base + _PROBE_STAMP_AT)

    def _common(self, answer: Answer, batch: ReceivedBatch, base: int) -> None:
        port, label = octets.u16(batch.flat, base + _SPORT_AT), octets.u16(batch.flat, base + _LABEL_AT)
        answer.entropy = label << 16 | port if self._low_half_in_port else port << 16 | label
        answer.rtx = (octets.u32(batch.flat, base + _PSN_AT) & _RTX) != 0

    def _stamp(self, answer: Answer, batch: ReceivedBatch, at: int) -> None:
        answer.tx_timestamp = octets.u16(batch.flat, at)
        answer.unit_ns = self._unit_1_ns if octets.u16(batch.flat, at + 2) & _TSR else self._unit_0_ns


class PendingAnswers:
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
        return [waiting.popleft() for _ in range(min(most, len(waiting)))]

    def clear(self) -> None:
        self._waiting.clear()


def append_control(batch: TransmitBatch, paths: PathSet, index: int, traffic_class: int, headers: bytes) -> None:
    """Append a control packet on this EV: `headers` from the BTH on, which are all it has."""
    row = batch.append(paths.frames, index, traffic_class, BTH_AT + len(headers))
    batch.write_headers(row, BTH_AT, headers)
