# SPDX-License-Identifier: BSD-2-Clause
"""A lab with traffic in it, and the script's hands: what a drill does it does through this."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from mrc.child import Child
from mrc.drill.flow import FlowPlan
from mrc.drill.heartbeat import Heartbeat
from mrc.drill.job_record import JobRecord
from mrc.drill.recording import (
    BEGIN,
    CLEAR,
    CUT,
    END,
    HEAL,
    IMPAIR,
    EvChange,
    FlowRecord,
    Happening,
    PathSamples,
    Recording,
)
from mrc.drill.remote import RemoteHost, Stream
from mrc.drill.series import ByteSeries
from mrc.drill.stream import missing
from mrc.errors import PeerError
from mrc.lab import Lab
from mrc.trace import read_trace
from mrc.trace.vocabulary import EV_STATE
from mrc.untrusted import own_json

_POLL_S = 0.05
_DRAIN_S = 20.0


class Stage:
    """Flows, streams, jobs and failures in one lab. A context manager: leaving it ends every program it started.

    `directory` takes the programs' files; `on_wait(seconds)` receives the script's progress now and then, `say` what a
    long script is at. `jobs` are what the script has seen of training jobs.
    `trim_to_bytes` is what switches keep of a frame they trim; None: what MRC's own kind keeps.
    """

    def __init__(
        self,
        lab: Lab,
        directory: Path,
        seed: int,
        on_wait: Callable[[float], None] = lambda at_s: None,
        trim_to_bytes: int | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.lab = lab
        self.seed = seed
        self.trim_to_bytes = trim_to_bytes
        self.directory = directory
        self.say = say
        self.extra: dict[str, Any] = {}
        self.jobs: list[JobRecord] = []
        self._on_wait = on_wait
        self._stack = ExitStack()
        self._heartbeat = Heartbeat()
        self._hosts: dict[str, RemoteHost] = {}
        self._plans: dict[str, FlowPlan] = {}
        self._streams: dict[str, Stream] = {}
        self._programs: list[Child] = []
        self._happenings: list[Happening] = []
        self._running: set[str] = set()
        self._began_ns = 0

    def __enter__(self) -> Stage:
        self._stack.enter_context(self._heartbeat)
        return self

    def __exit__(self, *exc: object) -> None:
        self._hang_up()
        self._stack.close()

    def _hang_up(self) -> None:
        """Ask all programs to end, before any is waited for."""
        for program in self._programs:
            program.hang_up()

    # ------------------------------------------------------------------ links

    def limit_hosts(self, **impairment: Any) -> None:
        """Give both directions of every host's links these (rate_bps, queue_bytes and so on, as Lab.impair)."""
        for link in self.lab.topology.host_links():
            self.lab.impair(link.name, **impairment)

    def limit_fabric(self, **impairment: Any) -> None:
        """Give both directions of every leaf-spine link these, as `limit_hosts` does."""
        for link in self.lab.topology.fabric_links():
            self.lab.impair(link.name, **impairment)

    # ------------------------------------------------------------------ traffic

    def employ(self, program: Child) -> None:
        """A program that the script has started is ended with the stage."""
        self._programs.append(program)
        self._stack.enter_context(program)

    def open(self, plans: Iterable[FlowPlan]) -> None:
        """Start the hosts these flows need and connect them; nothing is sent yet. Raises PeerError."""
        plans = list(plans)
        needed = [host for plan in plans for host in (plan.target, plan.source)]
        fresh = [host for host in dict.fromkeys(needed) if host not in self._hosts]
        for host in fresh:
            self._hosts[host] = remote = RemoteHost(self.lab, host, self.directory, traced=True)
            self.employ(remote.program)
        for host in fresh:
            self._hosts[host].wait_started()
        for plan in plans:
            source, target = self._hosts[plan.source], self._hosts[plan.target]
            ours = source.ask("open", flow=plan.to_json(), role="source")
            theirs = target.ask("open", flow=plan.to_json(), role="target")
            target.ask("connect", flow=plan.name, side=ours["side"])
            source.ask("connect", flow=plan.name, side=theirs["side"], region=theirs["region"])
            self._plans[plan.name] = plan

    def open_stream(self, kind: str, source: str, target: str) -> None:
        """A byte stream of the kernel's, `kind` tcp or mptcp, ready to start; none where the kernel has no such thing,
        which is noted as `missing`. Raises PeerError, SystemRefused."""
        if (reason := missing(kind)) is not None:
            self.extra.setdefault("missing", {})[kind] = reason
            return
        if kind == "mptcp":
            from mrc.bench.mptcp import set_path_managers

            set_path_managers(self.lab, [target])
        self._streams[kind] = stream = Stream(self.lab, kind, source, target, self.directory)
        self.employ(stream.server)

    def begin(self, *flows: str, stream_seconds: float = 0.0) -> None:
        """Let these flows write, without names all of them, and streams send for so long. The script's clock begins
        with the first call."""
        for name in flows or tuple(self._plans):
            at_ns = self._hosts[self._plans[name].source].ask("start", flow=name)
            self.note(at_ns, BEGIN, name)
            self._running.add(name)
            self._began_ns = self._began_ns or at_ns
        if stream_seconds:
            for stream in self._streams.values():
                self.employ(stream.start(stream_seconds))

    def end(self, *flows: str) -> None:
        """Let these flows, without names all of them, post no more."""
        for name in flows or tuple(self._running):
            at_ns = self._hosts[self._plans[name].source].ask("stop", flow=name)
            self.note(at_ns, END, name)
            self._running.discard(name)

    def packets(self, flow: str) -> dict[int, int]:
        """Data packets a flow has put on each of its EVs so far."""
        return {ev: packets for ev, (packets, _) in self._paths(flow).items()}

    def lost(self, flow: str) -> dict[int, int]:
        """Data packets that a flow takes for lost on each of its EVs so far."""
        return {ev: lost for ev, (_, lost) in self._paths(flow).items()}

    def _paths(self, flow: str) -> dict[int, tuple[int, int]]:
        found = self._hosts[self._plans[flow].source].ask("paths", flow=flow)
        return {int(ev): (int(packets), int(lost)) for ev, packets, lost in found}

    # ------------------------------------------------------------------ time and failures

    @property
    def at_s(self) -> float:
        """Seconds since the first `begin`."""
        return time.monotonic() - self._began_ns / 1e9

    def start_clock(self) -> None:
        """Begin the script's clock, where no flow does."""
        self._began_ns = time.monotonic_ns()

    def tell_time(self) -> None:
        """Progress, for a script that waits by itself."""
        self._on_wait(self.at_s)

    def until(self, seconds: float) -> None:
        """Wait until so many seconds after the first `begin`. Raises PeerError when a host ends meanwhile."""
        due = self._began_ns / 1e9 + seconds
        while (left := due - time.monotonic()) > 0:
            self._on_wait(seconds - left)
            for host in self._hosts.values():
                if host.program.ended:
                    host.program.line(0.0)
            time.sleep(min(left, _POLL_S))

    def cut(self, *targets: str) -> None:
        self._do(CUT, targets, self.lab.cut)

    def heal(self, *targets: str) -> None:
        self._do(HEAL, targets, self.lab.heal)

    def impair(self, link: str, **impairment: Any) -> None:
        self._do(IMPAIR, [link], lambda name: self.lab.impair(name, **impairment))

    def clear(self, link: str, toward: str | None = None) -> None:
        self._do(CLEAR, [link], lambda name: self.lab.clear(name, toward))

    def _do(self, what: str, targets: Sequence[str], action: Callable[[str], object]) -> None:
        for target in targets:
            before = time.monotonic_ns()
            action(target)
            after = time.monotonic_ns()
            self._happenings.append(Happening(after, what, target, after - before))

    def note(self, at_ns: int, what: str, target: str) -> None:
        """`what` happened to `target`, at a time of CLOCK_MONOTONIC."""
        self._happenings.append(Happening(at_ns, what, target))

    # ------------------------------------------------------------------ the end

    def finish(self) -> Recording:
        """End what still runs, wait until all that was posted is done, and gather what was seen. Raises PeerError."""
        self.end()
        self.drain()
        reports = {host: remote.ask("report") for host, remote in self._hosts.items()}
        self._hang_up()
        for program in self._programs:
            program.close()
        lines = {host: list(_json_lines(remote.samples)) for host, remote in self._hosts.items()}
        flows = {name: self._flow_record(plan, reports, lines) for name, plan in self._plans.items()}
        streams = {kind: _stream_series(stream.samples) for kind, stream in self._streams.items()}
        standstills = list(self._heartbeat.standstills)
        for report in reports.values():
            standstills += [(at_ns, took_ns) for at_ns, took_ns in report["standstills"]]
        return Recording(
            flows,
            streams,
            tuple(self._happenings),
            tuple(sorted(standstills)),
            self.extra,
            socket_drops=sum(report["socket_drops"] for report in reports.values()),
            waited=max((report["waited"] for report in reports.values()), default=0.0),
            jobs=tuple(self.jobs),
        )

    def drain(self) -> None:
        """Wait until nothing is outstanding of flows that ended; what is missing after 20 s is counted, not raised."""
        deadline = time.monotonic() + _DRAIN_S
        for name, plan in self._plans.items():
            while not self._hosts[plan.source].ask("finished", flow=name) and time.monotonic() < deadline:
                time.sleep(_POLL_S)

    def _flow_record(
        self, plan: FlowPlan, reports: Mapping[str, Any], lines: Mapping[str, list[dict[str, Any]]]
    ) -> FlowRecord:
        source = reports[plan.source]["sources"][plan.name]
        target = reports[plan.target]["targets"][plan.name]
        arrived = [
            (line["at_ns"], line["targets"][plan.name])
            for line in lines[plan.target]
            if plan.name in line.get("targets", ())
        ]
        sent = [
            {"at_ns": line["at_ns"], **line["sources"][plan.name]}
            for line in lines[plan.source]
            if plan.name in line.get("sources", ())
        ]
        at = [at_ns for at_ns, _ in arrived]
        trace = self._hosts[plan.source].trace
        return FlowRecord(
            plan=plan,
            placed=ByteSeries(at, [seen["placed_bytes"] for _, seen in arrived]),
            in_order=ByteSeries(at, [seen["in_order_bytes"] for _, seen in arrived]),
            paths=_path_samples(sent, source["paths"]),
            samples=sent,
            changes=[] if trace is None else _ev_changes(trace, source["qpn"]),
            source=source,
            target=target,
        )


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    with open(path) as file:
        for line in file:
            yield own_json(line)


def _path_samples(samples: Sequence[Mapping[str, Any]], paths: Sequence[Sequence[int]]) -> PathSamples:
    evs, planes, spines = (tuple(column) for column in zip(*paths, strict=True))
    return PathSamples(
        np.array([sample["at_ns"] for sample in samples], np.int64),
        np.array([sample["packets"] for sample in samples], np.int64).reshape(len(samples), len(evs)),
        np.array([sample["states"] for sample in samples], np.int64).reshape(len(samples), len(evs)),
        evs,
        planes,
        spines,
    )


def _ev_changes(trace: Path, qpn: int) -> list[EvChange]:
    with open(trace, "rb") as stream:
        _, events = read_trace(stream)
        return [
            EvChange(event.time_ns, event["ev"], event["old"], event["new"], event["cause"])
            for event in events
            if event.kind is EV_STATE and event.qpn == qpn
        ]


def _stream_series(samples: Path) -> ByteSeries:
    """Raises PeerError for a stream through which nothing came."""
    rows = [line.split() for line in samples.read_text().splitlines()]
    if len(rows) < 2:
        raise PeerError(f"nothing came through the stream {samples.stem}")
    return ByteSeries([int(at) for at, _ in rows], [int(total) for _, total in rows])
