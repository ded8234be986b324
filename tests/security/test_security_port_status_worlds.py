# SPDX-License-Identifier: BSD-2-Clause
"""Port status between two whole endpoints over eight planes: one that is forged passes, one that is true holds."""

from __future__ import annotations

from collections import Counter

import pytest
from hand_operations import PORT_STATUS_UPDATE, request

from mrc.fabric import Clos
from mrc.fabric.address import address
from mrc.sim import LinkModel, SimFabric
from mrc.sim.link import SimPacket
from mrc.wire.ipv4 import address_number
from mrc.wire.received_batch import ReceivedBatch

PLANES = 8
SECOND = 10**9
SMALL = 200  # bytes; data is larger, control packets are not
STEP = SECOND // 10
# The answer to a request id that h1 has used would make it say at once what holds.
NOT_DRAWN = 0x9000


class Planes:
    """Which planes h0 sends on, between two moments."""

    def __init__(self, both_ways: bool) -> None:
        self.fabric = SimFabric(Clos(planes=PLANES, spines=2), LinkModel(rate_bps=10**7, delay_ns=1000), seed=3)
        self.qp, self.peer = self.fabric.connect("h0", "h1")
        self.streams = [self.fabric.stream(self.qp, 1 << 14)]
        if both_ways:
            self.streams.append(self.fabric.stream(self.peer, 1 << 14))
        self.sent: Counter[int] = Counter()
        self.fabric.hosts["h0"].taps.append(self._count)

    def _count(self, packet: SimPacket, sent: bool) -> None:
        # A destination lists the uSIDs on the way: the first is a leaf of the plane. Control packets try any plane
        # while all are said to be down.
        if sent and len(packet.data) > SMALL:
            self.sent[packet.destination >> 88 & 0xF] += 1

    def used(self, until: int) -> set[int]:
        """Run to `until`, and return the planes that carried data of h0 in the last tenth of a second."""
        self.fabric.run(until - STEP)
        self.sent.clear()
        self.fabric.run(until)
        return set(self.sent)

    def forge(self, mask: int) -> None:
        source = address_number(address("h1", 0))
        status = request(NOT_DRAWN, PORT_STATUS_UPDATE, port_status_mask=mask, source=source)
        self.fabric.endpoints["h0"].receive(ReceivedBatch.from_packets([status], 0), self.fabric.now)
        self.fabric.hosts["h0"].pump()


@pytest.mark.parametrize("both_ways", [False, True], ids=["one way", "both ways"])
@pytest.mark.parametrize("mask", [0b10, 0b0, 0b11111110], ids=["one left", "none left", "one gone"])
def test_a_forged_status_costs_planes_for_little_more_than_a_second(mask: int, both_ways: bool) -> None:
    world = Planes(both_ways)
    assert world.used(3 * STEP) == set(range(PLANES))
    world.forge(mask)
    said_up = {plane for plane in range(PLANES) if mask >> plane & 1}
    assert world.used(world.fabric.now + 2 * STEP) <= said_up
    assert world.used(world.fabric.now + 2 * SECOND) == set(range(PLANES))


def test_a_plane_that_the_peer_drains_stays_drained() -> None:
    """Nothing comes from a port that its controller has set down, so that nothing contradicts the status."""
    world = Planes(both_ways=True)
    assert world.used(SECOND) == set(range(PLANES))
    drained = world.fabric.endpoints["h1"]
    for plane in (2, 5):
        drained.enable_port(plane, False, world.fabric.now)
    world.fabric.hosts["h1"].pump()
    for second in range(2, 6):
        assert world.used(second * SECOND) == set(range(PLANES)) - {2, 5}
    assert world.fabric.endpoints["h0"].counters.port_status_overruled == 0
