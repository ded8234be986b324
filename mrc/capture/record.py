# SPDX-License-Identifier: BSD-2-Clause
"""Record what passes the interfaces of a host into a pcap file, with the kernel's nanosecond stamps.

Runs as a process of its own inside the host's namespace, `python -m mrc.capture.record FILE INTERFACE...`, until it
is ended by SIGTERM or SIGINT; it prints `ready` on stdout once it listens. At the end it says how many packets it
wrote and how many the kernel had to drop.

Packets are taken from a ring (TPACKET_V2), into which the kernel copies each one as it passes. An ordinary packet
socket shares the buffer with the packet on its way, and the next switch has rewritten its destination before it is
read.
"""

from __future__ import annotations

import mmap
import select
import signal
import socket
import struct
import sys
import time
from heapq import merge
from pathlib import Path
from typing import BinaryIO

ETH_P_ALL = 0x0003
SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION = 263, 5, 6, 10
TPACKET_V2 = 1
TP_STATUS_KERNEL, TP_STATUS_USER = 0, 1
_PCAP_NANOSECONDS = 0xA1B23C4D
_LINKTYPE_ETHERNET = 1
_SNAPLEN = 65535

_BLOCK = 1 << 20
_FRAME = 4608  # a whole packet of any path MTU and its ring header
_PER_BLOCK = _BLOCK // _FRAME
_BLOCKS = 36  # room for 8,172 packets: the kernel clears it all at once, which takes longer than to record them
# Packets are taken so many seconds' worth at a time: to wake for each costs several times what it takes to write it.
_NAP_S = 0.005
# struct tpacket2_hdr: status, len, snaplen, mac offset, net offset, seconds, nanoseconds
_FRAME_HEADER = struct.Struct("=IIIHHII")


# Seconds, nanoseconds, length on the wire, bytes kept.
_Packet = tuple[int, int, int, bytes]


class _Ring:
    """The receive ring of one interface."""

    def __init__(self, interface: str) -> None:
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        self._frames = _PER_BLOCK * _BLOCKS
        request = struct.pack("=IIII", _BLOCK, _BLOCKS, _FRAME, self._frames)
        self.socket.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
        self._map = mmap.mmap(self.socket.fileno(), _BLOCK * _BLOCKS)
        self._next = 0
        self.socket.bind((interface, ETH_P_ALL))

    def drain(self) -> list[_Packet]:
        """Take every packet that has arrived."""
        taken: list[_Packet] = []
        while True:
            block, place = divmod(self._next, _PER_BLOCK)
            at = block * _BLOCK + place * _FRAME
            status, length, kept, mac, _, seconds, nanoseconds = _FRAME_HEADER.unpack_from(self._map, at)
            if not status & TP_STATUS_USER:
                return taken
            taken.append((seconds, nanoseconds, length, self._map[at + mac : at + mac + kept]))
            struct.pack_into("=I", self._map, at, TP_STATUS_KERNEL)
            self._next = (self._next + 1) % self._frames

    def close(self) -> int:
        """Returns how many packets the kernel dropped for want of room in the ring."""
        _, dropped = struct.unpack("=II", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self._map.close()
        self.socket.close()
        return int(dropped)


class _Writer:
    """Puts the packets of several rings in order of time.

    A ring is drained after another, so packets of the first that arrive meanwhile come a turn later, behind younger
    ones of the second. Each packet waits until every ring has been drained once more.
    """

    def __init__(self, file: BinaryIO, rings: int) -> None:
        self.written = 0
        self._file = file
        self._waiting: list[list[_Packet]] = [[] for _ in range(rings)]

    def add(self, drained: list[list[_Packet]]) -> None:
        """Write what was waiting, and what was drained now and is older than that."""
        latest = max((each[-1][:2] for each in self._waiting if each), default=(-1, 0))
        ready = []
        for ring, new in enumerate(drained):
            # The packets of a ring keep their order, also where the clock was set back.
            count = next((at for at, each in enumerate(new) if each[:2] > latest), len(new))
            ready.append(self._waiting[ring] + new[:count])
            self._waiting[ring] = new[count:]
        for seconds, nanoseconds, length, kept in merge(*ready, key=lambda packet: packet[:2]):
            self._file.write(struct.pack("<IIII", seconds, nanoseconds, len(kept), length))
            self._file.write(kept)
        self.written += sum(map(len, ready))


def record(path: Path, interfaces: list[str]) -> tuple[int, int]:
    """Write packets to `path` until a signal. Returns (packets written, packets the kernel dropped)."""
    stopping = False

    def stop(signum: int, frame: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    rings = [_Ring(interface) for interface in interfaces]
    with open(path, "wb", buffering=1 << 20) as file:
        file.write(struct.pack("<IHHiIII", _PCAP_NANOSECONDS, 2, 4, 0, 0, _SNAPLEN, _LINKTYPE_ETHERNET))
        writer = _Writer(file, len(rings))
        print("ready", flush=True)
        while True:
            select.select([ring.socket for ring in rings], (), (), 0 if stopping else 0.1)
            drained = [ring.drain() for ring in rings]
            writer.add(drained)
            if any(drained):
                time.sleep(_NAP_S)
            elif stopping:
                break
    return writer.written, sum(ring.close() for ring in rings)


if __name__ == "__main__":
    try:
        packets, lost = record(Path(sys.argv[1]), sys.argv[2:])
    except OSError as error:
        sys.exit(error.strerror or str(error))
    print(f"{packets} {lost}", flush=True)
