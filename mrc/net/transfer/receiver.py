# SPDX-License-Identifier: BSD-2-Clause
"""The receiving side of `mrc recv`: sessions over the out-of-band exchange, files through the endpoint."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from mrc.endpoint.counters import Counters
from mrc.errors import CallerError, MrcError, PeerError
from mrc.net.exchange.session import SessionInfo
from mrc.net.node import Node
from mrc.net.node_device import NodeDevice
from mrc.net.session.qps import TUNING, answer_qps, from_message, to_message
from mrc.net.session.server import SessionServer, handler_of
from mrc.net.transfer.arrivals import Arrivals
from mrc.net.transfer.bounds import DEFAULT_BOUNDS, FilePlaces, SenderBounds
from mrc.net.transfer.directory import Directory
from mrc.net.transfer.report import SENDER_COUNTERS, TransferReport, counters_of, duplicates_received
from mrc.net.transfer.streams import OutputStream
from mrc.net.transfer.terms import MAX_QPS_PER_SENDER, TRANSFER_FEATURE, file_qps
from mrc.verbs import PD, QP, Context, QPState
from mrc.verbs.figures import QPFigures

MINIMUM_MPR = 8  # behaviour.md, QP life: minimum capability
_CLOSE_WAIT_S = 5.0
_POLL_S = 0.1


@dataclass(slots=True)
class _Incoming:
    """One sender: its QPs, the files on their way, and what came of it; `refusal`: what it was last refused, and why.

    Its QPs and regions are in a protection domain of their own: no sender reaches another's files.
    """

    pd: PD
    qps: list[QP]
    arrivals: Arrivals
    report: TransferReport = field(default_factory=TransferReport)
    lock: threading.Lock = field(default_factory=threading.Lock)
    active_at_ns: int = field(default_factory=time.monotonic_ns)
    packets_seen: int = 0
    finished: bool = False
    failure: str | None = None
    refusal: str | None = None
    closed: bool = False
    abandoned: bool = False


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """How one sender's session ended: a report, why it failed if it did, and what was kept for the next attempt."""

    peer_address: str
    report: TransferReport
    failure: str | None
    kept: tuple[str, ...] = ()


class Receiver(SessionServer):
    """Takes files from any number of senders until interrupted, or with `once` until the first one's session ends.

    `idle_timeout_s`: a sender that moved nothing for so long is given up. `on_outcome` hears of each session's end
    in the loop's thread. Closing it lets go of files that are not whole.
    """

    feature = TRANSFER_FEATURE

    def __init__(
        self,
        node: Node,
        target: Directory | OutputStream,
        *,
        once: bool = False,
        idle_timeout_s: float = 30.0,
        on_outcome: Callable[[SessionOutcome], None] = lambda outcome: None,
        bounds: SenderBounds = DEFAULT_BOUNDS,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` is called while it serves, and ends it by raising."""
        super().__init__(node.fabric)
        self._node = node
        self._context = Context(NodeDevice(node), tuning=TUNING)
        self._cq = self._context.cq(1)  # a receiver posts nothing, so nothing completes
        self._target = target
        self._bounds = bounds
        self._check = check
        self._places = FilePlaces()
        self._once = once
        self._idle_timeout_ns = int(idle_timeout_s * 1e9)
        self._on_outcome = on_outcome
        self._incoming: dict[int, tuple[SessionInfo, _Incoming]] = {}
        self.ended = 0
        self._lock = threading.Lock()
        # What the node's counters have that sessions before brought: their QPs, and what was in their reports.
        self._departed = Counters()
        self._reported: dict[str, int] = {}
        node.prepare_control()

    def run(self) -> None:
        """Serve. `on_outcome` is told of every session's end; `ended` counts them, and nothing else is kept of them."""

        def done() -> bool:
            self._check()
            self._check_sessions()
            return self._once and self.ended > 0

        self._node.driver.run(done, _POLL_S)

    def close(self) -> None:
        """Stop serving. Senders that are not done get the reason, and count as failed."""
        with self._lock:
            for _, incoming in self._incoming.values():
                if not incoming.finished and incoming.failure is None:
                    incoming.failure = "the receiver was stopped before the sender was done"
                    incoming.arrivals.give_up(incoming.failure)
        self._exchange.close()
        with self._lock:
            left = list(self._incoming.values())
            self._incoming.clear()
        for session, incoming in left:
            self._account(incoming)
            if incoming.lock.acquire(timeout=_CLOSE_WAIT_S):
                try:
                    self._abandon(incoming)
                finally:
                    incoming.lock.release()
            self._conclude(session, incoming)
        self._context.close()

    # ------------------------------------------------------------------ requests, each in its connection's thread

    def _handle(self, session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        handlers: dict[str, Callable[[_Incoming, dict[str, Any]], dict[str, Any]]] = {
            "connect": self._connect,
            "directory": self._of_files(Arrivals.directory),
            "open": self._of_files(Arrivals.open),
            "compare": self._of_files(Arrivals.compare),
            "blocks": self._of_files(Arrivals.blocks),
            "extend": self._of_files(Arrivals.extend),
            "sum": self._of_files(Arrivals.sum),
            "wait": self._wait,
            "commit": self._commit,
            "pack": self._of_files(Arrivals.pack),
            "commit pack": self._commit_pack,
            "finish": self._finish,
        }
        handler = handler_of(kind, handlers)
        with self._lock:
            if "incoming" not in session.data:
                session.data["incoming"] = self._new(session)
                self._incoming[session.number] = (session, session.data["incoming"])
            incoming: _Incoming = session.data["incoming"]
        if session.closed_because:
            self._session_closed(session)  # before there was anything to let go of
        with incoming.lock:
            if incoming.abandoned:
                raise PeerError(incoming.failure or "this session has ended")
            if incoming.failure is not None:
                raise PeerError(incoming.failure)
            incoming.active_at_ns = time.monotonic_ns()
            try:
                return handler(incoming, body)
            except MrcError as error:
                incoming.refusal = str(error)
                raise
            finally:
                incoming.active_at_ns = time.monotonic_ns()

    def _new(self, session: SessionInfo) -> _Incoming:
        pd = self._context.pd()
        qps: list[QP] = []

        def placed() -> int:
            return sum(qp.figures.counters.bytes_placed for qp in qps)

        if TRANSFER_FEATURE not in session.features:
            raise PeerError("this sender sends files in another way: use the same mrc release at both ends")
        arrivals = Arrivals(pd, self._target, self._bounds, self._places, placed)
        return _Incoming(pd, qps, arrivals)

    def _connect(self, incoming: _Incoming, body: dict[str, Any]) -> dict[str, Any]:
        if incoming.qps:
            raise PeerError("this session is connected already")
        described = from_message(body, MAX_QPS_PER_SENDER)
        # We send nothing but answers: no need to remember more than the least a peer offers.
        theirs = [replace(their, mpr_dest=min(their.mpr_dest, MINIMUM_MPR)) for their in described]
        qps = file_qps(incoming.pd, self._cq, len(theirs))
        ours = answer_qps(qps, theirs, theirs[0].path_mtu, dynamic_mpr=True)
        incoming.qps += qps
        return to_message(ours) | {"sum_key": incoming.arrivals.sums.key.hex()}

    @staticmethod
    def _of_files(
        handler: Callable[[Arrivals, dict[str, Any]], dict[str, Any]],
    ) -> Callable[[_Incoming, dict[str, Any]], dict[str, Any]]:
        def handle(incoming: _Incoming, body: dict[str, Any]) -> dict[str, Any]:
            if not incoming.qps:
                raise PeerError("a file was announced before the session was connected")
            return handler(incoming.arrivals, body)

        return handle

    def _wait(self, incoming: _Incoming, body: dict[str, Any]) -> dict[str, Any]:
        """The sender has nothing to send yet: its standard input waits. That it asks is all there is to it."""
        return {}

    def _commit(self, incoming: _Incoming, body: dict[str, Any]) -> dict[str, Any]:
        file = incoming.arrivals.commit(body)
        incoming.report.add_file(file)
        return {"match": file.sums_agree, "name": file.name}

    def _commit_pack(self, incoming: _Incoming, body: dict[str, Any]) -> dict[str, Any]:
        files, refused = incoming.arrivals.commit_pack(body)
        for file in files:
            incoming.report.add_file(file)
        incoming.arrivals.go_on()
        return {"refused": refused, "wrong": [file.name for file in files if not file.sums_agree]}

    def _finish(self, incoming: _Incoming, body: dict[str, Any]) -> dict[str, Any]:
        """Trade figures: the sender knows what it sent again and over which path, the receiver what came twice."""
        figures = TransferReport.figures_from_json(body)
        incoming.arrivals.finish()
        report = incoming.report
        report.seconds, report.data_seconds, report.paths = figures.seconds, figures.data_seconds, figures.paths
        node = self._node
        qps = [qp.figures for qp in incoming.qps]
        ours = node.driver.call(lambda: self._counters_of(qps))
        report.counters = ours | {name: figures.counters[name] for name in SENDER_COUNTERS if name in figures.counters}
        report.settle(node.driver.call(lambda: duplicates_received(qps)))
        incoming.finished = True
        return {"duplicates_received": report.duplicates_received}

    def _counters_of(self, qps: list[QPFigures]) -> dict[str, int]:
        """Counters of a session's QPs, and of the node what no session has reported yet. In the loop's thread."""
        of_node = counters_of((), self._node.endpoint.counters, self._node.driver.socket_drops())
        departed = self._departed.as_dict()
        new = {name: count - departed.get(name, 0) - self._reported.get(name, 0) for name, count in of_node.items()}
        for name, count in new.items():
            self._reported[name] = self._reported.get(name, 0) + count
        found = counters_of(qps, Counters(), 0)
        for name, count in new.items():
            if count > 0:
                found[name] = found.get(name, 0) + count
        return found

    def _account(self, incoming: _Incoming) -> None:
        """What a session did that never came to its end."""
        incoming.report.refused = list(incoming.arrivals.refused)
        if not incoming.finished and not incoming.report.counters:
            incoming.report.counters = self._counters_of([qp.figures for qp in incoming.qps])

    # ------------------------------------------------------------------ ends

    def _session_closed(self, session: SessionInfo) -> None:
        with self._lock:
            found = self._incoming.get(session.number)
        if found is None:
            return
        incoming = found[1]
        self._notice_broken_qp(incoming)
        if not incoming.finished and incoming.failure is None:
            if incoming.refusal is not None:
                incoming.failure = f"refused: {incoming.refusal}"
            elif session.closed_because == "client":
                incoming.failure = "the sender went away before it was done"
            else:
                incoming.failure = "the sender went away before it was done: no way to it, or it was killed"
            incoming.arrivals.give_up(incoming.failure)
        incoming.closed = True
        self._node.driver.wake()

    def _check_sessions(self) -> None:
        """Give up sessions that failed, fell silent or ended. Runs in the loop's thread."""
        now = time.monotonic_ns()
        with self._lock:
            current = list(self._incoming.items())
        for number, (session, incoming) in current:
            packets = sum(qp.figures.counters.requests_received for qp in incoming.qps)
            if packets != incoming.packets_seen:
                incoming.packets_seen, incoming.active_at_ns = packets, now
            self._notice_broken_qp(incoming)
            if not incoming.finished and incoming.failure is None and not incoming.lock.locked():
                idle_ns = now - incoming.active_at_ns
                if idle_ns > self._idle_timeout_ns:
                    incoming.failure = f"nothing arrived for {idle_ns / 1e9:.1f} s (--idle-timeout)"
            if incoming.closed or incoming.failure is not None:
                # A request still being executed ends first; it finds the session failed, or is taken down with it.
                if not incoming.lock.acquire(blocking=False):
                    continue
                try:
                    self._abandon(incoming)
                finally:
                    incoming.lock.release()
                with self._lock:
                    del self._incoming[number]
                self._conclude(session, incoming)

    @staticmethod
    def _notice_broken_qp(incoming: _Incoming) -> None:
        broken = next((qp for qp in incoming.qps if qp.state == QPState.ERROR), None)
        if broken is not None and incoming.failure is None:
            incoming.failure = f"QP {broken.qp_num:#08x}: {broken.error}"

    def _conclude(self, session: SessionInfo, incoming: _Incoming) -> None:
        kept = tuple(incoming.arrivals.kept)
        outcome = SessionOutcome(session.peer_address, incoming.report, incoming.failure, kept)
        self.ended += 1
        self._on_outcome(outcome)

    def _abandon(self, incoming: _Incoming) -> None:
        """Let go of what a session holds: QPs, regions, files that are not whole."""
        incoming.abandoned = True
        self._account(incoming)
        # Those too whose connection broke off before they were counted.
        for qp in list(incoming.pd.qps):
            if isinstance(qp, QP):
                self._departed.add(qp.figures.counters)
                qp.close()
        incoming.arrivals.close()
        incoming.pd.close()


def outcome_error(outcome: SessionOutcome) -> MrcError | None:
    """What went wrong with a session, as an error to show; None when all sums agreed."""
    if outcome.failure is not None:
        kept = f"; kept for the next attempt: {', '.join(outcome.kept)}" if outcome.kept else ""
        return PeerError(outcome.failure + kept)
    if outcome.report.refused:
        more = len(outcome.report.refused) - 1
        return CallerError(f"refused: {outcome.report.refused[0][1]}{f', and {more} more' if more else ''}")
    wrong = [file.name for file in outcome.report.files if not file.sums_agree]
    if wrong:
        return CallerError(f"the sum of {', '.join(wrong)} does not agree: what arrived was discarded")
    return None
