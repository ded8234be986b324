# SPDX-License-Identifier: BSD-2-Clause
"""A run that contradicts itself is refused: faults of each kind are put into runs, and none is reported as a result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from cluster_setups import FIXED, GBIT, PLAIN, flows, permutation

from mrc.errors import MrcError
from mrc.sim.cluster import ClusterLink, Outcome, Setup, SimulationFault, Topology
from mrc.sim.cluster.crew import Crew
from mrc.sim.cluster.run import Run

SHAPE = Topology(8, planes=2, hosts_per_leaf=2, spines=2)
# Host 0 to hosts 3 and 1: through a spine and within a leaf.
SETUP = Setup(
    SHAPE, replace(flows([0, 4, 0], [3, 6, 1], 20_000), start_ns=np.array([0, 0, 3_000_000])), PLAIN, PLAIN,
    policies=FIXED, sample_ns=1_000,
)  # fmt: skip


class Spoiled(Run):
    """A run in which something is changed when all has been simulated, and before it is checked."""

    def __init__(self, setup: Setup, spoil: Callable[[Run], None]) -> None:
        super().__init__(setup)
        self._spoil = spoil

    def _run(self, crew: Crew) -> None:
        super()._run(crew)
        self._spoil(self)


def refused(spoil: Callable[[Run], None], says: str, setup: Setup = SETUP) -> None:
    with pytest.raises(SimulationFault, match=says):
        Spoiled(setup, spoil).run()


def changed(name: str, row: int, by: int) -> Callable[[Run], None]:
    """A column of flows is another by so much."""

    def spoil(simulation: Run) -> None:
        getattr(simulation.work, name)[row] += by

    return spoil


def test_a_run_that_is_right_is_not_refused() -> None:
    outcome = Spoiled(SETUP, lambda simulation: None).run()
    assert (outcome.flows.completed > 0).all()


# ------------------------------------------------------------------ time


@pytest.mark.parametrize(
    ("name", "row", "by", "says"),
    [
        ("started", 2, -1, "write 2 started at 2999999"),
        ("started", 0, 1, "write 0 started at 1 in place of 0 ns"),
        ("completed", 2, -100_000, "write 2 started at 3000000, arrived at .*: not in this order"),
        ("arrived", 1, 10_000_000, "the run ended at|not in this order"),
        ("completed", 1, 10_000_000, "write 1 started at 0, .*: the run ended at 300"),
        ("status", 1, 1, "write 1 has status 1"),
    ],
)
def test_times_that_cannot_be_are_refused(name: str, row: int, by: int, says: str) -> None:
    refused(changed(name, row, by), says)


@pytest.mark.parametrize("planes", [1, 2])
def test_an_arrival_a_nanosecond_too_early_is_refused(planes: int) -> None:
    """A write of one packet alone takes what its links take, to the nanosecond."""
    alone = Setup(replace(SHAPE, planes=planes), flows([0, 4], [3, 5], 3_000), PLAIN, PLAIN, policies=FIXED)
    refused(changed("arrived", 0, -1), "write 0 of 3000 bytes arrived .* faster than its links", alone)
    refused(changed("arrived", 1, -1), "write 1 of 3000 bytes arrived .* faster than its links", alone)


def test_a_machine_does_not_go_back_by_a_nanosecond() -> None:
    simulation = Run(SETUP)
    simulation.run()
    machine = simulation.shards[0].machine
    with pytest.raises(SimulationFault, match=f"time went back from {machine.now} to {machine.now - 1} ns"):
        machine.go_to(machine.now - 1)
    machine.go_to(machine.now)


@pytest.mark.parametrize("by", [1, 1_000_000])
def test_a_start_of_the_past_ends_the_run(by: int) -> None:
    """A flow that another one lets start a nanosecond ago."""

    class Back(Run):
        def _act(self, now: int) -> None:
            super()._act(now)
            if now == 2_000_000:
                self.shards[0].go_to(now - by)

    with pytest.raises(SimulationFault, match=f"time went back from 2000000 to {2_000_000 - by} ns"):
        Back(SETUP).run()


def test_the_end_of_the_series_is_the_end_of_the_run() -> None:
    class Short(Run):
        def _outcome(self) -> Outcome:
            outcome = super()._outcome()
            columns = {name: column[:-1] for name, column in outcome.columns()["series"].items()}
            return replace(outcome, series=type(outcome.series)(**columns))

    with pytest.raises(SimulationFault, match="the time series does not rise to the end of the run"):
        Short(SETUP).run()


# ------------------------------------------------------------------ rates


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["from hosts", "to hosts", "between switches"])
@pytest.mark.parametrize("share", [0.5, 0.99, 1.01, 2.0, 100.0])
def test_a_link_faster_or_slower_than_its_rate_is_refused(kind: int, share: float) -> None:
    simulation = Run(SETUP)
    simulation.directions.rate[kind] = int(100 * GBIT * share)
    with pytest.raises(SimulationFault, match="faster"):
        simulation.run()


def test_a_link_faster_than_its_rate_is_refused_where_it_is_idle_most_of_the_time() -> None:
    """One packet in an hour of virtual time."""
    work = replace(flows([0, 1], [4, 5], 1_000), start_ns=np.array([0, 3600 * GBIT]))
    simulation = Run(Setup(SHAPE, work, PLAIN, PLAIN, policies=FIXED, end_ns=2 * 3600 * GBIT))
    simulation.directions.rate[2] *= 2
    with pytest.raises(SimulationFault, match="faster"):
        simulation.run()


def test_a_shorter_delay_than_the_links_is_refused() -> None:
    simulation = Run(SETUP)
    simulation.directions.delay[2] -= 1
    with pytest.raises(SimulationFault, match="faster than its links"):
        simulation.run()


def test_what_a_host_sent_faster_than_its_ports_is_refused() -> None:
    """60 MB in 3.09 ms over a port of 100 Gbit/s, as the clock that went back had it."""
    setup = Setup(Topology(8, 1, 2, 2), flows([0], [3], 600_000), PLAIN, PLAIN, policies=FIXED)
    refused(changed("arrived", 0, -20_000), "write 0 of 600000 bytes .* faster than its links", setup)
    # Each of two by itself is slow enough.
    two = Setup(Topology(8, 1, 2, 2), flows([0, 0], [3, 5], 300_000), PLAIN, PLAIN, policies=FIXED)

    def spoil(simulation: Run) -> None:
        simulation.work.arrived[:] = simulation.work.arrived.max() - 15_000

    refused(spoil, "host 0 sent in .* faster than its links", two)


# ------------------------------------------------------------------ bytes and packets


class Miscounted(Run):
    """A column of the QPs, the links or the paths is another in one row."""

    def __init__(self, setup: Setup, table: str, name: str, by: int) -> None:
        super().__init__(setup)
        self._changed = table, name, by

    def _outcome(self) -> Outcome:
        outcome = super()._outcome()
        table, name, by = self._changed
        columns = {each: column.copy() for each, column in outcome.columns()[table].items()}
        columns[name][0] += by
        return replace(outcome, **{table: type(getattr(outcome, table))(**columns)})


@pytest.mark.parametrize(
    ("table", "name", "by", "says"),
    [
        ("qps", "placed_bytes", -1, "QP 0 counts 19999 bytes: of its writes 20000 have arrived"),
        ("qps", "placed_bytes", 1, "QP 0 counts 20001 bytes"),
        ("qps", "data_packets", -1, "QP 0 counts 4 packets: of its writes 5 have arrived"),
        ("qps", "data_packets", 1, "QP 0 counts 6 packets"),
        ("links", "bytes", -100, "direction 0 carried"),
        ("links", "packets", 1, "direction 0 carried"),
        ("links", "dropped", 1, "packets dropped: 1 by link, 0 in all"),
        ("links", "lost", 1, "packets lost: 1 by link, 0 by path, 0 in all"),
        ("links", "trimmed", 1, "packets trimmed: 1 by link, 0 by path"),
        ("links", "marked", 1, "marked: 0 by time, 1 in all"),
        ("paths", "packets", -1, "packets sent: .* by path, .* in all"),
        ("series", "sent", -1, "sent: .* by time, .* in all"),
        ("series", "flows_done", 1, "flows_done: 4 by time, 3 in all"),
        ("flows", "bytes", -1, "write 0 is of 19999 bytes in place of 20000"),
    ],
)
def test_a_byte_or_a_packet_lost_count_of_is_refused(table: str, name: str, by: int, says: str) -> None:
    with pytest.raises(SimulationFault, match=says):
        Miscounted(SETUP, table, name, by).run()


def test_a_packet_that_vanishes_is_missed() -> None:
    """One that lies in a queue is forgotten: the sums of all packets do not agree."""

    class Forgetful(Run):
        def _run(self, crew: Crew) -> None:
            super()._run(crew)
            self.directions.cells[6] -= 1

    with pytest.raises(SimulationFault, match="packets were lost count of"):
        Forgetful(SETUP).run()


def test_a_fault_is_an_error_of_ours() -> None:
    """The command line ends with one line and status 1 for those."""
    assert issubclass(SimulationFault, MrcError)


# ------------------------------------------------------------------ odd inputs that are right


@pytest.mark.parametrize(
    "link",
    [
        ClusterLink(10_000_000, 0),
        ClusterLink(10**13, 0),
        ClusterLink(10**13, 0, framing_bytes=0),
        ClusterLink(10**11, 0, queue_bytes=0),
        ClusterLink(10**11, 1, queue_bytes=10_000, trim_at_bytes=0),
        ClusterLink(10**11, 500, loss=0.2),
    ],
    ids=["slow", "fast", "faster", "no queue", "all trimmed", "lossy"],
)
def test_odd_links_break_no_law(link: ClusterLink) -> None:
    for work in (permutation(8, 1, 3), permutation(8, 30_000, 3), flows([0] * 4 + [4] * 4, [4] * 4 + [0] * 4, 5_000)):
        Run(Setup(SHAPE, work, link, link, policies=FIXED, sample_ns=100_000, end_ns=50_000_000)).run()


def test_nothing_to_do_takes_no_time() -> None:
    outcome = Run(Setup(SHAPE, flows([], [], 1), PLAIN, PLAIN, policies=FIXED, sample_ns=10)).run()
    assert outcome.end_ns == 0
    assert outcome.conservation.sent == 0
