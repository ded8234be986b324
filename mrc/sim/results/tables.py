# SPDX-License-Identifier: BSD-2-Clause
"""The outcome of an experiment as tables with names for people: what its Parquet files have.

Times are in ns, -1 in the simulator's columns is null here. docs/experiments.md lists the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.records import record
from mrc.sim.cluster import Outcome, Topology
from mrc.sim.experiment import Experiment, names

Column = NDArray[Any]


@record(frozen=True, slots=True, eq=False)
class Table:
    """Columns of one length. Of those in `missing` the marked rows are null; those in `words` are indices into a list
    of words."""

    columns: dict[str, Column]
    missing: dict[str, NDArray[np.bool_]]
    words: dict[str, list[str]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def tables(experiment: Experiment, outcome: Outcome) -> dict[str, Table]:
    """By name: flows, qps, links, paths, planes, outages, series."""
    found = {name: dict(columns) for name, columns in outcome.columns().items()}
    flows = experiment.setup.flows
    made = {"flows": _flows(experiment, found["flows"], outcome)}
    made["qps"] = _plain(found["qps"])
    links, planes = _links(experiment.setup.topology, found["links"])
    made["links"], made["planes"] = links, planes
    made["paths"] = _with_null(found["paths"], ["last_sent"])
    made["outages"] = _outages(experiment.setup.topology, found["outages"])
    made["series"] = _plain(found["series"])
    assert len(made["flows"]) == len(flows)
    return made


def _flows(experiment: Experiment, found: dict[str, Column], outcome: Outcome) -> Table:
    flows = experiment.setup.flows
    job = flows.job if len(flows.job) else np.zeros(len(flows), np.int64)
    columns = {
        "job": job,
        "source": flows.source,
        "destination": flows.destination,
        **found,
        "fct": outcome.flows.fct_ns,
    }
    times = ["started", "arrived", "completed", "fct", "status"]
    table = _with_null(columns, times)
    return Table(table.columns, table.missing, {"job": list(experiment.jobs)})


def _with_null(columns: dict[str, Column], nullable: list[str]) -> Table:
    return Table(columns, {name: columns[name] < 0 for name in nullable}, {})


def _plain(columns: dict[str, Column]) -> Table:
    return Table(columns, {}, {})


_DIRECTIONS = ["up", "down"]
_TIERS = ["host", "leaf", "core"]


def _links(topology: Topology, found: dict[str, Column]) -> tuple[Table, Table]:
    """A row for each direction of each cable, and their sums by plane and tier."""
    cable = np.repeat(np.arange(topology.cables), 2)
    counts = [2 * topology.host_cables, 2 * topology.leaf_cables, 2 * topology.core_cables]
    tier = np.repeat([0, 1, 2], counts)
    plane = np.repeat(names.planes_of_cables(topology), 2)
    direction = np.tile([0, 1], topology.cables)
    links = Table(
        {"link": cable, "direction": direction, "tier": tier, "plane": plane, **found},
        {},
        {"link": names.cable_names(topology), "direction": _DIRECTIONS, "tier": _TIERS},
    )
    group = (plane * 3 + tier) * 2 + direction
    groups, rows = np.unique(group, return_inverse=True)
    sums = {}
    for name, column in found.items():
        if name == "largest_queue":
            largest = np.zeros(len(groups), column.dtype)
            np.maximum.at(largest, rows, column)
            sums[name] = largest
        else:
            sums[name] = np.bincount(rows, column, len(groups)).astype(np.int64)
    planes = Table(
        {"plane": groups // 6, "tier": groups // 2 % 3, "direction": groups % 2, **sums},
        {},
        {"tier": _TIERS, "direction": _DIRECTIONS},
    )
    return links, planes


def _outages(topology: Topology, found: dict[str, Column]) -> Table:
    """A row for each time that a direction of a cable between switches was down."""
    direction = found.pop("direction")
    columns = {"link": direction >> 1, "direction": direction & 1, **found}
    missing = {name: columns[name] < 0 for name in ("up", "first_found", "last_found", "last_sent")}
    return Table(columns, missing, {"link": names.cable_names(topology), "direction": _DIRECTIONS})
