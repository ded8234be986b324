# SPDX-License-Identifier: BSD-2-Clause
"""The hosts' IPv4 network: everybody reaches everybody, whatever is done to the fabric, and a lab is whole without."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import programs
import pytest
from programs import MRC

from mrc.fabric import Clos
from mrc.fabric.shapes.ring import Ring
from mrc.lab import Lab, messages, state
from mrc.lab.netlink import Request
from mrc.lab.plan.out_of_band import NETWORK, ipv4_address, out_of_band

pytestmark = pytest.mark.root
SMALL = Clos(planes=1, leaves=2, spines=1, hosts_per_leaf=2)


def _names(lab: Lab, node: str) -> set[str]:
    return set(lab.inside(node, lambda: [name for _, name in socket.if_nameindex()]))


def _connects(lab: Lab, source: str, destination: str) -> str:
    """Where a connection between two hosts comes from, over the network that is none of the fabric's."""
    address = lab.ipv4_address(destination)
    assert address is not None
    listener = lab.inside(destination, lambda: socket.create_server((address, 0)))
    with listener:
        where = listener.getsockname()
        with lab.inside(source, lambda: socket.create_connection(where, 5)):
            accepted, peer = listener.accept()
            accepted.close()
    return str(peer[0])


@pytest.fixture(scope="module")
def small(lab_name: Callable[[str], str]) -> Iterator[Lab]:
    with Lab.up(lab_name("oob"), SMALL) as lab:
        yield lab


def test_each_host_reaches_each_other_with_every_plane_cut(small: Lab) -> None:
    hosts = small.topology.hosts
    small.cut("plane:0")
    try:
        came_from = {(one, other): _connects(small, one, other) for one in hosts for other in hosts if one != other}
    finally:
        small.heal("plane:0")
    assert len(came_from) == 12
    assert all(where == small.ipv4_address(source) for (source, _), where in came_from.items())


def test_status_and_names_have_the_addresses(small: Lab) -> None:
    assert {each.name: each.ipv4 for each in small.status().hosts} == {
        f"h{number}": f"198.18.0.{number + 1}" for number in range(4)
    }
    lines = (state.directory(small.name) / state.HOSTS_FILE).read_text().splitlines()
    assert "198.18.0.3 h2 h2-oob" in lines
    assert small.differences() == ()


def test_a_name_is_an_address_of_the_fabric_first(small: Lab, tmp_path: Path) -> None:
    script = "import socket; print(*(where[0] for *_, where in socket.getaddrinfo('h1', 1, type=socket.SOCK_STREAM)))"
    command = [*MRC, "lab", "exec", "--name", small.name, "h0", "--", sys.executable, "-c"]
    found = programs.run([*command, script], capture_output=True, text=True, check=True, cwd=tmp_path).stdout.split()
    assert found == [*small.addresses("h1"), "198.18.0.2"]


def test_status_says_which_host_has_lost_its_cable(lab_name: Callable[[str], str]) -> None:
    with Lab.up(lab_name("oob-gone"), SMALL) as lab:
        cable = out_of_band(SMALL).cables[1].host
        lab._route("h1").transact([messages.delete_link(cable.index, cable.name)])
        assert [each.ipv4 is None for each in lab.status().hosts] == [False, True, False, False]


@pytest.mark.parametrize("refused", ["bridge", "address"])
def test_a_lab_is_whole_without_it(
    refused: str, lab_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kernel without bridges, or without IPv4, answers."""
    usual: Callable[..., Request] = getattr(messages, refused)

    def request(*given: object, **named: object) -> Request:
        made = usual(*given, **named)
        if refused == "address" and "." not in made.what:
            return made
        if refused == "bridge" and "oob" not in given:
            return made
        # A kind of message that no kernel has.
        return Request(made.what, made.data[:4] + b"\xff\x7f" + made.data[6:])

    monkeypatch.setattr(messages, refused, request)
    with Lab.up(lab_name(f"no-{refused}"), SMALL) as lab:
        assert [each.ipv4 for each in lab.status().hosts] == [None] * 4
        assert all(not any(name.startswith("oob") for name in _names(lab, node)) for node in lab.topology.nodes)
        assert "198.18" not in (state.directory(lab.name) / state.HOSTS_FILE).read_text()
        assert lab.differences() == ()


@pytest.mark.parametrize("shape", [Clos(leaves=16, hosts_per_leaf=16), Ring(leaves=5), SMALL])
def test_addresses_and_indices_are_each_their_own(shape: Clos | Ring) -> None:
    planned = out_of_band(shape)
    assert [cable.host.node for cable in planned.cables] == list(shape.hosts)
    addresses = [cable.address for cable in planned.cables]
    assert addresses == [ipv4_address(host) for host in shape.hosts]
    assert len(set(addresses)) == len({cable.port.index for cable in planned.cables}) == shape.host_count
    assert {NETWORK.network_address, NETWORK.broadcast_address}.isdisjoint(addresses)
    assert all(len(cable.port.name) <= 15 for cable in planned.cables)
