# SPDX-License-Identifier: BSD-2-Clause
"""The way between us and the peer: a router in a namespace of its own, which loses packets when told to.

    ours --- veth, "ours" --- router --- tap, "peer" --- the peer's eth0
                              router --- tap, "orders" --- the peer's eth1, where nothing is ever lost

This process is in a namespace of its own already. All of it goes when the process and the machine do.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from mrc.errors import SystemRefused
from mrc.lab.impairment import loss
from mrc.lab.namespace import in_namespace, unshare_network
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.nftables import NETLINK_NETFILTER
from mrc.net.hosts import OwnAddress
from mrc.threads import in_thread

MTU = 4400  # bytes, room for a path MTU of 4096
TOWARDS_PEER, TOWARDS_US = "ours", "peer"  # the router's interface that what goes there comes in on
INTERFACE = "rc0"  # ours
OURS = {4: "10.77.1.1", 6: "fd77:1::1"}
PEERS = {4: "10.77.2.2", 6: "fd77:2::2"}
_ROUTER = {4: ("10.77.1.254", "10.77.2.254"), 6: ("fd77:1::fe", "fd77:2::fe")}
_LENGTH = {4: 24, 6: 64}
_ORDERS = ("10.77.3.254", "10.77.3.2")
_TAPS = ("peer", "orders")
_TUN = Path("/dev/net/tun")


class Network:
    """Built when made; `close` gives back what a process holds of it. Raises SystemRefused when the system says no."""

    def __init__(self) -> None:
        if not _TUN.exists():
            raise SystemRefused(f"there is no {_TUN}: modprobe tun, or give the container this device")
        self.own = [OwnAddress(INTERFACE, address) for address in OURS.values()]
        self.router = in_thread(unshare_network)
        try:
            self._build()
            self._netfilter = NetlinkSocket.inside(self.router, NETLINK_NETFILTER)
            self.listener = in_namespace(self.router, _listen)
        except BaseException:
            os.close(self.router)
            raise

    def _build(self) -> None:
        behind = f"/proc/{os.getpid()}/fd/{self.router}"
        ours = ["link set lo up", f"link add {INTERFACE} mtu {MTU} type veth peer name ours mtu {MTU} netns {behind}"]
        ours += [f"addr add {OURS[version]}/{_LENGTH[version]} dev {INTERFACE} nodad" for version in OURS]
        ours += [f"link set {INTERFACE} up"]
        ours += [f"-{version} route add default via {_ROUTER[version][0]}" for version in OURS]
        routers = ["link set lo up", *(f"tuntap add dev {name} mode tap" for name in _TAPS)]
        routers += [f"link set peer mtu {MTU}"]
        for version, addresses in _ROUTER.items():
            for address, interface in zip(addresses, ("ours", "peer"), strict=True):
                routers += [f"addr add {address}/{_LENGTH[version]} dev {interface} nodad"]
        routers += [f"addr add {_ORDERS[0]}/24 dev orders"]
        routers += [f"link set {name} up" for name in ("ours", *_TAPS)]
        _ip(ours[:2])
        in_namespace(self.router, lambda: _route(routers))
        _ip(ours[2:])

    @property
    def says(self) -> str:
        """What the peer's kernel is told of it on its command line."""
        words = [f"peer.mtu={MTU}"]
        words += [f"peer.ipv{v}={PEERS[v]}/{_LENGTH[v]},{_ROUTER[v][1]}" for v in PEERS]
        words += [f"peer.own={_ORDERS[1]}/24", f"peer.orders={_ORDERS[0]},{self.listener.getsockname()[1]}"]
        return " ".join(words)

    @property
    def devices(self) -> list[str]:
        """qemu's options for the peer's network cards."""
        options = []
        for name in _TAPS:
            options += ["-netdev", f"tap,id={name},ifname={name},script=no,downscript=no"]
            options += ["-device", f"virtio-net-pci,netdev={name},romfile="]
        return options

    def lose(self, share: float) -> None:
        """Lose this share, 0 to 1, of what goes each way."""
        for interface in (TOWARDS_PEER, TOWARDS_US):
            if share:
                loss.install(self._netfilter, interface, share)
            else:
                loss.clear(self._netfilter, interface)

    def lost(self) -> dict[str, int]:
        """Packets lost by the kernel's own count, by the interface they came in on, since `lose`."""
        return {found.interface: found.dropped_packets for found in loss.installed(self._netfilter)}

    def close(self) -> None:
        self.listener.close()
        self._netfilter.close()
        os.close(self.router)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _listen() -> socket.socket:
    listener = socket.create_server((_ORDERS[0], 0))
    listener.settimeout(1.0)
    return listener


def _route(commands: Iterable[str]) -> None:
    _ip(commands)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")


def _ip(commands: Iterable[str]) -> None:
    for command in commands:
        try:
            done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise SystemRefused("there is no ip program here: install the package iproute2") from None
        if done.returncode:
            raise SystemRefused(f"ip {command}: {done.stderr.strip()}")
