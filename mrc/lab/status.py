"""What a lab looks like now: its hosts, switches and links, read from the kernel of each namespace."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from typing import Any

from mrc.errors import SystemRefused
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.plan import host_address, interface_name
from mrc.topology import Clos

_SETTLE_S = 2.0


@dataclass(frozen=True, slots=True)
class HostStatus:
    """A host and its plain IPv6 addresses, one a plane, in the order of planes."""

    name: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DirectionStatus:
    """One direction of a link, counted where it arrives. `dropped_packets` were dropped by the installed loss.

    The arrival counters include the dropped ones: the loss acts just after the interface has counted.
    """

    packets: int
    bytes: int
    dropped_packets: int
    loss_percent: float


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """A link. `state` is "up" when both ends are up and operational; `toward` maps each end to what arrives there."""

    name: str
    state: str
    toward: dict[str, DirectionStatus]


@dataclass(frozen=True, slots=True)
class LabStatus:
    """The whole lab, in the form `mrc lab status --json` prints (cli.md, "lab status")."""

    name: str
    mtu_bytes: int
    hosts: tuple[HostStatus, ...]
    switches: tuple[str, ...]
    links: tuple[LinkStatus, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _End:
    up: bool
    direction: DirectionStatus


def read(
    name: str, topology: Clos, route: Callable[[str], NetlinkSocket], filters: Callable[[str], NetlinkSocket]
) -> LabStatus:
    """Ask every node. `route` and `filters` give a node's route and netfilter netlink socket. Raises SystemRefused."""
    ends = {node: _node_ends(route(node), filters, node) for node in topology.nodes}
    links = []
    for link in topology.links:
        both = {node: ends[node].get(interface_name(link, node)) for node in (link.lower, link.upper)}
        up = all(end is not None and end.up for end in both.values())
        toward = {node: end.direction for node, end in both.items() if end is not None}
        links.append(LinkStatus(link.name, "up" if up else "down", toward))
    hosts = tuple(
        HostStatus(host, tuple(host_address(plane, number) for plane in range(topology.planes)))
        for number, host in enumerate(topology.hosts)
    )
    return LabStatus(name, topology.mtu, hosts, topology.leaf_switches + topology.spine_switches, tuple(links))


def wait_until_running(route: NetlinkSocket, node: str, indices: Collection[int]) -> None:
    """Return when the interfaces of `node` with these indices carry packets. Raises SystemRefused after two seconds.

    A port that has just got its carrier drops in silence until the kernel, a little later, puts its queue to use.
    """
    from mrc.lab import messages

    deadline = time.monotonic() + _SETTLE_S
    while True:
        running: set[int] = set()

        def take(_: int, data: bytes, running: set[int] = running) -> None:
            index, up = messages.parse_running(data)
            if up:
                running.add(index)

        route.dump(f"read the interfaces of {node}", messages.dump_links(), take)
        if running.issuperset(indices):
            return
        if time.monotonic() > deadline:
            raise SystemRefused(f"an interface of {node} did not come up in {_SETTLE_S:.0f} s: see `mrc lab status`")
        time.sleep(0.0002)


def _node_ends(route: NetlinkSocket, filters: Callable[[str], NetlinkSocket], node: str) -> dict[str, _End]:
    from mrc.lab import impairment, messages

    try:
        losses = {loss.interface: loss for loss in impairment.installed(filters(node))}
    except SystemRefused:
        # Without nftables in the kernel nothing can be lost, and the rest of the status still stands.
        losses = {}
    ends: dict[str, _End] = {}

    def take(_: int, data: bytes) -> None:
        interface, up, packets, octets = messages.parse_link(data)
        loss = losses.get(interface)
        dropped, percent = (loss.dropped_packets, loss.share * 100) if loss is not None else (0, 0.0)
        ends[interface] = _End(up, DirectionStatus(packets, octets, dropped, percent))

    route.dump(f"read the interfaces of {node}", messages.dump_links(), take)
    return ends
