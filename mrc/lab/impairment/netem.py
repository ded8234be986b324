# SPDX-License-Identifier: BSD-2-Clause
"""The kernel's own delay, netem, where the kernel has it: no process wakes up for a packet.

It is the discipline at the root, and the queue of a rate hangs below it: what is late meets the rate when its time has
come. What netem cannot do as our links do is left to the relay (mrc.lab.impairment.delay).
"""

from __future__ import annotations

import struct

from mrc import netlink
from mrc.fabric.impairment import Impairment
from mrc.lab.impairment import traffic_control as tc
from mrc.lab.impairment.delay import DelayFound
from mrc.lab.netlink import Request

KIND = "netem"
# A handle of our own, beside those of the queues (mrc.lab.impairment.direction).
HANDLE = 0x4D510000
BELOW = HANDLE | 1
# latency, limit, loss, gap, duplicate, jitter (struct tc_netem_qopt of linux/pkt_sched.h); times here are of 32 bits
_OPTIONS = struct.Struct("=IIIIII")
_LATENCY64, _JITTER64 = 10, 11
_NS = struct.Struct("=q")
# What it may hold: as much as a relay does, of packets of 1280 bytes.
_LIMIT_PACKETS = 200_000
# A jitter is drawn on both sides of the latency, by a number of 32 bits.
_MOST_JITTER_NS = (1 << 31) - 2


def suits(wanted: Impairment) -> bool:
    """Whether netem delays as `wanted` says. Its jitter lets packets overtake others, each by a draw of its own, so it
    is our jitter only where all packets may."""
    if not wanted.jitter_ns:
        return wanted.delay_ns > 0
    return wanted.reorder == 1 and wanted.jitter_ns % 2 == 0 and wanted.jitter_ns <= _MOST_JITTER_NS


def discipline(index: int, wanted: Impairment, *, new: bool) -> Request:
    """Delay what leaves by an interface: `new`, in place of what is at the root and all below that; else changed, with
    what it holds left alone. The kernel answers ENOENT where it has no netem."""
    half = wanted.jitter_ns // 2
    options = _OPTIONS.pack(0, _LIMIT_PACKETS, 0, 0, 0, 0)
    options += netlink.attribute(_LATENCY64, _NS.pack(wanted.delay_ns + half))
    options += netlink.attribute(_JITTER64, _NS.pack(half))
    return tc.discipline("delay a link", index, HANDLE, tc.ROOT, KIND, options, new=new)


def found(held: tc.Discipline, below: tc.Discipline | None) -> DelayFound:
    """The delay of our netem. It counts what the queue below it drops too, and that is taken off as long as that queue
    is there."""
    said = netlink.attributes(held.options, _OPTIONS.size)
    latency, half = (_NS.unpack(said[kind])[0] if kind in said else 0 for kind in (_LATENCY64, _JITTER64))
    settings = {"delay_ns": latency - half, "jitter_ns": 2 * half, "reorder": 1.0 if half else 0.0}
    queued = below.dropped_packets if below is not None else 0
    return DelayFound(settings, max(0, held.dropped_packets - queued))
