# SPDX-License-Identifier: BSD-2-Clause
"""SHA-256 of files, read piece by piece."""

from __future__ import annotations

import hashlib
import os

_CHUNK = 1024 * 1024


def sha256_of(descriptor: int, length: int, offset: int = 0) -> str:
    """SHA-256 in hex of `length` bytes of a file from `offset` on.

    It is read piece by piece: a mapping read through would stay in memory. The interpreter is free for other threads
    meanwhile. Raises OSError, and EOFError when the file is shorter.
    """
    digest = hashlib.sha256()
    buffer = bytearray(_CHUNK)
    done = 0
    with memoryview(buffer) as view:
        while done < length:
            count = os.preadv(descriptor, [view[: min(_CHUNK, length - done)]], offset + done)
            if not count:
                raise EOFError(f"the file ends after {offset + done} of {offset + length} bytes")
            digest.update(view[:count])
            done += count
    return digest.hexdigest()


def block_sums(descriptor: int, first: int, count: int, block_bytes: int) -> list[str]:
    """SHA-256 in hex of `count` blocks of a file, the `first` one on. Raises like `sha256_of`."""
    return [sha256_of(descriptor, block_bytes, block * block_bytes) for block in range(first, first + count)]
