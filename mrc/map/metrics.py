# SPDX-License-Identifier: BSD-2-Clause
"""The picture as metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class _Picture(Collector):
    def __init__(self, document: Mapping[str, Any], named: int) -> None:
        self._document, self._named = document, named

    def collect(self) -> Iterator[Metric]:
        yield from self._faults()
        yield from self._agents()

    def _faults(self) -> Iterator[Metric]:
        labels = ["name", "kind", "plane"]
        loss = GaugeMetricFamily(
            "mrc_map_fault_loss_ratio", "Share of packets that a faulty part loses.", labels=labels
        )
        since = GaugeMetricFamily(
            "mrc_map_fault_since_timestamp_seconds", "When the first lost probe was sent.", labels=labels
        )
        for fault in self._document["faults"]:
            values = [fault["name"], fault["kind"], str(fault["plane"])]
            loss.add_metric(values, fault["loss_percent"] / 100)
            since.add_metric(values, fault["since_unix_ns"] / 1e9)
        yield loss
        yield since
        yield GaugeMetricFamily("mrc_map_faults", "Parts that are faulty now.", len(self._document["faults"]))
        yield CounterMetricFamily("mrc_map_faults_named", "Faults named since the map began.", self._named)
        yield GaugeMetricFamily(
            "mrc_map_suspicions", "Losses with several explanations about as good.", len(self._document["suspicions"])
        )

    def _agents(self) -> Iterator[Metric]:
        probes = CounterMetricFamily("mrc_map_probes", "Probes that are decided.", labels=["host", "plane", "result"])
        rtt = GaugeMetricFamily("mrc_map_loop_rtt_seconds", "The latest loop's round trip.", labels=["host", "plane"])
        up = GaugeMetricFamily("mrc_map_agent_up", "Whether the host's agent reports.", labels=["host"])
        cpu = CounterMetricFamily("mrc_map_agent_cpu_seconds", "Processor time of the agent.", labels=["host"])
        odd = CounterMetricFamily(
            "mrc_map_agent_echoes",
            "Echoes that came late, twice, or were not ours; probes that say nothing.",
            labels=["host", "what"],
        )
        for agent in self._document["agents"]:
            host = agent["host"]
            up.add_metric([host], 0.0 if agent["silent"] else 1.0)
            cpu.add_metric([host], agent["cpu_s"])
            for what in ("late", "repeated", "foreign", "void"):
                odd.add_metric([host, what], agent[what])
            for count in agent["planes"]:
                plane = str(count["plane"])
                for result in ("back", "lost"):
                    probes.add_metric([host, plane, result], count[result])
                if count["rtt_us"] is not None:
                    rtt.add_metric([host, plane], count["rtt_us"] / 1e6)
        yield from (probes, rtt, up, cpu, odd)


def metrics(document: Mapping[str, Any], named: int) -> bytes:
    """The text of /metrics for a picture; `named` is how many faults were named since the map began."""
    registry = CollectorRegistry()
    registry.register(_Picture(document, named))
    return generate_latest(registry)
