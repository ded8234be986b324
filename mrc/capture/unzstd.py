# SPDX-License-Identifier: BSD-2-Clause
"""Zstandard unpacked as a stream, as `mrc.capture.gunzip` unpacks gzip. The library is the extra `zstd`."""

from __future__ import annotations

from typing import BinaryIO

from mrc.errors import CallerError

_CHUNK = 1 << 18
# A frame says how much memory its reader needs: no more than this, as of the zstd program (--long=27).
_MOST_WINDOW = 1 << 27


class Unpacked:
    """The content of the frames that `head` and then `stream` hold, one after the other.

    `readinto1` raises EOFError where the packed data ends too early and ValueError where it is damaged, once everything
    before has been read. Raises CallerError where the library is not installed.
    """

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        try:
            import zstandard
        except ImportError:
            raise CallerError(
                "the capture is compressed with zstd: `pip install 'softmrc[zstd]'`, or unpack it first: "
                "`zstd -dc FILE | mrc ... -`"
            ) from None
        self._stream = stream
        self._library = zstandard
        self._frame = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW).decompressobj()
        self._packed = head
        self._unpacked = memoryview(b"")

    def readinto1(self, room: memoryview) -> int:
        """Fill as much of `room` as comes easily; how many bytes, 0 at the end."""
        while not self._unpacked:
            if self._frame.eof:
                rest = self._frame.unused_data or self._packed or self._read()
                if not rest:
                    return 0
                self._frame = self._library.ZstdDecompressor(max_window_size=_MOST_WINDOW).decompressobj()
                self._packed = rest
            packed = self._packed or self._read()
            if not packed:
                raise EOFError("it ends before its end mark")
            self._packed = b""
            try:
                self._unpacked = memoryview(self._frame.decompress(packed))
            except self._library.ZstdError as error:
                raise ValueError(str(error)) from None
        count = min(len(room), len(self._unpacked))
        room[:count] = self._unpacked[:count]
        self._unpacked = self._unpacked[count:]
        return count

    def _read(self) -> bytes:
        data: bytes = self._stream.read1(_CHUNK)  # type: ignore[attr-defined]
        return data
