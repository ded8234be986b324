# SPDX-License-Identifier: BSD-2-Clause
"""Directions of cables between switches that were down: when QPs found it out, and when the last data left for them.

It costs what failures cost: without one that takes a cable between switches down, nothing is watched.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.ev_events import EvEvent, EvEvents
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import EvState
from mrc.sim.cluster.faults import directions_of
from mrc.sim.cluster.outcome import OutageColumns
from mrc.sim.cluster.setup import Action, Failures, Ints, Target, Topology
from mrc.sim.cluster.work import Pair

_NEVER = -1
_COLUMNS = len(fields(OutageColumns))


def directions_between(topology: Topology, near: int, far: int, plane: int, uplink: int) -> list[int]:
    """The directions of cables between switches that a packet passes from one host to another."""
    leaf, far_leaf = near // topology.hosts_per_leaf, far // topology.hosts_per_leaf
    if leaf == far_leaf:
        return []
    spine, core = divmod(uplink, topology.cores_per_spine) if topology.tiers == 3 else (uplink, 0)
    first, last = 2 * topology.leaf_cable(plane, leaf, spine), 2 * topology.leaf_cable(plane, far_leaf, spine) + 1
    if topology.tiers == 2:
        return [first, last]
    pod, far_pod = leaf // topology.leaves_per_pod, far_leaf // topology.leaves_per_pod
    if pod == far_pod:
        return [first, last]
    upward = 2 * topology.core_cable(plane, pod, spine, core)
    return [first, upward, 2 * topology.core_cable(plane, far_pod, spine, core) + 1, last]


class _FoundLosses(EvEvents):
    """When EVs of an endpoint became ASSUMED_BAD, by QP and EV, oldest first."""

    __slots__ = ("times",)

    def __init__(self) -> None:
        super().__init__(0)
        self.wanted = frozenset({EvState.ASSUMED_BAD})
        self.times: dict[tuple[int, int], list[int]] = {}

    def put(self, event: object) -> None:
        assert isinstance(event, EvEvent)
        self.times.setdefault((event.qpn, event.ev), []).append(event.at_ns)


class Outages:
    """Told of each direction that goes down or comes back; `columns` has what its QPs did meanwhile."""

    def __init__(
        self, topology: Topology, failures: Failures, pairs: Sequence[Pair], endpoints: dict[int, Endpoint]
    ) -> None:
        self._pairs = pairs
        self._since: dict[int, int] = {}
        self._rows: list[tuple[int, ...]] = []
        self._found: dict[int, _FoundLosses] = {}
        self._watch(topology, _watched(topology, failures))
        for host in {pairs[number].source for number in np.unique(self._pair).tolist()}:
            self._found[host] = _FoundLosses()
            endpoints[host].ev_events.attach(self._found[host])

    def _watch(self, topology: Topology, watched: frozenset[int]) -> None:
        """Note the QPs and the indexes of their EVs that lead over each direction, in columns sorted by it."""
        direction, pair, index = array("q"), array("q"), array("q")
        for number, each in enumerate(self._pairs if watched else ()):
            for place, path in enumerate(_paths(each).paths):
                for passed in directions_between(topology, each.source, each.destination, path.plane, path.spine):
                    if passed in watched:
                        direction.append(passed)
                        pair.append(number)
                        index.append(place)
        order = np.argsort(np.array(direction, np.int64), kind="stable")
        self._direction, self._pair, self._index = (
            np.array(column, np.int64)[order] for column in (direction, pair, index)
        )

    def changed(self, direction: int, up: bool, now: int) -> None:
        """A direction between switches went down or came back."""
        if up:
            self._end(direction, now, now)
        else:
            self._since[direction] = now

    def _end(self, direction: int, until: int, up: int) -> None:
        since = self._since.pop(direction)
        first, behind = np.searchsorted(self._direction, [direction, direction + 1])
        qps, found, last_sent, sent_on = set(), [], _NEVER, 0
        for number, index in zip(self._pair[first:behind].tolist(), self._index[first:behind].tolist(), strict=True):
            pair = self._pairs[number]
            qps.add(number)
            paths = _paths(pair)
            left_at = paths.table.last_sent_at[index]
            if left_at >= since:
                last_sent = max(last_sent, left_at)
            times = self._found[pair.source].times.get((pair.sender.qpn, paths.paths[index].ev), ())
            # The last one: a loss before it proved to be none, and the EV came back into use.
            known_at = max((at for at in times if since <= at <= until), default=_NEVER)
            if known_at != _NEVER:
                found.append(known_at)
                sent_on = max(sent_on, left_at - known_at)
        row = min(found, default=_NEVER), max(found, default=_NEVER), last_sent, sent_on
        self._rows.append((since, direction, up, len(qps), len(found), *row))

    def columns(self, now: int) -> OutageColumns:
        """What is still down by `now` ends there."""
        for still_down in sorted(self._since):
            self._end(still_down, now, _NEVER)
        # In the order of OutageColumns, but for the first two.
        rows = np.array(sorted(self._rows), np.int64).reshape(-1, _COLUMNS)
        columns: list[Ints] = [column.copy() for column in rows.T]
        down, direction, *others = columns
        return OutageColumns(direction, down, *others)


def _paths(pair: Pair) -> PathSet:
    """The EVs of the QP that sends."""
    paths = pair.sender.paths
    assert paths is not None, "a QP in RTS has them"
    return paths


def _watched(topology: Topology, failures: Failures) -> frozenset[int]:
    """The directions between switches that failures take down."""
    found: list[Ints] = []
    for target, which, action in zip(failures.target, failures.which, failures.action, strict=True):
        if action == Action.DOWN:
            found.append(directions_of(topology, Target(int(target)), int(which)))
    every = np.unique(np.concatenate(found)) if found else np.zeros(0, np.int64)
    return frozenset(every[every >= 2 * topology.host_cables].tolist())
