# SPDX-License-Identifier: BSD-2-Clause
"""The program of one direction of a link: its settings, which may change while packets pass, and its counters.

Each direction has a copy of its own, held by the tc filter it hangs on and by nothing else: it goes when the filter,
the interface or the namespace goes. Another process finds it through the filter (`LinkProgram.by_id`).
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from mrc.fabric.impairment import SHARE_GRAIN, Impairment
from mrc.lab.bpf import libbpf
from mrc.opened import Closing
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

LINK_OBJECT = Path(__file__).with_name("link.o")

_MAPS = ("settings", "queue")
# struct settings of link.c: all of them 64 bits wide.
_SETTINGS = struct.Struct("=22Q")
_TRIM_TO_AT = 17  # and behind it the two codepoints that were asked for
# struct queue of link.c: the lock and its padding, the model of the queue, its high water, the counters.
_QUEUE = struct.Struct("=8xQqqq5Q")
# The queue is modelled in billionths of a bit.
_BYTE = 8_000_000_000


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """The settings of the program: `impairment` (of which it does not do the loss), and what that means here.

    `limit_bytes`: what may wait. `burst_bytes`: what leaves at once after a pause, as in the queue behind the program.
    `last_hop`: toward a host, where nothing is marked and a trimmed packet gets another codepoint. `fast_class`: the
    tc class of packets that overtake the others.
    """

    impairment: Impairment
    limit_bytes: int = 0
    burst_bytes: int = 0
    last_hop: bool = False
    fast_class: int = 0
    wire: WireProfile = DEFAULT_WIRE_PROFILE

    def pack(self) -> bytes:
        wanted, wire = self.impairment, self.wire
        longest = 2 * self.limit_bytes + self.burst_bytes
        emptied_ns = -(-longest * _BYTE // wanted.rate_bps) if wanted.rate_bps else 0
        ports = (*wire.accepted_udp_ports, 0, 0)[:2]
        return _SETTINGS.pack(
            wanted.rate_bps,
            self.burst_bytes,
            self.limit_bytes,
            emptied_ns,
            wanted.queue_bytes,
            wanted.ecn_at_bytes,
            wanted.trim_at_bytes,
            round(wanted.duplicate * SHARE_GRAIN),
            round(wanted.corrupt * SHARE_GRAIN),
            self.last_hop,
            self.fast_class,
            wire.dscp_trimmable,
            wire.dscp_trimmable_retx,
            wanted.trim_dscp or wire.dscp_trimmed,
            wanted.trim_dscp_lasthop or wire.dscp_trimmed_lasthop,
            wire.dscp_control,
            wire.trim_keeps_after_bth,
            wanted.trim_to_bytes,
            wanted.trim_dscp,
            wanted.trim_dscp_lasthop,
            *ports,
        )


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """What the program did since it was put there. Dropped: the queue was full. Trimmed: cut; what was small enough to
    pass uncut, with the codepoint all the same, is not counted."""

    queue_high_water_bytes: int = 0
    marked_packets: int = 0
    trimmed_packets: int = 0
    dropped_packets: int = 0
    duplicated_packets: int = 0
    corrupted_packets: int = 0


class LinkProgram(Closing):
    """Descriptors of a loaded program and of its maps. Closing them does not end a program that a filter holds."""

    def __init__(self, descriptor: int) -> None:
        """Takes over `descriptor`. Raises SystemRefused when it is not this program."""
        self.descriptor = descriptor
        try:
            self._settings, self._queue = libbpf.maps_of(descriptor, _MAPS)
        except BaseException:
            os.close(descriptor)
            raise

    @classmethod
    def load(cls, path: Path = LINK_OBJECT) -> LinkProgram:
        """A new one, which does nothing until it has settings. Raises EbpfRefused, SystemRefused."""
        return cls(libbpf.load(path))

    @classmethod
    def by_id(cls, program_id: int) -> LinkProgram:
        """The one of that number, loaded by whomever. Raises EbpfRefused, SystemRefused."""
        return cls(libbpf.program_by_id(program_id))

    def close(self) -> None:
        for descriptor in (self.descriptor, self._settings, self._queue):
            os.close(descriptor)

    def number(self) -> int:
        """What `by_id` takes. Raises SystemRefused."""
        return libbpf.program_id(self.descriptor)

    def set(self, settings: LinkSettings) -> None:
        """From the next packet on. Raises SystemRefused."""
        libbpf.write_map(self._settings, settings.pack())

    def impairment(self) -> Impairment:
        """What was set last, without the loss, which is not this program's. Raises SystemRefused."""
        settings = _SETTINGS.unpack(libbpf.read_map(self._settings, _SETTINGS.size))
        rate, _, _, _, queue, ecn_at, trim_at, duplicate, corrupt, *_ = settings
        trim_to, trim_dscp, trim_dscp_lasthop = settings[_TRIM_TO_AT : _TRIM_TO_AT + 3]
        return Impairment(
            duplicate=duplicate / SHARE_GRAIN,
            corrupt=corrupt / SHARE_GRAIN,
            rate_bps=rate,
            queue_bytes=queue,
            ecn_at_bytes=ecn_at,
            trim_at_bytes=trim_at,
            trim_to_bytes=trim_to,
            trim_dscp=trim_dscp,
            trim_dscp_lasthop=trim_dscp_lasthop,
        )

    def counters(self) -> LinkCounters:
        """Raises SystemRefused."""
        _, _, _, high_water, *counted = _QUEUE.unpack(libbpf.read_map(self._queue, _QUEUE.size, locked=True))
        return LinkCounters(round(max(high_water, 0) / _BYTE), *counted)
