"""The one entry: a setup in, an outcome out."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from mrc import __version__
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.sim.cluster.columns import short_numbers
from mrc.sim.cluster.crew import Crew
from mrc.sim.cluster.directions import (
    BYTES,
    CUT,
    DATA_BYTES,
    DROPPED,
    FATES,
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

MODEL = "mrc.sim.cluster 2"
VALIDATED = "8 to 256 hosts, against mrc.sim (docs/simulation.md)"
# Where there is one shard a window may have no end: then it is cut, so that progress is shown.
_EVENTS_A_SLICE, _ALL_EVENTS = 50_000, 1 << 60
_PROGRESS_S = 1.0
# To wait for other threads takes longer than to take over so many packets.
_FEW_PACKETS = 4096
_SAMPLES = ("sent", "delivered", "placed_bytes", "trimmed", "dropped", "lost", "marked", "flows_done")


def run(setup: Setup, progress: Callable[[Progress], None] | None = None) -> Outcome:
    """Simulate. `progress` is called about once a second of real time, and at the end; what it raises ends the run.

    Raises CallerError for a setup that cannot be simulated.
    """
    return Run(setup, progress).run()


class Run:
    """One simulation, with all its parts."""

    def __init__(self, setup: Setup, progress: Callable[[Progress], None] | None = None) -> None:
        self.began = time.monotonic()
        topology = setup.topology
        self.setup, self._progress = setup, progress
        flows = setup.flows.checked(topology.hosts)
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

    # ------------------------------------------------------------------ running

    def run(self) -> Outcome:
        """Run to the end."""
        with _nothing_collected(), Crew(min(self.setup.threads, len(self.shards))) as crew:
            self._run(crew)
        self._tell()
        return self._outcome()

    def _run(self, crew: Crew) -> None:
        told = time.monotonic()
        for host in sorted(self.hosts.endpoints):
            # EV probes measure the base RTT.
            self.shards[self.sharding.of_host(host)].machine.call(host)
        while self.work.left:
            following = self._next_at()
            at = min(self.faults.next_at(), self._next_sample)
            if min(following, at) > self.setup.end_ns or min(following, at) == FOREVER:
                return
            if at <= following:
                self._act(at)
                continue
            self._window(crew, following, min(at - 1, self.setup.end_ns, following + self.sharding.window_ns - 1))
            if self.work.failure is not None:
                raise self.work.failure
            if time.monotonic() - told > _PROGRESS_S:
                told = time.monotonic()
                self._tell()

    def _next_at(self) -> int:
        """When something happens next, ns; FOREVER where nothing does."""
        at = min(shard.next_at() for shard in self.shards)
        if len(self.shards) > 1:
            at = min(at, *(shard.egresses.crossings.earliest() for shard in self.shards))
        return at

    def _window(self, crew: Crew, at: int, until: int) -> None:
        """Let happen what does from `at` to `until`: each shard by itself."""
        if len(self.shards) == 1:
            self.shards[0].run(until, _EVENTS_A_SLICE)
            return
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
        crew.each(lambda shard: shard.run(until, _ALL_EVENTS), self.shards)

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

    def _tell(self) -> None:
        if self._progress is not None:
            flows = len(self.setup.flows)
            self._progress(
                Progress(
                    max(shard.machine.now for shard in self.shards), self.setup.end_ns,
                    sum(shard.machine.events for shard in self.shards), flows - self.work.left, flows,
                    time.monotonic() - self.began,
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
            len(self.setup.flows) - self.work.left,
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
        conservation.check()
        return Outcome(
            model=MODEL,
            version=__version__,
            seed=self.setup.seed,
            validated=VALIDATED,
            end_ns=max(each.now for each in machines),
            flows=self.work.columns(),
            qps=self._qps(),
            links=self._links(),
            paths=self._paths(),
            outages=self.outages.columns(max(each.now for each in machines)),
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
        rows = np.array(self._samples, np.int64).reshape(-1, len(_SAMPLES) + 2)
        since = np.diff(rows[:, 1:-1], axis=0, prepend=0)
        named = {name: since[:, place].copy() for place, name in enumerate(_SAMPLES)}
        return SeriesColumns(time_ns=rows[:, 0].copy(), waiting_bytes=rows[:, -1].copy(), **named)


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
