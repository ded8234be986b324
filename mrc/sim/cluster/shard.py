# SPDX-License-Identifier: BSD-2-Clause
"""One shard: a machine with its packets, events and queues, from one window to the next."""

from __future__ import annotations

from collections.abc import Sequence

from mrc.sim.cluster.directions import Directions
from mrc.sim.cluster.egresses import Egresses
from mrc.sim.cluster.event_wheel import EventWheel
from mrc.sim.cluster.host_columns import HostColumns
from mrc.sim.cluster.machine import Machine
from mrc.sim.cluster.packet_pool import PacketPool
from mrc.sim.cluster.setup import ClusterLink, Setup
from mrc.sim.cluster.sharding import Sharding
from mrc.sim.cluster.ways import Ways
from mrc.sim.cluster.work import Work

_LARGEST_PACKET = 4400
_LEAST_PACKETS = 1 << 12
_PACKETS_A_HOST = 256


class Shard:
    """Shard `number`. `machine` is its time, `egresses` its queues, `pool` and `wheel` its packets and events."""

    def __init__(
        self,
        number: int,
        setup: Setup,
        sharding: Sharding,
        columns: HostColumns,
        directions: Directions,
        behind: memoryview,
        work: Work,
    ) -> None:
        topology = setup.topology
        self.number = number
        self.work = work
        first = number * sharding.hosts_per_shard
        hosts = range(first, min(topology.hosts, first + sharding.hosts_per_shard))
        active = sum(columns.handles[host] != 0 for host in hosts)
        # What is never touched takes no memory, and a pool that grows is there twice for a moment.
        self.pool = PacketPool(max(_LEAST_PACKETS, _PACKETS_A_HOST * active))
        farthest_ns = max(_longest_ns(link) for link in (setup.host_link, setup.fabric_link))
        if sharding.count > 1:
            # What comes from another shard left it within a window.
            farthest_ns += sharding.window_ns
        self.wheel = EventWheel(self.pool, directions.count, behind, farthest_ns)
        self.egresses = Egresses(topology, directions, sharding, number, self.pool, self.wheel)
        self.machine = Machine(
            hosts, topology.planes, topology.uplinks, columns, self.pool, self.wheel, self.egresses,
            Ways(topology, self.pool), work,
        )  # fmt: skip
        # Those that sent packets here in the last window.
        self.senders: list[Shard] = []

    # ------------------------------------------------------------------ windows

    def next_at(self) -> int:
        """When something happens here next by itself, ns; FOREVER where nothing does."""
        return min(self.machine.next_at(), self.work.next_start(self.number))

    def tell_receivers(self, shards: Sequence[Shard]) -> None:
        """Between two windows: let those know that this one has sent packets to."""
        for number in self.egresses.crossings.shards():
            shards[number].senders.append(self)

    def take_over(self, at: int) -> None:
        """Take in what others have sent here. Nothing happens anywhere before `at`."""
        self.wheel.advance(at)
        for sender in self.senders:
            sender.egresses.crossings.take(self.number, self.pool, self.wheel)
        self.senders.clear()

    def run(self, until: int, most: int) -> None:
        """Let happen what does up to and including `until`, but no more than about `most` events, and start the flows
        that may."""
        last = self.machine.events + most
        while True:
            start = self.work.next_start(self.number)
            self.machine.until = min(start - 1, until)
            self.machine.run(last - self.machine.events)
            if self.work.failure is not None or self.machine.events >= last:
                return
            start = self.work.next_start(self.number)
            if start > until or self.machine.next_at() < start:
                return
            self.machine.go_to(start)
            self.work.start_ready(self.number, start)

    def go_to(self, at: int) -> None:
        """It is `at` now, which is not after `next_at`."""
        self.machine.go_to(at)


def _longest_ns(link: ClusterLink) -> int:
    """The longest time of a packet from the head of the queue to the other end of the cable."""
    return (_LARGEST_PACKET + link.framing_bytes) * 8_000_000_000 // link.rate_bps + link.delay_ns
