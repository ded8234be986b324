# SPDX-License-Identifier: BSD-2-Clause
"""What the responder asks of a request's opcode, as tables of bytes by opcode: 1 where it holds."""

from __future__ import annotations

from mrc.wire.opcodes import IMMEDIATE_OPCODES, OPCODES
from mrc.wire.rows import HAS_TSETH


def _by_opcode(what: str) -> memoryview:
    return memoryview(bytes(value in OPCODES and getattr(OPCODES[value], what) for value in range(256)))


STARTS, ENDS = _by_opcode("starts"), _by_opcode("ends")
IMMEDIATE = memoryview(bytes(value in IMMEDIATE_OPCODES for value in range(256)))
STAMPED = memoryview(HAS_TSETH)
