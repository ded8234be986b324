# SPDX-License-Identifier: BSD-2-Clause
"""What plots call the keys of an experiment and the figures of its results: words, and units where there are some."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_FIGURES: Mapping[str, str] = {
    "flows": "writes",
    "flows_done": "writes that completed",
    "failed_flows": "writes that failed",
    "fct_p50_us": "flow completion time, median, us",
    "fct_p99_us": "flow completion time, 99 %, us",
    "fct_max_us": "flow completion time, largest, us",
    "fct_mean_us": "flow completion time, mean, us",
    "end_us": "end of the run, us",
    "last_completion_us": "last completion, us",
    "placed_bytes": "data placed, bytes",
    "goodput_gbps": "goodput of all hosts, Gbit/s",
    "data_packets": "data packets sent",
    "retransmissions": "retransmissions, packets",
    "spurious": "spurious retransmissions, packets",
    "timeouts": "timeouts",
    "probes": "probes, packets",
    "trimmed": "trimmed, packets",
    "dropped": "dropped, packets",
    "lost": "lost, packets",
    "marked": "marked, packets",
    "largest_queue_bytes": "largest queue, bytes",
    "packet_hops": "packet-hops",
}
LINK_WORDS: Mapping[str, str] = {
    "bytes": "carried, bytes",
    "packets": "carried, packets",
    "dropped": "dropped, packets",
    "lost": "lost, packets",
    "trimmed": "trimmed, packets",
    "marked": "marked, packets",
    "largest_queue": "largest queue, bytes",
}
_KEYS: Mapping[str, str] = {
    "topology.spines": "spines in each plane",
    "topology.hosts_per_leaf": "hosts on each leaf",
    "policies.evs": "EVs of each QP",
    "policies.ev_choice": "choice of EVs",
    "policies.controller": "congestion controller",
    "end": "end of the run",
}
_LINKS = {"hosts": "of links of hosts", "fabric": "of links between switches"}
_OF_LINKS = {
    "ecn_at": "ECN threshold",
    "ecn_low": "lower ECN threshold",
    "ecn_high": "upper ECN threshold",
    "trim_at": "trimming threshold",
    "trim_to": "length of trimmed packets",
    "loss": "loss",
    "queue": "queue",
}
_OF_WORKLOADS = {"bytes": "size of a write", "in_flight": "writes at once"}
_UNITS = {"us": "us", "ns": "ns", "gbps": "Gbit/s", "bps": "bit/s", "bytes": "bytes", "packets": "packets"}
_LINK_KEY = re.compile(r"links\.(hosts|fabric)\.(\w+)")
_ITEM = re.compile(r"(workloads|failures)\.[0-9]+\.(\w+)")


def figure_words(figure: str) -> str:
    """`fct_p99_us` as an axis has it: `flow completion time, 99 %, us`."""
    return _FIGURES.get(figure) or _spelled_out(figure)


def key_words(key: str) -> str:
    """`links.fabric.delay` as an axis has it: `delay of links between switches`. Values bring units of their own."""
    link, item = _LINK_KEY.fullmatch(key), _ITEM.fullmatch(key)
    if link:
        return f"{_OF_LINKS.get(link[2], _spelled_out(link[2]))} {_LINKS[link[1]]}"
    if item:
        return _OF_WORKLOADS.get(item[2], _spelled_out(item[2]))
    return _KEYS.get(key) or _spelled_out(key.rpartition(".")[2])


def with_key(key: str, value: Any) -> str:
    """The name of a line: `EVs 8`. A case and the like say themselves what they are."""
    says_itself = key == "case" or (isinstance(value, str) and not value[:1].isdigit())
    return str(value) if says_itself else f"{_short(key)} {value}"


def _short(key: str) -> str:
    return key.rpartition(".")[2].replace("_", " ").replace("evs", "EVs")


def _spelled_out(name: str) -> str:
    """`window_packets`: `window, packets`."""
    what, _, unit = name.rpartition("_")
    return f"{what.replace('_', ' ')}, {_UNITS[unit]}" if what and unit in _UNITS else name.replace("_", " ")
