# SPDX-License-Identifier: BSD-2-Clause
"""A running endpoint on a fabric: sockets for every port, and the loop that drives it."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING

from mrc.endpoint.config import (
    PATH_MTUS,
    EndpointConfig,
    PeerNodeConfig,
    QpConfig,
    ReceivingConfig,
)
from mrc.endpoint.congestion import DEFAULT_ALGORITHM, configured
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.local_ports import advice
from mrc.endpoint.paths.online import DEFAULT_PROFILE
from mrc.endpoint.paths.profiles import EvProfile
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.tracing import Tracer
from mrc.errors import PeerError, SystemRefused
from mrc.fabric.host_view import HOST_FABRIC, Fabric
from mrc.net.control.host_store import HostStore, store_path
from mrc.net.control.places import SWITCH_VARIABLE
from mrc.net.control.server import ControlServer
from mrc.net.driver import Driver
from mrc.net.flood_filter import FloodFilter
from mrc.net.mtu import FullPackets, interface_mtu
from mrc.net.negotiation import NodeDescription, QpDescription, default_ev_profile, peer_of
from mrc.net.ports import NEEDED_BUFFER, PACKET_BUFFER_BYTES, Port
from mrc.net.rkeys import RKeys
from mrc.net.sockets import Srv6Port
from mrc.net.tuning import BATCH, MOST_ON_THE_WAY, USER_SPACE_NSCC
from mrc.net.udp_port import IPV6_HEADER, UdpPort, full_packets
from mrc.opened import Closing
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile
from mrc.wire.rows import HEADER_ROOM
from mrc.wire.srh import SRH_LENGTH

if TYPE_CHECKING:
    from mrc.control.controller import Controller
    from mrc.control.profiles import Profiles
    from mrc.control.service import Service

# What `secrets` draws from. That imports hashes and OpenSSL too.
_system = SystemRandom()
_OUTER_HEADERS = {"srv6": IPV6_HEADER, "srv6-srh": IPV6_HEADER + SRH_LENGTH}


class Node(Closing):
    """One process's endpoint. A context manager: leaving it closes the sockets.

    `path_mtu` in bytes; None: the largest the interfaces have room for. `ev_profile` is what QPs use; None: as the
    fabric's mode has it. `tracer` records what the endpoint does; its clock is CLOCK_MONOTONIC. Raises SystemRefused
    when the ports of `fabric` cannot be opened here, or have no room for the path MTU.

    While its loop runs it can be seen and steered through a control socket, which names it as `program`; where
    none can be made, `control_refused` says why.
    """

    def __init__(
        self,
        fabric: Fabric,
        *,
        wire: WireProfile = DEFAULT_WIRE_PROFILE,
        path_mtu: int | None = None,
        ev_profile: EvProfile | None = None,
        tracer: Tracer | None = None,
        program: str | None = None,
    ) -> None:
        self.fabric = fabric
        self.path_mtu = _path_mtu(fabric, path_mtu)
        self.ev_profile = ev_profile or default_ev_profile(fabric)
        # All QPs of a node towards one peer draw the same EVs.
        self._ev_seed = _system.getrandbits(63)
        # The arguments of the latest `peer`, and its result.
        self._last_peer: tuple[NodeDescription, EvProfile, QpPeer] | None = None
        config = EndpointConfig(
            wire=wire,
            fair_share=BATCH,
            transmit_batch=BATCH,
            receiving=ReceivingConfig(most_packets=MOST_ON_THE_WAY),
            peer_nodes=PeerNodeConfig(first_request_id=_system.getrandbits(16)),
            seed=_system.getrandbits(63),
        )
        self.endpoint = Endpoint(config, draw_rkey=RKeys(), tracer=tracer)
        self.endpoint.online.cc[DEFAULT_PROFILE] = configured(DEFAULT_ALGORITHM, USER_SPACE_NSCC)
        ports: list[Port] = []
        try:
            ports.extend(_open_port(fabric, number, self.path_mtu, wire) for number in range(len(fabric.ports)))
            # Each port's buffer must hold everything: the other planes may be gone.
            budget = self.endpoint.receive_budget
            self.driver = Driver(self.endpoint, ports, _longest_received(fabric), budget)
            budget.set_capacity(min(port.receive_buffer for port in ports) // PACKET_BUFFER_BYTES)
            self.driver.flood_filter = FloodFilter(self.endpoint, ports, wire.accepted_udp_ports)
        except BaseException:
            for opened in ports:
                opened.close()
            raise
        self.control_refused: str | None = None
        self.control = self._open_control(program or Path(sys.argv[0] or "python").name)
        try:
            path = store_path(fabric)
            self.store = HostStore(path, self._profiles, None if self.control is None else self.control.path)
        except BaseException:
            self.driver.close()
            raise
        self.endpoint.online.host = self.store
        self.small_buffers = [port.interface for port in ports if port.receive_buffer < NEEDED_BUFFER]

    def _open_control(self, program: str) -> ControlServer | None:
        if os.environ.get(SWITCH_VARIABLE) == "off":
            return None

        def service() -> Service:
            # The modules of the controller take as long to import as all of the endpoint: few processes need them.
            from mrc.control.service import Service
            from mrc.net.node_device import NodeDevice

            about = {"pid": os.getpid(), "program": program, "mode": self.fabric.mode, "device": str(self.store.path)}
            return Service(NodeDevice(self), about)

        try:
            control = ControlServer(service)
        except SystemRefused as error:
            self.control_refused = str(error)
            return None
        self.driver.look_after(control)
        return control

    def _profiles(self) -> Profiles:
        from mrc.control.profiles import profiles_of
        from mrc.net.node_device import NodeDevice

        return profiles_of(NodeDevice(self))

    def prepare_control(self) -> None:
        """Make ready for clients of the control socket: without it the first one holds the loop up for some 40 ms.

        A sender can stand still for as long. What waits that long to be received the other end sends again.
        """
        if self.control is not None:
            self.control.prepare()

    @property
    def controller(self) -> Controller:
        """The controller of this node, and where its process may, of the host."""
        from mrc.control.controller import Controller
        from mrc.net.node_device import NodeDevice

        return Controller(NodeDevice(self))

    @property
    def description(self) -> NodeDescription:
        return NodeDescription.of(self.fabric, self.endpoint.config.wire, self.path_mtu)

    @property
    def summary(self) -> str:
        """Mode, addresses and path MTU, in one line for people."""
        addresses = ", ".join(port.address for port in self.fabric.ports)
        return f"{self.fabric.mode} mode on {addresses}, path MTU {self.path_mtu}"

    def create_qp(self, config: QpConfig, controller: str = "fixed") -> QueuePair:
        """A QP in INIT."""
        config = replace(config, paths=self.ev_profile.path_config(config.paths))
        qp = self.endpoint.create_qp(config, controller)
        qp.to_init()
        return qp

    def peer(
        self, node: NodeDescription, peer: QpDescription, path_mtu: int, ev_profile: EvProfile | None = None
    ) -> QpPeer:
        """How to reach one of `node`'s QPs, over the EVs of a profile; without one, over those of this node's.

        Raises PeerError without a common plane, and when the ends differ in mode or have no room for the path MTU.
        """
        largest = min(self.path_mtu, node.path_mtu)
        if path_mtu > largest:
            raise PeerError(
                f"the interfaces of both ends have room for a path MTU of {largest}, not {path_mtu}: "
                f"use --mtu {largest}, or in a program path_mtu={largest}"
            )
        profile = ev_profile or self.ev_profile
        last = self._last_peer
        # QPs often come by the hundred towards one node. They share its paths: 40 KB and a millisecond each.
        if last is None or last[:2] != (node, profile):
            last = self._last_peer = node, profile, self._reach(node, peer, profile)
        return replace(last[2], qpn=peer.qpn, first_psn=peer.first_psn)

    def _reach(self, node: NodeDescription, peer: QpDescription, profile: EvProfile) -> QpPeer:
        wire, seed = self.endpoint.config.wire, self._ev_seed

        def towards(profile: EvProfile) -> QpPeer:
            return peer_of(self.fabric, node, peer, wire, profile, Random(seed))

        # Outside a lab hosts have no names to be known by.
        name = "" if self.fabric.name == HOST_FABRIC else f"h{node.host}"
        return replace(towards(profile), name=name, paths_of=lambda profile: towards(profile).paths)

    def connect(self, qp: QueuePair, node: NodeDescription, peer: QpDescription) -> None:
        """Bring a QP in INIT up to RTS towards one of `node`'s. Raises as `peer` does."""
        qp.to_rtr(self.peer(node, peer, qp.config.path_mtu))
        qp.to_rts()

    def close(self) -> None:
        self.driver.close()
        self.store.close()


def _path_mtu(fabric: Fabric, wanted: int | None) -> int:
    """The path MTU to use. Raises SystemRefused when what is wanted does not fit the fabric's MTU."""
    room = min(fabric.mtu - _full_packets(fabric, port.address, 0).headers for port in fabric.ports)
    fitting = [mtu for mtu in PATH_MTUS if mtu <= room]
    if not fitting:
        raise SystemRefused(errno.EMSGSIZE, f"{_narrowest(fabric)}, which has no room for any path MTU: {advice(room)}")
    if wanted is not None and wanted not in fitting:
        raise SystemRefused(
            errno.EMSGSIZE, f"{_narrowest(fabric)}, which has no room for a path MTU of {wanted}: {advice(room)}"
        )
    return wanted or max(fitting)


def _narrowest(fabric: Fabric) -> str:
    """The interface that has the fabric's MTU, for people; the fabric itself where its interfaces have larger ones."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        for port in fabric.ports:
            with contextlib.suppress(OSError):  # an interface that is missing is refused when its port is opened
                if interface_mtu(sock, port.interface) <= fabric.mtu:
                    return f"interface {port.interface} has MTU {fabric.mtu}"
    return f"fabric {fabric.name} has MTU {fabric.mtu}"


def _open_port(fabric: Fabric, number: int, path_mtu: int, wire: WireProfile) -> Port:
    port = fabric.ports[number]
    full = _full_packets(fabric, port.address, path_mtu)
    if fabric.uses_usids:
        return Srv6Port(number, port, full, srh=fabric.mode == "srv6-srh")
    return UdpPort(number, port, full, wire.accepted_udp_ports)


def _full_packets(fabric: Fabric, address: str, path_mtu: int) -> FullPackets:
    """The longest packets from one of our addresses."""
    if fabric.uses_usids:
        return FullPackets(path_mtu, _OUTER_HEADERS[fabric.mode] + HEADER_ROOM)
    return full_packets(address, path_mtu)


def _longest_received(fabric: Fabric) -> int:
    return fabric.mtu if fabric.uses_usids else HEADER_ROOM + max(PATH_MTUS)
