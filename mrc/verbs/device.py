# SPDX-License-Identifier: BSD-2-Clause
"""What the verbs stand on: an endpoint, something that runs it, and the way to its peers.

A device is real sockets with a loop of their own (mrc.net.device) or a host of a fabric in virtual time
(mrc.sim.device). The verbs know of it no more than this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from mrc.endpoint.config import QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.profiles import EvProfile
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.records import record

T = TypeVar("T")


@record(frozen=True, slots=True)
class DevicePort:
    """One port: its plane, its inner address, the largest path MTU in bytes it carries, whether its link is up."""

    plane: int
    address: str
    max_mtu: int
    up: bool


class Device(Protocol):
    """One node. All its calls may come from any thread."""

    @property
    def name(self) -> str:
        """What people call the node: `mrc/h0`."""

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def tuning(self) -> QpConfig | None:
        """What Contexts take for their QPs where they are given nothing of their own; None: the defaults."""

    def ports(self) -> Sequence[DevicePort]:
        """Return its ports, with the state of their links."""

    def address(self) -> dict[str, Any]:
        """How others reach this node, as plain JSON: what their `peer` takes."""

    @property
    def ev_profile(self) -> EvProfile:
        """The EVs that QPs use by default."""

    def peer(
        self, address: Mapping[str, Any], qp_num: int, first_psn: int, path_mtu: int, ev_profile: EvProfile
    ) -> QpPeer:
        """A QP of another node, over the EVs of a profile.

        Raises PeerError for a malformed address and for a node that cannot be reached so.
        """

    def firewall_hint(self, address: Mapping[str, Any]) -> str:
        """Why nothing may ever arrive from the node at an address that `peer` took, and how to check, for people."""

    def now(self) -> int:
        """The endpoint's clock, ns."""

    def check_open(self) -> None:
        """Raise MrcError when it is shut down."""

    def call(self, action: Callable[[], T]) -> T:
        """Run `action` where the endpoint runs, between two of its turns, and return what it returns."""

    def submit(self, action: Callable[[], None]) -> None:
        """Run `action` where the endpoint runs and do not wait; at once when called there. `action` raises nothing."""

    def call_soon(self, action: Callable[[], None]) -> None:
        """Run `action` soon in the endpoint's thread, without waiting for it. From any thread.

        It does not hold the endpoint, so it may take long and give up the interpreter: the stand-in, where there is
        one, handles packets meanwhile. `action` raises nothing.
        """

    def wake(self, qp: QueuePair) -> None:
        """Work was posted on `qp`. Called where the endpoint runs."""

    def ring(self, fd: int) -> None:
        """Make an eventfd readable. Where the endpoint runs this gives up no interpreter lock."""

    def wait(self, fd: int, ready: Callable[[], bool], timeout_s: float | None) -> bool:
        """Wait until `fd` is readable, which it is when `ready()` holds, at most `timeout_s`. Returns `ready()`."""

    @property
    def runs_itself(self) -> bool:
        """Whether a thread runs it now. Its file descriptors then become readable without the caller's help."""

    def step(self, fd: int, ready: Callable[[], bool], until: int | None, began: int) -> bool:
        """Run it for a short time, for a coroutine that waits: as `wait`, but about a millisecond long.

        The coroutine has waited since `began` and will until `until` (both ns, as `now`; None: without limit). Returns
        False when it should give up.
        """

    def idle(self) -> None:
        """The caller polls and found nothing: go on with the endpoint's work if no other thread does."""
