# SPDX-License-Identifier: BSD-2-Clause
"""Plain IPv6 through a given spine. By itself a leaf spreads plain flows over its spines by a hash.

So that a stream of the kernel's is sure to meet the failure of that spine.
"""

from __future__ import annotations

import errno
import ipaddress
from typing import Any

from mrc.errors import SystemRefused
from mrc.lab import Lab


def pin(lab: Lab, leaf: str, spine: str, address: str) -> None:
    """Let `leaf` send what goes to `address` over `spine` alone. Lasts as long as the lab. Raises SystemRefused."""
    lab.inside(leaf, lambda: _add_route(leaf, spine, address))


def _add_route(leaf: str, spine: str, address: str) -> None:
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with IPRoute() as route:
            index = route.link_lookup(ifname=spine)[0]
            gateway = _gateway(list(route.get_routes(family=10)), index, address)
            route.route("replace", dst=f"{address}/128", gateway=gateway, oif=index)
    except (NetlinkError, IndexError, StopIteration) as error:
        raise SystemRefused(errno.ENETUNREACH, f"{leaf} has no route to {address} over {spine}: {error}") from None


def _gateway(routes: list[Any], index: int, address: str) -> str:
    """The next hop behind interface `index` of the route to `address` that has several."""
    for route in routes:
        hops, prefix = route.get_attr("RTA_MULTIPATH"), route.get_attr("RTA_DST")
        if not hops or prefix is None:
            continue
        if ipaddress.ip_address(address) in ipaddress.ip_network(f"{prefix}/{route['dst_len']}"):
            return str(next(hop.get_attr("RTA_GATEWAY") for hop in hops if hop["oif"] == index))
    raise StopIteration("no route over several spines")
