# SPDX-License-Identifier: BSD-2-Clause
"""The host's device without an endpoint of its own: for controllers, which send no packets and need no address."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from errno import ENOTSUP
from typing import Any, NoReturn, TypeVar

from mrc.control.errors import ControlError
from mrc.control.profiles import profiles_of
from mrc.endpoint.config import EndpointConfig, QpConfig
from mrc.endpoint.congestion import DEFAULT_ALGORITHM, configured
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.online import DEFAULT_PROFILE
from mrc.endpoint.paths.profiles import EvProfile
from mrc.endpoint.qp import QueuePair
from mrc.fabric.host_view import Fabric
from mrc.net.control.host_store import HostStore, store_path
from mrc.net.negotiation import default_ev_profile
from mrc.net.tuning import USER_SPACE_NSCC
from mrc.opened import Closing
from mrc.verbs.device import DevicePort

T = TypeVar("T")


class HostDevice(Closing):
    """What `Controller` takes to see and change the profiles and port states that this host's endpoints share.

    `fabric`: what the host is part of, as for `open_device`. Others may have the host's addresses open: no socket is
    made. Nothing can be connected here, and `Controller.operate` finds no peers. Close it, or use it as a context
    manager.
    """

    tuning: QpConfig | None = None

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric
        self.ev_profile: EvProfile = default_ev_profile(fabric)
        self.endpoint = Endpoint(EndpointConfig())
        self.endpoint.online.cc[DEFAULT_PROFILE] = configured(DEFAULT_ALGORITHM, USER_SPACE_NSCC)
        self._lock = threading.RLock()
        self.store = HostStore(store_path(fabric), lambda: profiles_of(self), None)
        self.endpoint.online.host = self.store

    @property
    def name(self) -> str:
        """The fabric's name and the host's: `mrc/h0`."""
        return f"{self.fabric.name}/h{self.fabric.host}"

    def __repr__(self) -> str:
        return f"<HostDevice {self.name}: {len(self.fabric.ports)} ports>"

    def ports(self) -> list[DevicePort]:
        """Return the host's ports. Whether they have links only an endpoint knows."""
        return [DevicePort(port.plane, port.address, self.fabric.mtu, True) for port in self.fabric.ports]

    def address(self) -> dict[str, Any]:
        """Return nothing: no packet reaches this."""
        return {}

    def peer(
        self, address: Mapping[str, Any], qp_num: int, first_psn: int, path_mtu: int, ev_profile: EvProfile
    ) -> NoReturn:
        raise ControlError(ENOTSUP, "the host's device alone has no QPs: open an endpoint")

    def firewall_hint(self, address: Mapping[str, Any]) -> str:
        return ""

    # ------------------------------------------------------------------ running: there is nothing to run

    def now(self) -> int:
        return time.monotonic_ns()

    def check_open(self) -> None:
        pass

    def call(self, action: Callable[[], T]) -> T:
        """Run it now, after what other processes have changed was taken over."""
        with self._lock:
            self.store.refresh()
            return action()

    def submit(self, action: Callable[[], None]) -> None:
        self.call(action)

    def call_soon(self, action: Callable[[], None]) -> None:
        self.call(action)

    def wake(self, qp: QueuePair) -> None:
        pass

    def ring(self, fd: int) -> None:
        pass

    def wait(self, fd: int, ready: Callable[[], bool], timeout_s: float | None) -> bool:
        return ready()

    @property
    def runs_itself(self) -> bool:
        return True

    def step(self, fd: int, ready: Callable[[], bool], until: int | None, began: int) -> bool:
        return ready()

    def idle(self) -> None:
        pass

    def close(self) -> None:
        self.store.close()
