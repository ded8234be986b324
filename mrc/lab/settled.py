# SPDX-License-Identifier: BSD-2-Clause
"""Waiting for what the kernel does a little after it has acknowledged the order.

Workers of its own put the queue of a port to use whose carrier has come, and make an address local (addrconf). On a
machine that keeps those workers waiting this takes a second or more, in which packets vanish in silence.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from ipaddress import IPv6Address

from mrc.errors import SystemRefused
from mrc.lab import installed
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.plan import LOOPBACK_INDEX, Interface

_SETTLE_S = 30.0
_AGAIN_S = 0.0002


def wait_until_settled(
    route: NetlinkSocket, node: str, interfaces: Collection[Interface], loopback_addresses: Collection[str] = ()
) -> None:
    """Return when these interfaces of `node` carry packets, and their addresses and those on `lo` are local.

    `route` is a route netlink socket in the namespace of `node`. Raises SystemRefused after half a minute.
    """
    by = time.monotonic() + _SETTLE_S
    indices = {each.index for each in interfaces}
    while not indices <= {index for index, found in installed.interfaces(route, node).items() if found.running}:
        _look_again(by, f"an interface of {node} did not come up")
    addresses = {(LOOPBACK_INDEX, IPv6Address(text).packed) for text in loopback_addresses}
    for each in interfaces:
        addresses |= {(each.index, IPv6Address(text).packed) for text in (each.link_local, *each.addresses)}
    while lacking := addresses - installed.local_addresses(route, node):
        _look_again(by, f"{IPv6Address(min(lacking)[1])} of {node} did not become local")


def _look_again(by: float, otherwise: str) -> None:
    if time.monotonic() > by:
        raise SystemRefused(f"{otherwise} in {_SETTLE_S:.0f} s: see `mrc lab status`")
    time.sleep(_AGAIN_S)
