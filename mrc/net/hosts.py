# SPDX-License-Identifier: BSD-2-Clause
"""A host on its ordinary addresses: what takes the place of a fabric file between two real machines.

Each address is one port, and one plane. Which plane of the peer it belongs to goes by order.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from mrc import netlink
from mrc.errors import CallerError, SystemRefused
from mrc.fabric.host_view import HOST_FABRIC, Fabric, FabricPort
from mrc.net.mtu import interface_mtu
from mrc.net.ports import LOOPBACK
from mrc.records import record
from mrc.wire.usid import MAX_PLANES

__all__ = ["OwnAddress", "own_addresses"]

_RTM_NEWADDR, _RTM_GETADDR = 20, 22
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
# No packet is sent there (RFC 5737, RFC 3849): only the route is looked up.
_SOMEWHERE = ("192.0.2.1", "2001:db8::1")
_DISCARD_PORT = 9
# How a command and a program say it.
_HOW = "--bind ADDR, in Python addresses=[...], in C MRC_ADDRESSES=ADDR"


@record(frozen=True, slots=True)
class OwnAddress:
    """An address of this host and the interface that has it."""

    interface: str
    address: str

    @property
    def useful(self) -> bool:
        """Whether other hosts can use it."""
        parsed = ipaddress.ip_address(self.address)
        return not (parsed.is_loopback or parsed.is_link_local)


def own_addresses() -> list[OwnAddress]:
    """Every address of this host, or of the network namespace it is asked in. Raises SystemRefused."""
    try:
        return _dump_addresses()
    except OSError as error:
        raise SystemRefused(error.errno, f"asking for the addresses of this host: {error.strerror}") from None


def _dump_addresses() -> list[OwnAddress]:
    found: list[OwnAddress] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        every = netlink.ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        sock.sendto(netlink.message(_RTM_GETADDR, netlink.DUMP, every), (0, 0))
        while True:
            for kind, _, _, body in netlink.messages(sock.recv(1 << 18)):
                if kind in (netlink.DONE, netlink.ERROR):
                    return found
                if kind == _RTM_NEWADDR:
                    found += _own_address(body)


def _own_address(message: bytes) -> list[OwnAddress]:
    """The address in one message of the kernel's; none when it has a family we do not know."""
    _, _, _, _, index = netlink.ADDRESS.unpack_from(message)
    attributes = netlink.attributes(message, netlink.ADDRESS.size)
    # On a point-to-point link the other end is what IFA_ADDRESS names.
    packed = attributes.get(_IFA_LOCAL, attributes.get(_IFA_ADDRESS, b""))
    if len(packed) not in (4, 16):
        return []
    return [OwnAddress(socket.if_indextoname(index), str(ipaddress.ip_address(packed)))]


def address_towards(address: str) -> str | None:
    """The address this host would send from to reach `address`, or None without a route."""
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((address, _DISCARD_PORT))
            return str(sock.getsockname()[0])
    except OSError:
        return None


def addresses_towards(peer: Sequence[str]) -> list[str]:
    """One own address for each plane of a peer whose addresses these are, as far as there are different ones.

    Raises CallerError when there is no route to the first of them.
    """
    chosen: list[str] = []
    for address in peer:
        own = address_towards(address)
        if own is None or own in chosen:
            break
        chosen.append(own)
    if not chosen:
        raise CallerError(f"there is no route to {peer[0]}: name the addresses to use: {_HOW}")
    return chosen


def default_addresses() -> list[str]:
    """The address others reach this host at: that of the default route, or the only one there is.

    Raises CallerError when that is unknown.
    """
    useful = [own.address for own in own_addresses() if own.useful]
    for somewhere in _SOMEWHERE:
        own = address_towards(somewhere)
        if own in useful:
            return [own]
    if len(useful) == 1:
        return useful
    known = f"this host has {', '.join(useful)}" if useful else "this host has no address that others could reach"
    raise CallerError(f"{known}: name those to use, one for each plane: {_HOW}")


def host_fabric(addresses: Sequence[str], mode: str = "udp") -> Fabric:
    """This host as a fabric of one plane for each address, in this order; its MTU is that of the smallest interface.

    Raises CallerError for what is no address or cannot be used, SystemRefused for one that is not this host's.
    """
    if isinstance(addresses, str):
        raise CallerError(f"addresses is a list of addresses, one for each plane: [{addresses!r}]")
    if not 1 <= len(addresses) <= MAX_PLANES:
        raise CallerError(f"1 to {MAX_PLANES} addresses can be bound, got {len(addresses)}")
    interfaces = {own.address: own.interface for own in own_addresses()}
    ports: list[FabricPort] = []
    for plane, text in enumerate(addresses):
        address = _usable(text)
        if address in (port.address for port in ports):
            raise CallerError(f"{address} is given twice: each address is a plane of its own")
        interface = interfaces.get(address)
        if interface is None and ipaddress.ip_address(address).is_loopback:
            interface = LOOPBACK  # all of 127.0.0.0/8 is there, listed or not
        if interface is None:
            raise SystemRefused(f"{address} is no address of this host: it has {', '.join(interfaces) or 'none'}")
        ports.append(FabricPort(plane, interface, address, 0, 0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        mtu = min(interface_mtu(sock, port.interface) for port in ports)
    return Fabric(name=HOST_FABRIC, host=0, mtu=mtu, ports=tuple(ports), mode=mode)


def _usable(text: str) -> str:
    try:
        address = ipaddress.ip_address(str(text))
    except ValueError:
        raise CallerError(f"{text!r} is no IP address: name this host's addresses, {_HOW}") from None
    if address.is_link_local or address.is_unspecified or address.is_multicast:
        raise CallerError(f"{address} does not name this host to others: give a global or private address")
    return str(address)
