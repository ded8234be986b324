# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""CRC-32 as in zlib, Ethernet and the ICRC (wire.md section 9), for callers that are not compiled themselves."""

from __future__ import annotations

from mrc.wire import octets
from mrc.wire.compiled import const_i64s, const_u8s, u32s


def crc32(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    """CRC-32 of contiguous bytes, going on from `value`, the CRC-32 of what stands before them."""
    return octets.crc(data, 0, len(data), value)


def crcs(data: const_u8s, begin: const_i64s, end: const_i64s, values: u32s) -> None:
    """CRC-32 of many stretches of `data`, each from byte `begin[i]` up to `end[i]` and going on from `values[i]`, which
    it takes the place of. Compiled nothing is checked: the caller has.

    `begin` and `end` are arrays of int64, `values` is one of uint32, all of the same length.
    """
    for at in range(len(values)):
        values[at] = octets.crc(data, begin[at], end[at] - begin[at], values[at])
