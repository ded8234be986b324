# SPDX-License-Identifier: BSD-2-Clause
"""Captures that are compressed, or text in UTF-16, unpacked as streams, by their first bytes.

gzip and zstd have modules of their own. bzip2 and xz are Python's, lz4 (which Wireshark writes) is the extra `lz4`; one
class reads the three, whose libraries are alike.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from mrc.capture.source import Source
from mrc.errors import CallerError

_CHUNK = 1 << 18
_XZ_MEMORY = 1 << 27
_GZIP, _ZSTD, _BZIP2, _XZ, _LZ4 = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zX", b"\x04\x22\x4d\x18"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# Longest of the magic numbers.
_MAGIC = 4


def unpacked(source: Source) -> Source:
    """The content of a source that is packed; the source itself where it is not.

    Raises CallerError where the library that unpacks it is not installed.
    """
    source.fill(_MAGIC)
    magic = source.peek(_MAGIC)
    head, stream = source.peek(source.unread), source.stream
    found: Any
    if magic.startswith(_GZIP):
        from mrc.capture import gunzip

        found = gunzip.Unpacked(head, stream)
    elif magic == _ZSTD:
        from mrc.capture import unzstd

        found = unzstd.Unpacked(head, stream)
    elif magic.startswith(_BZIP2):
        import bz2

        found = Unpacked(head, stream, bz2.BZ2Decompressor, _BZIP2)
    elif magic == _XZ:
        import lzma

        found = Unpacked(head, stream, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY), _XZ)
    elif magic == _LZ4:
        found = Unpacked(head, stream, _lz4(), _LZ4)
    elif magic[:2] in _UTF16:
        found = Utf16(head, stream, _UTF16[magic[:2]])
    else:
        return source
    return Source(cast("BinaryIO", found), source.name)


def _lz4() -> Callable[[], Any]:
    try:
        import lz4.frame
    except ImportError:
        raise CallerError(
            "the capture is compressed with lz4: `pip install 'softmrc[lz4]'`, or unpack it first: "
            "`lz4 -dc FILE | mrc ... -`"
        ) from None
    made: Callable[[], Any] = lz4.frame.LZ4FrameDecompressor
    return made


class Unpacked:
    """The content of the members that `head` and then `stream` hold, one after the other; `make` makes the decompressor
    of one, each begins with `magic`.

    What follows a member and is not another one is left out. `readinto1` raises EOFError where the packed data ends too
    early and ValueError where it is damaged, once everything before has been read.
    """

    def __init__(self, head: bytes, stream: BinaryIO, make: Callable[[], Any], magic: bytes) -> None:
        self._stream, self._make, self._magic = stream, make, magic
        self._member = make()
        self._packed = head

    def readinto1(self, room: memoryview) -> int:
        """Fill as much of `room` as comes easily; how many bytes, 0 at the end."""
        while True:
            if self._member.eof:
                rest = self._member.unused_data or self._packed
                # Zeros between members are padding of xz.
                while len(rest := rest.lstrip(b"\0")) < len(self._magic) and (more := _read(self._stream)):
                    rest += more
                if not rest.startswith(self._magic):
                    return 0
                self._member, self._packed = self._make(), rest
            packed = self._packed
            if not packed and self._member.needs_input:
                packed = _read(self._stream)
                if not packed:
                    raise EOFError("it ends before its end mark")
            self._packed = b""
            try:
                out = self._member.decompress(packed, len(room))
            except Exception as error:
                # Each library has errors of its own.
                raise ValueError(str(error)) from None
            if out:
                room[: len(out)] = out
                return len(out)


class Utf16:
    """Text in UTF-16 as UTF-8: what PowerShell makes of an export that is redirected into a file.

    `readinto1` raises ValueError at bytes that are no text.
    """

    def __init__(self, head: bytes, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._text = memoryview(self._decoder.decode(head[2:]).encode())

    def readinto1(self, room: memoryview) -> int:
        """Fill as much of `room` as comes easily; how many bytes, 0 at the end."""
        while not self._text:
            data = _read(self._stream)
            self._text = memoryview(self._decoder.decode(data, final=not data).encode())
            if not data:
                break
        count = min(len(room), len(self._text))
        room[:count] = self._text[:count]
        self._text = self._text[count:]
        return count


def _read(stream: Any) -> bytes:
    """Some bytes of a file, or of what unpacks one."""
    if hasattr(stream, "read1"):
        data: bytes = stream.read1(_CHUNK)
        return data
    room = bytearray(_CHUNK)
    return bytes(room[: stream.readinto1(memoryview(room))])
