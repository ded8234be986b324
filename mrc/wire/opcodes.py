# SPDX-License-Identifier: BSD-2-Clause
"""The one table of opcodes: MRC's (wire.md section 2) and the standard RoCEv2 ones MRC is a superset of.

Header names are the layer names of wire.md section 13. Everything that depends on an opcode (building, parsing,
Scapy bindings, length checks) is driven from here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum, unique

from mrc.errors import CallerError
from mrc.records import record
from mrc.wire.headers import BTH_LENGTH as BTH_LENGTH
from mrc.wire.headers import HEADER_LENGTHS as HEADER_LENGTHS

ICRC_LENGTH = 4


@unique
class Op(IntEnum):
    """MRC opcodes."""

    WRITE_FIRST = 0xC6
    WRITE_MIDDLE = 0xC7
    WRITE_LAST = 0xC8
    WRITE_LAST_WITH_IMMEDIATE = 0xC9
    WRITE_ONLY = 0xCA
    WRITE_ONLY_WITH_IMMEDIATE = 0xCB
    ACKNOWLEDGE = 0xD1
    ENDPOINT_REQUEST = 0xD8
    ENDPOINT_RESPONSE = 0xD9
    SACK = 0xDC
    NACK = 0xDD
    PROBE = 0xDE


FIRST_MRC_OPCODE = 0xC0


@record(frozen=True, slots=True)
class Opcode:
    """What one opcode implies.

    `headers` follow the BTH in this order; a `tseth` is there only when the BTH's ts bit is set. `has_payload`
    says a payload may follow, `full_payload` that it is exactly one path MTU, `starts` and `ends` that the
    packet is the first or last of its message.
    """

    value: int
    name: str
    headers: tuple[str, ...]
    has_payload: bool = False
    full_payload: bool = False
    starts: bool = False
    ends: bool = False

    @property
    def is_mrc(self) -> bool:
        return self.value >= FIRST_MRC_OPCODE

    @property
    def is_request(self) -> bool:
        """An MRC request: it carries a METH and uses up a PSN."""
        return "meth" in self.headers

    def header_length(self, ts: bool) -> int:
        """Bytes of extension headers after the BTH, given the BTH's ts bit."""
        return sum(HEADER_LENGTHS[header] for header in self.headers if ts or header != "tseth")


_LAST_OF_UC = 0x0B
_RC_ANSWERS = range(0x0D, 0x13)
_WRITE = ("meth", "tseth", "reth")
_F = {"has_payload": True, "full_payload": True}
_P = {"has_payload": True}
_START = {"starts": True}
_END = {"ends": True}
_BOTH = {"starts": True, "ends": True}


def _table() -> dict[int, Opcode]:
    mrc = (
        Opcode(Op.WRITE_FIRST, "RDMA WRITE First", _WRITE, **_F, **_START),
        Opcode(Op.WRITE_MIDDLE, "RDMA WRITE Middle", _WRITE, **_F),
        Opcode(Op.WRITE_LAST, "RDMA WRITE Last", _WRITE, **_P, **_END),
        Opcode(Op.WRITE_LAST_WITH_IMMEDIATE, "RDMA WRITE Last with Immediate", (*_WRITE, "immdt"), **_P, **_END),
        Opcode(Op.WRITE_ONLY, "RDMA WRITE Only", _WRITE, **_P, **_BOTH),
        Opcode(Op.WRITE_ONLY_WITH_IMMEDIATE, "RDMA WRITE Only with Immediate", (*_WRITE, "immdt"), **_P, **_BOTH),
        Opcode(Op.ACKNOWLEDGE, "Acknowledge", ("aeth",)),
        Opcode(Op.ENDPOINT_REQUEST, "Endpoint Request", ("erth",)),
        Opcode(Op.ENDPOINT_RESPONSE, "Endpoint Response", ("eeth",)),
        Opcode(Op.SACK, "Reliability SACK", ("seth", "cc_state")),
        Opcode(Op.NACK, "Reliability NACK", ("neth",)),
        Opcode(Op.PROBE, "Reliability PROBE Request", ("peth",)),
    )
    reliable = (
        Opcode(0x00, "RC SEND First", (), **_F, **_START),
        Opcode(0x01, "RC SEND Middle", (), **_F),
        Opcode(0x02, "RC SEND Last", (), **_P, **_END),
        Opcode(0x03, "RC SEND Last with Immediate", ("immdt",), **_P, **_END),
        Opcode(0x04, "RC SEND Only", (), **_P, **_BOTH),
        Opcode(0x05, "RC SEND Only with Immediate", ("immdt",), **_P, **_BOTH),
        Opcode(0x06, "RC RDMA WRITE First", ("reth",), **_F, **_START),
        Opcode(0x07, "RC RDMA WRITE Middle", (), **_F),
        Opcode(0x08, "RC RDMA WRITE Last", (), **_P, **_END),
        Opcode(0x09, "RC RDMA WRITE Last with Immediate", ("immdt",), **_P, **_END),
        Opcode(0x0A, "RC RDMA WRITE Only", ("reth",), **_P, **_BOTH),
        Opcode(0x0B, "RC RDMA WRITE Only with Immediate", ("reth", "immdt"), **_P, **_BOTH),
        Opcode(0x0C, "RC RDMA READ Request", ("reth",), **_BOTH),
        Opcode(0x0D, "RC RDMA READ Response First", ("aeth",), **_F, **_START),
        Opcode(0x0E, "RC RDMA READ Response Middle", (), **_F),
        Opcode(0x0F, "RC RDMA READ Response Last", ("aeth",), **_P, **_END),
        Opcode(0x10, "RC RDMA READ Response Only", ("aeth",), **_P, **_BOTH),
        Opcode(0x11, "RC Acknowledge", ("aeth",)),
        Opcode(0x12, "RC ATOMIC Acknowledge", ("aeth", "atomicacketh")),
        Opcode(0x13, "RC CMP & SWAP", ("atomiceth",), **_BOTH),
        Opcode(0x14, "RC FETCH & ADD", ("atomiceth",), **_BOTH),
        Opcode(0x16, "RC SEND Last with Invalidate", ("ieth",), **_P, **_END),
        Opcode(0x17, "RC SEND Only with Invalidate", ("ieth",), **_P, **_BOTH),
    )
    datagrams = (
        Opcode(0x64, "UD SEND Only", ("deth",), **_P, **_BOTH),
        Opcode(0x65, "UD SEND Only with Immediate", ("deth", "immdt"), **_P, **_BOTH),
        # RoCEv2 Annex A17: a congestion notification carries 16 reserved bytes and nothing else.
        Opcode(0x81, "CNP", (), **_P, **_BOTH),
    )
    # The upper three bits name the transport, the lower five say what an RC packet of that number says.
    unreliable = _as_of("UC", 0x20, [opcode for opcode in reliable if opcode.value <= _LAST_OF_UC])
    # No Invalidate in RD. Its answers have a RDETH as well, and only requests a DETH; those of XRC have no XRCETH.
    rd = _as_of("RD", 0x40, [opcode for opcode in reliable if "ieth" not in opcode.headers], ("rdeth", "deth"), 1)
    rd.append(Opcode(0x55, "RD RESYNC", ("rdeth", "deth")))
    xrc = _as_of("XRC", 0xA0, list(reliable), ("xrceth",), 0)
    return by_value((*mrc, *reliable, *datagrams, *unreliable, *rd, *xrc))


def _as_of(
    transport: str, first: int, reliable: list[Opcode], headers: tuple[str, ...] = (), kept_in_answers: int = 0
) -> list[Opcode]:
    """What RC has, as another transport has it: with `headers` in front, of which answers have the first few."""
    found = []
    for opcode in reliable:
        in_front = headers[:kept_in_answers] if opcode.value in _RC_ANSWERS else headers
        found.append(
            replace(
                opcode,
                value=first + opcode.value,
                name=transport + opcode.name.removeprefix("RC"),
                headers=(*in_front, *opcode.headers),
            )
        )
    return found


def by_value(opcodes: Iterable[Opcode]) -> dict[int, Opcode]:
    """The table of these opcodes. Raises CallerError for two of one number: one would be read as the other."""
    table: dict[int, Opcode] = {}
    for opcode in opcodes:
        if opcode.value in table:
            taken = table[opcode.value].name
            raise CallerError(f"opcode {opcode.value:#04x} is {taken} already: choose another for {opcode.name}")
        table[opcode.value] = opcode
    return table


OPCODES: dict[int, Opcode] = _table()

# Every header that a request can have behind its BTH.
REQUEST_HEADERS: tuple[str, ...] = max((opcode.headers for opcode in OPCODES.values() if opcode.is_request), key=len)
IMMEDIATE_OPCODES = frozenset(
    value for value, opcode in OPCODES.items() if opcode.is_request and "immdt" in opcode.headers
)
REQUEST_OPCODES = frozenset(value for value, opcode in OPCODES.items() if opcode.is_request)
