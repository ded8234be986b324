# SPDX-License-Identifier: BSD-2-Clause
"""The map of a ring of leaves: faults found from its loops, and the EVs that they deny."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from virtual_fabric import VirtualFabric

from mrc.fabric.next_hop import nodes_passed
from mrc.fabric.shapes.ring import Ring
from mrc.map.deny import deny_list
from mrc.map.loops import loops_of
from mrc.map.wording import Hello, hello_line, read_hello
from mrc.wire.usid import ev_of_path


@pytest.mark.parametrize("leaves", [3, 4, 5])
@pytest.mark.parametrize("part", ["p0l0-p0l1", "p0l1-p0l2", "p1l2"])
def test_a_dead_part_is_named_and_nothing_else(leaves: int, part: str) -> None:
    fabric = VirtualFabric(Ring(leaves=leaves), seed=3)
    fabric.run(3)
    fabric.loss[part, ""] = 1.0
    fabric.run(5, until=lambda: fabric.open == {part})
    assert fabric.accused == {part}


def test_loss_in_one_direction_is_told_with_its_direction() -> None:
    """In a ring of four: loops that go all around pass each link one way alone."""
    fabric = VirtualFabric(Ring(leaves=4), seed=3)
    fabric.run(3)
    fabric.loss["p0l1-p0l2", "p0l2"] = 0.3
    fabric.run(30, until=lambda: any(fault.toward == ("p0l2",) for fault in fabric.inference.faults))
    (fault,) = fabric.inference.faults
    assert (fault.name, fault.toward) == ("p0l1-p0l2", ("p0l2",))


def test_loops_go_to_the_collector_and_are_its_fabrics() -> None:
    ring = Ring(leaves=5)
    hello = Hello(3, 100, loops_of(3, [ring.place(3, plane) for plane in range(2)]))
    assert read_hello(hello_line(hello)) == hello


@pytest.mark.parametrize(
    ("kind", "name", "toward"),
    [
        ("link", "p0l1-p0l2", []),
        ("link", "p0l1-p0l2", ["p0l1"]),
        ("link", "p0l0-p0l3", ["p0l3"]),
        ("leaf", "p0l2", []),
        ("host-port", "h1-p0l1", []),
    ],
)
@pytest.mark.parametrize("per_leaf", [1, 2])
def test_denied_is_what_passes_the_faulty_part(kind: str, name: str, toward: list[str], per_leaf: int) -> None:
    ring = Ring(hosts_per_leaf=per_leaf)
    if kind == "host-port":
        name = f"h1-p0l{ring.leaf_of_host(1)}"
    fault: dict[str, Any] = {"kind": kind, "name": name, "plane": 0, "toward": toward}
    made = deny_list(ring, [{**fault, "state": "lossy", "loss_percent": 5.0}], "mrc", 0)["deny"]
    for host in range(ring.host_count):
        for peer in range(ring.host_count):
            template = ring.template_between(host, peer)
            for uplink in range(template.count(2)) if peer != host else ():
                nodes = (f"h{host}", *nodes_passed(template.usids(0, uplink)))
                steps = {"-".join(sorted(step)): step[1] for step in pairwise(nodes)}
                passes = name in nodes or (name in steps and (not toward or steps[name] in toward))
                denied = any(
                    entry.get("endpoint", f"h{host}") == f"h{host}"
                    and entry.get("peer", f"h{peer}") == f"h{peer}"
                    and int(entry["ev"], 16) == ev_of_path(0, uplink)
                    for entry in made
                )
                assert denied == passes, (host, peer, uplink)
