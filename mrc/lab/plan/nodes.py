# SPDX-License-Identifier: BSD-2-Clause
"""What a plan consists of: a namespace's settings, interfaces, routes and rules, as plain values."""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from mrc.errors import CallerError
from mrc.fabric import Link
from mrc.lab.plan.addresses import interface_name, link_local, mac
from mrc.records import record

LOOPBACK_INDEX = 1
# The device a switch's uSID routes name: a bridge without members, because a route dies with its device and
# this one never goes down.
USID_DEVICE = "usid0"
USID_DEVICE_INDEX = 99
# Indices are unique in the whole fabric. Within one veth pair they must differ: the kernel takes a device whose peer
# has the same index for one without a lower device and reports its carrier up to a second late.
FIRST_LINK_INDEX = 100


class RouteKind(Enum):
    """What a route does with a packet."""

    FORWARD = "forward"
    LOCAL = "local"
    BLACKHOLE = "blackhole"
    USID = "usid"


@record(frozen=True, slots=True)
class Route:
    """One static route. `prefix` has its length; `one_of_many` marks one next hop of a multipath route.

    `table` None: the one its kind belongs in. `metric` None: the kernel's 1024; a higher one stands behind it.
    """

    prefix: str
    kind: RouteKind
    device_index: int
    gateway: str | None = None
    source: str | None = None
    one_of_many: bool = False
    table: int | None = None
    metric: int | None = None


@record(frozen=True, slots=True)
class Rule:
    """One routing rule: packets whose mark, under `mask`, is `mark` look into `table`, or are dropped without one.

    `longer_than`: only what the table finds with a longer prefix than that counts; any other packet goes on to the next
    rule.
    """

    priority: int
    table: int | None
    mark: int | None = None
    mask: int = 0xFFFFFFFF
    longer_than: int | None = None


@record(frozen=True, slots=True)
class Marking:
    """Packets to one of `udp_ports` get a mark before they are routed: the first 32 bits of the IPv6 header under
    `mask`, plus `tag`, whose bits lie outside the mask."""

    udp_ports: tuple[int, ...]
    mask: int
    tag: int


@record(frozen=True, slots=True)
class Interface:
    """One end of a link, with everything a link-down takes away from it.

    `number` is the link's place in `Shape.links`; `upper` says which end of the cable this is.
    """

    node: str
    name: str
    number: int
    upper: bool
    addresses: tuple[str, ...] = ()
    routes: tuple[Route, ...] = ()

    @property
    def index(self) -> int:
        return FIRST_LINK_INDEX + 2 * self.number + self.upper

    @property
    def mac(self) -> str:
        return mac(self.number, self.upper)

    @property
    def peer_mac(self) -> str:
        return mac(self.number, not self.upper)

    @property
    def link_local(self) -> str:
        return link_local(self.number, self.upper)

    @property
    def peer_link_local(self) -> str:
        return link_local(self.number, not self.upper)


@record(frozen=True, slots=True)
class NodePlan:
    """One namespace. All but `interfaces` does not depend on any link.

    `settings` are files below /proc/sys/net and what goes into them, in this order.
    """

    name: str
    is_switch: bool
    loopback_addresses: tuple[str, ...]
    routes: tuple[Route, ...]
    interfaces: tuple[Interface, ...] = field(default=())
    settings: tuple[tuple[str, str], ...] = ()
    rules: tuple[Rule, ...] = ()
    marking: Marking | None = None

    @property
    def needs_usid_device(self) -> bool:
        return any(route.kind is RouteKind.USID for route in self.routes)

    def interface(self, link: Link) -> Interface:
        """This node's end of `link`. Raises CallerError when the link does not end here."""
        if self.name not in (link.lower, link.upper):
            raise CallerError(f"link {link.name} does not end at {self.name}: it joins {link.lower} and {link.upper}")
        name = interface_name(link, self.name)
        return next(interface for interface in self.interfaces if interface.name == name)
