# SPDX-License-Identifier: BSD-2-Clause
"""Links that take no time at all: virtual time goes on all the same."""

from __future__ import annotations

from itertools import product

import pytest

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import EXPONENTIAL_RETRIES_FOREVER, LossConfig, PathConfig, QpConfig, ResponderConfig
from mrc.fabric import Clos
from mrc.sim import LinkModel, SimFabric
from mrc.sim.fault import SimulationFault
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

SECOND = 10**9
AT_ONCE = LossConfig(path_timer_min_ns=1, path_timer_initial_ns=1)
KEEN = PathConfig(first_probe_path_timers=0.0, probe_interval_ns=1, probe_interval_max_ns=1)
FOREVER = int(EXPONENTIAL_RETRIES_FOREVER)


@pytest.mark.parametrize("controller", ["fixed", "uet-1.0-nscc"])
@pytest.mark.parametrize("held", [0, 1, 100_000], ids=["no room", "room for one", "room"])
@pytest.mark.parametrize(
    "link",
    [
        LinkModel(delay_ns=0),
        LinkModel(delay_ns=0, loss=0.02),
        LinkModel(delay_ns=0, duplicate=0.1, reorder=0.3, jitter_ns=0),
        LinkModel(delay_ns=0, rate_bps=10**13, queue_bytes=20_000, trim_at_bytes=5_000),
        LinkModel(delay_ns=0, rate_bps=10**9, queue_bytes=20_000, trim_at_bytes=0),
    ],
    ids=["plain", "lossy", "doubling", "trimming", "trimming all"],
)
def test_writes_over_links_that_take_no_time_get_through(link: LinkModel, held: int, controller: str) -> None:
    fabric = SimFabric(Clos(planes=1, leaves=2, spines=2, hosts_per_leaf=2), link, seed=1)
    peer = QpConfig(path_mtu=256, responder=ResponderConfig(max_held_packets=held))
    config = QpConfig(path_mtu=256, exponential_retries=FOREVER)
    writes = []
    for host in (1, 2, 3):
        qp, _ = fabric.connect(f"h{host}", "h0", config, controller, peer)
        writes.append(fabric.write(qp, 5_000))
    assert fabric.run(100 * SECOND, lambda: all(write.done for write in writes))
    assert all(write.status == WorkStatus.SUCCESS and write.arrived for write in writes)


@pytest.mark.parametrize(("loss", "paths"), list(product([LossConfig(), AT_ONCE], [PathConfig(), KEEN])))
@pytest.mark.parametrize("timeout", [1, 10])
def test_timers_as_short_as_can_be_do_not_stop_time(loss: LossConfig, paths: PathConfig, timeout: int) -> None:
    """Round trips of no time, path timers of a nanosecond, probes at once: time goes on, whatever becomes of it."""
    fabric = SimFabric(Clos(planes=2, leaves=2, spines=2, hosts_per_leaf=1), LinkModel(delay_ns=0, loss=0.3), seed=2)
    config = QpConfig(path_mtu=256, loss=loss, paths=paths, timeout=timeout)
    qp, _ = fabric.connect("h0", "h1", config)
    write = fabric.write(qp, 5_000)
    fabric.run(50_000, lambda: write.done)
    assert write.done or fabric.now == 50_000


def test_an_agent_whose_timer_stands_still_ends_the_run() -> None:
    class Stuck:
        """Its timer is due whenever it is asked."""

        def receive(self, batch: ReceivedBatch, now: int) -> None:
            """Nothing comes."""

        def transmit(self, batch: TransmitBatch, now: int) -> int:
            return 0

        def next_deadline(self) -> int:
            return 70

        def on_timer(self, now: int) -> None:
            """The next is due at once."""

    fabric = SimFabric(Clos(planes=1, leaves=2, spines=1, hosts_per_leaf=1), agents={"h0": Stuck()})
    fabric.hosts["h0"].pump()
    with pytest.raises(SimulationFault, match="a timer of h0 is due at 70 ns, when it has just run at 70 ns"):
        fabric.run(SECOND)
