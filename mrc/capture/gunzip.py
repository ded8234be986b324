# SPDX-License-Identifier: BSD-2-Clause
"""Gzip unpacked as a stream. What came out right before a damage is kept, which gzip's own file object loses."""

from __future__ import annotations

from typing import BinaryIO
from zlib import decompressobj

_GZIP_WITH_HEADER = 31
_CHUNK = 1 << 18
_MAGIC = b"\x1f\x8b"


class Unpacked:
    """The content of the gzip members that `head` and then `stream` hold, one after the other.

    What follows a member and is not another one is left out, as gzip does. `readinto1` raises EOFError where the
    packed data ends too early and zlib.error where it is damaged, once everything before has been read.
    """

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._stream = stream
        self._member = decompressobj(wbits=_GZIP_WITH_HEADER)
        self._packed = head

    def readinto1(self, room: memoryview) -> int:
        """Fill as much of `room` as comes easily; how many bytes, 0 at the end."""
        while True:
            if self._member.eof:
                rest = self._member.unused_data or self._packed
                while len(rest) < 2 and (more := self._read()):
                    rest += more
                if not rest.startswith(_MAGIC):
                    return 0
                self._member, self._packed = decompressobj(wbits=_GZIP_WITH_HEADER), rest
            packed = self._packed or self._read()
            if not packed:
                raise EOFError("it ends before its end mark")
            out = self._member.decompress(packed, len(room))
            self._packed = b"" if self._member.eof else self._member.unconsumed_tail
            if out:
                room[: len(out)] = out
                return len(out)

    def _read(self) -> bytes:
        data: bytes = self._stream.read1(_CHUNK)  # type: ignore[attr-defined]
        return data
