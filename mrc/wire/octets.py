# SPDX-License-Identifier: BSD-2-Clause
# compiled: C beside it (docs/contributing/compiled.md)
"""Read and write bytes of packets. Interpreted code runs these functions, compiled code those of octets.h.

A view is a memoryview of bytes ("B"), C-contiguous; `at` counts bytes from its start. The functions of octets.h have
the same names and check nothing: the caller has checked lengths. Numbers are big-endian as on the wire, those named
`le` little-endian.
"""

from __future__ import annotations

import ctypes
import struct
from zlib import crc32

from mrc.wire.compiled import const_i32s, const_u8s, pointer, u8s, unsigned

_U16, _U32, _U64, _LE32 = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">Q"), struct.Struct("<I")


def u16(view: const_u8s, at: int) -> int:
    """Read 16 bits."""
    return int(_U16.unpack_from(view, at)[0])


def u32(view: const_u8s, at: int) -> int:
    """Read 32 bits."""
    return int(_U32.unpack_from(view, at)[0])


def u64(view: const_u8s, at: int) -> unsigned:
    """Read 64 bits, as a number without sign."""
    return int(_U64.unpack_from(view, at)[0])


def le32(view: const_u8s, at: int) -> int:
    """Read 32 bits, least significant byte first."""
    return int(_LE32.unpack_from(view, at)[0])


def put16(view: u8s, at: int, value: unsigned) -> None:
    """Write the low 16 bits of `value`."""
    _U16.pack_into(view, at, value & 0xFFFF)


def put32(view: u8s, at: int, value: unsigned) -> None:
    """Write the low 32 bits of `value`."""
    _U32.pack_into(view, at, value & 0xFFFFFFFF)


def put64(view: u8s, at: int, value: unsigned) -> None:
    """Write the low 64 bits of `value`."""
    _U64.pack_into(view, at, value & 0xFFFFFFFFFFFFFFFF)


def put_le32(view: u8s, at: int, value: unsigned) -> None:
    """Write the low 32 bits of `value`, least significant byte first."""
    _LE32.pack_into(view, at, value & 0xFFFFFFFF)


def copy(view: u8s, at: int, source: const_u8s, source_at: int, length: int) -> None:
    """Copy `length` bytes from `source` to `view`. The two must not overlap."""
    view[at : at + length] = source[source_at : source_at + length]


def place(address: unsigned, source: const_u8s, source_at: int, length: int) -> None:
    """`length` bytes from `source` to where memory has this address, the last word last: whoever calls knows that it is
    there."""
    # The last bytes are written last: who watches them finds all of the packet.
    first = max(0, length - 8)
    ctypes.memmove(address, bytes(source[source_at : source_at + first]), first)
    ctypes.memmove(address + first, bytes(source[source_at + first : source_at + length]), length - first)


def equal(view: const_u8s, at: int, other: const_u8s, other_at: int, length: int) -> bool:
    """Tell whether `length` bytes of two views are equal."""
    return view[at : at + length] == other[other_at : other_at + length]


def crc(view: bytes | bytearray | memoryview, at: int, length: int, value: int) -> int:
    """Work out the CRC-32 (zlib's) of `length` bytes, going on from `value`."""
    return crc32(view[at : at + length], value)


def crc_at(address: unsigned, length: int, value: int) -> int:
    """CRC-32 of memory that somebody else keeps alive, from `address` on."""
    return crc32(ctypes.string_at(address, length), value)


def masked_crc(view: const_u8s, at: int, mask: const_u8s, value: int) -> int:
    """Work out the CRC-32 of as many bytes as `mask` has, at most 64, with the bits of `mask` set in them."""
    length = len(mask)
    word = int.from_bytes(view[at : at + length], "little") | int.from_bytes(mask, "little")
    return crc32(word.to_bytes(length, "little"), value)


# Signed 64-bit words in memory that grows without the interpreter: compiled they are a pointer, and who has them frees
# them when it goes.


def words(count: int) -> pointer:
    """So many words, all 0."""
    return memoryview(bytearray(8 * count)).cast("q")


def longer_words(old: pointer, count: int, wanted: int) -> pointer:
    """`wanted` words that begin with these `count`; the others are 0. The old ones are no more."""
    new = words(wanted)
    new[:count] = old[:count]
    return new


def free_words(old: pointer) -> None:
    """Nobody uses these any more."""


def words_at(address: unsigned, count: int) -> pointer:
    """So many words where memory has this address. Whoever calls knows that they are there, and keeps them."""
    return memoryview((ctypes.c_longlong * count).from_address(address)).cast("B").cast("q")


def fetch(numbers: const_i32s, at: int) -> None:
    """These numbers of 32 bits will be read soon: compiled, the processor begins to bring them closer."""


# Words that one thread writes and another reads without a lock. A reader that has seen a published word also sees what
# was written before it.


def publish(words: pointer, at: int, value: int) -> None:
    """Write a word for another thread, with release order."""
    words[at] = value


def published(words: pointer, at: int) -> int:
    """Read a word that another thread publishes, with acquire order."""
    return int(words[at])


def exchange(words: pointer, at: int, value: int) -> int:
    """Write a word that several threads write, and return what it was. What is read after this is read after it."""
    before = int(words[at])
    words[at] = value
    return before
