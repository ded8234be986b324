# SPDX-License-Identifier: BSD-2-Clause
"""Random loss that is really there: counted by what arrives, and by the kernel's own counter."""

from __future__ import annotations

import math

import pytest
from lab_wire import Wire, arrived, inner_packet, usid_address

from mrc.errors import CallerError
from mrc.lab import Lab
from mrc.lab.status import DirectionStatus

pytestmark = pytest.mark.root

PACKETS = 4000
# Multicast listener reports of the kernel may cross the link meanwhile.
STRAY = 12


def send(wire: Wire, source: int, destination: int, plane: int, uplink: int, count: int = PACKETS) -> int:
    """Send `count` packets on one path; how many arrived."""
    lab = wire.lab
    sender, receiver = wire.raw(f"h{source}"), wire.raw(f"h{destination}")
    target = (usid_address(lab.topology, source, destination, plane, uplink), 0)
    inner = inner_packet(lab.addresses(f"h{source}")[plane], lab.addresses(f"h{destination}")[plane], b"count me")
    received = 0
    for start in range(0, count, 50):
        for _ in range(min(50, count - start)):
            sender.sendto(inner, target)
        wire.fence.wait()
        received += len(arrived(receiver))
    return received


def direction(lab: Lab, link: str, toward: str) -> DirectionStatus:
    return next(each for each in lab.status().links if each.name == link).toward[toward]


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_loss_is_what_was_asked_and_counted(lab: Lab, wire: Wire, share: float) -> None:
    lab.impair("p0l0-p0s1", share, toward="p0s1")
    try:
        lost = PACKETS - send(wire, 0, 1, 0, 1)
        found = direction(lab, "p0l0-p0s1", "p0s1")
    finally:
        lab.clear("p0l0-p0s1")
    # Five standard deviations of a binomial count: a fair generator fails once in two million runs.
    assert abs(lost - PACKETS * share) < 5 * math.sqrt(PACKETS * share * (1 - share))
    assert 0 <= found.dropped_packets - lost <= STRAY
    assert found.packets >= PACKETS
    assert found.loss_percent == pytest.approx(share * 100)


def test_only_the_direction_asked_for_loses(lab: Lab, wire: Wire) -> None:
    lab.impair("p0l0-p0s1", 1.0, toward="p0s1")
    try:
        assert send(wire, 0, 1, 0, 1, 100) == 0
        assert send(wire, 1, 0, 0, 1, 100) == 100
        assert send(wire, 0, 1, 0, 2, 100) == 100
    finally:
        lab.clear("p0l0-p0s1")
    assert send(wire, 0, 1, 0, 1, 100) == 100


def test_each_way_by_default_and_replaced_not_added(lab: Lab, wire: Wire) -> None:
    lab.impair("p1l0-p1s0", 1.0)
    assert send(wire, 0, 1, 1, 0, 20) == send(wire, 1, 0, 1, 0, 20) == 0
    lab.impair("p1l0-p1s0", 0.000001)
    try:
        assert send(wire, 0, 1, 1, 0, 100) == 100
        assert direction(lab, "p1l0-p1s0", "p1l0").loss_percent == pytest.approx(0.0001)
    finally:
        lab.clear("p1l0-p1s0")
    assert direction(lab, "p1l0-p1s0", "p1l0").loss_percent == 0


def test_a_host_link_can_lose_too(lab: Lab, wire: Wire) -> None:
    lab.impair("h1-p1l1", 1.0, toward="h1")
    try:
        assert send(wire, 0, 1, 1, 0, 20) == 0
        assert direction(lab, "h1-p1l1", "h1").dropped_packets >= 20
    finally:
        lab.clear("h1-p1l1")
    assert send(wire, 0, 1, 1, 0, 20) == 20


def test_clearing_what_is_clear_is_no_error(lab: Lab) -> None:
    lab.clear("p0l0-p0s0")
    assert direction(lab, "p0l0-p0s0", "p0s0").loss_percent == 0


def test_a_loss_of_nothing_takes_the_loss_away(lab: Lab, wire: Wire) -> None:
    lab.impair("p0l0-p0s1", 1.0)
    lab.impair("p0l0-p0s1", 0.0)
    assert send(wire, 0, 1, 0, 1, 100) == 100
    assert direction(lab, "p0l0-p0s1", "p0s1").loss_percent == 0


@pytest.mark.parametrize("share", [-0.1, 1.1, 1e-9])
def test_a_loss_out_of_range_is_the_callers_fault(lab: Lab, share: float) -> None:
    with pytest.raises(CallerError, match="loss must be"):
        lab.impair("p0l0-p0s0", share)


def test_an_end_that_is_none_is_the_callers_fault(lab: Lab) -> None:
    with pytest.raises(CallerError, match="is no end of"):
        lab.impair("p0l0-p0s0", 0.5, toward="p0l1")
