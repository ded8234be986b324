# SPDX-License-Identifier: BSD-2-Clause
"""What every run obeys, checked before anything of it is reported: time, rates, conservation, sums that must agree.

None of it is computed as the simulation computes it: it follows from the setup, from the totals, and from times alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.endpoint.completions import WorkStatus
from mrc.sim.cluster.outcome import Ints, LinkColumns, Outcome
from mrc.sim.cluster.setup import ClusterLink, Flows, Setup, Topology
from mrc.sim.fault import SimulationFault
from mrc.sim.link import OUTER_BYTES
from mrc.wire.opcodes import BTH_LENGTH, HEADER_LENGTHS, ICRC_LENGTH

# What a packet of a write has besides its payload, with an outer IPv6 header, and the shortest answer: an ACK.
_TRANSPORT = OUTER_BYTES + 40 + 8 + BTH_LENGTH + ICRC_LENGTH
_HEADERS = _TRANSPORT + sum(HEADER_LENGTHS[name] for name in ("meth", "tseth", "reth"))
_ANSWER = _TRANSPORT + HEADER_LENGTHS["aeth"]
_NS_BITS = 8e9
_WRAP = 1 << 32
_SERIES = ("sent", "delivered", "placed_bytes", "trimmed", "dropped", "lost", "marked", "flows_done")

Times = NDArray[np.float64]
Flags = NDArray[np.bool_]


def check(setup: Setup, flows: Flows, outcome: Outcome, free_at: Ints, idle_ns: Ints) -> None:
    """Hold an outcome against its setup. `free_at` and `idle_ns` (modulo 2^32) are those of each direction.

    Raises SimulationFault for the first law that is broken.
    """
    outcome.conservation.check()
    _check_times(flows, outcome)
    _check_starts(flows, outcome)
    _check_rates_of_flows(setup, flows, outcome)
    _check_rates_of_hosts(setup, flows, outcome)
    _check_rates_of_links(setup, outcome.links, free_at, idle_ns)
    _check_bytes(flows, outcome)
    _check_sums(outcome)
    _check_series(outcome)


def _hold(broken: Flags, what: str, *columns: Any) -> None:
    """Raise for the first row in which a law is broken; `what` has a place for the row, and for each column's value."""
    if broken.any():
        row = int(broken.argmax())
        raise SimulationFault(what.format(row, *(column[row] for column in columns)))


# ---------------------------------------------------------------------- time


def _check_times(flows: Flows, outcome: Outcome) -> None:
    found, end = outcome.flows, outcome.end_ns
    started, arrived, completed = found.started, found.arrived, found.completed
    _hold(found.bytes != flows.bytes, "write {} is of {} bytes in place of {}", found.bytes, flows.bytes)
    done = found.status == int(WorkStatus.SUCCESS)
    _hold(done != (completed >= 0), "write {} has status {} and completed at {}", found.status, completed)
    late = (started > end) | (arrived > end) | (completed > end)
    text = f"write {{}} started at {{}}, arrived at {{}}, completed at {{}} ns: the run ended at {end}"
    _hold(late, text, started, arrived, completed)
    order = (arrived >= 0) & ((started < 0) | (arrived <= started))
    order |= done & ((started < 0) | (arrived < 0) | (completed < arrived))
    text = "write {} started at {}, arrived at {} and completed at {} ns: not in this order"
    _hold(order, text, started, arrived, completed)
    _hold((started >= 0) & (started < flows.start_ns), "write {} started at {}, before {} ns", started, flows.start_ns)


def _check_starts(flows: Flows, outcome: Outcome) -> None:
    """A flow starts at its time, or when the last one that it waits for has arrived; neither earlier nor later."""
    started, arrived = outcome.flows.started, outcome.flows.arrived
    due = flows.start_ns.copy()
    ready = np.ones(len(flows), np.bool_)
    if len(flows.after):
        waiting = np.repeat(np.arange(len(flows)), np.diff(flows.after_first))
        np.maximum.at(due, waiting, arrived[flows.after])
        ready[waiting[arrived[flows.after] < 0]] = False
    _hold(~ready & (started >= 0), "write {} started at {} ns, before one that it waits for had arrived", started)
    _hold(ready & (started >= 0) & (started != due), "write {} started at {} in place of {} ns", started, due)
    _hold(ready & (started < 0) & (due < outcome.end_ns), "write {} never started: its time was {} ns", due)


# ---------------------------------------------------------------------- rates


def _serialisation(size: Any, link: ClusterLink) -> Times:
    """The least time that packets of so many bytes take on a link, as the simulator rounds it: down."""
    took: Times = np.floor(np.asarray(size + link.framing_bytes, np.float64) * _NS_BITS / link.rate_bps)
    return np.maximum(took, 1.0, out=took) if took.ndim else np.maximum(took, 1.0)


def _cables_between(topology: Topology, flows: Flows) -> Ints:
    """How many cables between switches lie between source and destination."""
    near, far = flows.source // topology.hosts_per_leaf, flows.destination // topology.hosts_per_leaf
    between = np.where(near == far, 0, 2)
    if topology.tiers == 3:
        between[near // topology.leaves_per_pod != far // topology.leaves_per_pod] = 4
    return between


def _check_rates_of_flows(setup: Setup, flows: Flows, outcome: Outcome) -> None:
    """All its bytes pass the source's ports, then the last of its packets all other cables of its way."""
    host, fabric, found = setup.host_link, setup.fabric_link, outcome.flows
    mtu, between = setup.policies.qp.path_mtu, _cables_between(setup.topology, flows)
    packets = -(-flows.bytes // mtu)
    whole, rest = packets - 1, flows.bytes - (packets - 1) * mtu
    of_rest = _serialisation(rest + _HEADERS, host)
    of_all = whole * _serialisation(mtu + _HEADERS, host) + of_rest
    at_source = np.maximum(of_all / setup.topology.planes, of_rest)
    delays = 2 * host.delay_ns + between * fabric.delay_ns
    least = at_source + of_rest + between * _serialisation(rest + _HEADERS, fabric) + delays
    took = found.arrived - found.started
    text = "write {} of {} bytes arrived {} ns after its start, and takes {:.0f} at least: faster than its links"
    _hold((found.arrived >= 0) & (took < np.floor(least)), text, flows.bytes, took, least)
    back = found.completed - found.arrived
    answer = delays + 2 * _serialisation(_ANSWER, host) + between * _serialisation(_ANSWER, fabric)
    text = "write {} was acknowledged {} ns after it arrived, which takes {:.0f} at least: faster than its links"
    _hold((found.completed >= 0) & (back < answer), text, back, answer)


def _check_rates_of_hosts(setup: Setup, flows: Flows, outcome: Outcome) -> None:
    """What a host sent or received between its first start and its last arrival went through its ports."""
    found, hosts = outcome.flows, setup.topology.hosts
    done = found.arrived >= 0
    packets = -(-flows.bytes[done] // setup.policies.qp.path_mtu)
    size = flows.bytes[done] + packets * (_HEADERS + setup.host_link.framing_bytes)
    # Each packet may have been rounded down by a nanosecond.
    least = (size * _NS_BITS / setup.host_link.rate_bps - packets) / setup.topology.planes
    for what, of in (("sent", flows.source[done]), ("received", flows.destination[done])):
        took = np.full(hosts, -1)
        np.maximum.at(took, of, found.arrived[done])
        first = np.full(hosts, np.iinfo(np.int64).max)
        np.minimum.at(first, of, found.started[done])
        took -= np.where(took >= 0, first, 0)
        needed = np.bincount(of, least, hosts)
        text = f"host {{}} {what} in {{}} ns what takes {{:.0f}} at the rate of its ports: faster than its links"
        _hold((took >= 0) & (took < np.floor(needed)), text, took, needed)


def _check_rates_of_links(setup: Setup, links: LinkColumns, free_at: Ints, idle_ns: Ints) -> None:
    """A direction was busy for as long as its bytes take at its rate, rounded down by less than 1 ns a packet."""
    topology = setup.topology
    of_hosts = np.arange(len(links.packets)) < 2 * topology.host_cables
    rate = np.where(of_hosts, float(setup.host_link.rate_bps), float(setup.fabric_link.rate_bps))
    framing = np.where(of_hosts, setup.host_link.framing_bytes, setup.fabric_link.framing_bytes)
    exact = (links.bytes + framing * links.packets) * _NS_BITS / rate
    # What takes less than a nanosecond takes one.
    short = np.where((_TRANSPORT + framing) * _NS_BITS < rate, links.packets, 0)
    least = np.floor(np.maximum(exact - links.packets, 0)).astype(np.int64)
    most = np.ceil(exact).astype(np.int64) + short
    busy = (free_at - idle_ns) % _WRAP
    over = (busy - least) % _WRAP > most - least
    wrong = over & (most - least < _WRAP)
    text = (
        "direction {} carried {} packets of {} bytes together, which take {} to {} ns at its rate, "
        "and was busy for another time: faster or slower than its rate"
    )
    _hold(wrong, text, links.packets, links.bytes, least, most)


# ---------------------------------------------------------------------- bytes and packets


def _check_bytes(flows: Flows, outcome: Outcome) -> None:
    """Of each QP: what arrived has been placed, each byte once, and nothing that was never posted."""
    found, qps = outcome.flows, outcome.qps
    count = len(qps.placed_bytes)
    for what, size, placed in (
        ("bytes", flows.bytes, qps.placed_bytes),
        ("packets", found.packets, qps.data_packets - qps.retransmissions),
    ):
        arrived = _sums(found.qp, np.where(found.arrived >= 0, size, 0), count)
        posted = _sums(found.qp, np.where(found.started >= 0, size, 0), count)
        text = f"QP {{}} counts {{}} {what}: of its writes {{}} have arrived, and {{}} were posted"
        _hold((placed < arrived) | (placed > posted), text, placed, arrived, posted)


def _sums(of: Ints, values: Ints, count: int) -> Ints:
    sums = np.zeros(count, np.int64)
    np.add.at(sums, of, values)
    return sums


def _check_sums(outcome: Outcome) -> None:
    """The same packets, counted by link, by path and in all."""
    links, paths, counts = outcome.links, outcome.paths, outcome.conservation
    by_flow = outcome.flows.bytes[outcome.flows.arrived >= 0]
    _agree("packets sent", {"by path": paths.packets.sum(), "in all": counts.sent})
    _agree("packets lost", {"by link": links.lost.sum(), "by path": paths.lost.sum(), "in all": counts.lost})
    _agree("packets dropped", {"by link": links.dropped.sum(), "in all": counts.dropped})
    _agree("packets trimmed", {"by link": links.trimmed.sum(), "by path": paths.trimmed.sum()})
    if counts.trimmed > links.trimmed.sum():
        raise SimulationFault(f"{counts.trimmed} trimmed packets arrived, {links.trimmed.sum()} were trimmed")
    if by_flow.sum() > outcome.qps.placed_bytes.sum():
        raise SimulationFault(f"writes of {by_flow.sum()} bytes arrived, {outcome.qps.placed_bytes.sum()} were placed")


def _check_series(outcome: Outcome) -> None:
    """The time series adds up to the tables: its last row is at the end."""
    series = outcome.series
    if not len(series.time_ns):
        return
    if (np.diff(series.time_ns) <= 0).any() or series.time_ns[-1] != outcome.end_ns:
        raise SimulationFault(f"the time series does not rise to the end of the run, {outcome.end_ns} ns")
    links, counts = outcome.links, outcome.conservation
    totals: Sequence[int] = (
        counts.sent, counts.delivered, outcome.qps.placed_bytes.sum(), links.trimmed.sum(), counts.dropped,
        counts.lost, links.marked.sum(), (outcome.flows.completed >= 0).sum(),
    )  # fmt: skip
    for name, total in zip(_SERIES, totals, strict=True):
        _agree(name, {"by time": getattr(series, name).sum(), "in all": total})


def _agree(what: str, counts: dict[str, Any]) -> None:
    if len({int(count) for count in counts.values()}) > 1:
        said = ", ".join(f"{count} {how}" for how, count in counts.items())
        raise SimulationFault(f"{what}: {said}")
