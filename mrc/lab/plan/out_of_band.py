# SPDX-License-Identifier: BSD-2-Clause
"""The IPv4 network of a lab's hosts: a cable from each to a bridge, which no cut, loss or queue of the fabric touches.

Programs tell each other over it where their memory is, as they do over the management network of a real machine. The
bridge is in the namespace of the first leaf, so a lab has no namespace more than nodes.
"""

from __future__ import annotations

from ipaddress import IPv4Network

from mrc.fabric import Shape
from mrc.fabric.names import parse_host
from mrc.records import record

# Set aside for test networks (RFC 2544): no network that a host may be given besides is in there.
NETWORK = IPv4Network("198.18.0.0/16")
NAME = "oob"
# Below those of the links (`nodes.FIRST_LINK_INDEX`), and far above them.
HOST_INDEX = 97
_BRIDGE_INDEX, _FIRST_PORT_INDEX = 98, 1 << 24


@record(frozen=True, slots=True)
class CableEnd:
    """One end of a host's cable to the bridge."""

    node: str
    name: str
    index: int
    mac: str


@record(frozen=True, slots=True)
class OutOfBandCable:
    """A host's cable to the bridge, and its address."""

    host: CableEnd
    port: CableEnd
    address: str


@record(frozen=True, slots=True)
class OutOfBand:
    """The whole network: the switch whose namespace has the bridge, and a cable for each host."""

    switch: str
    bridge_index: int
    cables: tuple[OutOfBandCable, ...]


def ipv4_address(host: str) -> str:
    """The IPv4 address of a host on that network."""
    return str(NETWORK[1 + _number(host)])


def out_of_band(topology: Shape) -> OutOfBand:
    """The plan of the hosts' IPv4 network."""
    switch = topology.leaf_switches[0]
    cables = []
    for host in topology.hosts:
        number = _number(host)
        near = CableEnd(host, NAME, HOST_INDEX, _mac(number, 3))
        far = CableEnd(switch, f"{NAME}-{host}", _FIRST_PORT_INDEX + number, _mac(number, 4))
        cables.append(OutOfBandCable(near, far, ipv4_address(host)))
    return OutOfBand(switch, _BRIDGE_INDEX, tuple(cables))


def _number(host: str) -> int:
    number = parse_host(host)
    if number is None:
        raise ValueError(f"{host} is no host")
    return number


def _mac(number: int, end: int) -> str:
    """As those of the fabric's cables, which have ends 1 and 2."""
    return f"02:4d:52:{number >> 8:02x}:{number & 0xFF:02x}:{end:02x}"
