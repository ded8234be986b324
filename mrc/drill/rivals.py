# SPDX-License-Identifier: BSD-2-Clause
"""The setting of the failure drills: MRC, MPTCP and TCP between hosts of their own, whose links are what is slow.

All three cross the same leaves and spines, which have room for all of them, so that one and the same cut meets all
three at once and none gets in another's way.
"""

from __future__ import annotations

from mrc.drill.flow import FlowPlan
from mrc.drill.pinning import pin
from mrc.drill.stage import Stage

HOSTS_PER_LEAF = 3
STREAMS = {"mptcp": ("h1", "h4"), "tcp": ("h2", "h5")}
MAIN = "mrc"
SOURCE, TARGET = "h0", "h3"
# What is in flight at most: with every plane up the queues hold some 20 ms, with one in four left 80.
WINDOW_PACKETS = 72
QUEUE_BYTES = 500_000


def set_up(stage: Stage, host_rate_bps: int, spine: str | None = None) -> None:
    """Limit every host link to this rate, open the flow and both streams; these cross `spine` of plane 0, if named."""
    planes = stage.lab.topology.planes
    stage.limit_hosts(rate_bps=host_rate_bps, queue_bytes=QUEUE_BYTES)
    plan = FlowPlan(
        MAIN,
        SOURCE,
        TARGET,
        stage.seed,
        line_rate_bps=planes * host_rate_bps,
        max_cwnd_packets=WINDOW_PACKETS,
    )
    stage.open([plan])
    for kind, (source, target) in STREAMS.items():
        if spine is not None:
            pin(stage.lab, "p0l0", spine, stage.lab.addresses(target)[0])
        stage.open_stream(kind, source, target)


def host_ports(plane: int, leaf: int) -> list[str]:
    """The cables between one leaf of a plane and the hosts of all three."""
    hosts = (SOURCE, *(source for source, _ in STREAMS.values()))
    if leaf:
        hosts = (TARGET, *(target for _, target in STREAMS.values()))
    return [f"{host}-p{plane}l{leaf}" for host in hosts]
