# SPDX-License-Identifier: BSD-2-Clause
"""`mrc conformance serve`: a live target that does what a tester asks over the exchange, one tester at a time."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from mrc.conformance.live.endpoint_session import EndpointSession, answer_to
from mrc.conformance.live.messages import FEATURE, unpack
from mrc.conformance.setup import Setup, TesterQp
from mrc.conformance.target import Unsupported
from mrc.errors import MrcError, PeerError
from mrc.fabric.host_view import Fabric
from mrc.net.exchange import SessionInfo
from mrc.net.negotiation import NodeDescription
from mrc.net.session.server import SessionServer
from mrc.untrusted import quoted
from mrc.wire.profile import WireProfile

T = TypeVar("T")

_log = logging.getLogger("mrc.conformance")

_OPEN_WITHIN_S = 5.0
_POLL_S = 0.25


class TargetServer(SessionServer):
    """A target for testers that hold its ticket. The loops of all cases turn in the thread that calls `run`."""

    feature = FEATURE

    def __init__(
        self,
        fabric: Fabric,
        *,
        on_case: Callable[[int], None] = lambda count: None,
    ) -> None:
        super().__init__(fabric)
        self._fabric = fabric
        self._on_case = on_case
        self._changed = threading.Condition()
        self._session: EndpointSession | None = None
        # Whose tester's turn it is: from its first case to the end of its exchange, between cases too.
        self._owner: SessionInfo | None = None
        self._over = False
        self._cases = 0

    def run(self) -> None:
        """Serve until `interrupt`, or until an exception such as KeyboardInterrupt ends it."""
        while True:
            with self._changed:
                while self._session is None and not self._over:
                    self._changed.wait(_POLL_S)
                if self._over:
                    return
                session = self._session
            if session is not None:
                try:
                    session.run()
                except MrcError:
                    raise
                except Exception:
                    # What a tester asked for broke the case's endpoint, which is its own: the next gets another.
                    _log.exception("a case ended with a fault of the target's")
                finally:
                    with self._changed:
                        self._session = None
                        self._changed.notify_all()

    def interrupt(self) -> bool:
        """End `run` soon. Returns whether the loop of a session sees to it. For signal handlers, which must wait for no
        lock."""
        self._over = True
        session = self._session
        return session is not None and session.node.driver.interrupt()

    def close(self) -> None:
        self._over = True
        session = self._session
        if session is not None:
            session.close()
        self._exchange.close()

    # ------------------------------------------------------------------ the tester's calls, in threads of their own

    def _handle(self, tester: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        values = {name: unpack(value) for name, value in body.items()}
        if kind == "open":
            return answer_to(lambda: self._open(tester, values))
        if kind == "close":
            return answer_to(lambda: self._close(tester))
        session = self._session
        if session is None or self._owner is not tester:
            raise PeerError("no case is open: use the same mrc release at both ends")
        try:
            if kind == "connect":
                setup, qp = _of(Setup, values["setup"]), _of(TesterQp, values["tester"])
                return answer_to(lambda: session.add_qp(setup, qp))
            if kind == "settle":
                return {"came": session.settle(int(values["sent"]))}
            if kind == "ask":
                came = session.wait_for(int(values["sent"]))
                answer = answer_to(lambda: session.ask(values["qp"], str(values["method"]), list(values["arguments"])))
                return {**answer, "came": came}
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise PeerError(
                f"{quoted(kind)} cannot be understood ({error}): use the same mrc release at both ends"
            ) from None
        raise PeerError(f"nothing is known of {quoted(kind)}: use the same mrc release at both ends")

    def _open(self, tester: SessionInfo, values: dict[str, Any]) -> dict[str, Any]:
        node = NodeDescription.from_json(values["node"])
        setup, wire = _of(Setup, values["setup"]), _of(WireProfile, values["wire"])
        with self._changed:
            if self._owner is not None and self._owner is not tester:
                raise Unsupported("another tester is at work with this target: wait for its end")
            if self._over or tester.closed_because:
                raise Unsupported("the target is closing")
            self._owner = tester
        self._close(tester)
        session = EndpointSession(self._fabric, node, setup, wire, int(values["seed"]))
        with self._changed:
            self._session = session
            self._cases += 1
            self._changed.notify_all()
        if not session.running.wait(_OPEN_WITHIN_S):
            raise Unsupported("the target's loop does not begin")
        self._on_case(self._cases)
        return {
            "mode": session.mode,
            "planes": session.planes,
            "node": session.node.description.to_json(),
        }

    def _close(self, tester: SessionInfo) -> None:
        with self._changed:
            session = self._session
            if session is None or self._owner is not tester:
                return
            session.close()
            if not self._changed.wait_for(lambda: self._session is not session, _OPEN_WITHIN_S):
                raise Unsupported("the target's loop does not end")

    def _session_closed(self, tester: SessionInfo) -> None:
        with contextlib.suppress(Unsupported):
            self._close(tester)
        with self._changed:
            if self._owner is tester:
                self._owner = None


def _of(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"no {kind.__name__}")
    return value
