# SPDX-License-Identifier: BSD-2-Clause
"""A host of a simulated fabric as a device for the verbs: programs against them run in virtual time.

    fabric = SimFabric(Clos(planes=2, spines=4), seed=1)
    with Context(SimDevice(fabric, "h0")) as context: ...

Time goes on while somebody waits (`get_cq_event`, `get_async_event`), by one step whenever an empty queue is polled,
and with `fabric.run`. One thread, and no other clock.

>>> from mrc.fabric import Clos
>>> from mrc.verbs import Context
>>> with Context(SimDevice(SimFabric(Clos(planes=2), seed=1), "h0")) as context:
...     context.query_device().phys_port_cnt
2
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, TypeVar

from mrc.endpoint.config import QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.paths.profiles import EvProfile
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.errors import CallerError, PeerError
from mrc.fabric.address import address
from mrc.sim.fabric import SimFabric
from mrc.verbs.device import DevicePort
from mrc.wire.entropy import EvMode
from mrc.wire.ipv4 import address_number

__all__ = ["SimDevice"]

T = TypeVar("T")

PATIENCE_NS = 3600 * 1_000_000_000
STEP_NS = 1_000_000
_STEPS_OF_WAIT = 16
_MAX_MTU = 4096
_EV_SEED = 0  # all QPs towards one peer draw the same EVs


class SimDevice:
    """One host. A wait without a timeout ends after an hour of virtual time. Raises CallerError for an unknown host."""

    def __init__(self, fabric: SimFabric, host: str, tuning: QpConfig | None = None) -> None:
        if host not in fabric.endpoints:
            raise CallerError(f"no host {host!r} with an endpoint: there are {', '.join(fabric.endpoints)}")
        self.fabric = fabric
        self.name = host
        self.tuning = tuning
        self._waiting = False

    @property
    def endpoint(self) -> Endpoint:
        return self.fabric.endpoints[self.name]

    def __repr__(self) -> str:
        return f"<SimDevice {self.name}: {len(self.ports())} ports>"

    def ports(self) -> list[DevicePort]:
        """Return its ports, one in each plane, with the state of their links."""
        host = self.fabric.hosts[self.name]
        return [
            DevicePort(plane, address(self.name, plane), _MAX_MTU, host.ports[plane].up)
            for plane in range(self.fabric.shape.planes)
        ]

    def address(self) -> dict[str, Any]:
        """Return how peers reach this host, as plain JSON."""
        return {"host": self.name}

    @property
    def ev_profile(self) -> EvProfile:
        return EvProfile.auto(EvMode.SRV6)

    def peer(
        self, address: Mapping[str, Any], qp_num: int, first_psn: int, path_mtu: int, ev_profile: EvProfile
    ) -> QpPeer:
        host = address.get("host")
        if not isinstance(host, str) or host not in self.fabric.hosts or host == self.name:
            raise PeerError(f"no other host {host!r} on this fabric")
        planes = self.fabric.planes(self.name, host)

        def paths_of(profile: EvProfile) -> list[Path]:
            try:
                return profile.paths(planes, Random(_EV_SEED), self.endpoint.config.wire)
            except CallerError as error:
                raise PeerError(f"no paths to the peer: {error}") from None

        sources = {pair.port: address_number(pair.peer_address) for pair in planes}
        return QpPeer(qp_num, first_psn, paths_of(ev_profile), sources, name=host, paths_of=paths_of)

    def firewall_hint(self, address: Mapping[str, Any]) -> str:
        return f"every path between {self.name} and {address.get('host')} is perhaps cut, in one direction or in both"

    # ------------------------------------------------------------------ running

    def now(self) -> int:
        """Return virtual time, ns."""
        return self.fabric.now

    def check_open(self) -> None:
        """Virtual time has no end."""

    def call(self, action: Callable[[], T]) -> T:
        result = action()
        self.fabric.hosts[self.name].pump()
        return result

    def submit(self, action: Callable[[], None]) -> None:
        self.call(action)

    def call_soon(self, action: Callable[[], None]) -> None:
        self.fabric.clock.at(self.fabric.now, lambda _: self.call(action))

    def wake(self, qp: QueuePair) -> None:
        self.endpoint.wake(qp)

    def ring(self, fd: int) -> None:
        os.eventfd_write(fd, 1)

    def wait(self, fd: int, ready: Callable[[], bool], timeout_s: float | None) -> bool:
        return self._run(PATIENCE_NS if timeout_s is None else int(timeout_s * 1e9), ready)

    @property
    def runs_itself(self) -> bool:
        return False

    def step(self, fd: int, ready: Callable[[], bool], until: int | None, began: int) -> bool:
        now, next_at = self.now(), self.fabric.clock.next_at
        end = began + PATIENCE_NS if until is None else until
        # While no event is due the steps grow: an hour takes some hundred steps. Time does not jump to the end, because
        # another task may be about to post work.
        longest = max(STEP_NS, (now - began) // _STEPS_OF_WAIT)
        quiet = longest if next_at is None else next_at - now
        step = min(max(STEP_NS, min(quiet, longest)), max(0, end - now))
        return self._run(step, ready) or until is not None or self.now() < end

    def idle(self) -> None:
        asked = 0

        def once() -> bool:
            nonlocal asked
            asked += 1
            return asked > 1

        self._run(STEP_NS, once)

    def _run(self, duration_ns: int, ready: Callable[[], bool]) -> bool:
        """Let time pass; not from within, where something is looked at because time passes already."""
        if self._waiting:
            return ready()
        self._waiting = True
        try:
            return self.fabric.run(self.fabric.now + duration_ns, ready)
        finally:
            self._waiting = False
