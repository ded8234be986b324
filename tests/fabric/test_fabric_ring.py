# SPDX-License-Identifier: BSD-2-Clause
"""A ring of leaves: its links, paths written out by hand, what topology files may say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mrc.errors import CallerError
from mrc.fabric import Description
from mrc.fabric.file import TopologyFile
from mrc.fabric.next_hop import next_hops, nodes_passed
from mrc.fabric.shapes import shape_class, shape_names, shape_of
from mrc.fabric.shapes.ring import Ring
from mrc.fabric.structure import schema
from mrc.fabric.yaml_file import FileProblems

TOPOLOGIES = Path(__file__).parents[2] / "docs" / "topologies"


def test_the_schema_lists_the_shapes_there_are() -> None:
    assert sorted(schema()["properties"]["shape"]["enum"]) == list(shape_names()) == ["clos", "ring"]
    for name in shape_names():
        assert shape_class(name).kind == name
        assert shape_of(shape_class(name)().to_json()) == shape_class(name)()


def test_the_links_go_around() -> None:
    names = [link.name for link in Ring(planes=1, leaves=4).links]
    assert names[:4] == ["h0-p0l0", "h1-p0l1", "h2-p0l2", "h3-p0l3"]
    assert names[4:] == ["p0l0-p0l1", "p0l1-p0l2", "p0l2-p0l3", "p0l0-p0l3"]


@pytest.mark.parametrize(
    ("host", "peer", "uplink", "usids"),
    [
        (0, 2, 0, (0x1100, 0x1101, 0x1102, 0x4102)),
        (0, 2, 1, (0x1100, 0x1104, 0x1103, 0x1102, 0x4102)),
        (4, 0, 0, (0x1104, 0x1100, 0x4100)),
        (0, 4, 0, (0x1100, 0x1101, 0x1102, 0x1103, 0x1104, 0x4104)),
    ],
)
def test_a_path_names_every_leaf_on_its_way(host: int, peer: int, uplink: int, usids: tuple[int, ...]) -> None:
    assert Ring(leaves=5).template_between(host, peer).usids(1, uplink) == usids


def test_hosts_of_one_leaf_have_one_path() -> None:
    template = Ring(hosts_per_leaf=2).template_between(0, 1)
    assert template.count(2) == 1
    assert template.usids(0, 0) == (0x1000, 0x4001)


@pytest.mark.parametrize("leaves", [3, 4, 5])
def test_every_hop_of_every_path_and_loop_is_a_link(leaves: int) -> None:
    ring = Ring(leaves=leaves, hosts_per_leaf=2)
    hops = next_hops(ring.links)
    for host in range(ring.host_count):
        for plane in range(2):
            place = ring.place(host, plane)
            lists = [*ring.near_loops(place, host), *ring.far_loops(place, host)]
            assert len(ring.far_loops(place, host)) == (2 if leaves < 5 else 0)
            for peer in range(ring.host_count):
                template = ring.template_between(host, peer)
                lists += [template.usids(plane, uplink) for uplink in range(template.count(2))]
            for usids in lists:
                here = f"h{host}"
                for usid, node in zip(usids, nodes_passed(usids), strict=True):
                    assert hops[here][usid][1] == node
                    here = node


def test_what_a_ring_cannot_be_is_refused() -> None:
    for wrong in ({"leaves": 2}, {"leaves": 6}, {"mode": "ecmp"}, {"mode": "stev"}, {"spines": 4}):
        with pytest.raises(CallerError):
            shape_of({"shape": "ring", **wrong})
    with pytest.raises(CallerError, match="no shape 'torus': there are clos, ring"):
        shape_of({"shape": "torus"})


@pytest.mark.parametrize(
    ("text", "line"),
    [("shape: ring\nleaves: 6\n", 2), ("spines: 2\nshape: ring\n", 1), ("shape: ring\nmode: ecmp\n", 2)],
)
def test_a_file_is_told_which_line_no_ring_has(text: str, line: int) -> None:
    with pytest.raises(FileProblems) as caught:
        TopologyFile.parsed(text).description()
    assert [problem.line for problem in caught.value.problems] == [line]


def test_a_ring_is_written_down_and_read_back() -> None:
    described = TopologyFile.read(TOPOLOGIES / "ring.yaml").description()
    assert described.shape == Ring(leaves=5)
    assert Description.from_json(json.loads(json.dumps(described.to_json()))) == described
    assert "shape is ring, not clos" in list(described.differences(Description()))
