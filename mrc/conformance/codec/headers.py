# SPDX-License-Identifier: BSD-2-Clause
"""The headers and opcodes of MRC, and of what carries it, as wire.md sections 2 to 8 and 11 have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mrc.conformance.codec.layout import Layout
from mrc.wire.profile import WireProfile

__all__ = [
    "ACK",
    "ACK_NO_CREDITS",
    "BTH_LENGTH",
    "ENDPOINT_QPN",
    "ENDPOINT_REQUEST",
    "ENDPOINT_RESPONSE",
    "EV_PROBE",
    "FIRST",
    "INVALID_REQUEST",
    "LAST",
    "LAST_IMMEDIATE",
    "MIDDLE",
    "MRC",
    "NACK",
    "NACK_REASONS",
    "NO_BITMAP",
    "NO_PKT_BUFFER",
    "NO_RESOURCE",
    "ONLY",
    "ONLY_IMMEDIATE",
    "OPCODES",
    "OPERATIONS",
    "PORT_STATUS_UPDATE",
    "PROBE",
    "PSN_OOR_WINDOW",
    "P_KEY",
    "REMOTE_ACCESS_ERROR",
    "REMOTE_OPERATIONAL_ERROR",
    "SACK",
    "SYNDROMES",
    "TRIMMED",
    "TRIMMED_LASTHOP",
    "UNEXP_EVENT",
    "WITH_IMMEDIATE",
    "WRITES",
    "Opcode",
    "OpcodeTable",
    "layouts",
]

# section 3; SE and M are grade C, everything else A
_BTH = """
    0        opcode
    1[7]     {first}
    1[6]     {second}
    1[5:4]   pad
    1[3:0]   tver
    2-3      pkey
    4[7]     fecn
    4[6]     becn
    4[5:0]   reserved
    5-7      dqp
    8[7]     ackreq
    8[6]     reserved2
    8[5]     rtx
    8[4]     ts
    8[3:0]   reserved3
    9-11     psn
"""
# section 4
_METH = """
    0-1      rqmsn
    2-3      msn
"""
_TSETH = """
    0-1        tx_timestamp
    2-3[15]    tsr
    2-3[14:4]  reserved
    2-3[3:0]   ftype
"""
_RETH = """
    0-7      va
    8-11     rkey
    12-15    dmalen
"""
_IMMDT = """
    0-3      data
"""
# section 5
_AETH = """
    0        syndrome
    1-3      msn
"""
# section 6: the first 16 bits are m << 5 | pr << 1
_SETH = """
    0-1[15:12]  type
    0-1[11:7]   next
    0-1[6:5]    m
    0-1[4:2]    reserved
    0-1[1]      pr
    0-1[0]      reserved2
    2-3         ack_psn_offset signed
    4-7         entropy
    8-9         spdcid
    10-11       dpdcid
    12          reserved3
    13-15       cack_psn
    16[7:4]     cc_type
    16[3:0]     cc_flags
    17          mpr
    18-19       sack_offset signed
    20-27       bitmap
"""
# section 6 counts on from the SETH: its bytes 28 to 35 are 0 to 7 here
_CC_STATE = """
    0-1        tx_timestamp
    2-3[15]    reserved
    2-3[14:0]  ooo_count
    4[7]       restore_cwnd
    4[6:0]     rcv_cwnd_pen
    5-7        rcvd_bytes
"""
# section 7
_NETH = """
    0-1[15:12]  type
    0-1[11:7]   next
    0-1[6:0]    reserved
    2           reason
    3           vendor_info
    4-7         entropy
    8-9         spdcid
    10-11       dpdcid
    12          reserved2
    13-15       nack_psn
    16[7:4]     cc_type
    16[3:0]     cc_flags
    17          reserved3
    18-19       tx_timestamp
"""
# section 8
_PETH = """
    0-1[15:12]  type
    0-1[11:7]   next
    0-1[6:0]    reserved
    2           reserved2
    3           vendor_info
    4-5         probe_id
    6-7         reserved3
    8-9         spdcid
    10-11       dpdcid
    12-13       tx_timestamp
    14-15[15]   tsr
    14-15[14:4] reserved4
    14-15[3:0]  ftype
"""
_ERTH = """
    0-1[15:12]  type
    0-1[11:7]   next
    0-1[6:2]    reserved
    0-1[1:0]    op
    2           reserved2
    3           vendor_info
    4-7         port_status_mask
    8-11        reserved3
    12-13       tx_timestamp
    14-15[15]   tsr
    14-15[14:4] reserved4
    14-15[3:0]  ftype
"""
# op in bits 3:2 of byte 1; with the switch in bits 5:4 (C)
_EETH = """
    0-1[15:12]  type
    0-1[11:7]   next
    0-1[6:{above}]  reserved
    0-1[{op}]   op
    0-1[{below}:0]  reserved2
    2-27        reserved3
    28-29       tx_timestamp
    30-35       reserved4
"""


@dataclass(frozen=True, slots=True)
class Opcode:
    """One opcode: its name as in section 2, the headers that follow its BTH, whether a payload may."""

    value: int
    name: str
    headers: tuple[str, ...]
    has_payload: bool = False


_WRITE = ("meth", "tseth", "reth")
_WRITE_IMM = (*_WRITE, "immdt")
# The opcodes of MRC by their numbers (wire.md, Opcodes).
OPCODES: dict[int, Opcode] = {
    opcode.value: opcode
    for opcode in (
        Opcode(0xC6, "WRITE First", _WRITE, has_payload=True),
        Opcode(0xC7, "WRITE Middle", _WRITE, has_payload=True),
        Opcode(0xC8, "WRITE Last", _WRITE, has_payload=True),
        Opcode(0xC9, "WRITE Last with Immediate", _WRITE_IMM, has_payload=True),
        Opcode(0xCA, "WRITE Only", _WRITE, has_payload=True),
        Opcode(0xCB, "WRITE Only with Immediate", _WRITE_IMM, has_payload=True),
        Opcode(0xD1, "ACK", ("aeth",)),
        Opcode(0xD8, "ENDPOINT REQUEST", ("erth",)),
        Opcode(0xD9, "ENDPOINT RESPONSE", ("eeth",)),
        Opcode(0xDC, "SACK", ("seth", "cc_state")),
        Opcode(0xDD, "NACK", ("neth",)),
        Opcode(0xDE, "PROBE", ("peth",)),
    )
}


@dataclass(frozen=True, slots=True)
class OpcodeTable:
    """Every opcode that a transport has, and what it is called."""

    transport: str
    opcodes: Mapping[int, Opcode]


# What MRC has; plain RoCEv2 RC has a table of its own.
MRC = OpcodeTable("MRC", OPCODES)
FIRST, MIDDLE, LAST, LAST_IMMEDIATE, ONLY, ONLY_IMMEDIATE = range(0xC6, 0xCC)
ACK, ENDPOINT_REQUEST, ENDPOINT_RESPONSE, SACK, NACK, PROBE = 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE
# The opcodes of writes, with an immediate or without.
WRITES = frozenset(range(0xC6, 0xCC))
# The opcodes whose packets carry an immediate.
WITH_IMMEDIATE = frozenset({LAST_IMMEDIATE, ONLY_IMMEDIATE})
# The QPN of endpoint operations, which belong to no QP.
ENDPOINT_QPN = 2
# The only partition there is.
P_KEY = 0xFFFF

# What an AETH refuses a request for, by its syndrome.
SYNDROMES = {
    0x60: "PSN sequence error",
    0x61: "invalid request",
    0x62: "remote access error",
    0x63: "remote operational error",
}
# The syndrome of an acknowledgement: MRC has no credits.
ACK_NO_CREDITS = 0x1F
INVALID_REQUEST, REMOTE_ACCESS_ERROR, REMOTE_OPERATIONAL_ERROR = 0x61, 0x62, 0x63

TRIMMED, TRIMMED_LASTHOP, NO_BITMAP, NO_PKT_BUFFER = 0x01, 0x02, 0x06, 0x07
NO_RESOURCE, PSN_OOR_WINDOW, UNEXP_EVENT = 0x0A, 0x0B, 0x19
# The names of the reasons in a NETH.
NACK_REASONS = {
    TRIMMED: "TRIMMED",
    TRIMMED_LASTHOP: "TRIMMED_LASTHOP",
    NO_BITMAP: "NO_BITMAP",
    NO_PKT_BUFFER: "NO_PKT_BUFFER",
    NO_RESOURCE: "NO_RESOURCE",
    PSN_OOR_WINDOW: "PSN_OOR_WINDOW",
    UNEXP_EVENT: "UNEXP_EVENT",
}
PORT_STATUS_UPDATE, EV_PROBE = 0, 1
# The names of the operations in an ERTH.
OPERATIONS = {PORT_STATUS_UPDATE: "PORT_STATUS_UPDATE", EV_PROBE: "EV_PROBE"}

# Bytes.
BTH_LENGTH = 12
_FIXED = {
    "meth": Layout("meth", 4, _METH),
    "tseth": Layout("tseth", 4, _TSETH),
    "reth": Layout("reth", 16, _RETH),
    "immdt": Layout("immdt", 4, _IMMDT),
    "aeth": Layout("aeth", 4, _AETH),
    "seth": Layout("seth", 28, _SETH),
    "cc_state": Layout("cc_state", 8, _CC_STATE),
    "neth": Layout("neth", 20, _NETH),
    "peth": Layout("peth", 16, _PETH),
    "erth": Layout("erth", 16, _ERTH),
}


def layouts(profile: WireProfile) -> dict[str, Layout]:
    """The headers by name, the grade C switches of a profile applied."""
    first, second = ("se", "m") if profile.solicited_event_first else ("m", "se")
    shift = profile.eeth_op_shift
    eeth = _EETH.format(above=shift + 2, op=f"{shift + 1}:{shift}", below=shift - 1)
    return {
        "bth": Layout("bth", BTH_LENGTH, _BTH.format(first=first, second=second)),
        **_FIXED,
        "eeth": Layout("eeth", 36, eeth),
    }
