# SPDX-License-Identifier: BSD-2-Clause
"""The end that writes and measures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrc.bench.backwards import Asking, Order, Received
from mrc.bench.figures import LatencyResult, WriteResult
from mrc.bench.intervals import Interval, Intervals
from mrc.bench.latency import PLACES, Pinger, ping
from mrc.bench.measurement import Measurement, cpu_seconds_of, forward_result, reverse_result
from mrc.bench.terms import (
    BENCH_FEATURE,
    DIRECTIONS,
    FORWARD,
    LATENCY,
    MAX_IDLE_QPS,
    QPS_PER_REQUEST,
    WRITE,
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
from mrc.net.transfer.report import counters_of
from mrc.verbs import QP, Context, QPCap, RemoteMemory

_REQUEST_TIMEOUT_S = 60.0
_POLL_S = 0.25
_COMPLETIONS_S, _ASKED_AGAIN_S = 5.0, 0.005


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What to measure: `seconds` for each of `sizes` (bytes), or until `most_bytes` or `most_packets` were written.

    `depth` and `cq_mod` None: chosen by the size. `direction`: who writes. `interval_s`: how often to report.
    """

    test: str
    sizes: tuple[int, ...]
    seconds: float | None
    qps: int = 1
    idle_qps: int = 0
    depth: int | None = None
    cq_mod: int | None = None
    most_bytes: int | None = None
    most_packets: int | None = None
    direction: str = FORWARD
    interval_s: float | None = None

    def __post_init__(self) -> None:
        if not self.sizes:
            raise CallerError("there is nothing to measure: no size is given")
        ends = [each for each in (self.seconds, self.most_bytes, self.most_packets) if each is not None]
        if len(ends) != 1:
            raise CallerError("a measurement ends after seconds, most_bytes or most_packets: give one of them")
        for name in ("seconds", "most_bytes", "most_packets", "interval_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise CallerError(f"{name} must be above 0, got {value}")
        if self.direction not in DIRECTIONS:
            raise CallerError(f"direction must be one of {', '.join(DIRECTIONS)}, got {self.direction!r}")
        if self.test != WRITE and self.direction != FORWARD:
            raise CallerError(f"a test of {self.test} has one direction: only writes go back")
        if self.test == LATENCY and self.seconds is None:
            raise CallerError("a latency test ends after seconds")
        if not 0 <= self.idle_qps <= MAX_IDLE_QPS:
            raise CallerError(f"idle QPs must be 0..{MAX_IDLE_QPS}, got {self.idle_qps}")

    def most(self, terms: Terms) -> int | None:
        """How many writes; None: as many as there is time for."""
        if self.most_bytes is not None:
            return -(-self.most_bytes // terms.size)
        return None if self.most_packets is None else -(-self.most_packets // terms.packets_per_write)

    def terms(self, size: int, path_mtu: int) -> Terms:
        """Raises CallerError for numbers out of range."""
        depth = self.depth or (1 if self.test == LATENCY else default_depth(size))
        return Terms(self.test, size, self.qps, depth, path_mtu)


class BenchClient:
    """A session with the server of a ticket. Use it as a context manager: entering connects the QPs.

    Raises PeerError when the server refuses or cannot be reached.
    """

    def __init__(
        self,
        node: Node,
        ticket: Ticket,
        options: BenchOptions,
        on_progress: OnProgress | None = None,
        on_interval: Callable[[Interval], None] = lambda interval: None,
    ) -> None:
        self._node = node
        self._on_progress = on_progress
        self._on_interval = on_interval
        self._options = options
        self._terms = [options.terms(size, node.path_mtu) for size in options.sizes]
        self._exchange = ExchangeClient(ticket, features=(BENCH_FEATURE,), on_lost=node.driver.wake)
        self._failure: PeerError | None = None
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

        A KeyboardInterrupt goes on to the caller, once `on_result` has heard what was measured until then, if anything,
        and so does the PeerError of a write that failed and of a server that has ended.
        """
        results: list[Any] = []
        for terms in self._terms:
            found = [self._latency(terms)] if terms.test == LATENCY else self._write(terms)
            for result in found:
                results.append(result)
                on_result(result)
            if self._failure is not None:
                raise self._failure
            if any(result.interrupted for result in found):
                raise KeyboardInterrupt
        return results

    def _connect(self, count: int, *, idle: bool) -> list[QP]:
        made: list[QP] = []
        immediates = self._options.test == WRITE_IMM and not idle
        while len(made) < count:
            cap = QPCap(max_send_wr=self._depth, max_recv_wr=0)
            portion = make_qps(self._pd, self._cq, min(QPS_PER_REQUEST, count - len(made)), cap)
            ours = describe_qps(portion, self._node.path_mtu)
            body = to_message(ours) | {"idle": idle, "immediates": immediates, "depth": self._depth}
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
        def done() -> bool:
            self._exchange.check()
            return until()

        self._node.driver.run(done, _POLL_S, before_sending=lambda: True)

    def _write(self, terms: Terms) -> list[WriteResult]:
        """Write to the server, have it write here, or both at once: a result for each direction."""
        measurement = Measurement(self._pd, terms, self._options.direction)
        cq_mod = self._options.cq_mod or default_cq_mod(terms.depth)
        ends = {"seconds": self._options.seconds, "most": self._options.most(terms)}
        body = terms.to_json()
        if measurement.region is not None:
            body["back"] = Order(measurement.region.remote, cq_mod=cq_mod, **ends).to_json()  # type: ignore[arg-type]
        target = RemoteMemory.from_json(self._request("prepare", body).get("region"))
        if target.length != terms.size * terms.qps:
            raise PeerError(f"{terms.size * terms.qps} bytes of memory were asked for, the server gave {target.length}")
        writing = None
        if measurement.source is not None:
            writing = Writing(
                self._qps,
                self._cq,
                measurement.source,
                target,
                terms,
                cq_mod,
                self._on_progress,
                **ends,  # type: ignore[arg-type]
            )
        before = self._counters()
        placed_before = self._placed()
        self._request("start")
        asking = None
        if measurement.region is not None:
            asking = Asking(lambda: self._request("written"), self._node.driver.wake)
        intervals: list[Interval] = []
        cpu, began = time.process_time(), time.monotonic_ns()
        interrupted = False
        try:
            self._turn_until_done(writing, asking, intervals)
        except KeyboardInterrupt:
            interrupted = True
        except PeerError as error:
            # What was measured until then is good.
            self._failure, interrupted = error, True
        finally:
            if asking is not None:
                asking.close()
        cpu, elapsed_ns = time.process_time() - cpu, time.monotonic_ns() - began
        counters = self._counted_since(before)
        results: list[WriteResult] = []
        stopped: dict[str, Any] = {}
        if not interrupted:
            stopped = self._stopped(terms, measurement, writing)
        elif writing is None and self._placed() == placed_before:
            raise self._failure or KeyboardInterrupt
        if writing is not None:
            written = writing.written(interrupted=interrupted)
            if interrupted and not sum(written.completed) and asking is None:
                # Who interrupts waits for nobody: the server is not asked, and sees that its client has gone.
                raise self._failure or KeyboardInterrupt
            results.append(forward_result(terms, written, cpu, stopped, counters, tuple(intervals)))
        if asking is not None:
            at_client = (self._placed() - placed_before) // terms.size, elapsed_ns, cpu
            received = None if interrupted else Received.from_json(asking.answer, terms.qps)
            if received is not None and received.sha256 != measurement.received_sum():
                raise PeerError("what lies in this end's memory is not what the server wrote there")
            shown = () if writing is not None else tuple(intervals)
            results.append(reverse_result(terms, received, at_client, counters, shown))
        measurement.close(interrupted=interrupted)
        return results

    def _turn_until_done(self, writing: Writing | None, asking: Asking | None, found: list[Interval]) -> None:
        cut: Intervals | None = None
        if self._options.interval_s is not None:

            def tell(interval: Interval) -> None:
                found.append(interval)
                self._on_interval(interval)

            cut = Intervals(
                self._options.interval_s,
                None if writing is None else lambda: writing.bits,
                None if asking is None else lambda: self._placed() * 8,
                None if writing is None else self._retransmitted,
                tell,
            )
        written = writing is None

        def done() -> bool:
            nonlocal written
            if not written and writing is not None:
                written = writing.turn()
            if cut is not None:
                cut.look()
            # Each turn: the server may refuse, or end, while this end has still much to write.
            answered = asking is None or asking.is_done()
            return written and answered

        if writing is not None:
            writing.begin()
        try:
            self._loop(done)
        finally:
            if cut is not None:
                cut.look(last=True)

    def _placed(self) -> int:
        return sum(qp.figures.counters.bytes_placed for qp in self._qps)

    def _retransmitted(self) -> int:
        return sum(qp.figures.counters.retransmitted_packets for qp in self._qps)

    def _stopped(self, terms: Terms, measurement: Measurement, writing: Writing | None) -> dict[str, Any]:
        """What the server says at the end. Raises PeerError when what lies there is not what was written."""
        if terms.test == WRITE_IMM and writing is not None:
            self._wait_for_immediates(sum(writing.written().completed))
        stopped = self._request("stop")
        cpu_seconds_of(stopped)
        if writing is None:
            return stopped
        if stopped.get("sha256") != measurement.sent_sum():
            raise PeerError("what lies in the server's memory is not what was written there")
        count = sum(writing.written().completed)
        if terms.test == WRITE_IMM and stopped.get("immediates") != count:
            raise PeerError(f"{count} writes with immediate completed, the server saw {stopped.get('immediates')}")
        return stopped

    def _wait_for_immediates(self, count: int) -> None:
        """Wait for the server's completions: they may come a turn of its loop after the acknowledgements."""
        patience = time.monotonic() + _COMPLETIONS_S
        while self._request("immediates").get("immediates") != count and time.monotonic() < patience:
            time.sleep(_ASKED_AGAIN_S)

    def _latency(self, terms: Terms) -> LatencyResult:
        memory = bytearray(terms.size * terms.qps)
        with self._pd.mr(memory) as region:
            body = terms.to_json() | {"region": region.remote.to_json()}
            theirs = RemoteMemory.from_json(self._request("prepare", body).get("region"))
            pinger = Pinger(self._pd, self._cq, self._qps[0], memory, theirs, terms)
            before = self._counters()
            self._request("start")
            pinged = ping(pinger, self._loop, self._options.seconds or 0)
            self._failure = pinged.failure
            if not pinged.interrupted:
                self._request("stop")
        if not pinged.half_round_trips_us:
            if self._failure is not None:
                raise self._failure
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
