# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What a machine knows of each host and each QP, in columns that all shards share. A host belongs to one of them."""

from __future__ import annotations

from collections.abc import Sequence

from mrc.endpoint.datapath.datapath import Datapath
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.sim.cluster import by_host
from mrc.sim.cluster.columns import numbers, octets, short_numbers
from mrc.wire.compiled import i32s, i64s, u8s


class HostColumns:
    """By host: `handles` of the endpoints, 0 without; `first_waiting` and `last_waiting` of the packets that have come
    and wait, as one more than their number; `pending`, whether an event of its is to come; `timer_at`, when its timers
    are scheduled; `looks_at`, when Python wants to look after it; `first_qp`, and one number more: the QPs of host h
    are those from `first_qp[h]` on, in the order of their slots.

    By receiving QP: `boundary`, the PSN by which the next flow has arrived; `placed`, bytes.
    """

    def __init__(self, endpoints: Sequence[Datapath | None], qps: Sequence[int]) -> None:
        """By host its endpoint, or None, and how many QPs that has. Who calls keeps the endpoints."""
        hosts = len(endpoints)
        self.handles: i64s = numbers(hosts)
        self.first_waiting: i32s = short_numbers(hosts)
        self.last_waiting: i32s = short_numbers(hosts)
        self.pending: u8s = octets(hosts)
        self.timer_at: i64s = numbers(hosts, FOREVER)
        self.looks_at: i64s = numbers(hosts, FOREVER)
        self.first_qp: i64s = numbers(hosts + 1)
        for host, endpoint in enumerate(endpoints):
            if endpoint is not None:
                self.handles[host] = by_host.of(endpoint)
            self.first_qp[host + 1] = self.first_qp[host] + qps[host]
        self.boundary: i64s = numbers(self.first_qp[hosts], FOREVER)
        self.placed: i64s = numbers(self.first_qp[hosts])
