# SPDX-License-Identifier: BSD-2-Clause
"""A trace's figures as they go into the JSON document: units are in the names, times count from its first event."""

from __future__ import annotations

from collections import Counter
from statistics import median_low
from typing import Any

from mrc.capture.analysis.comparison import changes
from mrc.capture.analysis.reported import METRICS_KEPT, ReportedQp, Trace, short_text


def reported_document(trace: Trace) -> dict[str, Any]:
    return {
        "file": trace.file,
        "title": short_text(trace.header.title),
        "vantage_point": short_text(trace.header.vantage_point),
        "generator": short_text(trace.header.generator),
        "start_s": trace.first_ns / 1e9 if trace.has_wall_clock and trace.events else None,
        "seconds": (trace.last_ns - trace.first_ns) / 1e9,
        "events": trace.events,
        "damaged_records": trace.skipped + trace.not_believed,
        "dropped_events": trace.dropped,
        "cut": trace.cut,
        "ended": trace.ended,
        "ports": [
            {"time_s": (time - trace.first_ns) / 1e9, "side": side, "port": port, "up": up}
            for time, side, port, up in trace.ports
        ],
        "qps": [_qp(trace, qp) for qp in trace.qps],
    }


def _qp(trace: Trace, qp: ReportedQp) -> dict[str, Any]:
    counts, lost = qp.counts, qp.lost()
    by_kind: Counter[str] = Counter()
    for (_, kind), count in lost.items():
        by_kind[kind] += count
    return {
        "qpn": qp.qpn,
        "peer_qpn": qp.peer_qpn,
        "state": qp.state,
        "why": qp.why,
        "data_packets": counts["data_packets"],
        "data_bytes": counts["data_bytes"],
        "lost": by_kind["lost"],
        "trimmed": by_kind["trimmed"],
        "refused": by_kind["refused"],
        "losses_by_trigger": qp.by_trigger,
        "losses_taken_back": sum(each.taken_back for each in qp.losses),
        "retransmissions": counts["retransmissions"],
        "spurious_retransmissions": qp.spurious_noticed,
        "local_ack_timeouts": counts["local_ack_timeouts"],
        "probes_sent": counts["probes_sent"],
        "probes_answered": counts["probes_answered"],
        "sacks_received": counts["sacks_received"],
        "nacks_received": dict(qp.nacks_received),
        "requests_received": counts["requests"],
        "bytes_placed": counts["bytes_placed"],
        "duplicates_received": counts["duplicates"],
        "ecn_marked": counts["ecn_marked"],
        "sacks_sent": counts["sacks_sent"],
        "nacks_sent": dict(qp.nacks_sent),
        "work_completed": dict(qp.work),
        "work_omitted": counts["work_omitted"],
        "cwnd_bytes": spread([each[1] for each in qp.metrics]),
        "srtt_us": spread([each[4] / 1e3 for each in qp.metrics if each[4]]),
        "metrics": [
            {
                "time_s": (time - trace.first_ns) / 1e9,
                "cwnd_bytes": cwnd,
                "inflight_bytes": inflight,
                "outstanding": outstanding,
                "srtt_us": srtt / 1e3,
                "min_rtt_us": least / 1e3,
            }
            for time, cwnd, inflight, outstanding, srtt, least in qp.metrics[
                :: -(-len(qp.metrics) // METRICS_KEPT) or 1
            ]
        ],
        "paths": _paths(trace, qp, lost),
    }


def _paths(trace: Trace, qp: ReportedQp, lost: Counter[tuple[int, str]]) -> list[dict[str, Any]]:
    triggers: dict[int, Counter[str]] = {}
    for each in qp.losses:
        triggers.setdefault(each.ev, Counter())[each.trigger] += 1
    made = []
    for ev in sorted(qp.paths.keys() | triggers.keys()):
        path = qp.path(ev)
        made.append(
            {
                "ev": ev,
                "plane": path.plane,
                "packets": path.packets,
                "lost": lost[ev, "lost"],
                "loss_share": lost[ev, "lost"] / path.packets if path.packets else None,
                "trimmed": lost[ev, "trimmed"],
                "refused": lost[ev, "refused"],
                "losses_by_trigger": dict(triggers.get(ev, {})),
                "marked": path.marked,
                "state": path.state,
                "outs": path.outs,
                "out_s": path.out_ns(trace.last_ns) / 1e9,
                "state_changes": changes(path.changes, trace.first_ns),
            }
        )
    return made


def spread(values: list[Any]) -> dict[str, Any]:
    """Of samples in order of time; None without any."""
    if not values:
        return {"samples": 0, "min": None, "p50": None, "max": None, "last": None}
    return {
        "samples": len(values),
        "min": min(values),
        "p50": median_low(values),
        "max": max(values),
        "last": values[-1],
    }
