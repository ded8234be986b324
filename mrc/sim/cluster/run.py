# SPDX-License-Identifier: BSD-2-Clause
"""The one entry: a setup in, an outcome out."""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from mrc import __version__
from mrc.endpoint.congestion.base import ControllerFailed
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.sim.cluster import laws
from mrc.sim.cluster.columns import short_numbers
from mrc.sim.cluster.crew import Crew
from mrc.sim.cluster.directions import (
    BYTES,
    CUT,
    DATA_BYTES,
    DROPPED,
    FATES,
    FREE_AT,
    IDLE,
    LARGEST,
    LOST,
    MARKED,
    PACKETS,
    PRIORITY_BYTES,
    ROW_OF_WORDS,
    WAITING,
    Directions,
)
from mrc.sim.cluster.egresses import BY_WAY, CUT_WAY, LAST_SENT, LOST_WAY, SENT
from mrc.sim.cluster.event_wheel import ROW
from mrc.sim.cluster.faults import Faults
from mrc.sim.cluster.host_columns import HostColumns
from mrc.sim.cluster.hosts import Hosts
from mrc.sim.cluster.outages import Outages
from mrc.sim.cluster.outcome import (
    Conservation,
    LinkColumns,
    Outcome,
    PathColumns,
    Progress,
    QpColumns,
    SeriesColumns,
)
from mrc.sim.cluster.setup import Setup
from mrc.sim.cluster.shard import Shard
from mrc.sim.cluster.sharding import sharding
from mrc.sim.cluster.work import Work
from mrc.sim.fault import SimulationFault

MODEL = "mrc.sim.cluster 3"
VALIDATED = "8 to 256 hosts, against mrc.sim (docs/simulation.md)"
# A window may take long, or have no end: it is computed in slices, so that progress is shown and a signal is seen.
_LEAST_SLICE, _FIRST_SLICE, _LARGEST_SLICE = 1 << 6, 1 << 12, 1 << 16
_SHORT_SLICE_S, _LONG_SLICE_S = 0.02, 0.1
_PROGRESS_S = 0.2
# To wait for other threads takes longer than to take over so many packets.
_FEW_PACKETS = 4096
_SAMPLES = ("sent", "delivered", "placed_bytes", "trimmed", "dropped", "lost", "marked", "flows_done")


def run(setup: Setup, progress: Callable[[Progress], None] | None = None) -> Outcome:
    """Simulate. `progress` is called at the start, some times a second and at the end; what it raises ends the run.

    Raises CallerError for a setup that cannot be simulated, ControllerFailed for a controller that raises or has no
    window, and SimulationFault for a run that breaks a law which every run obeys (mrc.sim.cluster.laws).
    """
    return Run(setup, progress).run()


class Run:
    """One simulation, with all its parts."""

    def __init__(self, setup: Setup, progress: Callable[[Progress], None] | None = None) -> None:
        self.began = time.monotonic()
        topology = setup.topology
        self.setup, self._progress = setup, progress
        self.flows = flows = setup.flows.checked(topology.hosts)
        failures = setup.failures.checked(topology)
        self.sharding = sharding(setup, flows)
        self.hosts = Hosts(topology, setup.policies, setup.seed)
        with _nothing_collected():
            self.work = Work(flows, self.hosts, self.sharding)
        self.directions = Directions(topology, setup.host_link, setup.fabric_link, self.hosts.wire, setup.seed)
        endpoints = [self.hosts.endpoints.get(host) for host in range(topology.hosts)]
        columns = HostColumns(
            [None if each is None else each.datapath for each in endpoints],
            [0 if each is None else len(each.qps) for each in endpoints],
        )
        behind = short_numbers(self.directions.count + topology.hosts)
        self.shards = [
            Shard(number, setup, self.sharding, columns, self.directions, behind, self.work)
            for number in range(self.sharding.count)
        ]
        self.work.use([shard.machine for shard in self.shards], columns)
        self.outages = Outages(topology, failures, self.work.pairs, self.hosts.endpoints)
        self.faults = Faults(
            failures, self.directions, self.sharding, self.shards, self.hosts, self.outages.changed
        )  # fmt: skip
        self._samples: list[list[int]] = []
        self._next_sample = setup.sample_ns or FOREVER
        self._slice = _FIRST_SLICE
        self._told = self.began
        self._end_ns = 0

    # ------------------------------------------------------------------ running

    def run(self) -> Outcome:
        """Run to the end."""
        crew = Crew(min(self.setup.threads, len(self.shards)))
        with _nothing_collected(), _nothing_swallowed(self.work), crew:
            self._run(crew)
        self._check_windows()
        outcome = self._outcome()
        words = np.asarray(self.directions.words).reshape(-1, ROW_OF_WORDS)
        if sum(shard.egresses.overlaps for shard in self.shards):
            raise SimulationFault("a link began a packet before the one ahead of it was out")
        laws.check(self.setup, self.flows, outcome, words[:, FREE_AT], self._cells()[:, IDLE].astype(np.int64))
        self._tell(over=True)
        return outcome

    def _run(self, crew: Crew) -> None:
        # From here on it is for `progress` to end the run: what a signal's handler raises compiled code may swallow.
        self._tell()
        while self.work.left:
            following, fault = self._next_at(), self.faults.next_at()
            if min(following, fault) == FOREVER:
                self._check_nothing_waits()
                break
            at = min(fault, self._next_sample)
            if min(following, at) > self.setup.end_ns:
                self._end_ns = self.setup.end_ns
                return
            if at <= following:
                self._act(at)
            else:
                self._window(crew, following, min(at - 1, self.setup.end_ns, following + self.sharding.window_ns - 1))
            self._look()
        self._end_ns = max(shard.machine.now for shard in self.shards)

    def _next_at(self) -> int:
        """When something happens next, ns; FOREVER where nothing does."""
        at = min(shard.next_at() for shard in self.shards)
        if len(self.shards) > 1:
            at = min(at, *(shard.egresses.crossings.earliest() for shard in self.shards))
        return at

    def _window(self, crew: Crew, at: int, until: int) -> None:
        """Let happen what does from `at` to `until`: each shard by itself."""
        if len(self.shards) > 1:
            self._exchange(crew, at)
        left = self.shards
        # The slices differ from run to run. So one shard alone may stop where its work is done.
        while left and (len(self.shards) > 1 or self.work.left):
            began = time.monotonic()
            crew.each(lambda shard: shard.run(until, self._slice), left)
            if self.work.failure is not None:
                raise self.work.failure
            left = [shard for shard in left if shard.next_at() <= until]
            took = time.monotonic() - began
            if took > _LONG_SLICE_S:
                self._slice = max(self._slice // 2, _LEAST_SLICE)
            elif took < _SHORT_SLICE_S:
                self._slice = min(self._slice * 2, _LARGEST_SLICE)
            self._look()

    def _exchange(self, crew: Crew, at: int) -> None:
        """Hand over what shards have sent each other. Nothing happens anywhere before `at`."""
        self.work.tell_receivers()
        for shard in self.shards:
            shard.tell_receivers(self.shards)
        if sum(shard.egresses.crossings.used for shard in self.shards) < _FEW_PACKETS:
            for shard in self.shards:
                shard.take_over(at)
        else:
            crew.each(lambda shard: shard.take_over(at), self.shards)
        for shard in self.shards:
            shard.egresses.crossings.clear()

    def _act(self, now: int) -> None:
        """What happens to all shards at this time, before what happens in them."""
        for shard in self.shards:
            shard.go_to(now)
        self.faults.apply(now)
        for shard in self.shards:
            self.work.start_ready(shard.number, now)
        if now == self._next_sample:
            self._next_sample += self.setup.sample_ns
            self._samples.append([now, *self._totals(), self._waiting_bytes()])

    def _look(self) -> None:
        if self.work.failure is not None:
            raise self.work.failure
        if time.monotonic() - self._told > _PROGRESS_S:
            self._tell()

    def _check_nothing_waits(self) -> None:
        """Nothing will happen any more. What has begun has ended then; others wait for one that failed."""
        self._check_windows()
        waiting = (self.work.started >= 0) & (self.work.status < 0)
        if waiting.any():
            raise SimulationFault(f"write {int(waiting.argmax())} has begun and not ended, and nothing will happen")

    def _check_windows(self) -> None:
        """A window that is shut for good is a fault of the controller's, not of the network's."""
        for row in np.flatnonzero((self.work.started >= 0) & (self.work.completed < 0)).tolist():
            pair = self.work.pairs[self.work.pair_of[row]]
            controller = pair.sender.controller
            if controller is not None and controller.cwnd < 1:
                raise ControllerFailed(
                    f"congestion controller {type(controller).__name__} has a window of {controller.cwnd} bytes at the "
                    f"end: write {row} of host {pair.source} to host {pair.destination} cannot go on"
                )

    def _tell(self, *, over: bool = False) -> None:
        self._told = time.monotonic()
        if self._progress is not None:
            flows = len(self.setup.flows)
            self._progress(
                Progress(
                    max(shard.machine.now for shard in self.shards), self.setup.end_ns,
                    sum(shard.machine.events for shard in self.shards), flows - self.work.left, flows,
                    time.monotonic() - self.began, over,
                )
            )  # fmt: skip

    # ------------------------------------------------------------------ results

    def _cells(self) -> NDArray[np.int32]:
        return np.asarray(self.directions.cells, np.int32).reshape(-1, ROW)

    def _waiting_bytes(self) -> int:
        cells = self._cells()
        return int(cells[:, DATA_BYTES].sum(dtype=np.int64) + cells[:, PRIORITY_BYTES].sum(dtype=np.int64))

    def _totals(self) -> list[int]:
        machines, egresses = [shard.machine for shard in self.shards], [shard.egresses for shard in self.shards]
        return [
            sum(each.sent for each in machines),
            sum(each.delivered for each in machines),
            sum(each.placed_bytes for each in machines),
            sum(each.cut for each in egresses),
            sum(each.dropped for each in egresses),
            sum(each.lost for each in egresses),
            sum(each.marked for each in egresses),
            int((self.work.completed >= 0).sum()),
        ]

    def _outcome(self) -> Outcome:
        machines = [shard.machine for shard in self.shards]
        sent, delivered, _, _, dropped, lost, _, _ = self._totals()
        on_cables = sum(len(shard.wheel.arrivals()) + shard.egresses.crossings.used for shard in self.shards)
        conservation = Conservation(
            sent=sent,
            delivered=delivered,
            trimmed=sum(each.delivered_cut for each in machines),
            lost=lost,
            dropped=dropped,
            in_flight=int(self._cells()[:, WAITING].sum(dtype=np.int64))
            + on_cables
            + sum(each.packets_in_hosts() for each in machines),
        )
        return Outcome(
            model=MODEL,
            version=__version__,
            seed=self.setup.seed,
            validated=VALIDATED,
            end_ns=self._end_ns,
            flows=self.work.columns(),
            qps=self._qps(),
            links=self._links(),
            paths=self._paths(),
            outages=self.outages.columns(self._end_ns),
            series=self._series(),
            conservation=conservation,
            events=sum(each.events for each in machines),
            packet_hops=sum(each.hops for each in machines),
            wall_s=time.monotonic() - self.began,
            peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )

    def _qps(self) -> QpColumns:
        flows, pairs = self.setup.flows, self.work.pairs
        first = np.unique(self.work.pair_of, return_index=True)[1]
        senders, receivers = [p.sender.counters for p in pairs], [p.receiver.counters for p in pairs]
        return QpColumns(
            source=np.asarray(flows.source, np.int64)[first],
            destination=np.asarray(flows.destination, np.int64)[first],
            data_packets=np.array([each.data_packets_sent for each in senders], np.int64),
            retransmissions=np.array([each.retransmitted_packets for each in senders], np.int64),
            spurious=np.array([each.spurious_retransmissions for each in senders], np.int64),
            probes=np.array([each.tail_probes_sent + each.path_probes_sent for each in senders], np.int64),
            timeouts=np.array([each.local_ack_timeouts for each in senders], np.int64),
            trims=np.array([each.losses_by_nack for each in senders], np.int64),
            duplicates=np.array([each.duplicates_received for each in receivers], np.int64),
            placed_bytes=np.array([each.bytes_placed for each in receivers], np.int64),
            rtt=np.array([pair.sender.rtt_ns for pair in pairs], np.int64),
        )

    def _links(self) -> LinkColumns:
        cells, words = self._cells(), np.asarray(self.directions.words).reshape(-1, ROW_OF_WORDS)
        fates = np.asarray(self.directions.fates, np.int32).reshape(-1, FATES)
        lost = fates[:, LOST].astype(np.int64)
        for shard in self.shards:
            for direction, count in shard.egresses.lost_between.items():
                lost[direction] += count
        return LinkColumns(
            packets=cells[:, PACKETS].astype(np.int64),
            bytes=words[:, BYTES].copy(),
            dropped=fates[:, DROPPED].astype(np.int64),
            lost=lost,
            trimmed=fates[:, CUT].astype(np.int64),
            marked=fates[:, MARKED].astype(np.int64),
            largest_queue=cells[:, LARGEST].astype(np.int64),
        )

    def _paths(self) -> PathColumns:
        topology = self.setup.topology
        by_shard = np.array([np.asarray(each.egresses.by_way).reshape(-1, BY_WAY) for each in self.shards])
        counts = by_shard.sum(axis=0)
        ways = np.arange(topology.planes * topology.uplinks)
        return PathColumns(
            plane=ways // topology.uplinks,
            uplink=ways % topology.uplinks,
            packets=counts[:, SENT].copy(),
            lost=counts[:, LOST_WAY].copy(),
            trimmed=counts[:, CUT_WAY].copy(),
            last_sent=by_shard[:, :, LAST_SENT].max(axis=0),
        )

    def _series(self) -> SeriesColumns:
        if self.setup.sample_ns:
            # What happened since the last row, and at its time where the run ended then.
            kept = [row for row in self._samples if row[0] < self._end_ns]
            self._samples = [*kept, [self._end_ns, *self._totals(), self._waiting_bytes()]]
        rows = np.array(self._samples, np.int64).reshape(-1, len(_SAMPLES) + 2)
        since = np.diff(rows[:, 1:-1], axis=0, prepend=0)
        named = {name: since[:, place].copy() for place, name in enumerate(_SAMPLES)}
        return SeriesColumns(time_ns=rows[:, 0].copy(), waiting_bytes=rows[:, -1].copy(), **named)


@contextmanager
def _nothing_swallowed(work: Work) -> Iterator[None]:
    """What is raised where compiled code cannot pass it on ends the run, too: Python would print it and go on."""
    before = sys.unraisablehook

    def hook(found: sys.UnraisableHookArgs) -> None:
        if isinstance(found.object, str) and found.object.startswith("mrc.") and found.exc_value is not None:
            work.fail(found.exc_value)
        else:
            before(found)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Millions of objects are made, none of them garbage: to look through them again and again takes longer than to
    make them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
