"""The end that writes and measures."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrc.bench.figures import LatencyResult, WriteResult
from mrc.bench.latency import PLACES, Pinger, ping
from mrc.bench.terms import (
    BENCH_FEATURE,
    LATENCY,
    MAX_IDLE_QPS,
    QPS_PER_REQUEST,
    WRITE_IMM,
    Terms,
    default_cq_mod,
    default_depth,
)
from mrc.bench.writes import OnProgress, Writing
from mrc.errors import CallerError, PeerError
from mrc.net.exchange import ExchangeClient
from mrc.net.node import Node
from mrc.net.node_device import NodeDevice
from mrc.net.session.qps import TUNING, connect_qps, describe_qps, from_message, make_qps, to_message
from mrc.net.ticket import Ticket
from mrc.net.transfer.report import counters_of, reported_duplicates, spurious_retransmissions
from mrc.verbs import QP, AccessFlag, Context, QPCap, RemoteMemory

_REQUEST_TIMEOUT_S = 60.0
_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What to measure: `seconds` for each of `sizes` (bytes). `depth` and `cq_mod` None: chosen by the size."""

    test: str
    sizes: tuple[int, ...]
    seconds: float
    qps: int = 1
    idle_qps: int = 0
    depth: int | None = None
    cq_mod: int | None = None

    def __post_init__(self) -> None:
        if not self.sizes:
            raise CallerError("there is nothing to measure: no size is given")
        if not self.seconds > 0:
            raise CallerError(f"seconds must be above 0, got {self.seconds}")
        if not 0 <= self.idle_qps <= MAX_IDLE_QPS:
            raise CallerError(f"idle QPs must be 0..{MAX_IDLE_QPS}, got {self.idle_qps}")

    def terms(self, size: int, path_mtu: int) -> Terms:
        """Raises CallerError for numbers out of range."""
        depth = self.depth or (1 if self.test == LATENCY else default_depth(size))
        return Terms(self.test, size, self.qps, depth, path_mtu)


class BenchClient:
    """A session with the server of a ticket. Use it as a context manager: entering connects the QPs.

    Raises PeerError when the server refuses or cannot be reached.
    """

    def __init__(
        self, node: Node, ticket: Ticket, options: BenchOptions, on_progress: OnProgress | None = None
    ) -> None:
        self._node = node
        self._on_progress = on_progress
        self._options = options
        self._terms = [options.terms(size, node.path_mtu) for size in options.sizes]
        self._exchange = ExchangeClient(ticket, features=(BENCH_FEATURE,))
        self._context = Context(NodeDevice(node), tuning=TUNING)
        self._pd = self._context.pd()
        # Everything outstanding may complete in error.
        depth = max((terms.depth for terms in self._terms), default=1)
        self._depth = max(depth, PLACES)
        self._cq = self._context.cq(self._depth * options.qps)
        self._qps: list[QP] = []

    def __enter__(self) -> BenchClient:
        try:
            self._qps = self._connect(self._options.qps, idle=False)
            self._connect(self._options.idle_qps, idle=True)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._context.close()
        self._exchange.close()

    def measure(self, on_result: Callable[[WriteResult | LatencyResult], None] = lambda result: None) -> list[Any]:
        """Every size in turn. `on_result` hears of each. Raises PeerError when a write fails or the memory differs.

        A KeyboardInterrupt goes on to the caller, once `on_result` has heard what was measured until then, if anything.
        """
        results: list[Any] = []
        for terms in self._terms:
            result = self._latency(terms) if terms.test == LATENCY else self._write(terms)
            results.append(result)
            on_result(result)
            if result.interrupted:
                raise KeyboardInterrupt
        return results

    def _connect(self, count: int, *, idle: bool) -> list[QP]:
        made: list[QP] = []
        immediates = self._options.test == WRITE_IMM and not idle
        while len(made) < count:
            cap = QPCap(max_send_wr=self._depth, max_recv_wr=0)
            portion = make_qps(self._pd, self._cq, min(QPS_PER_REQUEST, count - len(made)), cap)
            ours = describe_qps(portion, self._node.path_mtu)
            body = to_message(ours) | {"idle": idle, "immediates": immediates}
            theirs = from_message(self._request("connect", body), QPS_PER_REQUEST)
            connect_qps(portion, ours, theirs)
            made += portion
        return made

    def _request(self, kind: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            return self._exchange.request(kind, body or {}, _REQUEST_TIMEOUT_S)
        except PeerError:
            known = self._exchange.peer_features
            if known and BENCH_FEATURE not in known:
                raise PeerError("this ticket is of `mrc recv`: take that of `mrc bench serve`") from None
            raise

    def _loop(self, until: Callable[[], bool]) -> None:
        self._node.driver.run(until, _POLL_S, before_sending=lambda: True)

    def _write(self, terms: Terms) -> WriteResult:
        content = os.urandom(terms.size * terms.qps)
        source = self._pd.mr(content, AccessFlag(0))
        target = RemoteMemory.from_json(self._request("prepare", terms.to_json()).get("region"))
        if target.length != len(content):
            raise PeerError(f"{len(content)} bytes of memory were asked for, the server gave {target.length}")
        cq_mod = self._options.cq_mod or default_cq_mod(terms.depth)
        writing = Writing(self._qps, self._cq, source, target, terms, cq_mod, self._on_progress)
        before = self._counters()
        self._request("start")
        cpu = time.process_time()
        written = writing.run(self._loop, self._options.seconds)
        cpu = time.process_time() - cpu
        count = sum(written.completed)
        if written.interrupted:
            # Who interrupts waits for nobody: the server is not asked, and sees that its client has gone.
            if not count:
                raise KeyboardInterrupt
            receiver_cpu = duplicates = None
        else:
            receiver_cpu, duplicates = self._stop_and_compare(terms, content, count)
            source.close()
        counters = self._counted_since(before)
        seconds = written.elapsed_ns / 1e9
        resent = counters.get("retransmitted_packets", 0)
        return WriteResult(
            size_bytes=terms.size,
            iterations=count,
            seconds=seconds,
            peak_gbps=written.peak_gbps,
            packets=count * terms.packets_per_write,
            sender_cpu_seconds=cpu,
            receiver_cpu_seconds=receiver_cpu,
            retransmitted_packets=resent,
            spurious_retransmissions=spurious_retransmissions(
                resent, counters.get("spurious_retransmissions", 0), duplicates
            ),
            duplicates_received=duplicates,
            per_qp_gbps=tuple(each * terms.size * 8 / seconds / 1e9 for each in written.completed),
            counters=counters,
            interrupted=written.interrupted,
        )

    def _stop_and_compare(self, terms: Terms, content: bytes, count: int) -> tuple[float, int | None]:
        """CPU seconds of the server, and how many packets it got twice, if it reports that.

        Raises PeerError when what lies there is not what was written.
        """
        stopped = self._request("stop")
        if stopped.get("sha256") != hashlib.sha256(content).hexdigest():
            raise PeerError("what lies in the server's memory is not what was written there")
        if terms.test == WRITE_IMM and stopped.get("immediates") != count:
            raise PeerError(f"{count} writes with immediate completed, the server saw {stopped.get('immediates')}")
        return _seconds(stopped), reported_duplicates(stopped)

    def _latency(self, terms: Terms) -> LatencyResult:
        memory = bytearray(terms.size * terms.qps)
        with self._pd.mr(memory) as region:
            body = terms.to_json() | {"region": region.remote.to_json()}
            theirs = RemoteMemory.from_json(self._request("prepare", body).get("region"))
            pinger = Pinger(self._pd, self._cq, self._qps[0], memory, theirs, terms)
            before = self._counters()
            self._request("start")
            pinged = ping(pinger, self._loop, self._options.seconds)
            if not pinged.interrupted:
                self._request("stop")
        if not pinged.half_round_trips_us:
            if pinged.interrupted:
                raise KeyboardInterrupt
            raise PeerError("not one ping was answered in time")
        counters = self._counted_since(before)
        return LatencyResult.of(terms.size, pinged.half_round_trips_us, counters, interrupted=pinged.interrupted)

    def _counted_since(self, before: dict[str, int]) -> dict[str, int]:
        differences = {name: count - before.get(name, 0) for name, count in self._counters().items()}
        return {name: difference for name, difference in differences.items() if difference}

    def _counters(self) -> dict[str, int]:
        figures = [qp.figures for qp in self._qps]
        return counters_of(figures, self._node.endpoint.counters, self._node.driver.socket_drops())


def _seconds(stopped: dict[str, Any]) -> float:
    value = stopped.get("cpu_seconds")
    if not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise PeerError(f"the server says it used {value!r} seconds of CPU time")
    return float(value)
