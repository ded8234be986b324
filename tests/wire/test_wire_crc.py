# SPDX-License-Identifier: BSD-2-Clause
"""CRC-32 for callers that are not compiled: zlib's, of one stretch and of many."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest

from mrc.wire.crc import crc32, crcs


def test_the_check_value_of_the_catalogue() -> None:
    """CRC-32/ISO-HDLC of "123456789"."""
    assert crc32(b"123456789") == 0xCBF43926


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_length_from_any_value_of_any_kind(kind: type) -> None:
    draw = random.Random(1)
    for length in (0, 1, 7, 8, 63, 64, 65, 255, 256, 257, 4096, 4113):
        data, value = draw.randbytes(length), draw.getrandbits(32)
        assert crc32(kind(data), value) == zlib.crc32(data, value)


def test_a_slice_that_is_not_aligned() -> None:
    data = random.Random(2).randbytes(600)
    assert crc32(memoryview(data)[3:531], 9) == zlib.crc32(data[3:531], 9)


def test_many_stretches_go_on_from_the_values_that_are_there() -> None:
    draw = random.Random(3)
    data = draw.randbytes(1 << 16)
    begin = np.array([draw.randrange(1 << 15) for _ in range(200)], np.int64)
    end = begin + [draw.choice((0, 1, 40, 64, 300, 4100)) for _ in range(200)]
    values = np.array([draw.getrandbits(32) for _ in range(200)], np.uint32)
    wanted = [zlib.crc32(data[a:b], int(v)) for a, b, v in zip(begin, end, values, strict=True)]
    crcs(memoryview(data), begin.data, end.data, values.data)
    assert values.tolist() == wanted


def test_none_at_all() -> None:
    none = np.zeros(0, np.int64)
    crcs(memoryview(b""), none.data, none.data, np.zeros(0, np.uint32).data)
