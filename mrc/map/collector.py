# SPDX-License-Identifier: BSD-2-Clause
"""The collector: agents report to it over a local socket, and it passes their reports to the inference.

The socket is a file, which programs in all network namespaces of a machine see; its other end has to be root or the
same user. A connection that says something malformed is closed and counted; it spoils nothing that others said.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mrc.errors import CallerError, PeerError, SystemRefused
from mrc.fabric import Shape
from mrc.fabric.names import host_name
from mrc.fabric.next_hop import next_hops
from mrc.map.faults import Fault
from mrc.map.inference import FabricInference
from mrc.map.loops import Loop
from mrc.map.prober import SECOND, Counters, Report
from mrc.map.wording import LONGEST_LINE, Hello, Totals, Welcome, read_hello, read_result, refusal_line, welcome_line
from mrc.net.control.places import other_end

_EVALUATE_NS = SECOND // 5
# Judging takes at most one part in so many of the time.
_JUDGING = 2
_MOST_AGENTS = 1024


@dataclass(slots=True)
class PlaneCount:
    """Probes of one host in one plane that are decided, since the agent began. `rtt_us` is the latest one known."""

    back: int = 0
    lost: int = 0
    rtt_us: int = -1


@dataclass(slots=True)
class AgentState:
    """What is known of a host's agent. Times are CLOCK_MONOTONIC's nanoseconds."""

    host: int
    rate: int
    since_ns: int
    heard_ns: int
    connected: bool = True
    void: int = 0
    totals: Totals = field(default_factory=lambda: Totals(Counters(), 0.0))
    cpu_share: float = 0.0
    planes: dict[int, PlaneCount] = field(default_factory=dict)


class _Connection:
    def __init__(self, sock: socket.socket, pid: int) -> None:
        self.socket = sock
        self.pid = pid
        self.held = b""
        self.hello: Hello | None = None
        self.numbers: list[tuple[int, int]] = []
        self.agent: AgentState | None = None
        self.totals_ns = 0


class Collector:
    """Takes agents' reports for the fabric `shape` at the socket `path`, and has them judged five times a second."""

    def __init__(
        self, path: Path, name: str, shape: Shape, is_on_host: Callable[[int, int], bool] = lambda pid, host: True
    ) -> None:
        """`is_on_host` checks that a process is on a host: no agent reports for another host or a lab that is gone.

        Raises CallerError when another collector listens there, SystemRefused when the socket cannot be made.
        """
        self.inference = FabricInference()
        self._is_on_host = is_on_host
        self.agents: dict[int, AgentState] = {}
        self.malformed = 0
        self._shape, self._welcome = shape, Welcome(name, shape.leaves)
        self._next_hops = next_hops(shape.links)
        self._path = path
        self._listener = _listen(path)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._connections: set[_Connection] = set()

    def close(self) -> None:
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.close()
        self._listener.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def run(self, is_over: Callable[[], bool], on_change: Callable[[list[Fault]], None]) -> None:
        """Serve agents until `is_over`. After each evaluation `on_change` is given the faults that changed, if any."""
        due = time.monotonic_ns()
        while not is_over():
            wait = (due - time.monotonic_ns()) / SECOND
            self.serve(max(0.0, wait))
            now = time.monotonic_ns()
            if now >= due:
                on_change(self.inference.evaluate(now))
                # Where much is wrong at once, judging takes long: agents have to be heard all the same.
                took = time.monotonic_ns() - now
                due = max(due + _EVALUATE_NS, now + _JUDGING * took)

    def serve(self, wait_s: float) -> None:
        """Take in what agents say, waiting for it as long as that."""
        for key, _ in self._selector.select(wait_s):
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._read(key.data)

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        pid, user = other_end(sock)
        connection = _Connection(sock, pid)
        reason = self._objection(user)
        try:
            sock.send(refusal_line(reason) if reason else welcome_line(self._welcome))
        except OSError:
            reason = reason or "gone"
        if reason:
            sock.close()
            return
        self._connections.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _objection(self, user: int) -> str:
        if user not in (0, os.geteuid()):
            return "only root, and the user the collector runs as, may report"
        if len(self._connections) >= _MOST_AGENTS:
            return f"there are {_MOST_AGENTS} agents already"
        return ""

    def _read(self, connection: _Connection) -> None:
        try:
            chunk = connection.socket.recv(1 << 18)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._drop(connection)
            return
        *lines, connection.held = (connection.held + chunk).split(b"\n")
        try:
            if len(connection.held) > LONGEST_LINE:
                raise PeerError("a line without end")
            for line in lines:
                self._take(connection, line)
        except PeerError as error:
            self.malformed += 1
            with contextlib.suppress(OSError):
                connection.socket.send(refusal_line(str(error)))
            self._drop(connection)

    def _take(self, connection: _Connection, line: bytes) -> None:
        now = time.monotonic_ns()
        if connection.agent is None:
            self._greet(connection, read_hello(line), now)
            return
        agent = connection.agent
        agent.heard_ns = now
        result = read_result(line, len(connection.numbers))
        if isinstance(result, Totals):
            elapsed = now - connection.totals_ns
            if connection.totals_ns and elapsed > 0:
                agent.cpu_share = max(0.0, (result.cpu_s - agent.totals.cpu_s) * SECOND / elapsed)
            agent.totals, connection.totals_ns = result, now
            return
        self._count(connection, agent, result, now)

    def _greet(self, connection: _Connection, hello: Hello, now: int) -> None:
        if hello.host >= self._shape.host_count:
            raise PeerError(f"this fabric has no host h{hello.host}")
        if not self._is_on_host(connection.pid, hello.host):
            raise PeerError(f"process {connection.pid} is not on h{hello.host} of this lab")
        if (known := self.agents.get(hello.host)) is not None and known.connected:
            raise PeerError(f"h{hello.host} has an agent already")
        if not all(self._has(loop) for loop in hello.loops):
            raise PeerError("a loop is not of this fabric")
        connection.hello = hello
        connection.numbers = self.inference.declare(hello.loops)
        connection.agent = self.agents[hello.host] = AgentState(hello.host, hello.rate, now, now)
        # There is room for two short lines, the first welcome and this. Who is gone is dropped when it is read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.socket.send(welcome_line(self._welcome))

    def _has(self, loop: Loop) -> bool:
        """Whether each uSID of a loop names a neighbour of the node before it."""
        here = host_name(loop.host)
        for usid in loop.usids:
            _, here = self._next_hops.get(here, {}).get(usid, (None, ""))
        return here == host_name(loop.host)

    def _count(self, connection: _Connection, agent: AgentState, report: Report, now: int) -> None:
        if report.sent_ns > now:
            raise PeerError("a report about probes that are yet to be sent")
        agent.void += report.void
        for loops, lost in ((report.back, False), (report.lost, True)):
            for number in loops:
                count = agent.planes.setdefault(connection.numbers[number][0], PlaneCount())
                count.lost += lost
                count.back += not lost
            self.inference.add(report.sent_ns, [connection.numbers[number] for number in loops], lost=lost)
        for number, rtt_us in zip(report.back, report.rtt_us, strict=True):
            if rtt_us >= 0:
                agent.planes[connection.numbers[number][0]].rtt_us = rtt_us

    def _drop(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        if connection.agent is not None:
            connection.agent.connected = False
        self._selector.unregister(connection.socket)
        connection.socket.close()


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(OSError):
            listener.connect(os.fspath(path))
            raise CallerError(f"another collector listens at {path}: end it first")
        # What a killed one left behind.
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        listener.close()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(os.fspath(path))
        os.chmod(path, 0o600)
        listener.listen(64)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise SystemRefused(error.errno, f"cannot listen at {path}: {error.strerror}") from None
    except BaseException:
        listener.close()
        raise
    return listener
