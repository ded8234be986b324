# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What SACKs and NACKs have in common: what caused them, the timestamp they reflect, how they wait and are framed."""

from __future__ import annotations

from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.qp_parts import QpParts
from mrc.wire import octets
from mrc.wire.compiled import pointer, public, python, unsigned
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import EXTENSION_AT, HEADER_ROOM, P_KEY, RTX, TIMESTAMP_FTYPE, TS, TSR_BIT, fields_at, shifts_in
from mrc.wire.transmit_batch import TransmitBatch

# Where in a packet the timestamp is, with a word behind it: in a request and in a probe.
(_REQUEST_STAMP_AT,) = fields_at("tseth", "tx_timestamp", ts=True)
(_PROBE_STAMP_AT,) = fields_at("peth", "tx_timestamp")
# Of an EV.
_HALF = 0xFFFF
_TS, _RTX, _FTYPE, _TSR = TS, RTX, TIMESTAMP_FTYPE, TSR_BIT
NO_PROBE = -1
# Where in a packet: opcode, flags, pkey and dqp, in eight bytes; psn_word.
_BTH_AT, _PSN_AT = fields_at("bth", "opcode ackreq")
_OPCODE_SHIFT, _P_KEY_SHIFT, _DQP_SHIFT = shifts_in("bth", "opcode pkey dqp")
_ROOM, _HEADERS = HEADER_ROOM, EXTENSION_AT
_LEAST_PENDING, _MAX_PENDING = 8, 1024
_COLUMNS = 10


def dcids(qp: QpParts) -> python[tuple[int, int]]:
    """spdcid and dpdcid of a QP's SACKs and NACKs, as QPNs whose low 16 bits they are (wire.md section 6)."""
    own = qp.qpn, qp.peer.qpn
    return own[::-1] if qp.wire.dcids_of_data else own


class Answer:
    """A packet that is to be answered by a SACK or, where `reason` is not 0, refused by a NACK.

    `psn` is unbounded, `highest` the highest PSN received when it came; `probe_id` is -1 unless it is a probe. Its EV
    (`entropy`), timestamp and rtx bit go back in the answer; `unit_ns` is the unit of the timestamp, 0 where the time
    the packet is held is not added to it. There are few of these: what waits is kept as numbers.
    """

    psn: public[int]
    highest: public[int]
    probe_id: public[int]
    arrived_at: public[int]
    unit_ns: public[int]
    entropy: public[int]
    tx_timestamp: public[int]
    reason: public[int]
    marked: public[bool]
    rtx: public[bool]

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        self.psn = self.highest = 0
        self.marked = self.rtx = False
        self.probe_id = NO_PROBE
        self.reason = 0
        self.arrived_at = 0
        self.entropy = 0
        self.tx_timestamp = 0
        self.unit_ns = 0

    def begin(self, psn: int, highest: int, marked: bool, probe_id: int, reason: int, arrived_at: int) -> None:
        """Start describing another packet. The Reflector adds what is reflected of it."""
        self.psn = psn
        self.highest = highest
        self.marked = marked
        self.probe_id = probe_id
        self.reason = reason
        self.arrived_at = arrived_at
        self.tx_timestamp = self.unit_ns = 0

    def timestamp(self, now: int) -> int:
        """tx_timestamp plus the time held, each in the packet's own unit; 0 when there was no timestamp."""
        if not self.unit_ns:
            return self.tx_timestamp
        return self.tx_timestamp + (now - self.arrived_at) // self.unit_ns & 0xFFFF


class Reflector:
    """Reads what answers reflect. `units_ns` are the units of a timestamp by its tsr, 0 where they are of no use."""

    _low_half_in_port: bool
    _unit_0_ns: int
    _unit_1_ns: int

    __slots__ = tuple(__annotations__)

    def __init__(self, wire: WireProfile, units_ns: tuple[int, int]) -> None:
        self._low_half_in_port = wire.ev_low_half_in_source_port
        self._unit_0_ns, self._unit_1_ns = units_ns

    def of_request(self, answer: Answer, batch: ReceivedBatch, packet: ReceivedPacket, whole: bool) -> None:
        """Fill in what a request's answer reflects; `whole` means that the TSETH, if any, was not cut off."""
        self._common(answer, packet)
        if whole and packet.psn_word & _TS:
            self._stamp(answer, batch, packet.at + _REQUEST_STAMP_AT)

    def of_probe(self, answer: Answer, batch: ReceivedBatch, packet: ReceivedPacket) -> None:
        """Fill in what the answer to a reliability probe reflects."""
        self._common(answer, packet)
        if octets.u16(batch.flat, packet.at + _PROBE_STAMP_AT + 2) & 0xF == _FTYPE:
            self._stamp(answer, batch, packet.at + _PROBE_STAMP_AT)

    def _common(self, answer: Answer, packet: ReceivedPacket) -> None:
        port, label = packet.sport, packet.label & _HALF
        answer.entropy = label << 16 | port if self._low_half_in_port else port << 16 | label
        answer.rtx = (packet.psn_word & _RTX) != 0

    def _stamp(self, answer: Answer, batch: ReceivedBatch, at: int) -> None:
        answer.tx_timestamp = octets.u16(batch.flat, at)
        answer.unit_ns = self._unit_1_ns if octets.u16(batch.flat, at + 2) & _TSR else self._unit_0_ns


class PendingAnswers:
    """Answers that wait to be sent, `count` of them, bounded: under a flood the oldest give way."""

    count: int
    _first: int
    _room: int
    _cells: pointer

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        self.count = self._first = 0
        self._room = _LEAST_PENDING
        self._cells = octets.words(_COLUMNS * self._room)

    def __dealloc__(self) -> None:
        octets.free_words(self._cells)

    def _grow(self) -> None:
        old: pointer = self._cells
        cells: pointer = octets.words(2 * _COLUMNS * self._room)
        for number in range(self.count):
            for column in range(_COLUMNS):
                cells[number * _COLUMNS + column] = old[self._place(number) + column]
        self._cells, self._room, self._first = cells, 2 * self._room, 0
        octets.free_words(old)

    def _place(self, number: int) -> int:
        """Where in the ring the answer lies that so many others come before."""
        return (self._first + number & self._room - 1) * _COLUMNS

    def add(self, answer: Answer) -> None:
        """Let a copy of this one wait."""
        if self.count == _MAX_PENDING:
            self._first = self._first + 1 & self._room - 1
            self.count -= 1
        elif self.count == self._room:
            self._grow()
        at = self._place(self.count)
        self.count += 1
        self._cells[at] = answer.psn
        self._cells[at + 1] = answer.highest
        self._cells[at + 2] = answer.marked
        self._cells[at + 3] = answer.probe_id
        self._cells[at + 4] = answer.reason
        self._cells[at + 5] = answer.arrived_at
        self._cells[at + 6] = answer.entropy
        self._cells[at + 7] = answer.tx_timestamp
        self._cells[at + 8] = answer.unit_ns
        self._cells[at + 9] = answer.rtx

    def pop(self, answer: Answer) -> None:
        """Take the oldest of them, which there is, into `answer`."""
        at = self._place(0)
        self._first = self._first + 1 & self._room - 1
        self.count -= 1
        answer.psn = self._cells[at]
        answer.highest = self._cells[at + 1]
        answer.marked = self._cells[at + 2] != 0
        answer.probe_id = self._cells[at + 3]
        answer.reason = self._cells[at + 4]
        answer.arrived_at = self._cells[at + 5]
        answer.entropy = self._cells[at + 6]
        answer.tx_timestamp = self._cells[at + 7]
        answer.unit_ns = self._cells[at + 8]
        answer.rtx = self._cells[at + 9] != 0

    def clear(self) -> None:
        self.count = 0


class ControlPackets:
    """Begins the packets that answer those of one peer: `paths` are the ways they go, `traffic_class` their class."""

    _paths: PathSet
    _bth: unsigned
    _traffic_class: int

    __slots__ = tuple(__annotations__)

    def __init__(self, paths: PathSet, peer_qpn: int, traffic_class: int) -> None:
        self._paths = paths
        self._bth = P_KEY << _P_KEY_SHIFT | peer_qpn << _DQP_SHIFT
        self._traffic_class = traffic_class

    def open(self, batch: TransmitBatch, index: int, opcode: int, psn_word: unsigned, length: int) -> int:
        """Append a packet on this EV with `length` bytes of headers behind the BTH, which are all it has. Returns where
        in `batch.flat` it begins."""
        row = batch.open_row(self._paths.frames, index, self._traffic_class, _HEADERS + length)
        at = row * _ROOM
        begins: unsigned = opcode
        octets.put64(batch.flat, at + _BTH_AT, begins << _OPCODE_SHIFT | self._bth)
        octets.put32(batch.flat, at + _PSN_AT, psn_word)
        return at
