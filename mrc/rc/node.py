# SPDX-License-Identifier: BSD-2-Clause
"""A plain RoCEv2 RC endpoint on real sockets, and the loop that drives it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from mrc.endpoint.completions import Completion
from mrc.endpoint.datapath.qp_datapath import MAX_PORTS
from mrc.endpoint.paths.addressing import PlanePair, udp_paths
from mrc.errors import CallerError
from mrc.fabric.host_view import FabricPort
from mrc.net.driver import Driver
from mrc.net.hosts import OwnAddress
from mrc.net.udp_port import UdpPort, full_packets
from mrc.rc import RcConfig, RcEndpoint, RcEndpointConfig, RcPeer, RcQueuePair
from mrc.wire.ipv4 import address_number
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.rows import HEADER_ROOM

__all__ = ["RcNode"]

# The dynamic range of RoCEv2's annex (A17.4.2).
FIRST_SOURCE_PORT, SOURCE_PORTS = 0xC000, 0x4000
RC_HEADERS = ("reth", "immdt")


class RcNode:
    """One process's RC endpoint at addresses of this host. A context manager: leaving it closes the sockets.

    It has up to 16 `addresses`. `path_mtu` in bytes is the largest its QPs may have. Raises CallerError for more
    addresses, SystemRefused when a raw socket is not to be had or an interface has no room for that path MTU.
    """

    def __init__(
        self, addresses: Sequence[OwnAddress], path_mtu: int, *, wire: WireProfile = DEFAULT_WIRE_PROFILE
    ) -> None:
        if len(addresses) > MAX_PORTS:
            raise CallerError(f"a node has at most {MAX_PORTS} addresses, got {len(addresses)}")
        self._path_mtu = path_mtu
        self._port_of: dict[str, int] = {}
        self.endpoint = RcEndpoint(
            RcEndpointConfig(wire=wire, seed=secrets.randbits(63)), draw_rkey=lambda: secrets.randbits(32)
        )
        ports: list[UdpPort] = []
        try:
            for number, own in enumerate(addresses):
                fabric_port = FabricPort(number, own.interface, own.address, leaf=0, uplinks=0)
                full = full_packets(own.address, path_mtu, RC_HEADERS)
                ports.append(UdpPort(number, fabric_port, full, wire.accepted_udp_ports))
                self._port_of[own.address] = number
            self.driver = Driver(self.endpoint, ports, HEADER_ROOM + path_mtu)
        except BaseException:
            for opened in ports:
                opened.close()
            raise

    def create_qp(
        self,
        config: RcConfig,
        *,
        first_psn: int | None = None,
        complete: Callable[[Completion], None] | None = None,
    ) -> RcQueuePair:
        """A QP in INIT. Raises CallerError for a path MTU above the node's, otherwise as `RcEndpoint.create_qp`."""
        if config.path_mtu > self._path_mtu:
            raise CallerError(f"this node has room for a path MTU of {self._path_mtu}, not {config.path_mtu}")
        qp = self.endpoint.create_qp(config, first_psn=first_psn, complete=complete)
        qp.to_init()
        return qp

    def connect(self, qp: RcQueuePair, local: str, peer: str, peer_qpn: int, peer_first_psn: int) -> None:
        """Bring a QP in INIT up to RTS, from one of this node's addresses to a QP at the address `peer`.

        Raises CallerError when `local` is no address of this node's or of another IP version than `peer`.
        """
        port = self._port_of.get(local)
        if port is None:
            raise CallerError(f"{local} is none of this node's addresses: {', '.join(self._port_of)}")
        wire = self.endpoint.config.wire
        source_port = FIRST_SOURCE_PORT | qp.qpn % SOURCE_PORTS
        (path,) = udp_paths(PlanePair(port, port, local, peer, 0), [source_port], wire)
        qp.to_rtr(RcPeer(peer_qpn, peer_first_psn, path, address_number(peer)))
        qp.to_rts()

    def __enter__(self) -> RcNode:
        return self

    def __exit__(self, *exc: object) -> None:
        self.driver.close()
