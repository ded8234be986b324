"""Capture files in: pcap and pcapng, gzip of either, as a stream of whole packets.

A reader of our own, since Scapy's RawPcapReader ends without a word at a file that was cut short and at lengths that
cannot be, and knows no byte offsets: here whatever was whole is handed out first, then the damage is named with the
byte it is at. It reads any stream once, forwards, a chunk at a time, so that pipes and files of any size work alike.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

from mrc.errors import CallerError, PeerError, SystemRefused

CHUNK = 1 << 20
# Libpcap's own limit on the bytes kept of a packet; a file may say it goes further, up to the second number.
MAXIMUM_SNAPLEN = 262_144
HIGHEST_SNAPLEN = 1 << 24

_GZIP = b"\x1f\x8b"
_PCAPNG = b"\x0a\x0d\x0d\x0a"
# First four bytes -> byte order and nanoseconds per unit of the second half of a time stamp.
_PCAP = {
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\x3c\x4d": (">", 1),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
}
_PCAP_HEADER = 24
_PCAP_RECORD = 16


class Record(NamedTuple):
    """One captured packet.

    `time_ns` is in nanoseconds since the epoch, None where the file has no time stamp; `data` the bytes kept, from the
    link layer on; `wire_length` how many bytes the packet had; `link_type` a LINKTYPE number.
    """

    time_ns: int | None
    data: bytes
    wire_length: int
    link_type: int


class Source:
    """A stream with its unread bytes in `buffer` from `at` on; `base` is the offset in the stream of buffer[0]."""

    __slots__ = ("at", "base", "buffer", "name", "stream")

    def __init__(self, stream: BinaryIO, name: str, buffer: bytes = b"") -> None:
        self.stream, self.name, self.buffer = stream, name, buffer
        self.at = self.base = 0

    @property
    def offset(self) -> int:
        """Offset in the stream of the next unread byte."""
        return self.base + self.at

    def fill(self, count: int) -> int:
        """Read on until `count` unread bytes are there or the stream ends; how many are there.

        Raises PeerError when compressed data is damaged, SystemRefused when the system cannot read.
        """
        parts = [self.buffer[self.at :]]
        self.base += self.at
        self.at = 0
        have = len(parts[0])
        try:
            while have < count:
                part = self.stream.read1(CHUNK)  # type: ignore[attr-defined]
                if not part:
                    break
                parts.append(part)
                have += len(part)
        except (EOFError, zlib.error) as error:
            self.buffer = b"".join(parts)
            raise self.damaged(f"the compressed data is damaged ({error})", self.base + have) from None
        except OSError as error:
            self.buffer = b"".join(parts)
            if error.errno is None:  # gzip.BadGzipFile, of the checksum at the end
                raise self.damaged(f"the compressed data is damaged ({error})", self.base + have) from None
            raise SystemRefused(f"{self.name}: reading failed: {error.strerror}") from error
        self.buffer = b"".join(parts)
        return have

    def take(self, count: int) -> bytes | None:
        """The next `count` bytes, or None when the stream ends before: then they stay unread."""
        if len(self.buffer) - self.at < count and self.fill(count) < count:
            return None
        taken = self.buffer[self.at : self.at + count]
        self.at += count
        return taken

    def damaged(self, what: str, offset: int | None = None) -> PeerError:
        """The error to raise for damage at `offset`, by default at the next unread byte."""
        at = self.offset if offset is None else offset
        return PeerError(f"{self.name}: {what} at byte {at}; what stands before it is whole, the rest is left out")

    def cut_short(self, what: str, start: int, needed: int) -> PeerError:
        """The error to raise when the stream ends inside `what`, which begins at `start` and takes `needed` bytes."""
        there = self.base + len(self.buffer) - start
        return PeerError(
            f"{self.name}: cut short: {what} at byte {start} takes {needed} bytes, {there} are there; "
            "what stands before it is whole"
        )


def read_capture(stream: BinaryIO, name: str) -> Iterator[Record]:
    """The packets of a capture, in file order. `name` is what errors call the file.

    The file's own header is read at once; raises CallerError when it is not a capture, SystemRefused when it cannot be
    read. The iterator raises PeerError, after the last whole packet, where the file is damaged or ends too early.
    """
    source = Source(stream, name)
    source.fill(4)
    prefix = ""
    if source.buffer.startswith(_GZIP):
        import gzip

        unread = cast("BinaryIO", _Rejoined(source.buffer, stream))
        source = Source(cast("BinaryIO", gzip.GzipFile(fileobj=unread)), name)
        source.fill(4)
        prefix = "after decompression "
    magic = source.buffer[:4]
    if magic in _PCAP:
        return _pcap(source, *_PCAP[magic])
    if magic == _PCAPNG:
        from mrc.capture.pcapng import read_pcapng

        return read_pcapng(source)
    found = f"begins with {magic.hex(' ')} at byte 0" if magic else "is empty"
    raise CallerError(f"{name}: {prefix}the file {found}: neither pcap nor pcapng (nor gzip of either)")


class _Rejoined:
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self.head, self.stream = head, stream

    def read(self, count: int = -1) -> bytes:
        if not self.head:
            return self.stream.read(count)
        if count < 0:
            taken, self.head = self.head + self.stream.read(), b""
        else:
            taken, self.head = self.head[:count], self.head[count:]
        return taken


def _pcap(source: Source, order: str, unit_ns: int) -> Iterator[Record]:
    header = source.take(_PCAP_HEADER)
    if header is None:
        raise CallerError(f"{source.name}: ends inside the 24-byte pcap header, at byte {len(source.buffer)}")
    snaplen, network = struct.unpack(order + "16xII", header)
    # The upper half may hold the length of a frame check sequence.
    return _pcap_records(source, order, unit_ns, max(MAXIMUM_SNAPLEN, min(snaplen, HIGHEST_SNAPLEN)), network & 0xFFFF)


def _pcap_records(source: Source, order: str, unit_ns: int, limit: int, link_type: int) -> Iterator[Record]:
    unpack = struct.Struct(order + "IIII").unpack_from
    billion = 1_000_000_000
    while True:
        buffer, at = source.buffer, source.at
        last = len(buffer) - _PCAP_RECORD
        needed = _PCAP_RECORD
        while at <= last:
            seconds, fraction, captured, wire_length = unpack(buffer, at)
            if captured > limit:
                source.at = at
                raise source.damaged(f"the packet record says {captured} bytes, more than the {limit} there can be,")
            end = at + _PCAP_RECORD + captured
            if end > len(buffer):
                needed = end - at
                break
            data = buffer[at + _PCAP_RECORD : end]
            at = source.at = end
            yield Record(seconds * billion + fraction * unit_ns, data, wire_length, link_type)
        source.at = at
        have = source.fill(needed)
        if have < needed:
            if have:
                raise source.cut_short("the packet record", source.offset, needed)
            return
