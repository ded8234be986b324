# SPDX-License-Identifier: BSD-2-Clause
"""What changes in a cluster when it is described otherwise: nothing, or what must. Over 50 drawn worlds.

Interpreted, where a packet takes a hundred times as long, every tenth of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from drawn_worlds import GBIT, QP, SECOND, Times, flows, joined, later, steady, times, topology, world
from draws import draws

import mrc
from mrc.endpoint.config import LossConfig
from mrc.sim.cluster import ClusterLink, Flows, Policies, Setup, Topology, run

WORLDS, AT_ONCE = draws(50), 10
STEP = 1 if mrc.CORE.kind == "compiled" else 10
numbers = pytest.mark.parametrize("first", range(0, WORLDS, AT_ONCE))


def _numbers(first: int) -> range:
    return range(first, first + AT_ONCE, STEP)


@cache
def _as_drawn(number: int) -> Times:
    return times(world(number))


@numbers
def test_later_starts_shift_every_time_and_change_nothing_else(first: int) -> None:
    for number in _numbers(first):
        setup = world(number)
        by_ns = int(np.random.default_rng((number, 1)).integers(1, 10**10))
        assert times(replace(setup, flows=later(setup.flows, by_ns))) == _as_drawn(number).shifted(by_ns), number


@numbers
def test_shards_threads_samples_and_jobs_change_no_flow(first: int) -> None:
    for number in _numbers(first):
        setup = world(number)
        alone = _as_drawn(number)
        every_ns = max(alone.completed) // 200 + 1
        for changed in (
            replace(setup, shards=4),
            replace(setup, shards=4, threads=2),
            replace(setup, sample_ns=every_ns),
            replace(setup, sample_ns=3 * every_ns, shards=2),
            replace(setup, flows=replace(setup.flows, job=np.arange(len(setup.flows)) % 3)),
        ):
            assert times(changed) == alone, number


@numbers
def test_two_phases_are_each_as_they_are_alone(first: int) -> None:
    """On other hosts and the same links, the second when the first has long ended."""
    for number in _numbers(first):
        setup = steady(world(number))
        random = np.random.default_rng((number, 2))
        shape = replace(setup.topology, hosts=2 * setup.topology.hosts)
        # Hosts of even number have the first phase, those of odd number the second.
        half = shape.hosts // 2
        one, two = (
            Flows(2 * part.source + odd, 2 * part.destination + odd, part.bytes, part.start_ns)
            for odd, part in enumerate((setup.flows, flows(random, half, 50_000)))
        )
        two = later(two, SECOND)
        both, alone, other = (run(replace(setup, topology=shape, flows=part)) for part in (joined(one, two), one, two))
        assert alone.end_ns < SECOND
        assert Times.of(both, slice(0, len(one))) == Times.of(alone), number
        assert Times.of(both, slice(len(one), None)) == Times.of(other), number


@numbers
def test_renumbered_hosts_have_the_same_times(first: int) -> None:
    """Leaves in another order, and hosts of a leaf. There is one way from host to host: how an endpoint draws its EVs
    follows from its number. So does which of two packets of one nanosecond is first: here no two such meet."""
    for number in _numbers(first):
        random = np.random.default_rng((number, 6))
        setup, shape = steady(world(number)), topology(random)
        shape = Topology(shape.hosts, 1, shape.hosts_per_leaf, 1)
        work = flows(random, shape.hosts, 100_000)
        work = replace(work, start_ns=work.start_ns + np.arange(len(work)))
        leaves = random.permutation(shape.leaves)
        hosts = leaves.repeat(shape.hosts_per_leaf) * shape.hosts_per_leaf
        hosts += np.concatenate([random.permutation(shape.hosts_per_leaf) for _ in leaves])
        setup = replace(setup, topology=shape, flows=work, policies=replace(setup.policies, evs=None))
        renumbered = replace(work, source=hosts[work.source], destination=hosts[work.destination])
        assert times(replace(setup, flows=renumbered)) == times(setup), number


def _scaled(number: int, rate_bps: int, unit_ns: int) -> Setup:
    """Every time a multiple of `unit_ns`, the endpoint's timers too."""
    random = np.random.default_rng((number, 4))
    shape = topology(random)
    work = flows(random, shape.hosts, 100_000)
    work = replace(work, start_ns=work.start_ns * unit_ns)
    links = [ClusterLink(rate_bps, int(random.integers(0, 2_000)) * unit_ns) for _ in range(2)]
    loss = LossConfig(path_timer_min_ns=500_000 * unit_ns, path_timer_initial_ns=5_000_000 * unit_ns)
    loss = replace(loss, tail_probe_min_ns=10_000_000 * unit_ns)
    qp = replace(QP, loss=loss, timeout=16 + (unit_ns == 2))
    policies = Policies(qp=qp, evs=None, controller="fixed")
    return Setup(shape, work, *links, policies=policies, seed=number, end_ns=100 * SECOND)


@numbers
def test_twice_the_rate_and_half_the_delay_halve_every_time(first: int) -> None:
    """1 ns a byte and 2 ns: nothing is rounded."""
    for number in _numbers(first):
        assert times(_scaled(number, 8 * GBIT, 1)) == times(_scaled(number, 4 * GBIT, 2)).halved(), number


@numbers
def test_half_the_size_and_half_the_delay_halve_the_time_that_a_packet_takes(first: int) -> None:
    """Writes of one packet, each of which is half as long on the cable, headers and all."""
    for number in _numbers(first):
        random = np.random.default_rng((number, 5))
        shape = topology(random)
        senders = random.permutation(shape.hosts)[: int(random.integers(1, shape.hosts))]
        # One receiver: data meets data, and no answers.
        receiver = int(np.setdiff1d(np.arange(shape.hosts), senders)[0])
        half = 4 * random.integers(1, 480, len(senders))
        start = 2 * random.integers(0, 5_000, len(senders))
        delay = [2 * int(random.integers(500, 2_000)) for _ in range(2)]
        found = []
        for parts in (1, 2):
            # A packet of data has 168 bytes besides its payload, which is a multiple of 4.
            payload = half if parts == 2 else 2 * (half + 168) - 168
            links = [ClusterLink(4 * GBIT, each // parts, framing_bytes=40) for each in delay]
            work = Flows(senders, np.full(len(senders), receiver), payload, start // parts)
            policies = Policies(qp=QP, evs=None, controller="fixed")
            outcome = run(Setup(shape, work, *links, policies=policies, end_ns=SECOND))
            found.append(outcome.flows.arrived)
        assert (found[0] == 2 * found[1]).all(), number
