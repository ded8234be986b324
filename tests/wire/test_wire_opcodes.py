# SPDX-License-Identifier: BSD-2-Clause
"""The opcode table against wire.md section 2 (MRC) and IBTA chapter 9 (standard opcodes), written out by hand."""

from __future__ import annotations

import pytest

from mrc.errors import CallerError
from mrc.wire.opcodes import (
    BTH_LENGTH,
    HEADER_LENGTHS,
    ICRC_LENGTH,
    IMMEDIATE_OPCODES,
    OPCODES,
    REQUEST_OPCODES,
    Op,
    Opcode,
    by_value,
)
from mrc.wire.rows import EXTENSION_LENGTH, HAS_PAYLOAD, HAS_TSETH, IS_MRC

# Section 2: value -> bytes after the BTH without and with a TSETH, and whether a payload may follow.
# METH 4, TSETH 4, RETH 16, ImmDt 4, AETH 4, ERTH 16, EETH 36, SETH 28 + CC_STATE 8, NETH 20, PETH 16.
MRC = {
    0xC6: (20, 24, True),
    0xC7: (20, 24, True),
    0xC8: (20, 24, True),
    0xC9: (24, 28, True),
    0xCA: (20, 24, True),
    0xCB: (24, 28, True),
    0xD1: (4, 4, False),
    0xD8: (16, 16, False),
    0xD9: (36, 36, False),
    0xDC: (36, 36, False),
    0xDD: (20, 20, False),
    0xDE: (16, 16, False),
}
# IBTA table 38: RC opcodes and the lengths of RETH 16, ImmDt 4, AETH 4, AtomicETH 28, AtomicAckETH 8, IETH 4, DETH 8.
# UC as RC; RD with RDETH 4 and DETH 8 in front, answers with the RDETH alone; XRC requests with XRCETH 4 (annex A14).
STANDARD = {
    0x00: 0, 0x01: 0, 0x02: 0, 0x03: 4, 0x04: 0, 0x05: 4,
    0x06: 16, 0x07: 0, 0x08: 0, 0x09: 4, 0x0A: 16, 0x0B: 20,
    0x0C: 16, 0x0D: 4, 0x0E: 0, 0x0F: 4, 0x10: 4, 0x11: 4, 0x12: 12, 0x13: 28, 0x14: 28,
    0x16: 4, 0x17: 4, 0x64: 8, 0x65: 12, 0x81: 0,
    0x20: 0, 0x21: 0, 0x22: 0, 0x23: 4, 0x24: 0, 0x25: 4, 0x26: 16, 0x27: 0, 0x28: 0,
    0x29: 4, 0x2A: 16, 0x2B: 20, 0x40: 12, 0x41: 12, 0x42: 12, 0x43: 16, 0x44: 12, 0x45: 16,
    0x46: 28, 0x47: 12, 0x48: 12, 0x49: 16, 0x4A: 28, 0x4B: 32, 0x4C: 28, 0x4D: 8, 0x4E: 4,
    0x4F: 8, 0x50: 8, 0x51: 8, 0x52: 16, 0x53: 40, 0x54: 40, 0x55: 12, 0xA0: 4, 0xA1: 4,
    0xA2: 4, 0xA3: 8, 0xA4: 4, 0xA5: 8, 0xA6: 20, 0xA7: 4, 0xA8: 4, 0xA9: 8, 0xAA: 20,
    0xAB: 24, 0xAC: 20, 0xAD: 4, 0xAE: 0, 0xAF: 4, 0xB0: 4, 0xB1: 4, 0xB2: 12, 0xB3: 32,
    0xB4: 32, 0xB6: 8, 0xB7: 8,
}  # fmt: skip


def test_mrc_opcodes_are_those_of_section_2_and_no_others() -> None:
    assert {value for value, opcode in OPCODES.items() if opcode.is_mrc} == set(MRC) == {int(op) for op in Op}


@pytest.mark.parametrize("value", MRC)
def test_lengths_of_section_2(value: int) -> None:
    """MRC-WIRE-10, MRC-WIRE-11, MRC-WIRE-12, MRC-WIRE-13, MRC-WIRE-14, MRC-WIRE-15, MRC-WIRE-16, MRC-REQ-12."""
    plain, with_timestamp, payload = MRC[value]
    opcode = OPCODES[value]
    assert opcode.header_length(ts=False) == plain == EXTENSION_LENGTH[value]
    assert opcode.header_length(ts=True) == with_timestamp
    assert opcode.has_payload is payload
    assert bool(HAS_PAYLOAD[value]) is payload
    assert bool(HAS_TSETH[value]) is (with_timestamp != plain)
    assert IS_MRC[value] == 1


@pytest.mark.parametrize("value", STANDARD)
def test_lengths_of_standard_opcodes(value: int) -> None:
    assert OPCODES[value].header_length(ts=False) == STANDARD[value] == EXTENSION_LENGTH[value]
    assert OPCODES[value].header_length(ts=True) == STANDARD[value]
    assert IS_MRC[value] == 0


def test_the_table_holds_nothing_else() -> None:
    assert set(OPCODES) == set(MRC) | set(STANDARD)
    for value in set(range(256)) - set(OPCODES):
        assert EXTENSION_LENGTH[value] == -1
        assert not IS_MRC[value]


def test_fixed_lengths() -> None:
    """Sections 3 to 9."""
    assert (BTH_LENGTH, ICRC_LENGTH) == (12, 4)
    assert HEADER_LENGTHS["seth"] + HEADER_LENGTHS["cc_state"] == 36


def test_places_in_a_message() -> None:
    """Section 4: First and Middle carry one whole path MTU; Only is both the first and the last packet."""
    requests = {0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB}
    assert requests == REQUEST_OPCODES
    assert {0xC9, 0xCB} == IMMEDIATE_OPCODES
    assert {value for value in requests if OPCODES[value].full_payload} == {0xC6, 0xC7}
    assert {value for value in requests if OPCODES[value].starts} == {0xC6, 0xCA, 0xCB}
    assert {value for value in requests if OPCODES[value].ends} == {0xC8, 0xC9, 0xCA, 0xCB}


def test_two_opcodes_of_one_number_are_refused() -> None:
    """Packets of one would be read as the other, without a word."""
    mine = Opcode(0xD9, "Load Report", ("eeth",))
    with pytest.raises(CallerError, match="opcode 0xd9 is Endpoint Response already: choose another for Load Report"):
        by_value((*OPCODES.values(), mine))
