# SPDX-License-Identifier: BSD-2-Clause
"""The end that is written to: one measuring client at a time, any number one after another."""

from __future__ import annotations

import hashlib
import json
import mmap
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from mrc.bench.backwards import Backwards, Order
from mrc.bench.latency import PLACES, Answering
from mrc.bench.terms import (
    BENCH_FEATURE,
    LATENCY,
    MAX_DEPTH,
    MAX_IDLE_QPS,
    MAX_QPS,
    QPS_PER_REQUEST,
    WRITE,
    WRITE_IMM,
    Terms,
)
from mrc.errors import MrcError, PeerError, SystemRefused
from mrc.net.exchange import SessionInfo
from mrc.net.negotiation import integer
from mrc.net.node import Node
from mrc.net.node_device import NodeDevice
from mrc.net.session.memory import give_back_memory, settle
from mrc.net.session.qps import MOST_IMMEDIATES, TUNING, answer_qps, describe_qps, from_message, make_qps, to_message
from mrc.net.session.server import SessionServer, handler_of
from mrc.net.transfer.report import counters_of, duplicates_received
from mrc.untrusted import own_json
from mrc.verbs import CQ, MR, PD, QP, Context, QPCap, QPState, RecvWR, RemoteMemory, VerbsError, WCStatus

_POLL_S = 0.1
_MOST_SERVED, _MOST_MEASUREMENTS = 1000, 1000
_GOODBYE_S = 1.0
_GIVEN_BACK_S = 0.5
_MANY_QPS = 64
_RECEIVES = 2 * MOST_IMMEDIATES
_POLLED_AT_ONCE = 256
_MADV_POPULATE_WRITE = 23


@dataclass(frozen=True, slots=True)
class ServedSession:
    """One client that came and went: what it ran, one entry a measurement, and why it failed if it did."""

    peer_address: str
    measurements: list[dict[str, Any]]
    failure: str | None


@dataclass(slots=True)
class _Client:
    """What the client of now has here. The rehearsal has no session."""

    session: SessionInfo | None
    pd: PD
    cq: CQ
    qps: list[QP] = field(default_factory=list)
    idle: list[QP] = field(default_factory=list)
    by_number: dict[int, QP] = field(default_factory=dict)
    region: MR | None = None
    memory: mmap.mmap | None = None
    terms: Terms | None = None
    answering: Answering | None = None
    backwards: Backwards | None = None
    started_cpu_s: float | None = None
    immediates: int = 0
    placed_before: int = 0
    duplicates_before: int = 0
    counters_before: dict[str, int] = field(default_factory=dict)
    measurements: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_MOST_MEASUREMENTS))
    failure: str | None = None


class BenchServer(SessionServer):
    """Serves measurements until interrupted.

    A second client is refused while one is there: two at once would measure each other. `on_session` hears of each
    client's end in the loop's thread.
    """

    feature = BENCH_FEATURE

    def __init__(self, node: Node, on_session: Callable[[ServedSession], None] = lambda session: None) -> None:
        super().__init__(node.fabric)
        self._node = node
        self._context = Context(NodeDevice(node), tuning=TUNING)
        self._on_session = on_session
        self._client: _Client | None = None
        # As JSON: one object per session. Dozens of them would keep the memory of its QPs (`settle`).
        self._served: deque[bytes] = deque(maxlen=_MOST_SERVED)
        self._lock = threading.Lock()
        self._free = threading.Event()
        self._free.set()
        self._gives_back_at: float | None = None
        self._rehearse()

    def _rehearse(self) -> None:
        """Run a session of one QP with this node as its own peer, so that its lasting objects exist before the first
        client comes (`settle`)."""
        settle()
        client = self._new_client(None)
        with suppress(MrcError):
            qps = make_qps(client.pd, client.cq, 1, QPCap(max_send_wr=PLACES, max_recv_wr=0))
            ours = to_message(describe_qps(qps, self._node.path_mtu))
            self._connect(client, own_json(json.dumps(ours | {"idle": False})))
            terms = Terms(WRITE, 1, 1, 1, self._node.path_mtu)
            self._prepare(client, own_json(json.dumps(terms.to_json())))
            self._start(client, {})
            self._stop(client, {})
        self._let_go(client)

    def run(self, until: Callable[[], bool] = lambda: False) -> None:
        """Serve until `until()` holds, which is asked between turns of the loop."""

        def done() -> bool:
            client = self._client
            if client is not None:
                self._turn(client)
            elif self._gives_back_at is not None and time.monotonic() >= self._gives_back_at:
                self._gives_back_at = None
                give_back_memory()
            return until()

        def answers() -> bool:
            client = self._client
            return client is not None and (client.answering is not None or client.backwards is not None)

        self._node.driver.run(done, _POLL_S, before_sending=answers)

    @property
    def served(self) -> Sequence[ServedSession]:
        """The last clients that came and went, in this order: 1000 at most."""
        return [ServedSession(**own_json(each)) for each in self._served]

    def close(self) -> None:
        """Stop serving. The client of now finds its QPs gone."""
        self._exchange.close()
        # The thread that takes a client down may not have come to it: the exchange waits for it for a second only.
        client = self._client
        if client is not None:
            self._node.driver.call(lambda: self._end(client))
        self._context.close()

    # ------------------------------------------------------------------ in the loop's thread, each turn

    @staticmethod
    def _turn(client: _Client) -> None:
        answering = client.answering
        if answering is not None:
            try:
                answering.turn()
            except MrcError as error:
                client.failure, client.answering = str(error), None
            return
        if client.backwards is not None:
            try:
                client.backwards.turn()
            except MrcError as error:
                client.failure, client.backwards = str(error), None
            return
        if client.terms is None or client.terms.test != WRITE_IMM:
            return
        # Receives that writes with immediate consumed are posted anew.
        while completions := client.cq.poll(_POLLED_AT_ONCE):
            for completion in completions:
                if completion.status != WCStatus.SUCCESS:
                    continue
                client.immediates += 1
                with suppress(MrcError):  # in error meanwhile
                    client.by_number[completion.qp_num].post_recv(RecvWR(completion.wr_id))

    # ------------------------------------------------------------------ requests, each in its connection's thread

    def _handle(self, session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        handlers = {
            "connect": self._connect,
            "prepare": self._prepare,
            "start": self._start,
            "written": self._written,
            "immediates": self._immediates,
            "stop": self._stop,
        }
        handler = handler_of(kind, handlers)
        if BENCH_FEATURE not in session.features:
            raise PeerError("this ticket is of `mrc bench serve`, which takes no files: take that of `mrc recv`")
        with self._lock:
            client: _Client | None = session.data.get("client")
            if client is None:
                # One that has just said goodbye is still being taken down.
                if not self._free.wait(_GOODBYE_S):
                    raise PeerError("the server is measuring with another client: try again when that is done")
                client = session.data["client"] = self._node.driver.call(lambda: self._new_client(session))
                self._client = client
                self._free.clear()
                if session.closed_because:
                    # It ended while it waited for the one before it, and had nothing to let go of then.
                    self._session_closed(session)
            if client.failure is not None:
                raise PeerError(client.failure)
            known = client
            return self._node.driver.call(lambda: handler(known, body))

    def _new_client(self, session: SessionInfo | None) -> _Client:
        pd = self._context.pd()
        return _Client(session, pd, self._context.cq(MAX_QPS * _RECEIVES))

    def _connect(self, client: _Client, body: dict[str, Any]) -> dict[str, Any]:
        """More QPs, busy or idle ones."""
        idle = body.get("idle") is True
        theirs = from_message(body, QPS_PER_REQUEST)
        known, most = (client.idle, MAX_IDLE_QPS) if idle else (client.qps, MAX_QPS)
        if len(known) + len(theirs) > most:
            raise PeerError(f"this server gives at most {most} {'idle ' if idle else ''}QPs")
        immediates = body.get("immediates") is True
        # Who has writes back ordered says how many of them are outstanding.
        depth = integer(body, "depth", 1, MAX_DEPTH + 1) if "depth" in body else 1
        cap = QPCap(max_send_wr=max(PLACES, depth), max_recv_wr=_RECEIVES if immediates else 0)
        made = make_qps(client.pd, client.cq, len(theirs), cap)
        ours = answer_qps(made, theirs, min(theirs[0].path_mtu, self._node.path_mtu))
        if immediates:
            for qp in made:
                qp.post_recv(*map(RecvWR, range(_RECEIVES)))
        known += made
        client.by_number |= {qp.qp_num: qp for qp in made}
        return to_message(ours)

    def _prepare(self, client: _Client, body: dict[str, Any]) -> dict[str, Any]:
        """Memory for the next measurement."""
        terms = Terms.from_json(body)
        if len(client.qps) != terms.qps:
            raise PeerError(f"a measurement over {terms.qps} QPs was announced, {len(client.qps)} are connected")
        self._close_region(client)
        size = terms.size * terms.qps
        try:
            client.memory = mmap.mmap(-1, size)
        except OSError as error:
            raise SystemRefused(error.errno, f"the server has no {size} bytes of memory: {error.strerror}") from None
        with suppress(OSError, ValueError):
            client.memory.madvise(_MADV_POPULATE_WRITE)
        client.region = client.pd.mr(client.memory)
        client.terms = terms
        if terms.test == LATENCY:
            theirs = RemoteMemory.from_json(body.get("region"))
            client.answering = Answering(client.pd, client.cq, client.qps[0], client.memory, theirs, terms)
        if "back" in body:
            if terms.test != WRITE:
                raise PeerError(f"only writes go back, not a test of {terms.test}")
            order = Order.from_json(body["back"], terms)
            client.backwards = Backwards(client.pd, client.cq, client.qps, terms, order)
        return {"region": client.region.remote.to_json()}

    def _counters(self, client: _Client) -> dict[str, int]:
        """The endpoint's counters and those of the client's QPs, since the server began."""
        figures = [qp.figures for qp in client.qps]
        return counters_of(figures, self._node.endpoint.counters, self._node.driver.socket_drops())

    def _start(self, client: _Client, body: dict[str, Any]) -> dict[str, Any]:
        if client.terms is None:
            raise PeerError("a measurement is prepared before it starts")
        client.immediates = 0
        client.counters_before = self._counters(client)
        client.duplicates_before = duplicates_received(qp.figures for qp in client.qps)
        client.started_cpu_s = time.process_time()
        if client.backwards is not None:
            client.backwards.begin()
        return {}

    def _written(self, client: _Client, body: dict[str, Any]) -> dict[str, Any]:
        """What was written back, once it is all."""
        if client.backwards is None:
            raise PeerError("no writes back were ordered")
        return client.backwards.report()

    def _immediates(self, client: _Client, body: dict[str, Any]) -> dict[str, Any]:
        """How many writes with immediate have completed here so far: the last of them a moment after they are acked."""
        self._turn(client)
        return {"immediates": client.immediates}

    def _stop(self, client: _Client, body: dict[str, Any]) -> dict[str, Any]:
        """What it took here, and the sum of what lies in memory now."""
        if client.started_cpu_s is None or client.terms is None or client.memory is None:
            raise PeerError("a measurement is started before it is stopped")
        cpu_seconds = time.process_time() - client.started_cpu_s
        client.started_cpu_s = None
        self._turn(client)
        client.answering = None
        written = client.backwards.bytes_written if client.backwards is not None else 0
        self._close_backwards(client)
        figures = [qp.figures for qp in client.qps]
        placed = sum(each.counters.bytes_placed for each in figures)
        before = client.counters_before
        counted = {name: count - before.get(name, 0) for name, count in self._counters(client).items()}
        counters = {name: count for name, count in counted.items() if count}
        measurement = client.terms.to_json() | {
            "bytes": placed - client.placed_before,
            "bytes_written": written,
            "cpu_seconds": round(cpu_seconds, 4),
            "counters": counters,
        }
        client.placed_before = placed
        client.measurements.append(measurement)
        return {
            "cpu_seconds": cpu_seconds,
            "immediates": client.immediates,
            "sha256": hashlib.sha256(client.memory).hexdigest(),
            "counters": counters,
            "duplicates_received": duplicates_received(figures) - client.duplicates_before,
        }

    # ------------------------------------------------------------------ ends

    def _session_closed(self, session: SessionInfo) -> None:
        client: _Client | None = session.data.get("client")
        if client is None:
            return

        known = client
        with suppress(MrcError):  # shut down meanwhile
            self._node.driver.call(lambda: self._end(known))

    def _end(self, client: _Client) -> None:
        """Take the client of now down and note what it ran. Does nothing for one that was taken down before."""
        if self._client is not client:
            return
        self._client = None
        session = client.session
        if session is not None and client.failure is None:
            client.failure = _why_it_failed(client, session)
        self._let_go(client)
        if session is not None:
            served = ServedSession(session.peer_address, list(client.measurements), client.failure)
            self._served.append(json.dumps(asdict(served)).encode())
            self._on_session(served)
        self._free.set()

    def _let_go(self, client: _Client) -> None:
        many = len(client.pd.qps) > _MANY_QPS
        # Those too whose connection broke off before they were counted.
        for qp in list(client.pd.qps):
            if isinstance(qp, QP):
                qp.close()
        self._close_region(client)
        self._close_domain(client.pd)
        client.cq.close()
        client.qps, client.idle, client.by_number = [], [], {}
        if many:
            # Not now: objects of the session, made among those of the QPs, are still in use.
            self._gives_back_at = time.monotonic() + _GIVEN_BACK_S

    @staticmethod
    def _close_domain(pd: PD) -> None:
        """Close the PD with all its regions. A request that is handled still may register one meanwhile."""
        while True:
            for region in pd.mrs:
                region.close()
            try:
                pd.close()
                return
            except VerbsError:
                if not pd.mrs:
                    raise

    @staticmethod
    def _close_backwards(client: _Client) -> None:
        backwards, client.backwards = client.backwards, None
        if backwards is not None:
            backwards.close()

    def _close_region(self, client: _Client) -> None:
        client.answering = None
        self._close_backwards(client)
        if client.region is not None:
            client.region.close()
            client.region = None
        # The mapping goes when nothing looks into it any more.
        client.memory = None


def _why_it_failed(client: _Client, session: SessionInfo) -> str | None:
    """Why this session, which is over, ended too soon. None: it did not."""
    broken = next((qp for qp in client.qps if qp.state == QPState.ERROR), None)
    if broken is not None:
        return f"QP {broken.qp_num:#08x}: {broken.error}"
    measuring = client.started_cpu_s is not None
    if session.closed_because == "server":
        return "the server was stopped in the middle of a measurement" if measuring else None
    if measuring or session.closed_because != "client":
        return "the client went away in the middle of a measurement"
    return None
