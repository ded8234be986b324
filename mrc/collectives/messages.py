"""What ranks tell each other: 32-bit immediates, and the headers of what lies in a slot.

An immediate says what a write was: its two highest bits, then a count or a stream and a number of a piece.

| immediate | written was | it says |
|---|---|---|
| SLOT | the next slot: a header and what belongs to it | how many slots were written before, 30 bits |
| PIECE | a piece of a stream, to its place | stream and number of the piece, 15 bits each |
| FREED | nothing | how many slots the receiver has freed so far, 30 bits |
| TAKEN | nothing | how many pieces of a stream it has taken so far |
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from mrc.collectives.reduction import DTYPES, ReduceOp
from mrc.records import record

SLOT, PIECE, FREED, TAKEN = 0, 1, 2, 3
_KIND_SHIFT, _STREAM_SHIFT = 30, 15
COUNT_MASK = (1 << 30) - 1
NUMBER_MASK = (1 << 15) - 1
# Streams of operations between two ranks alone have this bit, and are numbered by who receives.
POINT_STREAM = 1 << 14
STREAM_MASK = POINT_STREAM - 1


def count_immediate(kind: int, count: int) -> int:
    return kind << _KIND_SHIFT | count & COUNT_MASK


def stream_immediate(kind: int, stream: int, number: int) -> int:
    return kind << _KIND_SHIFT | stream << _STREAM_SHIFT | number & NUMBER_MASK


def kind_of(immediate: int) -> int:
    return immediate >> _KIND_SHIFT


def stream_of(immediate: int) -> tuple[int, int]:
    """The stream and the number."""
    return immediate >> _STREAM_SHIFT & NUMBER_MASK, immediate & NUMBER_MASK


class Call(IntEnum):
    """What a rank called."""

    ALL_REDUCE = 1
    REDUCE_SCATTER = 2
    ALL_GATHER = 3
    ALL_TO_ALL = 4
    BROADCAST = 5
    REDUCE = 6
    GATHER = 7
    SCATTER = 8
    BARRIER = 9
    POINT = 10

    @property
    def method(self) -> str:
        return "send or recv" if self is Call.POINT else self.name.lower()


_OPS = frozenset(ReduceOp)
_NO_OP = 0
_NO_DTYPE = 0xFF


@record(frozen=True, slots=True)
class Signature:
    """What has to be the same at every rank: the call, its type and operation, the root, bytes in all."""

    call: Call
    nbytes: int = 0
    dtype: int = _NO_DTYPE
    op: int = _NO_OP
    root: int = 0

    def __str__(self) -> str:
        if self.call is Call.BARRIER:
            return "barrier()"
        said = [f"{self.nbytes:,} bytes"]
        if self.dtype < len(DTYPES):
            said.append(f"of {DTYPES[self.dtype]}")
        if self.op:
            said.append(ReduceOp(self.op).name if self.op in _OPS else str(self.op))
        if self.call in (Call.BROADCAST, Call.REDUCE, Call.GATHER, Call.SCATTER):
            said.append(f"root {self.root}")
        return f"{self.call.method}({', '.join(said)})"


def dtype_number(name: str) -> int:
    return DTYPES.index(name) if name in DTYPES else _NO_DTYPE


class Told(IntEnum):
    """What lies in a slot."""

    DATA = 1  # of an operation: `length` bytes follow
    GRANT = 2  # the receiver of a stream says where its pieces go


# Told, call, dtype, op, root, freed slots, operation (or tag), length, bytes in all, address, rkey, stream, first
# scratch piece, how many of them.
_HEADER = struct.Struct("<BBBBHxxIIQQQIHHHxx")
HEADER_BYTES = 64


class Header(NamedTuple):
    """What begins a slot. `sequence`: the operation's number in its group, or the tag of a point-to-point stream."""

    told: int
    signature: Signature
    freed: int
    sequence: int
    length: int = 0
    address: int = 0
    rkey: int = 0
    stream: int = 0
    first: int = 0
    pieces: int = 0

    def pack_into(self, slot: memoryview) -> None:
        told, signature, freed, sequence, length, address, rkey, stream, first, pieces = self
        _HEADER.pack_into(
            slot,
            0,
            told,
            signature.call,
            signature.dtype,
            signature.op,
            signature.root,
            freed & COUNT_MASK,
            sequence,
            length,
            signature.nbytes,
            address,
            rkey,
            stream,
            first,
            pieces,
        )


def read_header(slot: memoryview) -> Header:
    """Raises ValueError for a call nobody here knows."""
    told, call, dtype, op, root, freed, sequence, length, nbytes, address, rkey, stream, first, pieces = (
        _HEADER.unpack_from(slot)
    )
    signature = Signature(Call(call), nbytes, dtype, op, root)
    return Header(told, signature, freed, sequence, length, address, rkey, stream, first, pieces)


assert _HEADER.size <= HEADER_BYTES
