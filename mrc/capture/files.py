# SPDX-License-Identifier: BSD-2-Clause
"""Capture files in: pcap, pcapng, compressed or not, and Wireshark's JSON exports, as a stream of whole packets.

A reader of our own, since Scapy's RawPcapReader ends without a word at a file that was cut short and at lengths that
cannot be, and knows no byte offsets: here whatever was whole is handed out first, then the damage is named with the
byte it is at. It reads any stream once, forwards, a buffer at a time, so that pipes and files of any size work alike.

`read_frames` hands out packets in runs (`mrc.capture.frames.Frames`), for all who go through millions of them;
`read_capture` one at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from mrc.capture.foreign import LOOKED_AT, named
from mrc.capture.frames import HIGHEST_SNAPLEN, I64, RUN_PACKETS, Frames, Record, rows_at
from mrc.capture.source import Source
from mrc.capture.unpack import unpacked
from mrc.errors import CallerError

# Libpcap's own limit on the bytes kept of a packet; a file may say it goes further, up to HIGHEST_SNAPLEN.
MAXIMUM_SNAPLEN = 262_144

_UTF8_MARK = b"\xef\xbb\xbf"
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_PCAP_HEADER = 24
_PCAP_RECORD = 16
# Of the "modified" format, that of an old patch of libpcap: with interface, protocol and kind of packet.
_MODIFIED_RECORD = 24
# First four bytes -> byte order, nanoseconds per unit of the second half of a time stamp, bytes before a packet.
_PCAP = {
    b"\xa1\xb2\xc3\xd4": (">", 1000, _PCAP_RECORD),
    b"\xd4\xc3\xb2\xa1": ("<", 1000, _PCAP_RECORD),
    b"\xa1\xb2\x3c\x4d": (">", 1, _PCAP_RECORD),
    b"\x4d\x3c\xb2\xa1": ("<", 1, _PCAP_RECORD),
    b"\xa1\xb2\xcd\x34": (">", 1000, _MODIFIED_RECORD),
    b"\x34\xcd\xb2\xa1": ("<", 1000, _MODIFIED_RECORD),
}


def read_capture(stream: BinaryIO, name: str) -> Iterator[Record]:
    """The packets of a capture, in file order. `name` is what errors call the file. Raises as `read_frames`."""
    return _one_at_a_time(read_frames(stream, name))


def _one_at_a_time(runs: Iterator[Frames]) -> Iterator[Record]:
    for run in runs:
        yield from run.records()


def read_frames(stream: BinaryIO, name: str) -> Iterator[Frames]:
    """The packets of a capture in runs, in file order. `name` is what errors call the file.

    The file's own header is read at once; raises CallerError when it is not a capture or no library can unpack it,
    SystemRefused when it cannot be read. The iterator raises PeerError, after the last whole packet, where the file is
    damaged or ends too early.
    """
    packed = Source(stream, name)
    source = unpacked(packed)
    if source is not packed:
        # A text in UTF-16 may be compressed, too.
        source = unpacked(source)
    source.fill(LOOKED_AT)
    magic = source.peek(4)
    if magic in _PCAP:
        return _pcap(source, *_PCAP[magic])
    if magic == _PCAPNG:
        from mrc.capture.pcapng import read_pcapng

        return read_pcapng(source)
    if magic.startswith(_UTF8_MARK):
        source.at += len(_UTF8_MARK)
    head = source.peek(LOOKED_AT)
    if head.lstrip()[:1] in (b"[", b"{"):
        from mrc.capture.exported import read_exported

        return read_exported(source)
    what = named(head.lstrip() or magic)
    if what is not None:
        raise CallerError(f"{name}: the file {what}")
    prefix = "" if source is packed else "after decompression "
    found = f"begins with {magic.hex(' ')} at byte 0" if magic else "is empty"
    raise CallerError(
        f"{name}: {prefix}the file {found}: neither pcap nor pcapng (nor gzip, zstd, xz, bzip2 or lz4 of either), "
        "nor what tshark -T json -x or -T ek -x prints"
    )


def _pcap(source: Source, order: str, unit_ns: int, before: int) -> Iterator[Frames]:
    header = source.read(_PCAP_HEADER)
    if header is None:
        raise CallerError(f"{source.name}: ends inside the 24-byte pcap header, at byte {source.unread}")
    snaplen, network = struct.unpack(order + "16xII", header)
    # The upper half may hold the length of a frame check sequence.
    limit = max(MAXIMUM_SNAPLEN, min(snaplen, HIGHEST_SNAPLEN))
    return _pcap_frames(source, order, unit_ns, before, limit, network & 0xFFFF)


def _pcap_frames(source: Source, order: str, unit_ns: int, before: int, limit: int, link_type: int) -> Iterator[Frames]:
    captured_at = struct.Struct(order + "8xI").unpack_from
    while True:
        view, at = source.view, source.at
        last = source.end - before
        starts: list[int] = []
        add = starts.append
        needed = before
        while at <= last and len(starts) < RUN_PACKETS:
            captured = captured_at(view, at)[0]
            stop = at + before + captured
            if captured > limit or stop > source.end:
                needed = stop - at
                break
            add(at)
            at = stop
        source.at = at
        if starts:
            yield _pcap_run(source, np.array(starts, np.int64), order, unit_ns, before, link_type)
            if len(starts) == RUN_PACKETS:
                continue
        if needed > limit + before:
            captured = needed - before
            raise source.damaged(f"the packet record says {captured} bytes, more than the {limit} there can be,")
        have = source.fill(needed)
        if have < needed:
            if have:
                raise source.cut_short("the packet record", source.offset, needed)
            return


def _pcap_run(source: Source, at: I64, order: str, unit_ns: int, before: int, link: int) -> Frames:
    heads = rows_at(source.array, at, _PCAP_RECORD).view(order + "u4").astype(np.int64)
    time_ns = heads[:, 0] * 1_000_000_000 + heads[:, 1] * unit_ns
    links, digits = np.full(len(at), link, np.int64), 9 if unit_ns == 1 else 6
    return Frames(source.array, at + before, heads[:, 2], heads[:, 3], time_ns, links, digits)
