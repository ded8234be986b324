# SPDX-License-Identifier: BSD-2-Clause
"""The addresses of nodes, the nodes that uSIDs name, and where a uSID leads from each node."""

from __future__ import annotations

import pytest

from mrc.errors import CallerError
from mrc.fabric import Clos
from mrc.fabric.address import address, hosts_prefix, leaves_prefix, node_of_usid, plane_prefix, usid
from mrc.fabric.next_hop import next_hops, nodes_passed


@pytest.mark.parametrize(
    ("node", "plane", "plain", "own"),
    [
        ("h0", 0, "fd4d:5243::1", 0x4000),
        ("h17", 11, "fd4d:5243:b::12", 0x4B11),
        ("p1l2", 1, "fd4d:5243:1:1::3", 0x1102),
        ("p0s15", 0, "fd4d:5243:0:2::10", 0x200F),
    ],
)
def test_both_addresses_of_a_node(node: str, plane: int, plain: str, own: int) -> None:
    assert (address(node, plane), usid(node, plane)) == (plain, own)
    assert node_of_usid(own) == (plane, node)


def test_a_switch_has_no_address_in_another_plane() -> None:
    for ask in (address, usid):
        with pytest.raises(CallerError, match="p1l0 has no address in plane 0: it is a switch of plane 1"):
            ask("p1l0", 0)


@pytest.mark.parametrize("value", [0, 0x0FFF, 0x3000, 0x5000, 0xFFFF])
def test_a_usid_outside_the_plan_names_no_node(value: int) -> None:
    assert node_of_usid(value) is None
    with pytest.raises(CallerError, match="names no node"):
        nodes_passed((value,))


def test_prefixes_of_a_plane() -> None:
    assert (plane_prefix(10), hosts_prefix(0), leaves_prefix(3)) == (
        "fd4d:5243:a::/48",
        "fd4d:5243::/64",
        "fd4d:5243:3:1::/64",
    )


def test_each_neighbour_is_the_next_hop_of_its_usid_and_of_no_other() -> None:
    clos = Clos(planes=2, leaves=3, spines=2, hosts_per_leaf=2)
    hops = next_hops(clos.links)
    assert set(hops) == set(clos.nodes)
    for node in clos.nodes:
        neighbours = {link.lower if node == link.upper else link.upper for link in clos.links_of(node)}
        assert {far for _, far in hops[node].values()} == neighbours
        for value, (link, far) in hops[node].items():
            named = node_of_usid(value)
            assert named == (int(link.upper[1]), far)
            assert set(link.ends) == {node, far}


def test_the_nodes_that_a_list_of_usids_passes() -> None:
    assert nodes_passed((0x1100, 0x2103, 0x1101, 0x4101)) == ("p1l0", "p1s3", "p1l1", "h1")
