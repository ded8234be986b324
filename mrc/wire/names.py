# SPDX-License-Identifier: BSD-2-Clause
"""Names the protocol gives to numbers (wire.md sections 5 to 8): for layers, summaries and messages alike."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from mrc.wire.opcodes import OPCODES, Op


class NackReason(IntEnum):
    """Why a responder has no use for a packet now (section 7)."""

    TRIMMED = 0x01
    TRIMMED_LASTHOP = 0x02
    NO_BITMAP = 0x06
    NO_PKT_BUFFER = 0x07
    NO_RESOURCE = 0x0A
    PSN_OOR_WINDOW = 0x0B
    UNEXP_EVENT = 0x19


# Section 5; 0x00 to 0x1F is an ACK with that credit.
UNLIMITED_CREDITS = 0x1F
SYNDROMES = {
    **{credits: f"ACK credits {credits}" for credits in range(0x20)},
    0x60: "NAK PSN sequence error",
    0x61: "NAK invalid request",
    0x62: "NAK remote access error",
    0x63: "NAK remote operational error",
}
# Section 6: m of a SACK.
MARKS = {0: "none", 1: "skip once", 2: "always skip", 3: "reserved"}
# Section 7
NACK_REASONS = {reason.value: reason.name for reason in NackReason}
# Section 8
OPERATIONS = {0: "PORT_STATUS_UPDATE", 1: "EV_PROBE"}


class NumberNames(dict[int, str]):
    """Names of numbers. A number that has none is called what `unknown`, a format of Python's, makes of it."""

    def __init__(self, names: Mapping[int, str], unknown: str) -> None:
        super().__init__(names)
        self.unknown = unknown

    def __missing__(self, number: int) -> str:
        return self.unknown.format(number)


# By header and field, every field whose numbers have names.
FIELD_NAMES: dict[tuple[str, str], NumberNames] = {
    ("bth", "opcode"): NumberNames(
        {value: opcode.name for value, opcode in OPCODES.items()}, "Unknown opcode 0x{:02x}"
    ),
    ("aeth", "syndrome"): NumberNames(SYNDROMES, "syndrome 0x{:02x}"),
    ("seth", "m"): NumberNames(MARKS, "mark {}"),
    ("neth", "reason"): NumberNames(NACK_REASONS, "reason 0x{:02x}"),
    ("erth", "op"): NumberNames(OPERATIONS, "op {}"),
    ("eeth", "op"): NumberNames(OPERATIONS, "op {}"),
}

# An identifier for each opcode: MRC's as in `Op`, the standard ones' from their names.
OPCODE_WORDS = {
    value: opcode.name.upper().replace(" & ", "_AND_").replace(" ", "_") for value, opcode in OPCODES.items()
} | {op.value: op.name for op in Op}
