# SPDX-License-Identifier: BSD-2-Clause
"""What came of a simulated cluster: columns of numpy, and the sums that must agree."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.records import record
from mrc.sim.fault import SimulationFault

Ints = NDArray[np.int64]


def _empty() -> Ints:
    return np.zeros(0, np.int64)


@record(frozen=True, slots=True)
class Progress:
    """How far a run is. `events` counts packets' hops and timers. `over`: nothing more is simulated."""

    now_ns: int
    end_ns: int
    events: int
    flows_done: int
    flows: int
    wall_s: float
    over: bool = False


@record(frozen=True, slots=True, eq=False)
class FlowColumns:
    """By flow, in the rows of Setup.flows. Times in ns; -1: did not happen before the end.

    `started`: when it was posted; `arrived`: all of it placed at its destination, and all that was posted on its QP
    before it; `completed`: acknowledged in whole, when the sender's completion comes. `status`: a WorkStatus value; -1:
    none yet. `packets` is what the write has; retransmissions, trims and the like belong to QPs: row `qp` of QpColumns.
    """

    started: Ints = field(default_factory=_empty)
    arrived: Ints = field(default_factory=_empty)
    completed: Ints = field(default_factory=_empty)
    bytes: Ints = field(default_factory=_empty)
    packets: Ints = field(default_factory=_empty)
    status: Ints = field(default_factory=_empty)
    qp: Ints = field(default_factory=_empty)

    @property
    def fct_ns(self) -> Ints:
        """From posted to completed; -1 where it is not."""
        return np.where(self.completed >= 0, self.completed - self.started, -1)


@record(frozen=True, slots=True, eq=False)
class QpColumns:
    """By source and destination of flows, in order of their first flow. Counts of the sending QP, but for those of
    the receiving one: `placed_bytes`, `duplicates`, `trims` (trimmed packets that reached it). `rtt`: the smoothed
    round trip at the end, ns; 0: none was measured."""

    source: Ints = field(default_factory=_empty)
    destination: Ints = field(default_factory=_empty)
    data_packets: Ints = field(default_factory=_empty)
    retransmissions: Ints = field(default_factory=_empty)
    spurious: Ints = field(default_factory=_empty)
    probes: Ints = field(default_factory=_empty)
    timeouts: Ints = field(default_factory=_empty)
    trims: Ints = field(default_factory=_empty)
    duplicates: Ints = field(default_factory=_empty)
    placed_bytes: Ints = field(default_factory=_empty)
    rtt: Ints = field(default_factory=_empty)


@record(frozen=True, slots=True, eq=False)
class LinkColumns:
    """By direction of a cable: 2 * cable upwards, 2 * cable + 1 downwards (Topology). Bytes are of whole IP packets.

    `packets` and `bytes` were put on the cable. `dropped` found the queue full, `lost` vanished on the cable or with
    a link that went down, `trimmed` were cut short, `marked` got CE. `largest_queue` in bytes.
    """

    packets: Ints = field(default_factory=_empty)
    bytes: Ints = field(default_factory=_empty)
    dropped: Ints = field(default_factory=_empty)
    lost: Ints = field(default_factory=_empty)
    trimmed: Ints = field(default_factory=_empty)
    marked: Ints = field(default_factory=_empty)
    largest_queue: Ints = field(default_factory=_empty)


@record(frozen=True, slots=True, eq=False)
class PathColumns:
    """By plane and uplink, row plane * uplinks + uplink: packets that hosts sent with an EV that spells it, and what
    became of them in the fabric. `last_sent`: when the last one with payload was sent, ns, -1: never."""

    plane: Ints = field(default_factory=_empty)
    uplink: Ints = field(default_factory=_empty)
    packets: Ints = field(default_factory=_empty)
    lost: Ints = field(default_factory=_empty)
    trimmed: Ints = field(default_factory=_empty)
    last_sent: Ints = field(default_factory=_empty)


@record(frozen=True, slots=True, eq=False)
class OutageColumns:
    """By outage: a direction of a cable between switches (Topology) from when it went `down` until it was `up` again,
    in order of `down`. Times in ns, -1: did not happen, or not before the end.

    `qps`: sending QPs with an EV that leads over it. `found`: how many of them found a loss on that EV meanwhile, one
    that did not prove spurious, and took the EV out of use; the first one at `first_found`, the last at `last_found`.
    `last_sent`: when the last data of any of them left for it. `sent_on`: the longest time that a QP sent data for it
    after it had found a loss there itself; 0: none did. A direction that comes back and goes down again has two rows.
    """

    direction: Ints = field(default_factory=_empty)
    down: Ints = field(default_factory=_empty)
    up: Ints = field(default_factory=_empty)
    qps: Ints = field(default_factory=_empty)
    found: Ints = field(default_factory=_empty)
    first_found: Ints = field(default_factory=_empty)
    last_found: Ints = field(default_factory=_empty)
    last_sent: Ints = field(default_factory=_empty)
    sent_on: Ints = field(default_factory=_empty)


@record(frozen=True, slots=True, eq=False)
class SeriesColumns:
    """One row every Setup.sample_ns and one at the end, the counts since the row before: they add up to the totals.

    A row has what happened before its time, the last one all of it. `waiting_bytes`: in all queues, at that time.
    `flows_done` completed with success.
    """

    time_ns: Ints = field(default_factory=_empty)
    sent: Ints = field(default_factory=_empty)
    delivered: Ints = field(default_factory=_empty)
    placed_bytes: Ints = field(default_factory=_empty)
    trimmed: Ints = field(default_factory=_empty)
    dropped: Ints = field(default_factory=_empty)
    lost: Ints = field(default_factory=_empty)
    marked: Ints = field(default_factory=_empty)
    flows_done: Ints = field(default_factory=_empty)
    waiting_bytes: Ints = field(default_factory=_empty)


@record(frozen=True, slots=True)
class Conservation:
    """Every packet that hosts sent, counted once: sent = delivered + trimmed + lost + dropped + in_flight.

    `delivered` reached a host whole, `trimmed` reached one cut short.
    """

    sent: int
    delivered: int
    trimmed: int
    lost: int
    dropped: int
    in_flight: int

    def check(self) -> None:
        """Raise SimulationFault where packets are missing or too many."""
        found = self.delivered + self.trimmed + self.lost + self.dropped + self.in_flight
        if self.sent != found:
            raise SimulationFault(f"packets were lost count of: {self.sent} sent, {found} accounted for ({self})")


@record(frozen=True, slots=True, eq=False)
class Outcome:
    """`model` and `version` name what computed it, `validated` the range in which it was held against other models
    (docs/simulation.md). `wall_s` and `peak_bytes` differ from run to run, nothing else does.

    `end_ns` is when the last flow ended; where some had not, Setup.end_ns, or the last event where none was left.
    """

    model: str
    version: str
    seed: int
    validated: str
    end_ns: int
    flows: FlowColumns
    qps: QpColumns
    links: LinkColumns
    paths: PathColumns
    outages: OutageColumns
    series: SeriesColumns
    conservation: Conservation
    events: int
    packet_hops: int
    wall_s: float
    peak_bytes: int
    notes: tuple[str, ...] = ()

    def columns(self) -> dict[str, dict[str, Ints]]:
        """By table ("flows", "qps" and so on), then by column: what a file of results has."""
        tables = ("flows", "qps", "links", "paths", "outages", "series")
        return {name: _columns(getattr(self, name)) for name in tables}


def _columns(table: Any) -> dict[str, Ints]:
    from dataclasses import fields

    return {each.name: getattr(table, each.name) for each in fields(table)}
