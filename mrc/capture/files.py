"""Capture files in: pcap, pcapng, gzip or zstd of either, and Wireshark's JSON export, as a stream of whole packets.

A reader of our own, since Scapy's RawPcapReader ends without a word at a file that was cut short and at lengths that
cannot be, and knows no byte offsets: here whatever was whole is handed out first, then the damage is named with the
byte it is at. It reads any stream once, forwards, a buffer at a time, so that pipes and files of any size work alike.

`read_frames` hands out packets in runs (`mrc.capture.frames.Frames`), for all who go through millions of them;
`read_capture` one at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, cast

import numpy as np

from mrc.capture.frames import HIGHEST_SNAPLEN, I64, RUN_PACKETS, Frames, Record, rows_at
from mrc.capture.source import Source
from mrc.errors import CallerError

# Libpcap's own limit on the bytes kept of a packet; a file may say it goes further, up to HIGHEST_SNAPLEN.
MAXIMUM_SNAPLEN = 262_144

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# What `mrc craft` prints of its first packet.
_CRAFTED = b"# 1:"
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
    source = Source(stream, name)
    source.fill(4)
    prefix = ""
    if source.peek(2) == _GZIP:
        from mrc.capture.gunzip import Unpacked

        source = Source(cast("BinaryIO", Unpacked(source.peek(source.unread), stream)), name)
        source.fill(4)
        prefix = "after decompression "
    elif source.peek(4) == _ZSTD:
        from mrc.capture import unzstd

        source = Source(cast("BinaryIO", unzstd.Unpacked(source.peek(source.unread), stream)), name)
        source.fill(4)
        prefix = "after decompression "
    magic = source.peek(4)
    if magic in _PCAP:
        return _pcap(source, *_PCAP[magic])
    if magic == _PCAPNG:
        from mrc.capture.pcapng import read_pcapng

        return read_pcapng(source)
    if magic.lstrip()[:1] == b"[":
        from mrc.capture.exported import read_exported

        return read_exported(source)
    if magic == _CRAFTED:
        raise CallerError(f"{name}: this is what `mrc craft` prints for people: `mrc craft ... -o -` writes a capture")
    found = f"begins with {magic.hex(' ')} at byte 0" if magic else "is empty"
    raise CallerError(
        f"{name}: {prefix}the file {found}: neither pcap nor pcapng (nor gzip or zstd of either), "
        "nor what tshark -T json -x prints"
    )


def _pcap(source: Source, order: str, unit_ns: int) -> Iterator[Frames]:
    header = source.read(_PCAP_HEADER)
    if header is None:
        raise CallerError(f"{source.name}: ends inside the 24-byte pcap header, at byte {source.unread}")
    snaplen, network = struct.unpack(order + "16xII", header)
    # The upper half may hold the length of a frame check sequence.
    return _pcap_frames(source, order, unit_ns, max(MAXIMUM_SNAPLEN, min(snaplen, HIGHEST_SNAPLEN)), network & 0xFFFF)


def _pcap_frames(source: Source, order: str, unit_ns: int, limit: int, link_type: int) -> Iterator[Frames]:
    captured_at = struct.Struct(order + "8xI").unpack_from
    while True:
        view, at = source.view, source.at
        last = source.end - _PCAP_RECORD
        starts: list[int] = []
        add = starts.append
        needed = _PCAP_RECORD
        while at <= last and len(starts) < RUN_PACKETS:
            captured = captured_at(view, at)[0]
            stop = at + _PCAP_RECORD + captured
            if captured > limit or stop > source.end:
                needed = stop - at
                break
            add(at)
            at = stop
        source.at = at
        if starts:
            yield _pcap_run(source, np.array(starts, np.int64), order, unit_ns, link_type)
            if len(starts) == RUN_PACKETS:
                continue
        if needed > limit + _PCAP_RECORD:
            captured = needed - _PCAP_RECORD
            raise source.damaged(f"the packet record says {captured} bytes, more than the {limit} there can be,")
        have = source.fill(needed)
        if have < needed:
            if have:
                raise source.cut_short("the packet record", source.offset, needed)
            return


def _pcap_run(source: Source, at: I64, order: str, unit_ns: int, link: int) -> Frames:
    heads = rows_at(source.array, at, _PCAP_RECORD).view(order + "u4").astype(np.int64)
    time_ns = heads[:, 0] * 1_000_000_000 + heads[:, 1] * unit_ns
    return Frames(source.array, at + _PCAP_RECORD, heads[:, 2], heads[:, 3], time_ns, np.full(len(at), link, np.int64))
