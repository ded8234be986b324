# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""A write request of the peer: what its headers say, read once, and what must hold before anything is written."""

from __future__ import annotations

from mrc.endpoint.completion_ring import NO_IMMEDIATE
from mrc.endpoint.config import ResponderConfig
from mrc.endpoint.memory import ADDRESS, LENGTH, VA, VA_LIMIT, MemoryTable
from mrc.endpoint.parts.numbers import Table
from mrc.endpoint.refusals import Refusal, Verdict
from mrc.endpoint.responder.received import ring_size
from mrc.wire import octets
from mrc.wire.compiled import const_u8s, i64s, public, python, unsigned
from mrc.wire.names import NackReason
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH, IMMEDIATE_OPCODES, OPCODES
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import PAD_SHIFT, RTX, TIMESTAMP_FTYPE, TS, TSR_BIT, fields_at, header_at, offsets_in

# Where in a request: rqmsn, msn; the RETH, behind a TSETH if there is one, and in it rkey, dmalen.
_RQMSN_AT, _MSN_AT = fields_at("meth", "rqmsn msn")
_RETH_AT = header_at("reth")
_RKEY_AT, _DMALEN_AT = offsets_in("reth", "rkey dmalen")
_TSETH_BYTES, _RETH_BYTES, _IMMDT_BYTES = (HEADER_LENGTHS[header] for header in ("tseth", "reth", "immdt"))
_VA_LIMIT: unsigned = VA_LIMIT
# Where in a packet the timestamp is, with a word behind it: in a request and in a probe.
(_REQUEST_STAMP_AT,) = fields_at("tseth", "tx_timestamp", ts=True)
(_PROBE_STAMP_AT,) = fields_at("peth", "tx_timestamp")
_HALF = 0xFFFF  # of an EV
NO_PROBE = -1
_RIGHT, _WRONG_LENGTH = int(Verdict.RIGHT), int(Verdict.WRONG_LENGTH)
_NO_ADDRESS, _NO_REGION = int(Verdict.NO_ADDRESS), int(Verdict.NO_REGION)
_OUTSIDE_REGION, _WRONG_NEIGHBOUR = int(Verdict.OUTSIDE_REGION), int(Verdict.WRONG_NEIGHBOUR)
_OTHER_DMALEN, _OTHER_VA, _OTHER_PSN = int(Verdict.OTHER_DMALEN), int(Verdict.OTHER_VA), int(Verdict.OTHER_PSN)
_UNLIMITED, _NOTHING, _NO_RESOURCE = 1 << 62, 0, int(NackReason.NO_RESOURCE)
_NO_BITMAP, _NO_PKT_BUFFER = int(NackReason.NO_BITMAP), int(NackReason.NO_PKT_BUFFER)
# A packet that arrived, in one number: psn(46) msn(16) starts(1) ends(1).
_PSN_SHIFT, _MSN_SHIFT, _MSN_MASK, _STARTS_SHIFT, _ENDS_BIT = 18, 2, 0xFFFF, 1, 1
_NOBODY = -1 << 62
# What follows the MSN in a row of the messages that are on their way.
DMALEN, VA_OF_PSN_0, LEAST_START, MOST_START, ARRIVED = 1, 2, 3, 4, 5
_COLUMNS = 6


def _by_opcode(what: str) -> python[memoryview]:
    """1 for each opcode of which it holds."""
    return memoryview(bytes(value in OPCODES and getattr(OPCODES[value], what) for value in range(256)))


IMMEDIATE = memoryview(bytes(value in IMMEDIATE_OPCODES for value in range(256)))
_STARTS: const_u8s = _by_opcode("starts")
_ENDS: const_u8s = _by_opcode("ends")
_IMMEDIATE: const_u8s = IMMEDIATE


class PeerRequest:
    """A packet of a message of `dmalen` bytes: `size` of them lie at `payload_at` in the batch, for `va` and `rkey`.

    `psn` is unbounded. `start` is `va` as a signed number; what no region can have is VA_LIMIT there. `starts` and
    `ends` say that the message does so in this packet. `rqmsn` is NO_IMMEDIATE, and `immediate` 0, without immediate.
    """

    def __init__(self) -> None:
        self.msn = self.immediate = self.start = 0
        self.psn: public[int] = 0
        self.payload_at = 0
        self.rkey: public[int] = 0
        self.dmalen: public[int] = 0
        self.size: public[int] = 0
        self.va: public[unsigned] = 0
        self.rqmsn: int = NO_IMMEDIATE
        self.starts: public[bool] = False
        self.ends: public[bool] = False

    def read(self, batch: ReceivedBatch, packet: ReceivedPacket, psn: int) -> None:
        """Read the request with this PSN, of which all headers are there."""
        self.psn = psn
        self.starts, self.ends = _STARTS[packet.opcode] != 0, _ENDS[packet.opcode] != 0
        reth = packet.at + _RETH_AT
        if packet.psn_word & TS:
            reth += _TSETH_BYTES
        self.va = octets.u64(batch.flat, reth)
        self.start = self.va if self.va < _VA_LIMIT else _VA_LIMIT
        self.rkey = octets.u32(batch.flat, reth + _RKEY_AT)
        self.dmalen = octets.u32(batch.flat, reth + _DMALEN_AT)
        self.msn = octets.u16(batch.flat, packet.at + _MSN_AT)
        self.payload_at = reth + _RETH_BYTES
        self.rqmsn, self.immediate = NO_IMMEDIATE, 0
        if _IMMEDIATE[packet.opcode]:
            self.rqmsn = octets.u16(batch.flat, packet.at + _RQMSN_AT)
            self.immediate = octets.u32(batch.flat, self.payload_at)
            self.payload_at += _IMMDT_BYTES
        pad = packet.flags >> PAD_SHIFT & 3
        self.size = packet.at + packet.length - self.payload_at - pad - ICRC_LENGTH


class Answer:
    """A packet that is to be answered by a SACK or, where `reason` is not 0, refused by a NACK.

    `psn` is unbounded, `highest` the highest PSN received when it came; `probe_id` is -1 unless it is a probe. Its EV
    (`entropy`), timestamp and rtx bit go back in the answer; `unit_ns` is the unit of the timestamp, 0 where the time
    the packet is held is not added to it. There are few of these: what waits is kept as numbers.
    """

    def __init__(self) -> None:
        self.psn: public[int] = 0
        self.highest: public[int] = 0
        self.marked: public[bool] = False
        self.rtx: public[bool] = False
        self.probe_id: public[int] = NO_PROBE
        self.reason: public[int] = 0
        self.arrived_at: public[int] = 0
        self.entropy: public[int] = 0
        self.tx_timestamp: public[int] = 0
        self.unit_ns: public[int] = 0

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

    _unit_0_ns: int
    _unit_1_ns: int

    def __init__(self, wire: WireProfile, units_ns: tuple[int, int]) -> None:
        self._low_half_in_port = wire.ev_low_half_in_source_port
        self._unit_0_ns, self._unit_1_ns = units_ns

    def of_request(self, answer: Answer, batch: ReceivedBatch, packet: ReceivedPacket, whole: bool) -> None:
        """Fill in what a request's answer reflects; `whole` means that the TSETH, if any, was not cut off."""
        self._common(answer, packet)
        if whole and packet.psn_word & TS:
            self._stamp(answer, batch, packet.at + _REQUEST_STAMP_AT)

    def of_probe(self, answer: Answer, batch: ReceivedBatch, packet: ReceivedPacket) -> None:
        """Fill in what the answer to a reliability probe reflects."""
        self._common(answer, packet)
        if octets.u16(batch.flat, packet.at + _PROBE_STAMP_AT + 2) & 0xF == TIMESTAMP_FTYPE:
            self._stamp(answer, batch, packet.at + _PROBE_STAMP_AT)

    def _common(self, answer: Answer, packet: ReceivedPacket) -> None:
        port, label = packet.sport, packet.label & _HALF
        answer.entropy = label << 16 | port if self._low_half_in_port else port << 16 | label
        answer.rtx = (packet.psn_word & RTX) != 0

    def _stamp(self, answer: Answer, batch: ReceivedBatch, at: int) -> None:
        answer.tx_timestamp = octets.u16(batch.flat, at)
        answer.unit_ns = self._unit_1_ns if octets.u16(batch.flat, at + 2) & TSR_BIT else self._unit_0_ns


class ResourceLimits:
    """Which new packets there is room for, by a ResponderConfig: NO_BITMAP, NO_PKT_BUFFER, NO_RESOURCE (wire.md section
    7). The packet that closes the hole is let through whatever they say."""

    _held: int
    _span: int
    _stashed: int

    def __init__(self, config: ResponderConfig) -> None:
        limits = (config.max_span, config.max_held_packets, config.max_stashed_immediates)
        self._span, self._held, self._stashed = (_UNLIMITED if limit is None else limit for limit in limits)

    def lacking(self, distance: int, held: int, stashed: int) -> int:
        """The NackReason of a new packet there is no room for, or 0. It is `distance` PSNs above epsn while `held`
        packets and `stashed` immediates wait above a hole; `stashed` is -1 for one without an immediate."""
        if distance == 0:
            return _NOTHING
        if distance + 1 > self._span:
            return _NO_BITMAP
        if held >= self._held:
            return _NO_PKT_BUFFER
        if stashed >= self._stashed:
            return _NO_RESOURCE
        return _NOTHING


class RequestChecks:
    """What a peer may write on one QP. The checks give back verdicts; `refusal` receives the request that one
    refuses. `address` is where the payload goes of the request that `check_range` found right last."""

    def __init__(self, memory: MemoryTable, path_mtu: int, refusal: Refusal) -> None:
        self._memory = memory
        self._path_mtu = path_mtu
        self._refusal = refusal
        self.address = 0

    def check_length(self, request: PeerRequest) -> int:
        """The payload of a First or Middle is one path MTU, of a Last what is left of DMALen after whole ones, of an
        Only all of it."""
        mtu, size, dmalen = self._path_mtu, request.size, request.dmalen
        if request.starts and request.ends:
            right = size == dmalen and size <= mtu
        elif request.ends:
            right = dmalen > mtu and size == (dmalen - 1) % mtu + 1
        else:
            right = dmalen > (mtu if request.starts else 2 * mtu) and size == mtu
        return _RIGHT if right else self._refusal.of(_WRONG_LENGTH, request.psn, size, dmalen)

    def check_range(self, request: PeerRequest) -> int:
        """Whether a request with payload may be written at its VA. The whole of its message has to lie in the
        region."""
        if request.va >= _VA_LIMIT:
            return self._refusal.of(_NO_ADDRESS, request.psn, 0, 0)
        row = self._memory.row(request.rkey)
        if row < 0:
            return self._refusal.of(_NO_REGION, request.psn, request.rkey, 0)
        start = request.va  # as a signed number: it may lie below the region
        offset = start - self._memory.open.cells[row + VA]
        if self._is_outside(request, self._memory.open.cells[row + LENGTH], offset):
            return self._refusal.of(_OUTSIDE_REGION, request.psn, 0, 0)
        self.address = self._memory.open.cells[row + ADDRESS] + offset
        return _RIGHT

    def _is_outside(self, request: PeerRequest, length: int, offset: int) -> bool:
        """Whether a packet's message cannot lie in a region of `length` bytes, given the packet's offset in it.

        So many packets of its message come before one: none before a First or Only, all before a Last, and before a
        Middle at least one and not all. There has to be room for these in front, and for what is left of DMALen behind.
        """
        if offset < 0:
            return True
        mtu, dmalen = self._path_mtu, request.dmalen
        if request.starts:
            return offset + dmalen > length
        others = (dmalen - 1) // mtu
        least = others if request.ends else 1
        most = others if request.ends else others - 1
        room = offset + dmalen - length
        if room > 0 and (room + mtu - 1) // mtu > least:
            least = (room + mtu - 1) // mtu
        if offset // mtu < most:
            most = offset // mtu
        return least > most


class MessageChecks:
    """The messages of one peer, as far as they are on their way: whether their packets agree with each other
    (behaviour.md, Responder: "contradicts"). `span` is as for ReceivedPsns.

    Packets come in any order. Each has its message's length, and with its VA where the message lies: DMALen, and VA
    less PSN x path MTU, are the same in every packet of one message. A First and a Last show at which PSN the message
    starts, a Middle between which. Besides, neighbours by PSN belong together: a message starts where another has
    ended. What is kept is bounded by the window: one message at most reaches below epsn, every other one has a packet
    above it.

    `open` has a row for each message of which some packets have arrived and others have not. It starts at a PSN from
    LEAST_START to MOST_START. VA_OF_PSN_0 is its VA less PSN x path MTU. ARRIVED counts its packets that have come.
    `refusal` receives why a request is refused.
    """

    _tags: i64s

    def __init__(self, span: int, first_psn: int, path_mtu: int, refusal: Refusal) -> None:
        self._path_mtu = path_mtu
        self._refusal = refusal
        self.open = Table(_COLUMNS)  # by MSN
        self._make_ring(ring_size(span + 1))
        # Before the first PSN every message has ended.
        self._tags[first_psn - 1 & self._mask] = first_psn - 1 << _PSN_SHIFT | _ENDS_BIT

    def _make_ring(self, size: int) -> python[None]:
        self._mask = size - 1
        self._tags = memoryview(bytearray(8 * size)).cast("q")
        for slot in range(size):
            self._tags[slot] = _NOBODY

    def make_room(self, span: int) -> python[None]:
        """Be ready for a larger window. The ring never shrinks."""
        size = ring_size(span + 1)
        if size > self._mask + 1:
            # A PSN that has been passed long ago may share its new place with a later one.
            kept = sorted(tag for tag in self._tags if tag != _NOBODY)
            self._make_ring(size)
            for tag in kept:
                self._tags[tag >> _PSN_SHIFT & self._mask] = tag

    def check(self, request: PeerRequest) -> int:
        """Take a packet whose length is right for its opcode. Returns a verdict: nothing has happened if it contradicts
        one that came before."""
        psn, msn, starts, ends = request.psn, request.msn, request.starts, request.ends
        before, after = self._tags[psn - 1 & self._mask], self._tags[psn + 1 & self._mask]
        if before >> _PSN_SHIFT == psn - 1 and (
            before & _ENDS_BIT != starts or not (starts or before >> _MSN_SHIFT & _MSN_MASK == msn)
        ):
            return self._refusal.of(_WRONG_NEIGHBOUR, psn, 0, 0)
        if after >> _PSN_SHIFT == psn + 1 and (
            after >> _STARTS_SHIFT & 1 != ends or not (ends or after >> _MSN_SHIFT & _MSN_MASK == msn)
        ):
            return self._refusal.of(_WRONG_NEIGHBOUR, psn, 0, 0)
        verdict = _RIGHT
        if not (starts and ends):
            verdict = self._join(request)
        if verdict == _RIGHT:
            self._tags[psn & self._mask] = psn << _PSN_SHIFT | msn << _MSN_SHIFT | starts << _STARTS_SHIFT | ends
        return verdict

    def _join(self, request: PeerRequest) -> int:
        """Put a packet to those of its message; forget the message when it has arrived whole. Returns a verdict."""
        psn, dmalen = request.psn, request.dmalen
        va_of_psn_0 = request.start - psn * self._path_mtu
        rest = (dmalen - 1) // self._path_mtu
        most = psn
        if request.ends:
            most = psn - rest
        elif not request.starts:
            most = psn - 1
        least = most if request.starts or request.ends else psn - rest + 1
        row = self.open.find(request.msn)
        arrived = 0
        if row >= 0:
            if self.open.cells[row + DMALEN] != dmalen:
                return self._refusal.of(_OTHER_DMALEN, psn, dmalen, self.open.cells[row + DMALEN])
            if self.open.cells[row + VA_OF_PSN_0] != va_of_psn_0:
                return self._refusal.of(_OTHER_VA, psn, 0, 0)
            if self.open.cells[row + LEAST_START] > least:
                least = self.open.cells[row + LEAST_START]
            if self.open.cells[row + MOST_START] < most:
                most = self.open.cells[row + MOST_START]
            arrived = self.open.cells[row + ARRIVED]
        if least > most:
            return self._refusal.of(_OTHER_PSN, psn, 0, 0)
        if arrived == rest:
            if row >= 0:
                self.open.remove(row)
            return _RIGHT
        if row < 0:
            row = self.open.put(request.msn)
            self.open.cells[row + DMALEN], self.open.cells[row + VA_OF_PSN_0] = dmalen, va_of_psn_0
        self.open.cells[row + LEAST_START], self.open.cells[row + MOST_START] = least, most
        self.open.cells[row + ARRIVED] = arrived + 1
        return _RIGHT
