# SPDX-License-Identifier: BSD-2-Clause
"""What a fuzzer drives: an endpoint that receives bytes an input spells, and what must stay true whatever they are.

An input is one byte of set-up, then records. `Setup` and `Record` say what the bytes mean, so that a fuzzer's
mutations stay inputs. Checked throughout: nothing is raised; a packet that an independent look finds malformed changes
nothing but counters; what the endpoint remembers stays bounded.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from hatch_declarations import Declarations
from mrc import CORE, core
from mrc.core import COMPILED
from mrc.endpoint.config import Capability, EndpointConfig, QpConfig, ResponderConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.datapath.receive import Intake
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.paths.addressing import Path, PlanePair, srv6_paths
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.work import WriteRequest
from mrc.wire.packet import encode_transport
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch
from mrc.wire.usid import UsidTemplate

PEER_QPN, PEER_FIRST_PSN = 0x2B0222, 0xFFFFF0  # the peer's PSNs wrap early
REGION_VA, REGION_BYTES = 0x7F0000000000, 1 << 14
PATH_MTU = 256
MOST_REMEMBERED = 200_000  # elements of every container and array of an endpoint together
MOST_RECORDS = 64
TRIMMED_DSCPS = (12, 16)
_LIVE = 32
OPCODES = (0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE)
PSN_MASK = 0xFFFFFF


class Setup(IntFlag):
    ESTABLISHED = 1  # packets went both ways, with holes on both sides, before the input's first record
    NSCC = 2
    DYNAMIC_MPR = 4
    SCARCE = 8  # the responder's resources are limited
    READY_TO_RECEIVE = 16  # RTR only


class Record(IntEnum):
    """A record's first byte modulo 8. Bit 3 picks the port, bit 4 the node's QP 2 instead of the QP, bit 5 of a FRAMED
    record makes it LIVE: what an honest peer would send now, but for one field. A QP lives through most of these."""

    RAW = 0  # length u16, then the whole packet
    FRAMED = 1  # opcode u8, flags u8, PSN distance i16, length u8, then what follows the BTH; a right ICRC
    FRAMED_AGAIN = 2  # the same: most records should get past the ICRC
    DAMAGED = 3  # the same with a wrong ICRC
    TRIMMED = 4  # the same cut after 8 bytes, with a trimmer's codepoint
    WAIT = 5  # u8: time passes, 2^(u8 mod 32) ns
    POST = 6  # u8: a write of 8 * u8 bytes, with an immediate when odd
    TRANSMIT = 7


def _local(plane: int) -> int:
    return 0xFD00 << 112 | plane << 96 | 1


def _peer(plane: int) -> int:
    return 0xFD00 << 112 | plane << 96 | 2


def _text(address: int) -> str:
    return f"fd00:{address >> 96 & 0xFFFF:x}::{address & 0xFFFF:x}"


def _paths() -> list[Path]:
    pairs = [PlanePair(plane, plane, _text(_local(plane)), _text(_peer(plane)), 2) for plane in (0, 1)]
    return srv6_paths(pairs, UsidTemplate(source_leaf=0, destination_leaf=1, destination_host=1))


def icrc(packet: bytes) -> bytes:
    """wire.md section 9, for one IPv6 packet without its ICRC."""
    masked = bytearray(packet)
    masked[0] |= 0x0F
    masked[1] = masked[2] = masked[3] = masked[7] = masked[46] = masked[47] = masked[52] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")


def is_malformed(packet: bytes) -> bool:
    """Whether anything short of the transport is wrong with a packet, by a look of our own."""
    if len(packet) < 64 or packet[0] >> 4 != 6 or packet[6] != 17:
        return True
    return icrc(packet[:-4]) != packet[-4:]


def may_be_trimmed(packet: bytes) -> bool:
    return len(packet) >= 2 and (packet[0] << 4 | packet[1] >> 4) >> 2 & 0x3F in TRIMMED_DSCPS


@dataclass
class Coverage:
    """What became of the packets of some inputs: how many met a QP that lives, and which counters each raised first."""

    packets: int = 0
    met_live: int = 0
    fates: Counter[str] = field(default_factory=Counter)

    def note(self, state: str, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        self.packets += 1
        self.met_live += state in ("RTR", "RTS")
        raised = sorted(
            name for name in after if after[name] != before.get(name, 0) and not name.startswith("received")
        )
        self.fates[raised[0] if raised else "nothing counted"] += 1

    def __str__(self) -> str:
        share = 100 / max(1, self.packets)
        lines = [f"{self.packets} packets, {self.met_live * share:.0f} % met a QP that lives"]
        lines += [f"{count * share:6.2f} %  {name}" for name, count in self.fates.most_common()]
        return "\n".join(lines)


class Fuzzed:
    """One endpoint with one QP, driven by the records of an input."""

    def __init__(self, setup: Setup, coverage: Coverage | None = None) -> None:
        self.now = 1_000_000
        self.coverage = coverage
        self.endpoint = Endpoint(EndpointConfig(seed=7, transmit_batch=64))
        self.memory = bytearray(REGION_BYTES)
        self.region = self.endpoint.memory.register(self.memory, va=REGION_VA)
        self.batch = TransmitBatch(64)
        self.posted = 0
        # What it remembered when it was looked at, until it is told something.
        self._seen: tuple[list[Any], bytes] | None = None
        self.setup = setup
        self.qp = self._connected(setup)
        if Setup.ESTABLISHED in setup and Setup.READY_TO_RECEIVE not in setup:
            self._establish()

    def _connected(self, setup: Setup) -> QueuePair:
        capabilities = Capability.TRIM_NACK | Capability.SVC_TIME
        if Setup.DYNAMIC_MPR in setup:
            capabilities |= Capability.DYNAMIC_MPR
        scarce = ResponderConfig(max_span=24, max_held_packets=8, max_stashed_immediates=2)
        config = QpConfig(
            path_mtu=PATH_MTU,
            mpr=1,
            mpr_dest=1,
            max_mpr=4,
            max_wimm_dest=4,
            capabilities=capabilities,
            responder=scarce if Setup.SCARCE in setup else ResponderConfig(),
        )
        qp = self.endpoint.create_qp(config, "nscc" if Setup.NSCC in setup else "fixed")
        qp.to_init()
        sources = {plane: _peer(plane) for plane in (0, 1)}
        qp.to_rtr(QpPeer(PEER_QPN, PEER_FIRST_PSN, _paths(), sources, capabilities))
        for number in range(3):
            qp.post_receive(number)
        if Setup.READY_TO_RECEIVE not in setup:
            qp.to_rts()
        return qp

    def _establish(self) -> None:
        """Requests came with a hole, some of what was sent is acknowledged and some is lost."""
        self.post(2048)
        self.transmit()
        for psn in (0, 1, 3, 4):
            rest = struct.pack(">HHQII", 0, psn, REGION_VA + 16 * psn, self.region.rkey, 16) + bytes(range(16))
            self.receive(self.framed(0xCA, 0, psn, rest, 0, self.qp.qpn))
        self.transmit()
        cack = self.qp.first_psn & PSN_MASK
        sack = struct.pack(">HhIHHIBBhQHHI", 0, 4, 0, 0, 0, cack, 0, 0, 1, 0b1011000, 0, 0, 0)
        self.receive(self.framed(0xDC, 0, 0, sack, 0, self.qp.qpn))
        self.transmit()

    # ------------------------------------------------------------------ records

    def run(self, records: bytes) -> None:
        at = 0
        for _ in range(MOST_RECORDS):
            if at >= len(records):
                break
            first, at = records[at], at + 1
            record, dqp = Record(first & 7), 2 if first & 16 else self.qp.qpn
            live = first & _LIVE != 0 and record in (Record.FRAMED, Record.FRAMED_AGAIN)
            at = self._record(record, first >> 3 & 1, dqp, records, at, live)

        if remembered(self.endpoint) > MOST_REMEMBERED:
            raise AssertionError(f"the endpoint remembers {remembered(self.endpoint)} elements")

    def _record(self, record: Record, port: int, dqp: int, records: bytes, at: int, live: bool) -> int:
        if record == Record.RAW:
            length = int.from_bytes(records[at : at + 2], "big") % 2048
            self.receive_raw(records[at + 2 : at + 2 + length], port)
            return at + 2 + length
        if record == Record.WAIT:
            self.wait(1 << (int.from_bytes(records[at : at + 1], "big") % 32))
            return at + 1
        if record == Record.POST:
            self.post(8 * int.from_bytes(records[at : at + 1], "big"))
            return at + 1
        if record == Record.TRANSMIT:
            self.transmit()
            return at
        if live:
            kind, step, place, change = records[at : at + 4].ljust(4, b"\0")
            self._live(kind, step, place, change, port)
            return at + 4
        head = records[at : at + 5].ljust(5, b"\0")
        opcode, flags, distance, length = struct.unpack(">BBhB", head)
        rest = records[at + 5 : at + 5 + length]
        packet = self.framed(OPCODES[opcode % len(OPCODES)], flags, distance, rest, port, dqp)
        if record == Record.DAMAGED:
            self.receive_raw(packet[:-4] + bytes(byte ^ 0x55 for byte in packet[-4:]), port)
        elif record == Record.TRIMMED:
            self.receive(packet[:68], port, traffic_class=TRIMMED_DSCPS[flags & 1] << 2)
        else:
            self.receive(packet, port)
        return int(at + 5 + length)

    def _live(self, kind: int, step: int, place: int, change: int, port: int) -> None:
        """What an honest peer would send now: `kind` modulo 7 says what, `step` how far from what is expected. One byte
        behind the BTH's opcode, at `place`, is changed by `change`; 0 changes none. A QP that has died is replaced
        first, as an application would: what follows meets one that lives."""
        if self.qp.state.name not in ("RTR", "RTS"):
            self.endpoint.destroy_qp(self.qp)
            self.qp = self._connected(self.setup)
        region, sends = self.region, self.qp.state.name == "RTS"
        epsn = self.qp.responder.received.epsn & PSN_MASK
        una = (self.qp.requestor.sent.una if sends else self.qp.first_psn) & PSN_MASK
        psn, answered = epsn + step % 4 & PSN_MASK, una + step % 4 & PSN_MASK
        highest = min(step, 40)
        reth = ("reth", {"va": REGION_VA + 16 * (psn % 64), "rkey": region.rkey, "dmalen": 16})
        seth = {
            "cack_psn": una - 1 & PSN_MASK,
            "ack_psn_offset": highest,
            "sack_offset": 1,
            "bitmap": (1 << highest) - 1 & ~1,
        }
        peth = {"probe_id": step, "spdcid": PEER_QPN & 0xFFFF, "dpdcid": self.qp.qpn & 0xFFFF, "ftype": 1}
        opcode, psn, *layers = (
            (0xCA, psn, ("meth", {}), reth),
            (0xCB, psn, ("meth", {"rqmsn": step % 2}), reth, ("immdt", {"data": step})),
            (0xDC, una - 1 & PSN_MASK, ("seth", seth), ("cc_state", {})),
            (0xDC, answered, ("seth", {"cack_psn": answered, "sack_offset": 1}), ("cc_state", {})),
            (0xD1, answered, ("aeth", {"syndrome": 0x1F})),
            (0xDD, answered, ("neth", {"reason": 1 + step % 4, "nack_psn": answered, "cc_type": 2})),
            (0xDE, 0, ("peth", peth)),
        )[kind % 7]
        bth = {"opcode": opcode, "pkey": 0xFFFF, "dqp": self.qp.qpn, "psn": psn}
        payload = bytes(range(16)) if opcode in (0xCA, 0xCB) else b""
        packet = bytearray(self._carried(encode_transport([("bth", bth), *layers], payload), 0, port))
        if change:
            # The QPN stays: a packet to nobody meets no QP.
            behind = [*range(49, 52), *range(56, len(packet) - 4)]
            packet[behind[place % len(behind)]] ^= change
            packet[-4:] = icrc(bytes(packet[:-4]))
        self.receive(bytes(packet), port)

    def framed(self, opcode: int, flags: int, distance: int, rest: bytes, port: int, dqp: int) -> bytes:
        """A packet from the peer with this after its BTH. PSNs are counted from where each direction began; the
        input's first four bytes of a RETH's R_Key stay its own unless they are zero: then they are the right one."""
        answers = opcode in (0xD1, 0xDC, 0xDD)
        psn = ((self.qp.first_psn if answers else PEER_FIRST_PSN) + distance) & PSN_MASK
        word = (flags & 0xF0) << 24 | psn
        reth = 68 - 60 if word & 1 << 28 else 64 - 60
        body = bytearray(rest)
        if opcode < 0xD0 and len(body) >= reth + 12 and not any(body[reth + 8 : reth + 12]):
            body[reth + 8 : reth + 12] = self.region.rkey.to_bytes(4, "big")
            body[reth : reth + 6] = (REGION_VA >> 16).to_bytes(6, "big")
        return self._carried(struct.pack(">BBHII", opcode, flags << 4 & 0x30, 0xFFFF, dqp, word) + body, flags, port)

    @staticmethod
    def _carried(transport: bytes, flags: int, port: int) -> bytes:
        length = 8 + len(transport) + 4
        head = struct.pack(">IHBB", 6 << 28 | (flags & 3) << 20 | port << 8, length, 17, 64)
        head += _peer(port).to_bytes(16, "big") + _local(port).to_bytes(16, "big")
        packet = head + struct.pack(">HHHH", flags & 1, 4791, length, 0) + transport
        return packet + icrc(packet)

    # ------------------------------------------------------------------ what an endpoint is told

    def receive(self, packet: bytes, port: int = 0, traffic_class: int | None = None) -> None:
        classes = () if traffic_class is None else (traffic_class,)
        self._seen = None
        batch = ReceivedBatch.from_packets([packet], port, classes)
        if self.coverage is None:
            self.endpoint.receive(batch, self.now)
            return
        state, before = self.qp.state.name, self.endpoint.total_counters().as_dict()
        self.endpoint.receive(batch, self.now)
        self.coverage.note(state, before, self.endpoint.total_counters().as_dict())

    def receive_raw(self, packet: bytes, port: int) -> None:
        """Deliver a packet as it is; one that is malformed must change nothing but counters."""
        if not is_malformed(packet) or may_be_trimmed(packet):
            self.receive(packet, port)
            return
        # Behind another malformed packet the endpoint is as it was seen then: it was told nothing in between.
        before = self._seen or (state_of(self.endpoint), bytes(self.memory))
        self.receive(packet, port)
        after = state_of(self.endpoint), bytes(self.memory)
        if after != before:
            raise AssertionError(f"a malformed packet changed something: {packet.hex()}")
        self._seen = after

    def wait(self, ns: int) -> None:
        """Time passes, in up to 16 steps where timers want it."""
        self._seen = None
        until = self.now + ns
        for _ in range(16):
            deadline = self.endpoint.next_deadline()
            if deadline is None or deadline > until:
                break
            self.now = max(self.now, deadline)
            self.endpoint.on_timer(self.now)
            self.transmit()
        self.now = until
        self.endpoint.on_timer(self.now)

    def post(self, length: int) -> None:
        if self.posted >= 256 or self.qp.state.name not in ("RTS", "ERROR"):
            return
        self._seen = None
        source = MemoryRegion(bytes(length), 0, 0, remote_write=False)
        immediate = self.posted if length // 8 & 1 else None
        self.qp.post_write(WriteRequest(self.posted, source, 0, length, 0x1000, 1, immediate))
        self.endpoint.wake(self.qp)
        self.posted += 1

    def transmit(self) -> None:
        self._seen = None
        for _ in range(64):
            self.batch.clear()
            if not self.endpoint.transmit(self.batch, self.now):
                return
        raise AssertionError("the endpoint never stops sending at one instant")


# ---------------------------------------------------------------------- what an endpoint remembers


def state_of(thing: Any) -> list[Any]:
    """Everything an endpoint remembers but its counters and clock, as a flat list that can be compared."""
    return [leaf.tobytes() if isinstance(leaf, np.ndarray) else leaf for leaf in _leaves(thing)]


def remembered(thing: Any) -> int:
    """How many elements all containers and arrays of an endpoint hold together."""
    return sum(each.size if isinstance(each, np.ndarray) else 1 for each in _leaves(thing))


def _leaves(thing: Any) -> list[Any]:
    found: list[Any] = []
    _look(thing, set(), found)
    return found


def _look(thing: Any, seen: set[int], found: list[Any]) -> None:
    """Add what is in a thing. An endpoint is looked at before and after each malformed packet: nearly all the time that
    inputs take is spent here."""
    kind = type(thing)
    if kind in _PLAIN:
        found.append(thing)
        return
    part = _part(kind)
    if part == "leaf":
        found.append(thing)
    elif part == "draws":
        found.append(repr(thing.bit_generator.state))
    elif part == "array":
        found.append(np.asarray(thing))
    elif part == "bytes":
        found.append(bytes(thing))
    elif part == "set":
        if id(thing) not in seen:
            found.extend(sorted(map(repr, thing)))
    elif part and id(thing) not in seen:
        seen.add(id(thing))
        inside: Iterable[Any] = thing
        if part == "dict":
            inside = chain.from_iterable(thing.items())
        elif part == "ours":
            inside = [getattr(thing, name, None) for name in _declared(kind)]
            inside += [value for name, value in getattr(thing, "__dict__", {}).items() if name not in _CLOCK]
        for value in inside:
            if type(value) in _PLAIN:
                found.append(value)
            else:
                _look(value, seen, found)


_PLAIN = frozenset({type(None), bool, int, float, str, bytes})


@cache
def _part(kind: type) -> str:
    """What a thing of this kind is to `_look`: "" for what is not looked at."""
    if issubclass(kind, bool | int | float | str | bytes):
        return "leaf"
    # An intake remembers the batch it has taken last.
    unseen = issubclass(kind, Counters | MemoryRegion | Intake) or any(
        "__call__" in vars(each) for each in kind.__mro__
    )
    parts: list[tuple[Any, str]] = [
        (np.random.Generator, "draws"),
        (np.ndarray | np.generic, "array"),
        (memoryview, "bytes"),
        (object, "") if unseen else (dict, "dict"),
        (list | tuple | deque, "items"),
        (set | frozenset, "set"),
    ]
    for kinds, part in parts:
        if issubclass(kind, kinds):
            return part
    return "ours" if kind.__module__.startswith("mrc.") else ""


_CLOCK = frozenset({"_now", "now"})


@cache
def _declared(kind: type) -> Sequence[str]:
    """The attributes that are not in an object's `__dict__`: slots, and what the source of a compiled class declares.
    The clock is not among them."""
    names = set[str]()
    for each in kind.__mro__:
        names.update(getattr(each, "__slots__", ()))
        names |= _compiled().get((each.__module__, each.__name__), set())
    return sorted(names - _CLOCK)


@cache
def _compiled() -> dict[tuple[str, str], set[str]]:
    """The attributes of compiled classes, by module and name."""
    if CORE.kind != COMPILED:
        return {}
    declared = Declarations(core.PACKAGE.parent, core.marked())
    return {
        (module.name, name): set(declared.attributes(module, of))
        for module in declared.modules.values()
        for name, of in module.classes.items()
    }


def run_input(data: bytes, coverage: Coverage | None = None) -> None:
    """One input of the fuzzer."""
    if not data:
        return
    Fuzzed(Setup(data[0] & 63), coverage).run(data[1:])
