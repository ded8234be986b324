# SPDX-License-Identifier: BSD-2-Clause
"""Whether the files of a run say what the run did: they are read back before they are written to a disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mrc.sim.cluster import SimulationFault
from mrc.sim.results.parquet import SUFFIX, decode
from mrc.sim.results.tables import Table

_SERIES = ("placed_bytes", "trimmed", "dropped", "lost", "marked", "flows_done")


def check(tables: Mapping[str, Table], files: Mapping[str, bytes], figures: Mapping[str, Any]) -> None:
    """Hold the files against the tables they are made of, and the figures against the files.

    Raises SimulationFault for the first difference.
    """
    read = {}
    for name, table in tables.items():
        read[name] = decode(files[name + SUFFIX])
        for column, values in table.columns.items():
            wanted = _plain(table, column, values)
            if not np.array_equal(read[name][column], wanted):
                raise SimulationFault(f"{name}{SUFFIX} has another column {column} than the run")
    _check_figures(read, figures)


def _plain(table: Table, column: str, values: Any) -> Any:
    """A column as it is read: words as text, -1 for null."""
    if column in table.words:
        return np.array(table.words[column], object)[values]
    if column in table.missing:
        return np.where(table.missing[column], -1, values)
    return values


def _check_figures(read: Mapping[str, Mapping[str, Any]], figures: Mapping[str, Any]) -> None:
    flows, qps, links, series = read["flows"], read["qps"], read["links"], read["series"]
    counted = {
        "flows": len(flows["bytes"]),
        "flows_done": int((flows["completed"] >= 0).sum()),
        "failed_flows": int((flows["status"] > 0).sum()),
        "placed_bytes": int(qps["placed_bytes"].sum()),
        "data_packets": int(qps["data_packets"].sum()),
        "retransmissions": int(qps["retransmissions"].sum()),
        **{name: int(links[name].sum()) for name in ("trimmed", "dropped", "lost", "marked")},
    }
    done = flows["completed"] >= 0
    if (flows["fct"][done] != (flows["completed"] - flows["started"])[done]).any():
        raise SimulationFault("flows.parquet has completion times that are not from start to completion")
    _agree("the files", counted, figures)
    if len(series["time_ns"]):
        _agree("series.parquet", {name: int(series[name].sum()) for name in _SERIES}, figures)


def _agree(what: str, counted: Mapping[str, int], figures: Mapping[str, Any]) -> None:
    for name, count in counted.items():
        if count != figures[name]:
            raise SimulationFault(f"{what} add up to {count} {name}, the figures say {figures[name]}")
