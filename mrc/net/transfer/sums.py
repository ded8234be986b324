# SPDX-License-Identifier: BSD-2-Clause
"""Keyed sums of files, which both ends compare: GMAC, many times faster than a hash that needs no key.

GMAC is AES-GCM over data that is authenticated and not encrypted (NIST SP 800-38D). The key is one session's: the
receiver makes it, and nobody but the two ends knows it. So nobody can make two files of one sum, not even by choosing
both. A file is summed chunk by chunk, in any order and by any thread; its own sum is that of its size and the chunks'.
"""

from __future__ import annotations

import mmap
import os
import secrets
from collections.abc import Callable, Iterable

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mrc.errors import PeerError

CHUNK = 1 << 20
KEY_BYTES = 16
TAG_BYTES = 16
# What a nonce says a sum is of, beside the file: a chunk, some chunks in a row, or all of it.
_CHUNK, _ROW, _WHOLE = 0, 1, 2


class Sums:
    """Makes the sums of one session. `key`: KEY_BYTES bytes; None: a new one."""

    def __init__(self, key: bytes | None = None) -> None:
        self.key = secrets.token_bytes(KEY_BYTES) if key is None else key
        self._cipher = AESGCM(self.key)

    @classmethod
    def of_key(cls, key: str) -> Sums:
        """`key` in hex, as the peer sent it. Raises PeerError for no key."""
        try:
            content = bytes.fromhex(key)
        except ValueError:
            content = b""
        if len(content) != KEY_BYTES:
            raise PeerError("the receiver sent no key for sums: use the same mrc release at both ends")
        return cls(content)

    def tag(self, file: int, kind: int, number: int, content: bytes | memoryview) -> bytes:
        """The sum of `content`. No two places of a session's files share a nonce: kind, file and number."""
        nonce = kind.to_bytes(1, "big") + file.to_bytes(4, "big") + number.to_bytes(7, "big")
        return self._cipher.encrypt(nonce, b"", content)

    def of_content(self, file: int, content: bytes | memoryview) -> str:
        """The sum of a file that is in memory."""
        made = FileSum(self, file)
        made.add(0, content, len(content))
        return made.text(len(content))


class FileSum:
    """The sum of one file, as its chunks become known. `file` is its number in the session.

    `check` is called before each chunk that is read, and ends that by raising: a large file takes a while.
    """

    def __init__(self, sums: Sums, file: int, check: Callable[[], None] = lambda: None) -> None:
        self._sums = sums
        self._file = file
        self._check = check
        self._tags: dict[int, bytes] = {}

    def add(self, offset: int, content: bytes | bytearray | memoryview | mmap.mmap, size: int | None) -> None:
        """Sum the chunks that lie wholly in `content`, which is the file's from `offset` on. `size`: of the file.

        The interpreter is free for other threads meanwhile.
        """
        end = offset + len(content)
        with memoryview(content) as view:
            for chunk in range(-(-offset // CHUNK), -(-end // CHUNK)):
                begin, behind = chunk * CHUNK, min((chunk + 1) * CHUNK, end)
                if behind == (chunk + 1) * CHUNK or end == size:
                    self._tags[chunk] = self._sums.tag(
                        self._file, _CHUNK, chunk, view[begin - offset : behind - offset]
                    )

    def forget(self, offset: int, length: int) -> None:
        """These bytes are going to be written to."""
        for chunk in range(offset // CHUNK, -(-(offset + length) // CHUNK)):
            self._tags.pop(chunk, None)

    def missing(self, size: int) -> int:
        """How many bytes of the file's chunks are still to be read, about."""
        return (-(-size // CHUNK) - len(self._tags)) * CHUNK

    def read(self, descriptor: int, begin: int, end: int, size: int) -> None:
        """Read the chunks between these bytes that are not known yet. Raises OSError, EOFError at a file's end, and
        what `check` raises."""
        buffer = bytearray(min(CHUNK, size))
        with memoryview(buffer) as view:
            for chunk in range(begin // CHUNK, -(-end // CHUNK)):
                if chunk in self._tags:
                    continue
                self._check()
                at, length = chunk * CHUNK, min(CHUNK, size - chunk * CHUNK)
                done = 0
                while done < length:
                    count = os.preadv(descriptor, [view[done:length]], at + done)
                    if not count:
                        raise EOFError(f"the file ends after {at + done} of {size} bytes")
                    done += count
                self._tags[chunk] = self._sums.tag(self._file, _CHUNK, chunk, view[:length])

    def of_block(self, first: int, length: int) -> str:
        """The sum of `length` bytes from byte `first` on, a multiple of a chunk; its chunks are known."""
        chunks = range(first // CHUNK, -(-(first + length) // CHUNK))
        return self._of(_ROW, chunks.start, length, (self._tags[chunk] for chunk in chunks))

    def text(self, size: int) -> str:
        """The file's sum, in hex. All of its chunks are known."""
        return self._of(_WHOLE, 0, size, (self._tags[chunk] for chunk in range(-(-size // CHUNK))))

    def _of(self, kind: int, number: int, length: int, tags: Iterable[bytes]) -> str:
        return self._sums.tag(self._file, kind, number, length.to_bytes(8, "big") + b"".join(tags)).hex()


class RunningSum:
    """The sum of a stream, as its bytes come."""

    def __init__(self, file_sum: FileSum) -> None:
        self._sum = file_sum
        self._held = bytearray()
        self.size = 0

    def add(self, content: bytes | memoryview) -> None:
        """These bytes follow."""
        with memoryview(content) as view:
            at = min(len(view), -self.size % CHUNK)
            self._held += view[:at]
            if len(self._held) == CHUNK:
                self._sum.add(self.size + at - CHUNK, self._held, None)
                self._held = bytearray()
            behind = len(view) - (len(view) - at) % CHUNK
            if behind > at:
                self._sum.add(self.size + at, view[at:behind], None)
            self._held += view[max(at, behind) :]
            self.size += len(view)

    def text(self) -> str:
        """The sum of what came until now."""
        if self._held:
            self._sum.add(self.size - len(self._held), self._held, self.size)
        return self._sum.text(self.size)
