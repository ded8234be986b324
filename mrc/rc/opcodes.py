# SPDX-License-Identifier: BSD-2-Clause
"""The opcodes of RC that a requestor and a responder of RDMA writes speak (IBTA 9.2, table 38)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from mrc.endpoint.datapath.receive import TransportTerms
from mrc.wire.opcodes import OPCODES


class RcOp(IntEnum):
    """A write names address, key and length in its first packet only; what follows follows in order."""

    WRITE_FIRST = 0x06
    WRITE_MIDDLE = 0x07
    WRITE_LAST = 0x08
    WRITE_LAST_WITH_IMMEDIATE = 0x09
    WRITE_ONLY = 0x0A
    WRITE_ONLY_WITH_IMMEDIATE = 0x0B
    ACKNOWLEDGE = 0x11


WRITES = frozenset(RcOp) - {RcOp.ACKNOWLEDGE}
# Answers to READs and ATOMICs, which nobody here asks for.
OTHER_ANSWERS = frozenset({0x0D, 0x0E, 0x0F, 0x10, 0x12})

_RC_OPCODES = range(0x20)  # they begin with the bits 000
# What packets of RC have to be. Our P_Key is a full member's: of the peer's only the lower 15 bits have to agree.
RC_TERMS: Final = TransportTerms(
    bytes(value in _RC_OPCODES and value in OPCODES for value in range(256)), pkey_mask=0x7FFF
)


def write_opcode(*, first: bool, last: bool, immediate: bool) -> RcOp:
    """The opcode of a write's packet by its place in the message."""
    if first and last:
        return RcOp.WRITE_ONLY_WITH_IMMEDIATE if immediate else RcOp.WRITE_ONLY
    if last:
        return RcOp.WRITE_LAST_WITH_IMMEDIATE if immediate else RcOp.WRITE_LAST
    return RcOp.WRITE_FIRST if first else RcOp.WRITE_MIDDLE
