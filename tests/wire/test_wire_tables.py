# SPDX-License-Identifier: BSD-2-Clause
"""Tables worked out when a module is imported, against wire.md by hand, in a copy of the module imported afresh.

A fresh copy runs the functions that fill the tables while the test runs: what fills them wrongly fails here.
"""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType

import numpy as np
import pytest

from mrc.errors import CallerError


def afresh(name: str) -> ModuleType:
    """A second copy of a module; the one everybody else has imported stays what it is."""
    spec = importlib.import_module(name).__spec__
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Section 2 of wire.md, then IBTA table 38 and annex A17: name; headers after the BTH; then whether a payload may follow
# (p) that is one whole path MTU (f), whether the packet is the first (s) and the last (e) of its message.
OPCODES = {
    0xC6: ("RDMA WRITE First", "meth tseth reth", "pfs"),
    0xC7: ("RDMA WRITE Middle", "meth tseth reth", "pf"),
    0xC8: ("RDMA WRITE Last", "meth tseth reth", "pe"),
    0xC9: ("RDMA WRITE Last with Immediate", "meth tseth reth immdt", "pe"),
    0xCA: ("RDMA WRITE Only", "meth tseth reth", "pse"),
    0xCB: ("RDMA WRITE Only with Immediate", "meth tseth reth immdt", "pse"),
    0xD1: ("Acknowledge", "aeth", ""),
    0xD8: ("Endpoint Request", "erth", ""),
    0xD9: ("Endpoint Response", "eeth", ""),
    0xDC: ("Reliability SACK", "seth cc_state", ""),
    0xDD: ("Reliability NACK", "neth", ""),
    0xDE: ("Reliability PROBE Request", "peth", ""),
    0x00: ("RC SEND First", "", "pfs"),
    0x01: ("RC SEND Middle", "", "pf"),
    0x02: ("RC SEND Last", "", "pe"),
    0x03: ("RC SEND Last with Immediate", "immdt", "pe"),
    0x04: ("RC SEND Only", "", "pse"),
    0x05: ("RC SEND Only with Immediate", "immdt", "pse"),
    0x06: ("RC RDMA WRITE First", "reth", "pfs"),
    0x07: ("RC RDMA WRITE Middle", "", "pf"),
    0x08: ("RC RDMA WRITE Last", "", "pe"),
    0x09: ("RC RDMA WRITE Last with Immediate", "immdt", "pe"),
    0x0A: ("RC RDMA WRITE Only", "reth", "pse"),
    0x0B: ("RC RDMA WRITE Only with Immediate", "reth immdt", "pse"),
    0x0C: ("RC RDMA READ Request", "reth", "se"),
    0x0D: ("RC RDMA READ Response First", "aeth", "pfs"),
    0x0E: ("RC RDMA READ Response Middle", "", "pf"),
    0x0F: ("RC RDMA READ Response Last", "aeth", "pe"),
    0x10: ("RC RDMA READ Response Only", "aeth", "pse"),
    0x11: ("RC Acknowledge", "aeth", ""),
    0x12: ("RC ATOMIC Acknowledge", "aeth atomicacketh", ""),
    0x13: ("RC CMP & SWAP", "atomiceth", "se"),
    0x14: ("RC FETCH & ADD", "atomiceth", "se"),
    0x16: ("RC SEND Last with Invalidate", "ieth", "pe"),
    0x17: ("RC SEND Only with Invalidate", "ieth", "pse"),
    0x64: ("UD SEND Only", "deth", "pse"),
    0x65: ("UD SEND Only with Immediate", "deth immdt", "pse"),
    0x81: ("CNP", "", "pse"),
    0x20: ("UC SEND First", "", "pfs"),
    0x21: ("UC SEND Middle", "", "pf"),
    0x22: ("UC SEND Last", "", "pe"),
    0x23: ("UC SEND Last with Immediate", "immdt", "pe"),
    0x24: ("UC SEND Only", "", "pse"),
    0x25: ("UC SEND Only with Immediate", "immdt", "pse"),
    0x26: ("UC RDMA WRITE First", "reth", "pfs"),
    0x27: ("UC RDMA WRITE Middle", "", "pf"),
    0x28: ("UC RDMA WRITE Last", "", "pe"),
    0x29: ("UC RDMA WRITE Last with Immediate", "immdt", "pe"),
    0x2A: ("UC RDMA WRITE Only", "reth", "pse"),
    0x2B: ("UC RDMA WRITE Only with Immediate", "reth immdt", "pse"),
    0x40: ("RD SEND First", "rdeth deth", "pfs"),
    0x41: ("RD SEND Middle", "rdeth deth", "pf"),
    0x42: ("RD SEND Last", "rdeth deth", "pe"),
    0x43: ("RD SEND Last with Immediate", "rdeth deth immdt", "pe"),
    0x44: ("RD SEND Only", "rdeth deth", "pse"),
    0x45: ("RD SEND Only with Immediate", "rdeth deth immdt", "pse"),
    0x46: ("RD RDMA WRITE First", "rdeth deth reth", "pfs"),
    0x47: ("RD RDMA WRITE Middle", "rdeth deth", "pf"),
    0x48: ("RD RDMA WRITE Last", "rdeth deth", "pe"),
    0x49: ("RD RDMA WRITE Last with Immediate", "rdeth deth immdt", "pe"),
    0x4A: ("RD RDMA WRITE Only", "rdeth deth reth", "pse"),
    0x4B: ("RD RDMA WRITE Only with Immediate", "rdeth deth reth immdt", "pse"),
    0x4C: ("RD RDMA READ Request", "rdeth deth reth", "se"),
    0x4D: ("RD RDMA READ Response First", "rdeth aeth", "pfs"),
    0x4E: ("RD RDMA READ Response Middle", "rdeth", "pf"),
    0x4F: ("RD RDMA READ Response Last", "rdeth aeth", "pe"),
    0x50: ("RD RDMA READ Response Only", "rdeth aeth", "pse"),
    0x51: ("RD Acknowledge", "rdeth aeth", ""),
    0x52: ("RD ATOMIC Acknowledge", "rdeth aeth atomicacketh", ""),
    0x53: ("RD CMP & SWAP", "rdeth deth atomiceth", "se"),
    0x54: ("RD FETCH & ADD", "rdeth deth atomiceth", "se"),
    0x55: ("RD RESYNC", "rdeth deth", ""),
    0xA0: ("XRC SEND First", "xrceth", "pfs"),
    0xA1: ("XRC SEND Middle", "xrceth", "pf"),
    0xA2: ("XRC SEND Last", "xrceth", "pe"),
    0xA3: ("XRC SEND Last with Immediate", "xrceth immdt", "pe"),
    0xA4: ("XRC SEND Only", "xrceth", "pse"),
    0xA5: ("XRC SEND Only with Immediate", "xrceth immdt", "pse"),
    0xA6: ("XRC RDMA WRITE First", "xrceth reth", "pfs"),
    0xA7: ("XRC RDMA WRITE Middle", "xrceth", "pf"),
    0xA8: ("XRC RDMA WRITE Last", "xrceth", "pe"),
    0xA9: ("XRC RDMA WRITE Last with Immediate", "xrceth immdt", "pe"),
    0xAA: ("XRC RDMA WRITE Only", "xrceth reth", "pse"),
    0xAB: ("XRC RDMA WRITE Only with Immediate", "xrceth reth immdt", "pse"),
    0xAC: ("XRC RDMA READ Request", "xrceth reth", "se"),
    0xAD: ("XRC RDMA READ Response First", "aeth", "pfs"),
    0xAE: ("XRC RDMA READ Response Middle", "", "pf"),
    0xAF: ("XRC RDMA READ Response Last", "aeth", "pe"),
    0xB0: ("XRC RDMA READ Response Only", "aeth", "pse"),
    0xB1: ("XRC Acknowledge", "aeth", ""),
    0xB2: ("XRC ATOMIC Acknowledge", "aeth atomicacketh", ""),
    0xB3: ("XRC CMP & SWAP", "xrceth atomiceth", "se"),
    0xB4: ("XRC FETCH & ADD", "xrceth atomiceth", "se"),
    0xB6: ("XRC SEND Last with Invalidate", "xrceth ieth", "pe"),
    0xB7: ("XRC SEND Only with Invalidate", "xrceth ieth", "pse"),
}


def test_the_opcode_table_says_of_each_opcode_what_the_specifications_say() -> None:
    """MRC-WIRE-10."""
    table = afresh("mrc.wire.opcodes").OPCODES
    found = {}
    for value, opcode in table.items():
        assert opcode.value == value
        marks = zip("pfse", (opcode.has_payload, opcode.full_payload, opcode.starts, opcode.ends), strict=True)
        found[value] = (opcode.name, " ".join(opcode.headers), "".join(mark for mark, is_so in marks if is_so))
    assert found == OPCODES


def test_the_arrays_by_opcode_say_what_the_table_says_and_nothing_of_unknown_ones() -> None:
    rows = afresh("mrc.wire.rows")
    lengths = {"meth": 4, "tseth": 0, "reth": 16, "immdt": 4, "aeth": 4, "seth": 28, "cc_state": 8, "neth": 20}
    lengths |= {
        "peth": 16,
        "erth": 16,
        "eeth": 36,
        "atomiceth": 28,
        "atomicacketh": 8,
        "deth": 8,
        "ieth": 4,
        "rdeth": 4,
        "xrceth": 4,
    }
    for value in range(256):
        _, headers, marks = OPCODES.get(value, ("", "", ""))
        assert rows.IS_MRC[value] == (value in OPCODES and value >= 0xC0)
        assert rows.HAS_TSETH[value] == ("tseth" in headers)
        assert rows.HAS_PAYLOAD[value] == ("p" in marks)
        expected = sum(lengths[header] for header in headers.split()) if value in OPCODES else -1
        assert rows.EXTENSION_LENGTH[value] == expected
    assert [len(getattr(rows, name)) for name in ("IS_MRC", "HAS_TSETH", "HAS_PAYLOAD", "EXTENSION_LENGTH")] == [
        256
    ] * 4


# Sections 1 and 3 to 8: field, its first byte (the BTH begins at 48, what follows it at 60), how many; s: signed.
COMMON = (
    "ip_word 0 4, ip_plen 4 2, ip_nh 6 1, ip_hlim 7 1, src_high 8 8, src_low 16 8, dst_high 24 8, dst_low 32 8, "
    "udp_sport 40 2, udp_dport 42 2, udp_len 44 2, udp_chksum 46 2, opcode 48 1, flags 49 1, pkey 50 2, dqp_word 52 4, "
    "psn_word 56 4"
)
LAYOUTS = {
    "COMMON": "",
    "REQUEST": "rqmsn 60 2, msn 62 2, va 64 8, rkey 72 4, dmalen 76 4, immediate 80 4",
    "REQUEST_TS": (
        "rqmsn 60 2, msn 62 2, tx_timestamp 64 2, tseth_word 66 2, va 68 8, rkey 76 4, dmalen 80 4, immediate 84 4"
    ),
    "ACK": "aeth_word 60 4",
    "SACK": (
        "seth_word 60 2, ack_psn_offset 62 s2, entropy 64 4, spdcid 68 2, dpdcid 70 2, cack_word 72 4, cc_type 76 1, "
        "mpr 77 1, sack_offset 78 s2, bitmap 80 8, tx_timestamp 88 2, ooo_count 90 2, rcvd_word 92 4"
    ),
    "NACK": (
        "neth_word 60 2, reason 62 1, vendor_info 63 1, entropy 64 4, spdcid 68 2, dpdcid 70 2, nack_word 72 4, "
        "cc_type 76 1, tx_timestamp 78 2"
    ),
    "PROBE": (
        "peth_word 60 2, vendor_info 63 1, probe_id 64 2, spdcid 68 2, dpdcid 70 2, tx_timestamp 72 2, tseth_word 74 2"
    ),
    "ENDPOINT_REQUEST": "erth_word 60 2, vendor_info 63 1, port_status_mask 64 4, tx_timestamp 72 2, tseth_word 74 2",
    "ENDPOINT_RESPONSE": "eeth_word 60 2, tx_timestamp 88 2",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_field_of_a_layout_is_the_bytes_the_tables_say_most_significant_first(name: str) -> None:
    """MRC-WIRE-09."""
    layout = getattr(afresh("mrc.wire.fields"), name)
    fields = [item.split() for item in f"{COMMON}, {LAYOUTS[name]}".rstrip(", ").split(", ")]
    assert set(layout.names) == {field for field, _, _ in fields}
    row = bytes(at * 37 % 251 for at in range(128))
    values = np.frombuffer(row, layout)[0]
    for field, at, size in fields:
        piece = row[int(at) : int(at) + int(size.lstrip("s"))]
        assert int(values[field]) == int.from_bytes(piece, "big", signed="s" in size), field
    assert layout.itemsize == 128


def test_the_bits_of_a_word_and_the_places_of_fields_are_those_of_the_tables() -> None:
    """Sections 3, 4, 6: psn_word, flags, tseth_word, seth_word; a RETH lies behind the TSETH where there is one."""
    rows = afresh("mrc.wire.rows")
    assert (rows.ACKREQ, rows.RTX, rows.TS, rows.PSN_BITS_MASK) == (1 << 31, 1 << 29, 1 << 28, 0xFFFFFF)
    assert (rows.PAD_SHIFT, rows.TVER_MASK, rows.TSR_BIT) == (4, 0x0F, 1 << 15)
    assert (rows.SETH_M_SHIFT, rows.SETH_PR, rows.PSN_FLAGS_AT) == (5, 2, 56)
    assert (rows.UDP_AT, rows.BTH_AT, rows.EXTENSION_AT, rows.MIN_PACKET) == (40, 48, 60, 64)
    assert rows.masks_in("cc_state", "restore_cwnd rcv_cwnd_pen rcvd_bytes") == (1 << 31, 0x7F << 24, 0xFFFFFF)
    assert rows.fields_at("reth", "va rkey dmalen") == (64, 72, 76)
    assert rows.fields_at("reth", "va rkey dmalen", ts=True) == (68, 76, 80)
    assert (rows.header_at("tseth", ts=True), rows.header_at("immdt"), rows.header_at("immdt", ts=True)) == (64, 80, 84)
    assert rows.offsets_in("erth", "op vendor_info port_status_mask tx_timestamp") == (1, 3, 4, 12)
    with pytest.raises(CallerError, match="reth has no field length"):
        rows.fields_at("reth", "va length")


def test_every_mrc_opcode_has_a_header_at_the_same_place() -> None:
    rows = afresh("mrc.wire.rows")
    lengths = {"meth": 4, "tseth": 4, "reth": 16, "immdt": 4, "aeth": 4, "seth": 28, "cc_state": 8, "neth": 20}
    lengths |= {"peth": 16, "erth": 16, "eeth": 36}
    for ts in (False, True):
        for value, (_, headers, _) in OPCODES.items():
            at = 60
            for header in headers.split() if value >= 0xC0 else ():
                if header != "tseth" or ts:
                    assert rows.header_at(header, ts) == at
                    at += lengths[header]


def test_what_the_icrc_sets_to_ones_in_a_header() -> None:
    """Section 9: IPv6 traffic class, flow label, hop limit; IPv4 ToS, TTL, checksum; UDP checksum; BTH byte 4.

    MRC-ICRC-04, MRC-ICRC-05, MRC-ICRC-06.
    """
    ipv6 = {0: 0x0F, 1: 0xFF, 2: 0xFF, 3: 0xFF, 7: 0xFF, 46: 0xFF, 47: 0xFF, 48 + 4: 0xFF}
    assert bytes(ipv6.get(at, 0) for at in range(53)) == afresh("mrc.wire.icrc").ICRC_MASK
    ipv4 = {1: 0xFF, 8: 0xFF, 10: 0xFF, 11: 0xFF}
    assert bytes(ipv4.get(at, 0) for at in range(20)) == afresh("mrc.wire.ipv4").IPV4_ICRC_MASK
