# SPDX-License-Identifier: BSD-2-Clause
"""A node as a device for the verbs."""

from __future__ import annotations

import json
import select
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from mrc.endpoint.config import QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.profiles import EvProfile
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.errors import CallerError
from mrc.fabric.host_view import Fabric
from mrc.net.control.host_store import HostStore
from mrc.net.driver import Driver
from mrc.net.firewall_hint import perhaps_blocked
from mrc.net.negotiation import NodeDescription, QpDescription
from mrc.untrusted import own_json
from mrc.verbs.device import DevicePort

T = TypeVar("T")

# How often a waiting thread looks whether it has to run the loop itself now.
_LOOK_AGAIN_S = 0.05
_STEP_S = 0.001


class OpenNode(Protocol):
    """A Node, as its device sees it."""

    fabric: Fabric
    endpoint: Endpoint
    driver: Driver
    path_mtu: int
    ev_profile: EvProfile

    @property
    def description(self) -> NodeDescription: ...

    @property
    def store(self) -> HostStore: ...

    def peer(
        self, node: NodeDescription, peer: QpDescription, path_mtu: int, ev_profile: EvProfile | None = None
    ) -> QpPeer: ...


class NodeDevice:
    """One node. Its opener closes it, after everything that was made on this device.

    `tuning` is for the Contexts on it that have none of their own.
    """

    def __init__(self, node: OpenNode, tuning: QpConfig | None = None) -> None:
        self.node = node
        self.tuning = tuning
        self._running = threading.Lock()

    @property
    def name(self) -> str:
        """The fabric's name and the host's: `mrc/h0`."""
        return f"{self.node.fabric.name}/h{self.node.fabric.host}"

    @property
    def endpoint(self) -> Endpoint:
        return self.node.endpoint

    def __repr__(self) -> str:
        return f"<NodeDevice {self.name}: {len(self.node.fabric.ports)} ports>"

    def ports(self) -> list[DevicePort]:
        """Return its ports, in the order of the fabric's planes, with the state of their links."""
        fabric = self.node.fabric
        return [
            DevicePort(port.plane, port.address, self.node.path_mtu, self.endpoint.port_is_up(number))
            for number, port in enumerate(fabric.ports)
        ]

    def address(self) -> dict[str, Any]:
        """Return how peers reach this node, as plain JSON."""
        described: dict[str, Any] = own_json(json.dumps(self.node.description.to_json()))
        return described

    @property
    def ev_profile(self) -> EvProfile:
        return self.node.ev_profile

    def peer(
        self, address: Mapping[str, Any], qp_num: int, first_psn: int, path_mtu: int, ev_profile: EvProfile
    ) -> QpPeer:
        node = NodeDescription.from_json(dict(address))
        return self.node.peer(node, QpDescription(qp_num, first_psn), path_mtu, ev_profile)

    def firewall_hint(self, address: Mapping[str, Any]) -> str:
        node = self.node
        return perhaps_blocked(
            node.fabric, node.endpoint.config.wire.udp_port, NodeDescription.from_json(dict(address))
        )

    # ------------------------------------------------------------------ running

    def now(self) -> int:
        """Return the time of the node's clock: CLOCK_MONOTONIC, ns."""
        return time.monotonic_ns()

    def check_open(self) -> None:
        self.node.driver.check_open()

    def call(self, action: Callable[[], T]) -> T:
        return self.node.driver.call(action)

    def submit(self, action: Callable[[], None]) -> None:
        self.node.driver.submit(action)

    def call_soon(self, action: Callable[[], None]) -> None:
        self.node.driver.call_soon(action)

    def wake(self, qp: QueuePair) -> None:
        self.endpoint.wake(qp)

    def ring(self, fd: int) -> None:
        self.node.driver.ring(fd)

    def wait(self, fd: int, ready: Callable[[], bool], timeout_s: float | None) -> bool:
        driver = self.node.driver
        if driver.owner == threading.get_ident() or driver.is_inside():
            raise CallerError("the thread that runs the loop would wait for itself: poll instead")
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        poll = select.poll()
        poll.register(fd, select.POLLIN)

        def over() -> bool:
            return ready() or (deadline is not None and time.monotonic() >= deadline)

        while not over():
            if not self._run(over, _LOOK_AGAIN_S):
                left = _LOOK_AGAIN_S if deadline is None else min(_LOOK_AGAIN_S, deadline - time.monotonic())
                poll.poll(max(0.0, left) * 1e3)
        return ready()

    @property
    def runs_itself(self) -> bool:
        return self.node.driver.owner is not None

    def step(self, fd: int, ready: Callable[[], bool], until: int | None, began: int) -> bool:
        self.wait(fd, ready, _STEP_S)
        return True

    def idle(self) -> None:
        if self.node.driver.owner is not None:
            self.node.driver.hand_over()
        elif self._running.acquire(blocking=False):
            try:
                self.node.driver.poll()
            finally:
                self._running.release()

    def _run(self, over: Callable[[], bool], longest_sleep_s: float) -> bool:
        """Run the loop. False when another thread runs it."""
        if self.node.driver.owner is not None or not self._running.acquire(blocking=False):
            return False
        try:
            self.node.driver.run(over, longest_sleep_s)
        finally:
            self._running.release()
        return True
