# SPDX-License-Identifier: BSD-2-Clause
"""One host of a drill: a process of its own with an endpoint, which follows orders and records its progress.

`python -m mrc.drill.host SAMPLES [TRACE]` in a host's namespace. Commands come as JSON lines on stdin, each is answered
by one on stdout: `{"ok": ...}` or `{"error": "..."}`. The end of stdin ends the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from mrc.drill.ends import Source, Target, tuning
from mrc.drill.flow import FlowPlan
from mrc.drill.heartbeat import Heartbeat, ProcessorWait
from mrc.errors import CallerError, MrcError
from mrc.fabric.host_view import Fabric
from mrc.net.node import Node
from mrc.net.node_device import NodeDevice
from mrc.threads import start_thread
from mrc.trace.writer import TraceWriter
from mrc.untrusted import own_json
from mrc.verbs import ConnectionParameters, Context, RemoteMemory

SOURCE_INTERVAL_NS = 5_000_000
# Between two turns, while there is no flow that wants another.
_IDLE_PAUSE_NS = 10_000_000
_FLUSHED_LINES = 64


class Host:
    """The flows that begin and end on this host, and the file their samples go to."""

    def __init__(self, node: Node, samples: TextIO) -> None:
        self._node = node
        self._samples = samples
        self._context = Context(NodeDevice(node), tuning=tuning())
        self._sources: dict[str, Source] = {}
        self._targets: dict[str, Target] = {}
        self._sources_due = 0
        self._pause_ns = _IDLE_PAUSE_NS
        self._lines = 0
        self.heartbeat = Heartbeat()
        self._processor = ProcessorWait()
        self.over = False
        self._commands: dict[str, Callable[[dict[str, Any]], Any]] = {
            "open": self._open,
            "connect": self._connect,
            "start": self._start,
            "stop": self._stop,
            "finished": self._finished,
            "paths": self._paths,
            "report": self._report,
        }

    def run(self) -> None:
        """Turn until `over`."""
        with self.heartbeat:
            self._node.driver.run(self._turn, 0.0)

    def _turn(self) -> bool:
        """Between turns of the loop. It pauses, and takes what comes meanwhile together: one by one packets would cost
        the processor several times as much, and a pause is a tenth of a round trip."""
        time.sleep(self._pause_ns / 1e9)
        for source in self._sources.values():
            source.turn()
        for target in self._targets.values():
            target.turn()
        now = time.monotonic_ns()
        if self._targets:
            connected = {name: target.sample() for name, target in self._targets.items() if target.connected}
            if connected:
                self._write(now, "targets", connected)
        if self._sources and now >= self._sources_due:
            self._sources_due = now + SOURCE_INTERVAL_NS
            running = {name: source.sample() for name, source in self._sources.items() if source.posted}
            if running:
                self._write(now, "sources", running)
        return self.over

    def _write(self, now: int, what: str, of_flow: dict[str, Any]) -> None:
        self._samples.write(json.dumps({"at_ns": now, what: of_flow}, separators=(",", ":")) + "\n")
        self._lines += 1
        if self._lines % _FLUSHED_LINES == 0:
            self._samples.flush()

    # ------------------------------------------------------------------ commands, in the loop's thread

    def do(self, command: dict[str, Any]) -> Any:
        """Do as a command says. Raises MrcError."""
        name = command.get("do")
        if name not in self._commands:
            raise CallerError(f"no command {name!r}: there are {', '.join(self._commands)}")
        return self._node.driver.call(lambda: self._commands[name](command))

    def _open(self, command: dict[str, Any]) -> dict[str, Any]:
        plan = FlowPlan.from_json(command["flow"])
        self._pause_ns = min(self._pause_ns, plan.pause_ns)
        number = len(self._sources) + len(self._targets) + 1
        if command["role"] == "source":
            source = self._sources[plan.name] = Source(self._context, plan, number)
            return {"side": source.side.to_json()}
        target = self._targets[plan.name] = Target(self._context, plan, number)
        return {"side": target.side.to_json(), "region": target.region.remote.to_json()}

    def _connect(self, command: dict[str, Any]) -> None:
        # What setting up took does not count.
        self._processor = ProcessorWait()
        name = command["flow"]
        theirs = ConnectionParameters.from_json(command["side"])
        if name in self._sources:
            self._sources[name].connect(theirs)
            self._sources[name].aim(RemoteMemory.from_json(command["region"]))
        else:
            self._targets[name].connect(theirs)

    def _start(self, command: dict[str, Any]) -> int:
        self._sources[command["flow"]].start()
        return time.monotonic_ns()

    def _stop(self, command: dict[str, Any]) -> int:
        self._sources[command["flow"]].stop()
        return time.monotonic_ns()

    def _finished(self, command: dict[str, Any]) -> bool:
        return self._sources[command["flow"]].finished

    def _paths(self, command: dict[str, Any]) -> list[tuple[int, int, int]]:
        return self._sources[command["flow"]].paths()

    def _report(self, command: dict[str, Any]) -> dict[str, Any]:
        self._turn()
        self._samples.flush()
        return {
            "sources": {name: source.report() for name, source in self._sources.items()},
            "targets": {name: target.report() for name, target in self._targets.items()},
            "counters": self._node.endpoint.counters.as_dict(),
            "socket_drops": self._node.driver.socket_drops(),
            "standstills": self.heartbeat.standstills,
            "waited": self._processor.share(),
        }


def _serve(host: Host, node: Node) -> None:
    """Take commands until stdin ends."""
    try:
        for line in sys.stdin:
            try:
                answer = {"ok": host.do(own_json(line))}
            except MrcError as error:
                answer = {"error": str(error)}
            print(json.dumps(answer), flush=True)
    finally:
        host.over = True
        node.driver.wake()


def _go_first() -> None:
    """A drill's hosts stand in for hardware: let this thread, and those it starts, go before whatever is not real-time.

    It sleeps between short turns, and the kernel leaves the others a twentieth of the time in any case. In a user
    namespace this is not allowed: then nothing changes.
    """
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))


def main(samples: str, trace: str | None = None) -> None:
    writer = None if trace is None else TraceWriter.open(trace, title="mrc drill", vantage_point="sender")
    with open(samples, "w") as file, Node(Fabric.load(os.environ["MRC_FABRIC"]), tracer=writer) as node:
        host = Host(node, file)
        start_thread(_serve, host, node, name="commands")
        print(json.dumps({"ok": Path(samples).name}), flush=True)
        _go_first()
        try:
            host.run()
        finally:
            if writer is not None:
                writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
