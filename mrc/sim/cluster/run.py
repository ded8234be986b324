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
from mrc.errors import CallerError
from mrc.sim.cluster.egresses import (
    BY_WAY,
    BYTES,
    CUT,
    CUT_WAY,
    DATA_BYTES,
    DROPPED,
    FATES,
    LARGEST,
    LAST_SENT,
    LOST,
    LOST_WAY,
    MARKED,
    PACKETS,
    PRIORITY_BYTES,
    ROW_OF_WORDS,
    SENT,
    WAITING,
    Egresses,
)
from mrc.sim.cluster.event_wheel import ROW, EventWheel
from mrc.sim.cluster.faults import Faults
from mrc.sim.cluster.hosts import Hosts
from mrc.sim.cluster.machine import Machine
from mrc.sim.cluster.outcome import (
    Conservation,
    LinkColumns,
    Outcome,
    PathColumns,
    Progress,
    QpColumns,
    SeriesColumns,
)
from mrc.sim.cluster.packet_pool import PacketPool
from mrc.sim.cluster.setup import ClusterLink, Setup
from mrc.sim.cluster.ways import Ways
from mrc.sim.cluster.work import Work

MODEL = "mrc.sim.cluster 1"
VALIDATED = "8 to 256 hosts, against mrc.sim (docs/simulation.md)"
_LARGEST_PACKET = 4400
_EVENTS_A_SLICE = 50_000
_PROGRESS_S = 1.0
_LEAST_PACKETS = 1 << 12
_PACKETS_A_HOST = 256
_SAMPLES = ("sent", "delivered", "placed_bytes", "trimmed", "dropped", "lost", "marked", "flows_done")


def run(setup: Setup, progress: Callable[[Progress], None] | None = None) -> Outcome:
    """Simulate. `progress` is called about once a second of real time, and at the end; what it raises ends the run.

    Raises CallerError for a setup that cannot be simulated.
    """
    return Run(setup, progress).run()


class Run:
    """One simulation, with all its parts."""

    def __init__(self, setup: Setup, progress: Callable[[Progress], None] | None = None) -> None:
        if setup.threads != 1:
            raise CallerError(f"a cluster is simulated by one thread, got threads={setup.threads}")
        self.began = time.monotonic()
        topology = setup.topology
        self.setup, self._progress = setup, progress
        flows = setup.flows.checked(topology.hosts)
        failures = setup.failures.checked(topology)
        self.hosts = Hosts(topology, setup.policies, setup.seed)
        with _nothing_collected():
            self.work = Work(flows, self.hosts)
        active = len(self.hosts.endpoints)
        # What is never touched takes no memory, and a pool that grows is there twice for a moment.
        self.pool = PacketPool(max(_LEAST_PACKETS, _PACKETS_A_HOST * active))
        links = (setup.host_link, setup.fabric_link)
        farthest = max(_longest_ns(link) for link in links)
        self.wheel = EventWheel(self.pool, 2 * topology.cables, topology.hosts, farthest)
        self.egresses = Egresses(topology, *links, self.hosts.wire, self.pool, self.wheel, setup.seed)
        self.machine = Machine(
            topology.hosts, topology.planes, topology.uplinks, self.pool, self.wheel, self.egresses,
            Ways(topology, self.pool), self.work,
        )  # fmt: skip
        endpoints = [self.hosts.endpoints.get(host) for host in range(topology.hosts)]
        first_qp = [0]
        for endpoint in endpoints:
            first_qp.append(first_qp[-1] + (0 if endpoint is None else len(endpoint.qps)))
        self.machine.have_hosts([None if each is None else each.datapath for each in endpoints], first_qp)
        self.work.use(self.machine, first_qp)
        self.faults = Faults(topology, failures, self.egresses, self.machine, self.hosts)
        self._samples: list[list[int]] = []
        self._next_sample = setup.sample_ns or FOREVER

    # ------------------------------------------------------------------ running

    def run(self) -> Outcome:
        """Run to the end."""
        with _nothing_collected():
            self._run()
        self._tell()
        return self._outcome()

    def _run(self) -> None:
        told = time.monotonic()
        for host in sorted(self.hosts.endpoints):
            # EV probes measure the base RTT.
            self.machine.call(host)
        while True:
            at = min(self.work.next_start(), self.faults.next_at(), self._next_sample)
            self.machine.until = min(at - 1, self.setup.end_ns)
            self.machine.run(_EVENTS_A_SLICE)
            if self.work.failure is not None:
                raise self.work.failure
            if time.monotonic() - told > _PROGRESS_S:
                told = time.monotonic()
                self._tell()
            if not self.work.left:
                return
            following = self.machine.next_at()
            at = min(self.work.next_start(), self.faults.next_at(), self._next_sample)
            if min(following, at) > self.setup.end_ns or min(following, at) == FOREVER:
                return
            if at <= following:
                self.machine.go_to(at)
                self._act(at)

    def _act(self, now: int) -> None:
        """What Python does at this time, before what happens in the fabric."""
        self.faults.apply(now)
        self.work.start_ready(now)
        if now == self._next_sample:
            self._next_sample += self.setup.sample_ns
            self._samples.append([now, *self._totals(), self._waiting_bytes()])

    def _tell(self) -> None:
        if self._progress is not None:
            flows = len(self.setup.flows)
            self._progress(
                Progress(
                    self.machine.now, self.setup.end_ns, self.machine.events, flows - self.work.left, flows,
                    time.monotonic() - self.began,
                )
            )  # fmt: skip

    # ------------------------------------------------------------------ results

    def _cells(self) -> NDArray[np.int32]:
        return np.asarray(self.egresses.cells, np.int32).reshape(-1, ROW)

    def _waiting_bytes(self) -> int:
        cells = self._cells()
        return int(cells[:, DATA_BYTES].sum(dtype=np.int64) + cells[:, PRIORITY_BYTES].sum(dtype=np.int64))

    def _totals(self) -> list[int]:
        machine, egresses = self.machine, self.egresses
        return [
            machine.sent,
            machine.delivered,
            machine.placed_bytes,
            egresses.cut,
            egresses.dropped,
            egresses.lost,
            egresses.marked,
            len(self.setup.flows) - self.work.left,
        ]

    def _outcome(self) -> Outcome:
        machine, egresses = self.machine, self.egresses
        in_queues = int(self._cells()[:, WAITING].sum(dtype=np.int64))
        conservation = Conservation(
            sent=machine.sent,
            delivered=machine.delivered,
            trimmed=machine.delivered_cut,
            lost=egresses.lost,
            dropped=egresses.dropped,
            in_flight=in_queues + len(self.wheel.arrivals()) + machine.packets_in_hosts(),
        )
        conservation.check()
        return Outcome(
            model=MODEL,
            version=__version__,
            seed=self.setup.seed,
            validated=VALIDATED,
            end_ns=machine.now,
            flows=self.work.columns(),
            qps=self._qps(),
            links=self._links(),
            paths=self._paths(),
            series=self._series(),
            conservation=conservation,
            events=machine.events,
            packet_hops=machine.hops,
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
        )

    def _links(self) -> LinkColumns:
        cells, words = self._cells(), np.asarray(self.egresses.words).reshape(-1, ROW_OF_WORDS)
        fates = np.asarray(self.egresses.fates, np.int32).reshape(-1, FATES)
        return LinkColumns(
            packets=cells[:, PACKETS].astype(np.int64),
            bytes=words[:, BYTES].copy(),
            dropped=fates[:, DROPPED].astype(np.int64),
            lost=fates[:, LOST].astype(np.int64),
            trimmed=fates[:, CUT].astype(np.int64),
            marked=fates[:, MARKED].astype(np.int64),
            largest_queue=cells[:, LARGEST].astype(np.int64),
        )

    def _paths(self) -> PathColumns:
        topology = self.setup.topology
        counts = np.asarray(self.egresses.by_way).reshape(-1, BY_WAY)
        ways = np.arange(topology.planes * topology.uplinks)
        return PathColumns(
            plane=ways // topology.uplinks,
            uplink=ways % topology.uplinks,
            packets=counts[:, SENT].copy(),
            lost=counts[:, LOST_WAY].copy(),
            trimmed=counts[:, CUT_WAY].copy(),
            last_sent=counts[:, LAST_SENT].copy(),
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


def _longest_ns(link: ClusterLink) -> int:
    """The longest time of a packet from the head of the queue to the other end of the cable."""
    return (_LARGEST_PACKET + link.framing_bytes) * 8_000_000_000 // link.rate_bps + link.delay_ns
