# SPDX-License-Identifier: BSD-2-Clause
"""What a fabric for N hosts takes: switches, links, optics, hops and latency, worked out without simulating it.

A folded Clos of `tiers` tiers is built of blocks. A block of one tier is a leaf. A block of t tiers is some equal
blocks of t - 1 tiers under switches whose ports are divided equally between down and up. On top are switches whose
ports all lead down. Each block is connected to each switch above it by the same number of links, so all paths are
equal. With `oversubscription` r a leaf has r times as many ports down as up; all tiers above have as much capacity up
as down.

[P1] is arXiv:2605.04333: 8 planes of 100 Gbit/s under 51.2 Tbit/s switches reach 131,072 hosts on two tiers, with 2/3
of the optics and 3/5 of the switches of three tiers.
"""

from __future__ import annotations

from typing import Any

from mrc.errors import CallerError
from mrc.fabric.units import rate_text
from mrc.records import record
from mrc.report.units import plural

MOST_TIERS = 4
MOST_HOSTS = 1 << 24
_SPEED_OF_LIGHT_NS_PER_M = 5.0  # in glass and in copper, about two thirds of that in vacuum


@record(frozen=True, slots=True)
class Hardware:
    """What a fabric is built of. Rates in bit/s, times in ns, lengths in m. Raises CallerError outside the ranges.

    `nic_bps` is a host's rate over all planes, `switch_bps` a switch's over all ports one way. `optic_bps` is the rate
    of an optical module; a module holds as many ports as fit, and each end of a link needs one. `switch_ns` is what a
    switch adds to a packet. Switches forward before a packet has arrived whole, so it is serialised once; with
    `store_and_forward` each link serialises it. The lengths, times and the 4,096 bytes of a packet are assumptions,
    not figures of [P1].
    """

    nic_bps: int = 800 * 10**9
    switch_bps: int = 51_200 * 10**9
    optic_bps: int = 800 * 10**9
    switch_ns: float = 600.0
    host_cable_m: float = 3.0
    fabric_cable_m: float = 50.0
    packet_bytes: int = 4096
    store_and_forward: bool = False

    def __post_init__(self) -> None:
        for name in ("nic_bps", "switch_bps", "optic_bps", "packet_bytes"):
            if getattr(self, name) < 1:
                raise CallerError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("switch_ns", "host_cable_m", "fabric_cable_m"):
            if getattr(self, name) < 0:
                raise CallerError(f"{name} cannot be negative, got {getattr(self, name):g}")


@record(frozen=True, slots=True)
class Design:
    """A fabric of `planes` independent planes of `tiers` tiers for `hosts` hosts. Counts are over all planes.

    `most_hosts` is how many such a fabric can hold, `room` how many this one can. `switches` is a count per tier,
    leaves first. `links` counts the links of each level: those of hosts first. `optics` counts modules at both ends of
    all links. `hops` is the largest number of switches on a path; `paths` is the number of ways from a host up to the
    top, over all planes. `latency_ns` is one way over `hops` switches, without queues. `port_share` is the share of
    one port in a host's capacity, `uplink_share` that of one uplink in what the hosts of a leaf have in its plane.
    """

    planes: int
    tiers: int
    hosts: int
    most_hosts: int
    room: int
    port_bps: int
    switch_ports: int
    hosts_per_leaf: int
    oversubscription: float
    switches: tuple[int, ...]
    links: tuple[int, ...]
    optics: int
    hops: int
    paths: int
    latency_ns: float
    port_share: float
    uplink_share: float | None

    @property
    def switch_count(self) -> int:
        return sum(self.switches)

    @property
    def link_count(self) -> int:
        return sum(self.links)

    @property
    def name(self) -> str:
        """`8 planes of 100gbit, 2 tiers`."""
        return f"{plural(self.planes, 'plane')} of {rate_text(self.port_bps)}, {plural(self.tiers, 'tier')}"

    def to_json(self) -> dict[str, Any]:
        return {
            "planes": self.planes,
            "tiers": self.tiers,
            "hosts": self.hosts,
            "most_hosts": self.most_hosts,
            "room_hosts": self.room,
            "port_gbps": self.port_bps / 1e9,
            "switch_ports": self.switch_ports,
            "hosts_per_leaf": self.hosts_per_leaf,
            "oversubscription": self.oversubscription,
            "switches": self.switch_count,
            "switches_by_tier": list(self.switches),
            "links": self.link_count,
            "links_by_level": list(self.links),
            "optics": self.optics,
            "hops": self.hops,
            "paths": self.paths,
            "latency_us": round(self.latency_ns / 1e3, 3),
            "port_share_of_host": self.port_share,
            "uplink_share_of_leaf": self.uplink_share,
        }


@record(frozen=True, slots=True)
class Plan:
    """Fabrics for the same number of hosts: with all planes, with one, and the full three-tier one that both are held
    against. `yardstick` is one of `designs`, or a smaller fabric where three tiers of one plane cannot hold so many."""

    designs: tuple[Design, ...]
    yardstick: Design

    def switch_ratio(self, design: Design) -> float:
        """How many switches a host takes, over those of the yardstick."""
        return design.switch_count / design.hosts / (self.yardstick.switch_count / self.yardstick.hosts)

    def optics_ratio(self, design: Design) -> float:
        """How many optical modules a host takes, over those of the yardstick."""
        return design.optics / design.hosts / (self.yardstick.optics / self.yardstick.hosts)

    def to_json(self) -> dict[str, Any]:
        return {
            "designs": [
                {
                    **each.to_json(),
                    "switches_per_host_ratio": self.switch_ratio(each),
                    "optics_per_host_ratio": self.optics_ratio(each),
                }
                for each in self.designs
            ],
            "compared_with": self.yardstick.to_json(),
        }


def plan(hosts: int, planes: int = 8, hardware: Hardware | None = None, oversubscription: float = 1.0) -> Plan:
    """Plan a fabric of `planes` planes and one of a single plane, each on the fewest tiers that hold `hosts` hosts.

    `hosts` is 2 to 16,777,216, `planes` 1 to 64, `oversubscription` at least 1. Raises CallerError outside the ranges,
    and where four tiers hold fewer.
    """
    hardware = hardware or Hardware()
    several = fewest_tiers(hosts, planes, hardware, oversubscription)
    designs = [several] if planes == 1 else [several, fewest_tiers(hosts, 1, hardware, oversubscription)]
    three = most_hosts(3, 1, hardware, oversubscription)
    yardstick = next((each for each in designs if (each.planes, each.tiers) == (1, 3)), None)
    return Plan(tuple(designs), yardstick or design(min(hosts, three), 1, 3, hardware, oversubscription))


def fewest_tiers(hosts: int, planes: int, hardware: Hardware, oversubscription: float = 1.0) -> Design:
    """Design a fabric on the fewest tiers that hold `hosts` hosts. Raises CallerError where four hold fewer."""
    for tiers in range(1, MOST_TIERS + 1):
        if most_hosts(tiers, planes, hardware, oversubscription) >= hosts:
            return design(hosts, planes, tiers, hardware, oversubscription)
    most = most_hosts(MOST_TIERS, planes, hardware, oversubscription)
    raise CallerError(
        f"{MOST_TIERS} tiers of these switches hold {most:,} hosts in {plural(planes, 'plane')}, "
        f"not {hosts:,}: take more planes, or switches of a higher rate"
    )


def most_hosts(tiers: int, planes: int, hardware: Hardware, oversubscription: float = 1.0) -> int:
    """How many hosts a fabric of so many tiers can have."""
    ports, down, _ = _ports(planes, hardware, oversubscription)
    return ports if tiers == 1 else down * (ports // 2) ** (tiers - 2) * ports


def design(hosts: int, planes: int, tiers: int, hardware: Hardware, oversubscription: float = 1.0) -> Design:
    """Design a fabric of so many tiers. Raises CallerError outside the ranges, or where it holds fewer hosts."""
    if not 2 <= hosts <= MOST_HOSTS:
        raise CallerError(f"hosts must be 2 to {MOST_HOSTS:,}, got {hosts:,}")
    if not 1 <= tiers <= MOST_TIERS:
        raise CallerError(f"tiers must be 1 to {MOST_TIERS}, got {tiers}")
    most = most_hosts(tiers, planes, hardware, oversubscription)
    if most < hosts:
        raise CallerError(f"{tiers} tiers of these switches hold {most:,} hosts, not {hosts:,}")
    ports, down, up = _ports(planes, hardware, oversubscription)
    port_bps = hardware.nic_bps // planes
    block = _whole(tiers, hosts, ports, down, up)
    links = tuple(planes * count for count in (hosts, *block.links))
    modules = port_bps * 2 * sum(links) / hardware.optic_bps
    return Design(
        planes=planes,
        tiers=tiers,
        hosts=hosts,
        most_hosts=most,
        room=block.room,
        port_bps=port_bps,
        switch_ports=ports,
        hosts_per_leaf=min(hosts, ports if tiers == 1 else down),
        oversubscription=1.0 if tiers == 1 else down / up,
        switches=tuple(planes * count for count in block.switches),
        links=links,
        optics=-int(-modules // 1),
        hops=2 * tiers - 1,
        paths=planes * block.ways,
        latency_ns=_latency_ns(tiers, port_bps, hardware),
        port_share=1 / planes,
        uplink_share=None if tiers == 1 else 1 / down,
    )


@record(frozen=True, slots=True)
class _Block:
    """Part of one plane: how many hosts it has room for, its switches by tier, its links by level without those of
    hosts, its links upward, and how many ways lead from a host up through it."""

    room: int
    switches: tuple[int, ...]
    links: tuple[int, ...]
    up: int
    ways: int


def _ports(planes: int, hardware: Hardware, oversubscription: float) -> tuple[int, int, int]:
    """A switch's ports at the rate of a plane, and those of a leaf that lead down and up."""
    if not 1 <= planes <= 64:
        raise CallerError(f"planes must be 1 to 64, got {planes}")
    if oversubscription < 1:
        raise CallerError(f"oversubscription must be at least 1, got {oversubscription:g}")
    ports = hardware.switch_bps * planes // hardware.nic_bps
    if ports < 4:
        raise CallerError(
            f"a switch of {rate_text(hardware.switch_bps)} has {plural(ports, 'port')} of "
            f"{rate_text(hardware.nic_bps // planes)}: at least 4 are needed"
        )
    up = int(ports / (1 + oversubscription))
    if up < 1:
        raise CallerError(f"oversubscription of {oversubscription:g} leaves a leaf of {ports} ports none that lead up")
    return ports, min(ports - up, int(up * oversubscription)), up


def _whole(tiers: int, hosts: int, ports: int, down: int, up: int) -> _Block:
    """One plane: blocks below switches whose ports all lead down."""
    if tiers == 1:
        return _Block(ports, (1,), (), 0, 1)
    return _above(tiers, hosts, down * (ports // 2) ** (tiers - 2), ports, (ports, down, up))


def _below_top(tiers: int, hosts: int, leaf: tuple[int, int, int]) -> _Block:
    ports, down, up = leaf
    if tiers == 1:
        return _Block(down, (1,), (), up, up)
    half = ports // 2
    return _above(tiers, hosts, down * half ** (tiers - 2), half, leaf)


def _above(tiers: int, hosts: int, most_below: int, ports_down: int, leaf: tuple[int, int, int]) -> _Block:
    """Equal blocks of a tier less, and the switches above them, each connected to each block equally often."""
    count = -(-hosts // most_below)
    below = _below_top(tiers - 1, -(-hosts // count), leaf)
    uplinks = count * below.up
    least = -(-uplinks // ports_down)
    switches = next(each for each in range(least, below.up + 1) if below.up % each == 0)
    return _Block(
        room=count * below.room,
        switches=(*(count * each for each in below.switches), switches),
        links=(*(count * each for each in below.links), uplinks),
        up=uplinks,
        ways=below.ways if ports_down == leaf[0] else below.ways * (uplinks // switches),
    )


def _latency_ns(tiers: int, port_bps: int, hardware: Hardware) -> float:
    hops, fabric_links = 2 * tiers - 1, 2 * tiers - 2
    cables = 2 * hardware.host_cable_m + fabric_links * hardware.fabric_cable_m
    serialised = fabric_links + 2 if hardware.store_and_forward else 1
    packet_ns = hardware.packet_bytes * 8 * 1e9 / port_bps
    return hops * hardware.switch_ns + cables * _SPEED_OF_LIGHT_NS_PER_M + serialised * packet_ns
