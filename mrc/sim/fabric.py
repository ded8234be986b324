# SPDX-License-Identifier: BSD-2-Clause
"""A multi-plane fabric in virtual time, built from its description, with an endpoint on every host.

    fabric = SimFabric(Clos(planes=2, spines=4), LinkModel(rate_bps=10**10, delay_ns=1000), seed=7)
    qp, peer = fabric.connect("h0", "h1", QpConfig(path_mtu=1024))
    transfer = fabric.write(qp, 1 << 20)
    fabric.at(100_000, lambda: fabric.cut("p0l0-p0s1"))
    fabric.impair("p1l0-p1s0", toward="p1s0", loss=0.2)
    fabric.run(10**9, lambda: transfer.done)

All chance comes from the seed: the same program gives the same packets at the same times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mrc.endpoint.config import EndpointConfig, QpConfig
from mrc.endpoint.congestion import ControllerFactory
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.addressing import Path, PlanePair, srv6_paths
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.errors import CallerError
from mrc.fabric import Link, Shape
from mrc.fabric.address import address, usid
from mrc.fabric.names import host_name, leaf_name, parse_host, parse_switch, spine_name
from mrc.fabric.next_hop import next_hops
from mrc.sim.clock import Clock
from mrc.sim.host import Agent, HostPort, Observer, SimHost
from mrc.sim.link import Codepoints, Egress, LinkModel, SimPacket
from mrc.sim.recording import HostCapture, SimTrace
from mrc.sim.switch import Switch, UsidForwarding
from mrc.sim.transfers import Completions, QpEnd, Stream, Transfer
from mrc.wire.ipv4 import address_number
from mrc.wire.usid import container

_SEED_STRIDE = 1 << 16  # endpoints of fabrics with neighbouring seeds draw different numbers


class SimFabric:
    """`link` is every link's model; `host_link`, where given, that of the links between hosts and leaves.

    Without `host_link` those are like the others but never mark, and the host's own end never trims: a mark says "this
    path", not "this receiver". `agents` runs something else than an Endpoint on some hosts. `observers` are called
    with (now, host, packet from the inner IPv6 header on) for each packet a host sends. The endpoints of the hosts in
    `traced` keep a trace each, in `traces`. Raises CallerError for a fabric of another mode than srv6, and for a traced
    host that runs no endpoint of ours.
    """

    def __init__(
        self,
        shape: Shape,
        link: LinkModel | None = None,
        *,
        host_link: LinkModel | None = None,
        seed: int = 0,
        config: EndpointConfig | None = None,
        agents: Mapping[str, Agent] | None = None,
        coalesce_ns: int = 0,
        traced: Collection[str] = (),
    ) -> None:
        if shape.mode != "srv6":
            raise CallerError(f"the simulated switches forward by uSIDs, mode srv6: not {shape.mode}")
        self.shape = shape
        self.clock = Clock()
        self.observers: list[Observer] = []
        for name in traced:
            if name not in shape.hosts or name in (agents or {}):
                raise CallerError(f"{name} runs no endpoint of this fabric: it cannot be traced")
        self.traces = {name: SimTrace(name, self.clock) for name in traced}
        self.hosts: dict[str, SimHost] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.completions: dict[str, Completions] = {}
        self.switches = {name: Switch(name) for name in shape.switches}
        self._egresses: dict[tuple[str, str], Egress] = {}
        self._ends: dict[int, QpEnd] = {}
        self._cut: set[str] = set()
        self._wire = (config or EndpointConfig()).wire
        self._random = np.random.default_rng(seed)
        for number, name in enumerate(shape.hosts):
            own = replace(config or EndpointConfig(), seed=seed * _SEED_STRIDE + number)
            tracer = self.traces.get(name)
            self._add_host(name, (agents or {}).get(name) or Endpoint(own, tracer=tracer), coalesce_ns)
        link = link or LinkModel()
        self._build_links(link, host_link or replace(link, ecn_at_bytes=None), host_link is None)
        hops = next_hops(shape.links)
        for name, switch in self.switches.items():
            routes = {value: self._egresses[link.name, far] for value, (link, far) in hops[name].items()}
            switch.forward = UsidForwarding(shape.block, usid(name, parse_switch(name)[0]), routes)

    @property
    def now(self) -> int:
        """The time, ns since the fabric was made."""
        return self.clock.now

    # ------------------------------------------------------------------ building

    def _add_host(self, name: str, agent: Agent, coalesce_ns: int) -> None:
        priority = Codepoints.of(self._wire, last_hop=False).priority
        host = self.hosts[name] = SimHost(name, agent, self.clock, self.observers, priority, coalesce_ns)
        if isinstance(agent, Endpoint):
            self.endpoints[name] = agent
            self.completions[name] = Completions(agent)
            host.on_progress = self.completions[name].deliver

    def _build_links(self, link: LinkModel, host_link: LinkModel, host_never_trims: bool) -> None:
        uplink = replace(host_link, trim_at_bytes=None) if host_never_trims else host_link
        for cable in self.shape.host_links():
            plane = cable.plane
            host = self.hosts[cable.lower]
            port = HostPort(host, plane, container(self.shape.block, (usid(cable.lower, plane),)))
            up = self._add_egress(cable, cable.upper, uplink, self.switches[cable.upper].receive)
            up.on_room = host.pump
            host.ports[plane] = up
            self._add_egress(cable, cable.lower, host_link, port.receive, last_hop=True)
        for number, cable in enumerate(self.shape.fabric_links()):
            # Which of two packets comes first to a spine in one nanosecond does not depend on what happened before.
            self._add_egress(cable, cable.upper, link, self.switches[cable.upper].receive).rank = number
            self._add_egress(cable, cable.lower, link, self.switches[cable.lower].receive)

    def _add_egress(
        self,
        cable: Link,
        toward: str,
        model: LinkModel,
        deliver: Callable[[SimPacket], None],
        *,
        last_hop: bool = False,
    ) -> Egress:
        codepoints = Codepoints.of(self._wire, last_hop=last_hop)
        egress = Egress(cable.name, toward, model, deliver, self.clock, codepoints, self._random)
        self._egresses[cable.name, toward] = egress
        return egress

    # ------------------------------------------------------------------ links

    def link(self, name: str, toward: str) -> Egress:
        """One direction of a link: its model (`set`), its counters. Raises CallerError when there is none."""
        cable = self.shape.link(name)
        if toward not in (cable.lower, cable.upper):
            raise CallerError(f"{cable.name} leads to {cable.lower} and {cable.upper}, not to {toward!r}")
        return self._egresses[cable.name, toward]

    def impair(self, name: str, toward: str | None = None, **changes: Any) -> None:
        """Change the model of a link, in one direction or both, from now on: fields of LinkModel by name."""
        cable = self.shape.link(name)
        for end in (cable.lower, cable.upper) if toward is None else (toward,):
            self.link(name, end).set(**changes)

    def uplink(self, plane: int, leaf: int, spine: int) -> Egress:
        """The direction of a fabric link that leads from a leaf up to a spine."""
        near, far = leaf_name(plane, leaf), spine_name(plane, spine)
        return self.link(f"{near}-{far}", far)

    @property
    def egresses(self) -> Mapping[tuple[str, str], Egress]:
        """Every direction of every link, by (link name, the node it leads to)."""
        return self._egresses

    def cut(self, *names: str) -> None:
        """Take links, or switches with all their links, down. A host sees its own ports go, others only silence."""
        self._cut.update(self._known(names))
        self._apply_cuts()

    def heal(self, *names: str) -> None:
        """Bring back what was cut. A link is up when neither it nor a switch at its ends is cut."""
        self._cut.difference_update(self._known(names))
        self._apply_cuts()

    def _known(self, names: tuple[str, ...]) -> list[str]:
        return [name if name in self.switches else self.shape.link(name).name for name in names]

    def _apply_cuts(self) -> None:
        for cable in self.shape.links:
            up = not self._cut & {cable.name, cable.lower, cable.upper}
            changed = self._egresses[cable.name, cable.upper].up != up
            for end in (cable.lower, cable.upper):
                self._egresses[cable.name, end].set_up(up)
            endpoint = self.endpoints.get(cable.lower)
            if changed and endpoint is not None:
                endpoint.set_port(cable.plane, up, self.now)

    # ------------------------------------------------------------------ work

    def paths(self, host: str, peer: str) -> list[Path]:
        """Every path from one host to another."""
        local, far = self._host_number(host), self._host_number(peer)
        return srv6_paths(self.planes(host, peer), self.shape.template_between(local, far), self._wire)

    def planes(self, host: str, peer: str) -> list[PlanePair]:
        """What an endpoint on `host` knows of the way to another, plane by plane."""
        local, far = self._host_number(host), self._host_number(peer)
        usids = self.shape.template_between(local, far)
        return [
            PlanePair(plane, plane, address(host, plane), address(peer, plane), self.shape.uplinks, usids)
            for plane in range(self.shape.planes)
        ]

    def capture(self, host: str) -> HostCapture:
        """Keep what leaves and reaches the ports of a host, from now on."""
        self._host_number(host)
        return HostCapture(self.hosts[host], self.clock)

    def _host_number(self, name: str) -> int:
        number = parse_host(name)
        if number is None or name not in self.hosts:
            raise CallerError(f"no host {name!r}: there are h0 to {host_name(self.shape.host_count - 1)}")
        return number

    def connect(
        self,
        host: str,
        peer: str,
        config: QpConfig | None = None,
        controller: str | ControllerFactory = "fixed",
        peer_config: QpConfig | None = None,
    ) -> tuple[QueuePair, QueuePair]:
        """A QP at each end, connected, both in RTS. Raises CallerError for a host that runs no endpoint."""
        for name in (host, peer):
            self._host_number(name)
            if name not in self.endpoints:
                raise CallerError(f"{name} runs no endpoint")
        config = config or QpConfig()
        qps = (
            self.endpoints[host].create_qp(config, controller),
            self.endpoints[peer].create_qp(peer_config or config, controller),
        )
        for (near, far), (qp, other) in zip(((host, peer), (peer, host)), (qps, qps[::-1]), strict=True):
            paths = self.paths(near, far)
            sources = {plane: address_number(address(far, plane)) for plane in range(self.shape.planes)}
            qp.to_init()
            qp.to_rtr(QpPeer(other.qpn, other.first_psn, paths, sources, other.config.capabilities))
            self._ends[id(qp)] = QpEnd(
                self.clock, qp, self.endpoints[near], self.completions[near], other, self.endpoints[far]
            )
        for qp in qps:
            qp.to_rts()
        return qps

    def write(self, qp: QueuePair, data: bytes | int) -> Transfer:
        """Write these bytes, or that many made up, to memory of the peer registered for it."""
        return Transfer(self._ends[id(qp)], data if isinstance(data, bytes) else self._random.bytes(data))

    def stream(self, qp: QueuePair, message_bytes: int = 1 << 20, depth: int = 4) -> Stream:
        """Keep writing without end."""
        return Stream(self._ends[id(qp)], message_bytes, depth)

    # ------------------------------------------------------------------ time

    def at(self, when: int, action: Callable[[], None]) -> None:
        """Run `action` at virtual time `when`, ns. It may change links, post work, schedule more."""
        self.clock.at(when, self._act, action)

    def _act(self, action: Callable[[], None]) -> None:
        action()
        self._pump()

    def run(self, until: int, stop: Callable[[], bool] | None = None) -> bool:
        """Run to virtual time `until` (ns) or until `stop()` holds. True when `stop()` did."""
        self._pump()
        return self.clock.run(until, stop)

    def _pump(self) -> None:
        for host in self.hosts.values():
            host.pump()
