# SPDX-License-Identifier: BSD-2-Clause
"""Running endpoints as metrics for Prometheus: asked anew whenever they are collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mrc.control.errors import ControlError
from mrc.endpoint.counters import Counters
from mrc.errors import SystemRefused
from mrc.net.control.client import ControlClient, FoundEndpoint, Search

_MOST_QPS = 256
_ANSWER_S = 2.0
_ENDPOINT = ("endpoint", "program", "pid")
_PATH = (*_ENDPOINT, "peer", "ev", "plane", "spine")
_QP = (*_ENDPOINT, "peer", "qp")
_OF_PATHS = {
    "packets": "Data packets sent on a path.",
    "lost": "Data packets that were lost on a path.",
    "marked": "SACKs and NACKs that reported congestion on a path.",
}
# Of a status's QP: the metric, its help, the key, and what makes base units of it.
_OF_QPS = (
    ("cwnd_bytes", "Congestion window of a QP.", "cwnd_bytes", 1.0),
    ("inflight_bytes", "Bytes in flight as the QP's controller counts them.", "inflight_bytes", 1.0),
    ("outstanding_packets", "Packets of a QP in the network.", "outstanding_packets", 1.0),
    ("srtt_seconds", "Smoothed round trip of a QP.", "srtt_us", 1e-6),
    ("min_rtt_seconds", "Least round trip of a QP.", "min_rtt_us", 1e-6),
)

Status = Mapping[str, Any]


class EndpointMetrics(Collector):
    """Asks every endpoint that `search` finds for its status. One that does not answer is counted, not waited for."""

    def __init__(self, search: Callable[[], Search]) -> None:
        self._search = search

    def collect(self) -> Iterator[Metric]:
        found = self._search()
        statuses: list[tuple[list[str], Status]] = []
        silent = found.not_asked
        for each in found.found:
            status = _status(each)
            if status is None:
                silent += 1
            else:
                statuses.append(([each.name, each.program, str(each.pid)], status))
        yield GaugeMetricFamily("mrc_endpoints", "Endpoints that run here and answer.", len(statuses))
        yield GaugeMetricFamily("mrc_endpoints_silent", "Endpoints that did not answer.", silent)
        yield from _counters(statuses)
        yield from _ports_and_peers(statuses)
        yield from _paths(statuses)
        yield from _qps(statuses)


def _status(found: FoundEndpoint) -> Status | None:
    try:
        with ControlClient(found.path, _ANSWER_S) as client:
            status: Status = client.request("status", most_qps=_MOST_QPS)
    except (SystemRefused, ControlError):
        return None  # it has ended since
    return status


def _counters(statuses: list[tuple[list[str], Status]]) -> Iterator[Metric]:
    for name in Counters().as_dict(zeros=True):
        family = CounterMetricFamily(f"mrc_{name}", f"The endpoint's counter {name}.", labels=_ENDPOINT)
        for labels, status in statuses:
            family.add_metric(labels, status["counters"].get(name, 0))
        yield family


def _ports_and_peers(statuses: list[tuple[list[str], Status]]) -> Iterator[Metric]:
    ports = GaugeMetricFamily("mrc_port_up", "Whether a port's link is up.", labels=(*_ENDPOINT, "port"))
    qps = GaugeMetricFamily("mrc_qps", "QPs of an endpoint.", labels=_ENDPOINT)
    down = GaugeMetricFamily(
        "mrc_peer_planes_down", "Planes that a peer reported as down at its end.", labels=(*_ENDPOINT, "peer")
    )
    for labels, status in statuses:
        qps.add_metric(labels, status["qps_total"])
        for port in status["ports"]:
            ports.add_metric([*labels, str(port["port_num"])], float(port["up"]))
        for peer in status["peers"]:
            down.add_metric([*labels, peer["peer"]], len(peer["planes_down"]))
    yield from (ports, qps, down)


def _paths(statuses: list[tuple[list[str], Status]]) -> Iterator[Metric]:
    state = GaugeMetricFamily("mrc_path_state", "1 for the state that a path is in.", labels=(*_PATH, "state"))
    counted = {key: CounterMetricFamily(f"mrc_path_{key}", text, labels=_PATH) for key, text in _OF_PATHS.items()}
    for labels, status in statuses:
        for path in status["paths"]:
            named = [*labels, path["peer"], f"{path['ev']:#010x}", str(path["plane"]), str(path["spine"])]
            state.add_metric([*named, path["state"]], 1.0)
            for key, family in counted.items():
                family.add_metric(named, path[key])
    yield from (state, *counted.values())


def _qps(statuses: list[tuple[list[str], Status]]) -> Iterator[Metric]:
    for name, text, key, factor in _OF_QPS:
        family = GaugeMetricFamily(f"mrc_qp_{name}", text, labels=_QP)
        for labels, status in statuses:
            for qp in status["qps"]:
                if qp[key] is not None:
                    family.add_metric([*labels, qp["peer"], f"{qp['qp_num']:#08x}"], qp[key] * factor)
        yield family


def text(search: Callable[[], Search]) -> str:
    """The metrics now of all endpoints that `search` finds, in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(EndpointMetrics(search))
    return generate_latest(registry).decode()
