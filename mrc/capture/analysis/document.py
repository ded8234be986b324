# SPDX-License-Identifier: BSD-2-Clause
"""The JSON document of an analysis; docs/analyze.md has its keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mrc.capture.analysis.analysis import Analysis
from mrc.capture.analysis.fabric_events import FabricEvents
from mrc.capture.analysis.finding import Finding
from mrc.capture.analysis.reported import Trace
from mrc.capture.analysis.reported_document import reported_document


def document(
    name: str,
    analysis: Analysis,
    found: list[Finding],
    traces: Sequence[Trace] = (),
    events: FabricEvents | None = None,
) -> dict[str, Any]:
    return {
        "file": name,
        "packets": analysis.packets,
        "roce_packets": analysis.roce_packets,
        "left_out_packets": analysis.left_out,
        "start_ns": analysis.start_ns,
        "duration_ns": analysis.duration_ns,
        "resolution_ns": 10 ** (9 - analysis.digits),
        "icrc": {
            "right": analysis.icrc_right,
            "wrong": analysis.icrc_wrong.packets,
            "first_wrong": analysis.icrc_wrong.first,
            "not_there": analysis.icrc_not_there,
            "believed": analysis.icrcs_believed,
        },
        "malformed": {reason: asdict(some) for reason, some in analysis.malformed.items()},
        "findings": [_finding(each) for each in found],
        "mirrors": [asdict(each) for each in analysis.mirrors],
        "qps": [asdict(qp) for qp in analysis.qps],
        "endpoint_operations": [asdict(each) for each in analysis.operations],
        "traces": [reported_document(each) for each in traces],
        "fabric_events": None if events is None else events.to_json(),
    }


def traces_document(
    name: str, traces: list[Trace], found: list[Finding], events: FabricEvents | None = None
) -> dict[str, Any]:
    """The document of traces that come without a capture."""
    return {
        "file": name,
        "findings": [_finding(each) for each in found],
        "traces": [reported_document(each) for each in traces],
        "fabric_events": None if events is None else events.to_json(),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    keys = asdict(finding)
    del keys["weight"]
    return keys
