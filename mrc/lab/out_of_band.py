# SPDX-License-Identifier: BSD-2-Clause
"""Laying the hosts' IPv4 network (`mrc.lab.plan.out_of_band`). A lab is whole without it."""

from __future__ import annotations

from collections.abc import Callable

from mrc.errors import SystemRefused
from mrc.fabric import Shape
from mrc.lab import installed, messages
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.plan.out_of_band import HOST_INDEX, NAME, NETWORK, OutOfBand, out_of_band

MTU = 1500


def lay(topology: Shape, route: Callable[[str], NetlinkSocket], descriptor: Callable[[str], int]) -> bool:
    """Lay it in a lab under construction; whether the kernel could. `route` and `descriptor` are those of a node.

    What a kernel without IPv4, or without bridges, has begun is taken back.
    """
    wanted = out_of_band(topology)
    switch = route(wanted.switch)
    try:
        switch.transact([messages.bridge(wanted.bridge_index, NAME)])
        for cable in wanted.cables:
            route(cable.host.node).transact(
                [
                    messages.veth_pair(cable.host, cable.port, descriptor(wanted.switch), MTU),
                    messages.address(cable.host.index, cable.address, NETWORK.prefixlen),
                    messages.link_state(cable.host, up=True),
                ]
            )
        switch.transact(
            [messages.bridge_port(cable.port.index, cable.port.name, wanted.bridge_index) for cable in wanted.cables]
        )
    except SystemRefused:
        _take_back(wanted, switch)
        return False
    return True


def address(route: NetlinkSocket, host: str) -> str | None:
    """The address that a host has on it, as the kernel says. Raises SystemRefused."""
    return installed.ipv4_address(route, host, HOST_INDEX)


def _take_back(begun: OutOfBand, switch: NetlinkSocket) -> None:
    gone = [messages.delete_link(cable.port.index, cable.port.name) for cable in begun.cables]
    switch.transact([*gone, messages.delete_link(begun.bridge_index, NAME)])
