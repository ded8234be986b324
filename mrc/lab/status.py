# SPDX-License-Identifier: BSD-2-Clause
"""What a lab looks like now: its hosts, switches and links, read from the kernel of each namespace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from mrc.errors import SystemRefused
from mrc.fabric import Impairment, Shape
from mrc.fabric.address import address
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.plan import interface_name
from mrc.lab.state import FABRICS

if TYPE_CHECKING:
    from mrc.lab.impairment import DelayFound, Sending, SendingFigures


@dataclass(frozen=True, slots=True)
class HostStatus:
    """A host, its plain IPv6 addresses, one a plane, in the order of planes, and its address outside the fabric.

    `ipv4` None: the lab has no such network, or the host's cable to it is gone.
    """

    name: str
    addresses: tuple[str, ...]
    ipv4: str | None


@dataclass(frozen=True, slots=True)
class DirectionStatus:
    """One direction of a link: what arrived, what is wrong with it, and what that did. 0 is off, or none.

    `packets` and `bytes` are counted where they arrive and include `dropped_packets`, which the installed loss dropped:
    it acts just after the interface has counted. The settings are those of `Impairment`; `queue_limit_bytes` is how
    much may wait, also where `queue_bytes` leaves that open. What was marked, trimmed, duplicated, corrupted and
    dropped before a full queue is counted at the sending end, since it was first impaired. `queue_high_water_bytes` is
    None for a queue without an eBPF program to watch it. `delay_dropped_packets` found the process full that delays
    packets, since it has delayed them.
    """

    packets: int
    bytes: int
    dropped_packets: int
    loss_percent: float
    rate_bps: int
    queue_bytes: int
    queue_limit_bytes: int
    ecn_at_bytes: int
    trim_at_bytes: int
    trim_to_bytes: int
    trim_dscp: int
    trim_dscp_lasthop: int
    duplicate_percent: float
    corrupt_percent: float
    mtu_bytes: int
    delay_ns: int
    jitter_ns: int
    reorder_percent: float
    marked_packets: int
    trimmed_packets: int
    queue_dropped_packets: int
    delay_dropped_packets: int
    duplicated_packets: int
    corrupted_packets: int
    queue_waiting_bytes: int
    queue_high_water_bytes: int | None

    @property
    def impairment(self) -> Impairment:
        """What is wrong with this direction, as it was given."""
        return Impairment(
            loss=self.loss_percent / 100,
            duplicate=self.duplicate_percent / 100,
            corrupt=self.corrupt_percent / 100,
            rate_bps=self.rate_bps,
            queue_bytes=self.queue_bytes,
            ecn_at_bytes=self.ecn_at_bytes,
            trim_at_bytes=self.trim_at_bytes,
            trim_to_bytes=self.trim_to_bytes,
            trim_dscp=self.trim_dscp,
            trim_dscp_lasthop=self.trim_dscp_lasthop,
            mtu_bytes=self.mtu_bytes,
            delay_ns=self.delay_ns,
            jitter_ns=self.jitter_ns,
            reorder=self.reorder_percent / 100,
        )


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """A link. `state` is "up" when both ends are up and operational; `toward` maps each end to what arrives there."""

    name: str
    state: str
    toward: dict[str, DirectionStatus]


@dataclass(frozen=True, slots=True)
class LabStatus:
    """The whole lab, in the form `mrc lab status --json` prints.

    `mode`: of FORWARDING_MODES. `fabric`: who carries uSID packets, "kernel" or "fast" (`mrc.lab.fast`).
    """

    name: str
    mode: str
    fabric: str
    mtu_bytes: int
    hosts: tuple[HostStatus, ...]
    switches: tuple[str, ...]
    links: tuple[LinkStatus, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def only(self, targets: Sequence[str], shape: Shape) -> LabStatus:
        """Return what `targets` name: nodes with their links, links, `plane:N`, or a kind of KINDS.

        Raises CallerError for what names nothing.
        """
        nodes: set[str] = set()
        links: set[str] = set()
        for target in targets:
            if target in KINDS:
                found = KINDS[target](shape)
                nodes.update(found)
                links.update(link.name for link in shape.links if set(link.ends) & set(found))
            else:
                links.update(link.name for link in shape.links_of_target(target))
                nodes.update({target} & set(shape.nodes))
        return replace(
            self,
            hosts=tuple(host for host in self.hosts if host.name in nodes),
            switches=tuple(switch for switch in self.switches if switch in nodes),
            links=tuple(link for link in self.links if link.name in links),
        )


# What `LabStatus.only` takes beside names.
KINDS: dict[str, Callable[[Shape], tuple[str, ...]]] = {
    "hosts": lambda shape: shape.hosts,
    "leaves": lambda shape: shape.leaf_switches,
    "spines": lambda shape: shape.spine_switches,
    "switches": lambda shape: shape.switches,
}


@dataclass(frozen=True, slots=True)
class _Arriving:
    """What one end of a link says of the packets that come in there."""

    index: int
    up: bool
    packets: int
    bytes: int
    dropped_packets: int
    loss: float
    mtu: int


def read(
    name: str,
    topology: Shape,
    route: Callable[[str], NetlinkSocket],
    filters: Callable[[str], NetlinkSocket],
    *,
    fast: bool = False,
) -> LabStatus:
    """Ask every node. `route` and `filters` give a node's route and netfilter netlink socket. Raises SystemRefused."""
    from mrc.lab import impairment, installed, out_of_band

    arriving = {node: _arriving(route(node), filters, node) for node in topology.nodes}
    at_senders = {node: impairment.sending_ends(route(node)) for node in topology.nodes}
    sending = {node: _sending(at_senders[node]) for node in topology.nodes}
    interfaces = {node: installed.interfaces(route(node), node) for node in topology.nodes}
    delays = {node: impairment.delays(interfaces[node], at_senders[node]) for node in topology.nodes}
    links = []
    for link in topology.links:
        ends = {node: arriving[node].get(interface_name(link, node)) for node in (link.lower, link.upper)}
        up = all(end is not None and end.up for end in ends.values())
        toward = {}
        for node, other in ((link.lower, link.upper), (link.upper, link.lower)):
            end, far = ends[node], ends[other]
            if end is not None:
                at_far = sending[other].get(far.index) if far is not None else None
                mtu = far.mtu if far is not None and far.mtu != topology.mtu else 0
                delayed = delays[other].get(far.index) if far is not None else None
                toward[node] = _direction(end, at_far, mtu, delayed or impairment.NO_DELAY)
        links.append(LinkStatus(link.name, "up" if up else "down", toward))
    hosts = tuple(
        HostStatus(
            host,
            tuple(address(host, plane) for plane in range(topology.planes)),
            out_of_band.address(route(host), host),
        )
        for host in topology.hosts
    )
    return LabStatus(name, topology.mode, FABRICS[fast], topology.mtu, hosts, topology.switches, tuple(links))


def _arriving(route: NetlinkSocket, filters: Callable[[str], NetlinkSocket], node: str) -> dict[str, _Arriving]:
    """By the interface's name."""
    from mrc.lab import impairment, messages

    try:
        losses = {loss.interface: loss for loss in impairment.losses(filters(node))}
    except SystemRefused:
        # Without nftables in the kernel nothing can be lost, and the rest of the status still stands.
        losses = {}
    ends: dict[str, _Arriving] = {}

    def collect(_: int, data: bytes) -> None:
        index = messages.parse_index(data)
        interface, up, packets, octets, mtu = messages.parse_link(data)
        loss = losses.get(interface)
        dropped, share = (loss.dropped_packets, loss.share) if loss is not None else (0, 0.0)
        ends[interface] = _Arriving(index, up, packets, octets, dropped, share, mtu)

    route.dump(f"read the interfaces of {node}", messages.dump_links(), collect)
    return ends


def _sending(found: Mapping[int, Sending]) -> dict[int, SendingFigures]:
    """By the interface's index, where a queue or a program is installed."""
    from mrc.lab import impairment

    return {index: impairment.figures(each) for index, each in found.items() if each.root or each.program}


def _direction(arriving: _Arriving, sending: SendingFigures | None, mtu: int, delayed: DelayFound) -> DirectionStatus:
    from mrc.lab.impairment import LinkCounters

    wanted = sending.impairment if sending is not None else Impairment()
    counters = (sending.counters if sending is not None else None) or LinkCounters()
    late = Impairment(**delayed.settings)
    unwatched = sending is not None and sending.counters is None
    return DirectionStatus(
        packets=arriving.packets,
        bytes=arriving.bytes,
        dropped_packets=arriving.dropped_packets,
        loss_percent=_percent(arriving.loss),
        rate_bps=wanted.rate_bps,
        queue_bytes=wanted.queue_bytes,
        queue_limit_bytes=wanted.limit_bytes,
        ecn_at_bytes=wanted.ecn_at_bytes,
        trim_at_bytes=wanted.trim_at_bytes,
        trim_to_bytes=wanted.trim_to_bytes,
        trim_dscp=wanted.trim_dscp,
        trim_dscp_lasthop=wanted.trim_dscp_lasthop,
        duplicate_percent=_percent(wanted.duplicate),
        corrupt_percent=_percent(wanted.corrupt),
        mtu_bytes=mtu,
        delay_ns=late.delay_ns,
        jitter_ns=late.jitter_ns,
        reorder_percent=_percent(late.reorder),
        marked_packets=counters.marked_packets,
        trimmed_packets=counters.trimmed_packets,
        queue_dropped_packets=sending.queue_dropped_packets if sending is not None else 0,
        delay_dropped_packets=delayed.dropped_packets,
        duplicated_packets=counters.duplicated_packets,
        corrupted_packets=counters.corrupted_packets,
        queue_waiting_bytes=sending.waiting_bytes if sending is not None else 0,
        queue_high_water_bytes=None if unwatched else counters.queue_high_water_bytes,
    )


def _percent(share: float) -> float:
    # A share is a whole number of millionths, and this one of ten-thousandths.
    return round(share * 100, 4)
