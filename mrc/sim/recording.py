# SPDX-License-Identifier: BSD-2-Clause
"""What a run in virtual time leaves for `mrc dissect`, `mrc analyze` and Wireshark: captures and traces of hosts.

    fabric = SimFabric(Clos(planes=2, spines=2), traced=("h0",))
    capture = fabric.capture("h0")
    ...
    capture.write("sender.pcap")
    fabric.traces["h0"].write("sender.trace")

Both count time from the start of the run, so that they lie on one time line.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from mrc.errors import SystemRefused
from mrc.fabric.names import parse_host
from mrc.sim.clock import Clock
from mrc.sim.host import SimHost
from mrc.sim.link import SimPacket
from mrc.trace.vocabulary import EventType
from mrc.trace.writer import TraceWriter

_Event = tuple[EventType, int, int | None, tuple[object, ...]]

_NANOSECOND_PCAP, _ETHERNET, _SNAPLEN = 0xA1B23C4D, 1, 65_535
_IPV6_TYPE, _IPV6_IN_IPV6, _HOP_LIMIT = 0x86DD, 41, 64
_BILLION = 1_000_000_000


class HostCapture:
    """What leaves and reaches the ports of one host, from its making on, as a capture on that host has it.

    `packets` is a list of (virtual time in ns, Ethernet frame). All planes are in one capture.
    """

    def __init__(self, host: SimHost, clock: Clock) -> None:
        number = parse_host(host.name) or 0
        high, low = divmod(number + 1, 256)
        own, leaf = bytes((2, 0, 0, high, 0, low)), bytes((2, 0, 0, high, 1, low))
        kind = struct.pack("!H", _IPV6_TYPE)
        self.packets: list[tuple[int, bytes]] = []
        self._clock = clock
        self._ether = own + leaf + kind, leaf + own + kind
        host.taps.append(self._take)

    def _take(self, packet: SimPacket, sent: bool) -> None:
        inner = packet.data
        outer = struct.pack("!IHBB", 6 << 28 | packet.traffic_class << 20, len(inner), _IPV6_IN_IPV6, _HOP_LIMIT)
        outer += inner[8:24] + packet.destination.to_bytes(16, "big")
        self.packets.append((self._clock.now, self._ether[sent] + outer + inner))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a pcap with time stamps in nanoseconds. Raises SystemRefused when it cannot be written."""
        head = struct.pack("!IHHiIII", _NANOSECOND_PCAP, 2, 4, 0, 0, _SNAPLEN, _ETHERNET)
        records = (
            struct.pack("!IIII", *divmod(when, _BILLION), len(frame), len(frame)) + frame
            for when, frame in self.packets
        )
        try:
            Path(path).write_bytes(head + b"".join(records))
        except OSError as error:
            raise SystemRefused(error.errno or 0, f"{Path(path)}: {error.strerror}") from None


class SimTrace:
    """The tracer of one host's endpoint in virtual time: keeps its events until they are written."""

    def __init__(self, host: str, clock: Clock) -> None:
        self._host, self._clock = host, clock
        self._events: list[_Event] = []

    def now(self) -> int:
        """Virtual time, ns."""
        return self._clock.now

    def event(self, kind: EventType, at_ns: int, qpn: int | None, values: tuple[object, ...], /) -> None:
        """Keep one event: the values of its type's fields, in their order."""
        self._events.append((kind, at_ns, qpn, values))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a trace file (docs/trace.md). Raises SystemRefused when it cannot be written."""
        with TraceWriter.open(
            path,
            title=f"{self._host} in virtual time",
            vantage_point="endpoint",
            clock=self.now,
            clock_name="virtual",
            realtime=self.now,
            queue_limit=len(self._events) + 1,
        ) as writer:
            for event in self._events:
                writer.event(*event)
        if writer.failure is not None:
            raise SystemRefused(writer.failure.errno or 0, f"{Path(path)}: {writer.failure.strerror}")
