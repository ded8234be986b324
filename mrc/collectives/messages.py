# SPDX-License-Identifier: BSD-2-Clause
"""The messages between ranks: 32-bit immediates, and the headers of slots.

The two highest bits of an immediate say what was written. A count follows, or a stream and a chunk number.

| immediate | written | carries |
|---|---|---|
| SLOT | the next slot: a header and its data | the number of slots written before, 30 bits |
| CHUNK | a chunk of a stream, at its place | stream and chunk number, 15 bits each |
| FREED | nothing | a credit: the number of slots the receiver has freed so far, 30 bits |
| TAKEN | nothing | a credit: stream, and the number of its chunks taken so far, 15 bits each |
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from mrc.collectives.errors import CallMismatch
from mrc.collectives.reduction import DTYPES, ReduceOp, dtype_name
from mrc.records import record

SLOT, CHUNK, FREED, TAKEN = 0, 1, 2, 3
_KIND_SHIFT, _STREAM_SHIFT = 30, 15
COUNT_MASK = (1 << 30) - 1
NUMBER_MASK = (1 << 15) - 1
# The bit of point-to-point streams. The receiver numbers them.
POINT_STREAM = 1 << 14
STREAM_MASK = POINT_STREAM - 1


def count_immediate(kind: int, count: int) -> int:
    return kind << _KIND_SHIFT | count & COUNT_MASK


def stream_immediate(kind: int, stream: int, number: int) -> int:
    return kind << _KIND_SHIFT | stream << _STREAM_SHIFT | number & NUMBER_MASK


def kind_of(immediate: int) -> int:
    return immediate >> _KIND_SHIFT


def stream_of(immediate: int) -> tuple[int, int]:
    """Return the stream and the number."""
    return immediate >> _STREAM_SHIFT & NUMBER_MASK, immediate & NUMBER_MASK


class Call(IntEnum):
    """The operations."""

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
    """The arguments that must be the same at every rank: the call, its type and reduction, the root, the total
    bytes."""

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


@lru_cache(1024)
def signature_of(call: int, nbytes: int = 0, dtype: int = _NO_DTYPE, op: int = _NO_OP, root: int = 0) -> Signature:
    """Return a signature, mostly one that was there before. Raises ValueError for an unknown call."""
    return Signature(Call(call), nbytes, dtype, op, root)


_NUMBERS = {name: number for number, name in enumerate(DTYPES)}


def dtype_number(dtype: np.dtype[Any]) -> int:
    return _NUMBERS.get(dtype_name(dtype), _NO_DTYPE)


class SlotKind(IntEnum):
    """The content of a slot."""

    DATA = 1  # of an operation; `length` bytes follow
    GRANT = 2  # where the receiver of a stream wants its chunks
    CALL = 3  # what the writer, which waits for a grant, has called
    WANT = 4  # the writer would receive from any rank, with the tag
    HAVE = 5  # `length` sends with the tag since the WANT that the writer has heard


# SlotKind, call, dtype, op, root, freed slots, operation (or tag), length, bytes in all, address, rkey, stream, first
# scratch chunk, how many of them.
_HEADER = struct.Struct("<BBBBHxxIIQQQIHHHxx")
HEADER_BYTES = 64


class Header(NamedTuple):
    """The header of a slot. `sequence`: the operation's number in its group, or the tag of a point-to-point stream."""

    kind: int
    signature: Signature
    freed: int
    sequence: int
    length: int = 0
    address: int = 0
    rkey: int = 0
    stream: int = 0
    first: int = 0
    chunks: int = 0

    def pack_into(self, slot: memoryview, freed: int) -> None:
        """Write it into a slot, with a credit for `freed` slots."""
        kind, signature, _, sequence, length, address, rkey, stream, first, chunks = self
        _HEADER.pack_into(
            slot,
            0,
            kind,
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
            chunks,
        )


def read_header(slot: memoryview) -> Header:
    """Read the header of a slot. Raises ValueError for an unknown operation."""
    kind, call, dtype, op, root, freed, sequence, length, nbytes, address, rkey, stream, first, chunks = (
        _HEADER.unpack_from(slot)
    )
    return Header(
        kind, signature_of(call, nbytes, dtype, op, root), freed, sequence, length, address, rkey, stream, first, chunks
    )


assert _HEADER.size <= HEADER_BYTES


def stream_number(sequence: int) -> int:
    """Return the stream number of an operation, for immediates."""
    return sequence & STREAM_MASK


class Token(NamedTuple):
    """An operation of this rank: its number and its signature, which are the same at all ranks."""

    sequence: int
    signature: Signature

    def check(self, rank: int, header: Header) -> None:
        """Raise CallMismatch unless the rank called the same operation."""
        if header.signature != self.signature or header.sequence != self.sequence:
            raise self.differs(rank, header)

    def differs(self, rank: int, header: Header) -> CallMismatch:
        return CallMismatch(
            f"rank {rank} called {header.signature} as operation {header.sequence}, this rank called {self.signature} "
            f"as operation {self.sequence}: all ranks have to call the same operations in the same order, of the same "
            "sizes",
            rank,
        )

    def too_much(self, rank: int) -> CallMismatch:
        return CallMismatch(f"rank {rank} sent more than operation {self.sequence}, {self.signature}, takes", rank)
