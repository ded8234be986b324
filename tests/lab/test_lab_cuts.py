# SPDX-License-Identifier: BSD-2-Clause
"""Cables break and are mended: what still arrives, what the ends notice, and that nothing is lost for good."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable

import pytest
from lab_wire import Wire, configuration, deliveries, inner_packet, paths, run, touches, usid_address
from patience import eventually

from mrc.errors import CallerError
from mrc.lab import Lab

pytestmark = pytest.mark.root


@pytest.mark.parametrize("target", ["h0-p0l0", "h1-p1l1", "p0l0-p0s1", "p1l1-p1s3", "p0s2", "p1l0", "plane:0"])
def test_a_cut_stops_its_paths_and_heal_brings_everything_back(
    lab: Lab, wire: Wire, target: str, need_program: Callable[[str], str]
) -> None:
    ip = need_program("ip")
    before = configuration(lab, ip)
    for _ in range(10):
        started = time.monotonic_ns()
        cut_at = lab.cut(target)
        done = time.monotonic_ns()
        assert started <= cut_at <= done
        assert deliveries(wire) == {path: not touches(target, *path) for path in paths(lab.topology)}
        down = {link.name for link in lab.status().links if link.state == "down"}
        assert down == {link.name for link in lab.links_of(target)}
        healed_at = lab.heal(target)
        # Straight away: no duplicate address detection, no neighbour to look for.
        assert all(deliveries(wire).values())
        assert configuration(lab, ip) == before
        # Duplicate address detection alone would take two seconds; a machine that stood still tells nothing.
        if time.monotonic_ns() - healed_at < 1_900_000_000:
            break
    else:
        pytest.fail("it was never there at once")
    assert all(link.state == "up" for link in lab.status().links)


def test_both_ends_of_a_cut_cable_notice(lab: Lab, need_program: Callable[[str], str]) -> None:
    ip = need_program("ip")
    lab.cut("h0-p0l0")
    try:
        host = json.loads(run(lab, "h0", ip, "-j", "link", "show", "p0"))[0]
        leaf = json.loads(run(lab, "p0l0", ip, "-j", "link", "show", "h0"))[0]
        assert "UP" in host["flags"]
        assert "NO-CARRIER" in host["flags"]
        assert "UP" not in leaf["flags"]
    finally:
        lab.heal("h0-p0l0")


@pytest.mark.parametrize(("node", "interface", "link"), [("h0", "p1", "h0-p1l0"), ("p0l0", "p0s3", "p0l0-p0s3")])
def test_heal_mends_the_lower_end_as_well(
    lab: Lab, wire: Wire, node: str, interface: str, link: str, need_program: Callable[[str], str]
) -> None:
    ip = need_program("ip")
    before = configuration(lab, ip)
    run(lab, node, ip, "link", "set", interface, "down")
    assert not all(deliveries(wire).values())
    lab.heal(link)
    assert all(deliveries(wire).values())
    assert configuration(lab, ip) == before


def test_healing_what_is_whole_changes_nothing(lab: Lab, wire: Wire, need_program: Callable[[str], str]) -> None:
    ip = need_program("ip")
    before = configuration(lab, ip)
    lab.heal("plane:1")
    assert configuration(lab, ip) == before
    assert all(deliveries(wire).values())


def test_an_overlapping_cut_heals_in_any_order(lab: Lab, wire: Wire) -> None:
    for target in ("p0s1", "p0l0-p0s1", "p0l0"):
        lab.cut(target)
    for target in ("p0l0-p0s1", "p0l0", "p0s1"):
        lab.heal(target)
    assert all(deliveries(wire).values())


def test_an_opened_lab_heals_what_another_cut(lab: Lab, wire: Wire) -> None:
    lab.cut("p0s0")
    with Lab.open(lab.name) as second:
        second.heal("p0s0")
    assert all(deliveries(wire).values())


def test_an_unknown_cable_is_the_callers_fault(lab: Lab) -> None:
    with pytest.raises(CallerError, match="p0l0-p0s0"):
        lab.cut("p0l0-p1s0")


def test_what_a_sender_sees(lab: Lab, wire: Wire, need_program: Callable[[str], str]) -> None:
    ip = need_program("ip")
    sender = wire.raw("h0")
    inner = inner_packet(lab.addresses("h0")[0], lab.addresses("h1")[0], b"x")
    target = (usid_address(lab.topology, 0, 1, 0, 1), 0)

    def outcome() -> int | None:
        try:
            sender.sendto(inner, target)
        except OSError as error:
            return error.errno
        return None

    try:
        assert outcome() is None
        lab.cut("p0l0-p0s1")
        assert outcome() is None
        lab.cut("h0-p0l0")
        # For an instant the far end refuses (ENOBUFS); then the port's queue is retired and drops in silence.
        eventually(lambda: [outcome() for _ in range(20)] == [None] * 20)
        run(lab, "h0", ip, "link", "set", "p0", "down")
        assert outcome() == errno.ENETUNREACH
    finally:
        lab.heal("plane:0")
    assert outcome() is None
