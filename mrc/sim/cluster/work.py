# SPDX-License-Identifier: BSD-2-Clause
"""Flows: when each may start, which writes it is, and what became of it."""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.events import Event
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.work import WriteRequest
from mrc.sim.cluster.hosts import Hosts, drain
from mrc.sim.cluster.outcome import FlowColumns
from mrc.sim.cluster.setup import Flows
from mrc.sim.cluster.sharding import Sharding
from mrc.sim.fault import SimulationFault
from mrc.trace.vocabulary import QP_STATE

if TYPE_CHECKING:
    from mrc.sim.cluster.host_columns import HostColumns
    from mrc.sim.cluster.machine import Machine

# A flow of more bytes is several writes.
LARGEST_WRITE = 1 << 30
_NOTHING = -1


class Pair:
    """One direction between two hosts: the QP that sends and the one that receives; the other direction has the same.

    `expected` are the flows that have been posted and not arrived, each with the PSN behind its last packet; `row` is
    the receiving QP's number in its machine. The two QPs may be in two shards: `expected` is the receiver's.
    """

    __slots__ = ("destination", "expected", "next_psn", "receiver", "row", "sender", "source")

    def __init__(self, source: int, destination: int, sender: QueuePair, receiver: QueuePair) -> None:
        self.source, self.destination = source, destination
        self.sender = sender
        self.receiver = receiver
        self.expected: list[tuple[int, int]] = []
        self.next_psn = sender.first_psn
        self.row = _NOTHING


class Work:
    """All flows of a setup. What Python raises while a machine runs is kept as `failure`: the machine stops then.

    Shards may be computed at the same time. A flow that begins changes what its source's shard knows of it, one that
    arrives what its destination's does. What the one has to tell the other waits for the end of the window.
    """

    def __init__(self, flows: Flows, hosts: Hosts, sharding: Sharding) -> None:
        self.flows = flows
        self.hosts = hosts
        self.sharding = sharding
        self.failure: BaseException | None = None
        self._machines: list[Machine] = []
        count = len(flows)
        # By shard of the source.
        self._ended = [0] * sharding.count
        self._path_mtu = hosts.policies.qp.path_mtu
        self.started, self.arrived = np.full(count, _NOTHING), np.full(count, _NOTHING)
        self.completed = np.full(count, _NOTHING)
        self.status, self.pair_of = np.full(count, _NOTHING), np.zeros(count, np.int64)
        self.pairs: list[Pair] = []
        self._by_row: dict[int, Pair] = {}
        self._connect()
        # By flow how many others it waits for, and the flows that wait for it.
        self._waits_for, self._dependents = _dependencies(flows)
        # By shard of the source: a heap of (when, flow) that may start, hosts as negative numbers, and flows that its
        # receivers do not know of.
        self._ready: list[list[tuple[int, int]]] = [[] for _ in range(sharding.count)]
        self._posted: list[list[tuple[Pair, int, int]]] = [[] for _ in range(sharding.count)]
        for flow in np.flatnonzero(self._waits_for == 0).tolist():
            self._ready[self._shard_of(flow)].append((int(flows.start_ns[flow]), flow))
        for host, at in _first_starts(flows).items():
            # EV probes measure the base RTT. A host comes before the flows of its time.
            self._ready[sharding.of_host(host)].append((at, host - sharding.topology.hosts))
        for heap in self._ready:
            heapq.heapify(heap)

    def _shard_of(self, flow: int) -> int:
        return self.sharding.of_host(int(self.flows.source[flow]))

    def _connect(self) -> None:
        by_ends: dict[tuple[int, int], int] = {}
        qps: dict[tuple[int, int], tuple[QueuePair, QueuePair]] = {}
        ends = zip(self.flows.source.tolist(), self.flows.destination.tolist(), strict=True)
        for flow, (source, destination) in enumerate(ends):
            number = by_ends.get((source, destination))
            if number is None:
                number = by_ends[source, destination] = len(self.pairs)
                if (source, destination) not in qps:
                    one, other = self.hosts.connect(source, destination)
                    qps[source, destination], qps[destination, source] = (one, other), (other, one)
                self.pairs.append(Pair(source, destination, *qps[source, destination]))
            self.pair_of[flow] = number
        # Once flows begin, another thread may have the endpoint.
        for pair in self.pairs:
            self.hosts.region(pair.destination)

    def use(self, machines: list[Machine], columns: HostColumns) -> None:
        """The machines that run this, by shard, and what they know of all hosts."""
        self._machines, self._columns = machines, columns
        for pair in self.pairs:
            pair.row = columns.first_qp[pair.destination] + pair.receiver.datapath.slot
            self._by_row[pair.row] = pair
        for host, endpoint in self.hosts.endpoints.items():
            endpoint.listeners.append(partial(self._on_event, host))

    @property
    def left(self) -> int:
        """How many flows have not ended."""
        return len(self.flows) - sum(self._ended)

    # ------------------------------------------------------------------ starting

    def next_start(self, shard: int) -> int:
        """When a flow of a shard may start next, ns; FOREVER where none does by itself."""
        ready = self._ready[shard]
        return ready[0][0] if ready else FOREVER

    def start_ready(self, shard: int, now: int) -> None:
        """Start the flows of a shard that may, and let its hosts begin that have some."""
        ready = self._ready[shard]
        while ready and ready[0][0] <= now:
            flow = heapq.heappop(ready)[1]
            if flow < 0:
                self._machines[shard].call(flow + self.sharding.topology.hosts)
            else:
                self._start(flow, now)

    def _start(self, flow: int, now: int) -> None:
        pair = self.pairs[self.pair_of[flow]]
        destination = self.hosts.region(pair.destination)
        self.started[flow] = now
        left = int(self.flows.bytes[flow])
        while left:
            length = min(left, LARGEST_WRITE)
            left -= length
            pair.next_psn += -(-length // self._path_mtu)
            wr_id = flow << 1 | (left == 0)
            pair.sender.post_write(WriteRequest(wr_id, self.hosts.source, 0, length, destination.va, destination.rkey))
        shard = self.sharding.of_host(pair.source)
        if self.sharding.of_host(pair.destination) == shard:
            self._expect(pair, pair.next_psn, flow)
        else:
            self._posted[shard].append((pair, pair.next_psn, flow))
        self.hosts.endpoints[pair.source].wake(pair.sender)
        self._machines[shard].call(pair.source)

    def _expect(self, pair: Pair, psn: int, flow: int) -> None:
        if not pair.expected:
            self._columns.boundary[pair.row] = psn
        pair.expected.append((psn, flow))

    def tell_receivers(self) -> None:
        """Between two windows: nothing of a flow arrives in another shard in the window in which it was posted."""
        for posted in self._posted:
            for pair, psn, flow in posted:
                self._expect(pair, psn, flow)
            posted.clear()

    # ------------------------------------------------------------------ what the machine calls

    def on_arrived(self, row: int, epsn: int, now: int) -> int:
        """The receiving QP of this number expects `epsn`. Returns the PSN by which the next flow has arrived."""
        try:
            pair = self._by_row[row]
            while pair.expected and pair.expected[0][0] <= epsn:
                flow = pair.expected.pop(0)[1]
                self.arrived[flow] = now
                self._release(flow, now)
            return pair.expected[0][0] if pair.expected else FOREVER
        except BaseException as error:
            return self.fail(error)

    def _release(self, flow: int, now: int) -> None:
        """Others may have waited for this flow."""
        for dependent in self._dependents.get(flow, ()):
            self._waits_for[dependent] -= 1
            if not self._waits_for[dependent]:
                at = int(self.flows.start_ns[dependent])
                if at <= now:
                    self._start(dependent, now)
                else:
                    shard = self._shard_of(dependent)
                    heapq.heappush(self._ready[shard], (at, dependent))
                    self._machines[shard].until = min(self._machines[shard].until, at - 1)

    def hand_over(self, host: int, now: int) -> None:
        """Work of a host has ended."""
        try:
            for done in drain(self.hosts.endpoints[host]):
                flow, is_last = done.wr_id >> 1, done.wr_id & 1
                if done.status == WorkStatus.SUCCESS and not is_last:
                    continue
                if self.status[flow] == _NOTHING:
                    self.status[flow] = int(done.status)
                    if done.status == WorkStatus.SUCCESS:
                        self.completed[flow] = now
                    self._ended[self.sharding.of_host(host)] += 1
            if self.sharding.count == 1 and not self.left:
                self._machines[0].until = _NOTHING
        except BaseException as error:
            self.fail(error)

    def _on_event(self, host: int, event: Event) -> None:
        """A QP that fails ends its work at once, and not as a batch of packets does. Others may have to follow it."""
        if event.kind == QP_STATE:
            self.hand_over(host, event.at_ns)
            self._columns.looks_at[host] = self.looks_at(host)

    def look_after(self, host: int, now: int) -> int:
        """Endpoint operations of a host are due. Returns when they are next, ns."""
        try:
            self.hosts.endpoints[host].look_after(now)
            at = self.looks_at(host)
            if at <= now:
                raise SimulationFault(f"the endpoint of host {host} is to be looked after again at once, at {now} ns")
            return at
        except BaseException as error:
            return self.fail(error)

    def looks_at(self, host: int) -> int:
        """When endpoint operations of a host are due, ns, or FOREVER."""
        at = self.hosts.endpoints[host].looks_at()
        return FOREVER if at is None else at

    def fail(self, error: BaseException) -> int:
        """Let all machines stop; the run raises this error. Returns when the caller wants to be called again: never."""
        self.failure = self.failure or error
        for machine in self._machines:
            machine.until = _NOTHING
        return FOREVER

    # ------------------------------------------------------------------ results

    def columns(self) -> FlowColumns:
        return FlowColumns(
            started=self.started,
            arrived=self.arrived,
            completed=self.completed,
            bytes=self.flows.bytes,
            packets=-(-self.flows.bytes // self._path_mtu),
            status=self.status,
            qp=self.pair_of,
        )


def _dependencies(flows: Flows) -> tuple[np.ndarray, dict[int, list[int]]]:
    """By flow the number of others it waits for, and by flow those that wait for it."""
    if not len(flows.after_first):
        return np.zeros(len(flows), np.int64), {}
    waits_for = np.diff(flows.after_first)
    dependents: dict[int, list[int]] = {}
    waiting = np.repeat(np.arange(len(flows)), waits_for).tolist()
    for before, flow in zip(flows.after.tolist(), waiting, strict=True):
        dependents.setdefault(before, []).append(flow)
    return waits_for, dependents


def _first_starts(flows: Flows) -> dict[int, int]:
    """By host when the first of the flows that it sends or receives may start, ns."""
    hosts = np.concatenate([flows.source, flows.destination])
    found, place = np.unique(hosts, return_inverse=True)
    first = np.full(len(found), np.iinfo(np.int64).max)
    np.minimum.at(first, place, np.concatenate([flows.start_ns, flows.start_ns]))
    return dict(zip(found.tolist(), first.tolist(), strict=True))
