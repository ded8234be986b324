# SPDX-License-Identifier: BSD-2-Clause
"""The target's end of a case: this project's endpoint on its sockets, as `mrc recv` runs it, and what a tester may ask.

The QPs have coarse timers unless the case is about those the endpoint has by itself: between the messages of a tester
milliseconds pass, in which nothing may be taken for lost.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from mrc.conformance.live.messages import pack
from mrc.conformance.live.paths import LivePaths
from mrc.conformance.live.watched import Watched
from mrc.conformance.setup import Setup, TargetQpTerms, TesterQp
from mrc.conformance.target import Refused, TargetQp, Unsupported
from mrc.conformance.targets.in_process import InProcessSession
from mrc.endpoint.config import MILLISECOND, LossConfig, QpConfig
from mrc.errors import MrcError
from mrc.fabric.host_view import Fabric
from mrc.net.negotiation import NodeDescription
from mrc.net.node import Node
from mrc.untrusted import quoted
from mrc.wire.profile import WireProfile

_SESSION_METHODS = frozenset(
    {"check", "counters", "ev_probe_results", "events", "hold", "probe_ev", "set_port", "set_port_room"}
)
_QP_METHODS = frozenset(name for name in vars(TargetQp) if not name.startswith("_"))
# Above what a script takes between two packets, and below the tolerance of testers.
_COARSE = QpConfig(
    timeout=19,
    loss=LossConfig(path_timer_min_ns=150 * MILLISECOND, path_timer_initial_ns=150 * MILLISECOND),
)
# How long what the tester sent is waited for; what has not come by then has been lost or refused on the way.
_ARRIVES_WITHIN_NS = 20 * MILLISECOND
_LONGEST_HOLD_NS = 10_000 * MILLISECOND
_LOOK_AGAIN_S = 0.0003
_QUIET_LOOKS = 2


class EndpointSession(InProcessSession):
    """One case: a node of its own, whose loop turns until `close`. Raises Unsupported and SystemRefused."""

    def __init__(
        self,
        fabric: Fabric,
        tester: NodeDescription,
        setup: Setup,
        wire: WireProfile,
        seed: int,
    ) -> None:
        paths = LivePaths(setup, wire, seed, fabric, tester)
        self.node = Node(paths.fabric, wire=wire)
        super().__init__(self.node.endpoint, paths)
        self._watched = Watched(self.node.endpoint)
        self.node.driver.use(self._watched)
        self._ports = {pair.plane: pair.port for pair in paths.pairs}
        self._qps: list[TargetQp] = []
        self._over = False
        # The loop turns. Before that a call would be carried out with nothing sent after it.
        self.running = threading.Event()

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        """Turn the loop until `close`, then give the sockets back."""
        try:
            self.node.driver.run(self._turn_over)
        finally:
            self.node.driver.close()

    def _turn_over(self) -> bool:
        self.running.set()
        return self._over

    def close(self) -> None:
        self._over = True
        self.node.driver.wake()

    @property
    def now(self) -> int:
        return time.monotonic_ns()

    def stir(self) -> None:
        self.node.driver.wake()

    # ------------------------------------------------------------------ what a tester asks

    def add_qp(self, setup: Setup, tester: TesterQp) -> tuple[int, TargetQpTerms]:
        """A QP, and its number in `ask`."""
        if setup.path_mtu is not None and setup.path_mtu > self.node.path_mtu:
            raise Unsupported(f"the interfaces have room for a path MTU of {self.node.path_mtu}, not {setup.path_mtu}")
        self.base_config = QpConfig() if setup.own_timers else _COARSE
        qp = self.node.driver.call(lambda: self.connect(setup, tester))
        self._qps.append(qp)
        return len(self._qps) - 1, qp.terms

    def ask(self, qp: int | None, method: str, arguments: list[Any]) -> Any:
        """What a method of `Session`, or of `TargetQp` where `qp` is a number, returns."""
        asked = self if qp is None else self._qps[qp]
        if method not in (_SESSION_METHODS if qp is None else _QP_METHODS):
            raise Unsupported(f"the target knows no {method}")
        return self.node.driver.call(lambda: getattr(asked, method)(*arguments))

    def wait_for(self, sent: int) -> int:
        """Wait until so many packets of the tester's have come. Returns how many have, fewer where some never will."""
        by = time.monotonic_ns() + _ARRIVES_WITHIN_NS
        while self._watched.received < sent and time.monotonic_ns() < by:
            time.sleep(_LOOK_AGAIN_S)
        return self._watched.received

    def settle(self, sent: int = 0) -> int:
        """Wait until so many packets have come and all that may leave at once has left. Returns how many have come."""
        came = self.wait_for(sent)
        by = time.monotonic_ns() + _ARRIVES_WITHIN_NS
        quiet, before = 0, -1
        while quiet < _QUIET_LOOKS and time.monotonic_ns() < by:
            now = self.node.driver.call(lambda: self._watched.sent)
            quiet = quiet + 1 if now == before else 0
            before = now
        return came

    # ------------------------------------------------------------------ what differs from virtual time

    def hold(self, duration: int) -> None:
        # The loop sleeps so long; nothing but a number may come to it.
        if type(duration) is not int or not 0 <= duration <= _LONGEST_HOLD_NS:
            raise Unsupported(f"the target is held up 0 to {_LONGEST_HOLD_NS} ns, not {quoted(duration)}")
        self._watched.hold_ns = duration

    def set_port(self, plane: int, up: bool) -> None:
        super().set_port(self._ports[plane], up)

    def set_port_room(self, plane: int, room: bool) -> None:
        super().set_port_room(self._ports[plane], room)

    def check(self, setup: Setup) -> None:
        raise Unsupported("the fabric is a real one: it has one profile of EVs and one place for each end")


def answer_to(question: Callable[[], Any]) -> dict[str, Any]:
    """Return the message for the tester: the answer, or why there is none."""
    try:
        return {"result": pack(question())}
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except Refused as reason:
        return {"refused": str(reason)}
    except MrcError as error:
        return {"unsupported": str(error)}
    except Exception as error:  # an error of this end, which the tester reports
        return {"raised": f"{type(error).__name__}: {error}", "traceback": "".join(traceback.format_exception(error))}
