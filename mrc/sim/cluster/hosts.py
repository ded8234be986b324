# SPDX-License-Identifier: BSD-2-Clause
"""The endpoints of a cluster, on the hosts that have something to do, and a QP at both ends of each pair of hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from mrc.endpoint.completions import Completion
from mrc.endpoint.config import EndpointConfig
from mrc.endpoint.congestion import ControllerFactory
from mrc.endpoint.congestion.registry import config_of, configured
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.errors import CallerError
from mrc.fabric.block import PLAIN_BLOCK
from mrc.sim.cluster.ev_choice import EV_CHOICES, EvRequest, chosen
from mrc.sim.cluster.setup import Policies, Topology
from mrc.wire.entropy import ev_to_fields
from mrc.wire.profile import WireProfile
from mrc.wire.templates import packet_template

# Endpoints of setups with neighbouring seeds draw different numbers.
SEED_STRIDE = 1 << 20
REGION_BYTES = 1 << 40
_EV_SEED = 0x45560000
# The fabric goes by the plane and the uplink of an EV: there is no outer header to write.
_NO_DESTINATION = bytes(28)


def address(host: int, plane: int) -> int:
    """The inner address of a host: as mrc.fabric.address, for any number of hosts."""
    return PLAIN_BLOCK << 96 | plane << 80 | host + 1


class Hosts:
    """Endpoints and QPs, made as they are asked for."""

    def __init__(self, topology: Topology, policies: Policies, seed: int) -> None:
        self.topology = topology
        self.policies = policies
        self.wire = WireProfile()
        self._seed = seed
        self._config = EndpointConfig(wire=self.wire)
        self._controller = _controller(policies)
        choice = policies.ev_choice
        # Ours take all EVs where as many are wanted: they are not asked.
        self._choice_is_ours = isinstance(choice, str)
        self._choice = EV_CHOICES[choice] if isinstance(choice, str) else choice
        self.endpoints: dict[int, Endpoint] = {}
        self._regions: dict[int, MemoryRegion] = {}
        # What all writes are from.
        self.source = MemoryRegion.without_memory(REGION_BYTES)

    def endpoint(self, host: int) -> Endpoint:
        found = self.endpoints.get(host)
        if found is None:
            found = Endpoint(replace(self._config, seed=self._seed * SEED_STRIDE + host))
            self.endpoints[host] = found
        return found

    def region(self, host: int) -> MemoryRegion:
        """What peers write to."""
        found = self._regions.get(host)
        if found is None:
            found = self._regions[host] = self.endpoints[host].memory.register_without_memory(REGION_BYTES)
        return found

    def connect(self, source: int, destination: int) -> tuple[QueuePair, QueuePair]:
        """A QP at each end, in RTS."""
        ends = (source, destination), (destination, source)
        qps = [self.endpoint(near).create_qp(self.policies.qp, self._controller) for near, _ in ends]
        for (near, far), qp, other in zip(ends, qps, qps[::-1], strict=True):
            planes = range(self.topology.planes)
            peer = QpPeer(
                other.qpn,
                other.first_psn,
                self.paths(near, far),
                {plane: address(far, plane) for plane in planes},
                other.config.capabilities,
            )
            qp.to_init()
            qp.to_rtr(peer)
        for qp in qps:
            qp.to_rts()
        return qps[0], qps[1]

    # ------------------------------------------------------------------ EVs

    def paths(self, host: int, peer: int) -> list[Path]:
        """The EVs that a QP has towards another host."""
        by_plane: dict[int, bytes] = {}
        paths = []
        for plane, uplink in self._ways(host, peer):
            ev = plane << 24 | uplink
            source_port, flow_label = ev_to_fields(ev, self.wire)
            if plane not in by_plane:
                by_plane[plane] = packet_template(address(host, plane), address(peer, plane), 0, flow_label, self.wire)
            template = by_plane[plane]
            template = template[:40] + source_port.to_bytes(2, "big") + template[42:]
            paths.append(Path(ev, plane, plane, uplink, _NO_DESTINATION, template))
        return paths

    def _uplinks(self, host: int, peer: int) -> Sequence[int]:
        """The uplinks that are distinct ways to a host: one on the same leaf, one for each spine in the same pod."""
        topology = self.topology
        leaf, far = host // topology.hosts_per_leaf, peer // topology.hosts_per_leaf
        if leaf == far:
            return range(1)
        if topology.tiers == 3 and leaf // topology.leaves_per_pod == far // topology.leaves_per_pod:
            return range(0, topology.uplinks, topology.cores_per_spine)
        return range(topology.uplinks)

    def _ways(self, host: int, peer: int) -> Sequence[tuple[int, int]]:
        """(plane, uplink) of each EV."""
        planes, uplinks, wanted = self.topology.planes, self._uplinks(host, peer), self.policies.evs
        every = planes * len(uplinks)
        if wanted is None or wanted >= every:
            if self._choice_is_ours:
                return [(plane, uplink) for plane in range(planes) for uplink in uplinks]
            wanted = every
        # Of this end alone: what other pairs of hosts there are does not change its EVs.
        random = Random((self._seed ^ _EV_SEED) << 64 | host << 32 | peer)
        return chosen(self._choice, EvRequest(host, peer, planes, uplinks, wanted, random))


def _controller(policies: Policies) -> str | ControllerFactory:
    """What QPs are created with. Raises CallerError for an unknown name or setting."""
    if not policies.controller_settings:
        return policies.controller
    if not isinstance(policies.controller, str):
        raise CallerError("controller_settings are for a controller given by name")
    config = config_of(policies.controller)
    if config is None:
        raise CallerError(f"{policies.controller} takes no settings")
    try:
        return configured(policies.controller, replace(config, **dict(policies.controller_settings)))  # type: ignore[type-var]
    except TypeError as error:
        raise CallerError(f"controller_settings: {error}") from None


def drain(endpoint: Endpoint) -> list[Completion]:
    """The completions of work that has ended, oldest first."""
    endpoint.hand_over()
    found = list(endpoint.completions)
    endpoint.completions.clear()
    return found
