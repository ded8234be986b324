# SPDX-License-Identifier: BSD-2-Clause
"""Everything the map knows as one JSON document: what the page draws, `mrc map show` prints and /metrics is made of."""

from __future__ import annotations

from typing import Any

from mrc.fabric import Shape
from mrc.map.collector import AgentState, Collector
from mrc.map.faults import SECOND, Fault

# An agent that has said nothing for so long is silent: it reports every tick.
SILENT_NS = 3 * SECOND


def fault_document(fault: Fault, offset_ns: int) -> dict[str, Any]:
    """One fault; `offset_ns` turns CLOCK_MONOTONIC into nanoseconds since 1970."""
    return {
        "name": fault.name,
        "kind": fault.component.kind.value,
        "plane": fault.component.plane,
        "state": "down" if fault.is_down else "lossy",
        "loss_percent": round(100 * fault.loss.rate, 3),
        "loss_percent_low": round(100 * fault.loss.low, 3),
        "loss_percent_high": round(100 * fault.loss.high, 3),
        "toward": list(fault.toward),
        "also": list(fault.also),
        "since_unix_ns": fault.since_ns + offset_ns,
        "named_unix_ns": fault.named_ns + offset_ns,
        "until_unix_ns": None if fault.until_ns is None else fault.until_ns + offset_ns,
        "withdrawn": fault.withdrawn,
    }


def agent_document(agent: AgentState, now_ns: int) -> dict[str, Any]:
    counters = agent.totals.counters
    return {
        "host": f"h{agent.host}",
        "connected": agent.connected,
        "silent": not agent.connected or now_ns - agent.heard_ns > SILENT_NS,
        "heard_ms_ago": (now_ns - agent.heard_ns) // 1_000_000,
        "rate_per_s": agent.rate,
        "cpu_percent": round(100 * agent.cpu_share, 2),
        "cpu_s": agent.totals.cpu_s,
        "sent": counters.sent,
        "void": agent.void,
        "late": counters.late,
        "repeated": counters.repeated,
        "foreign": counters.foreign,
        "planes": [
            {
                "plane": plane,
                "back": count.back,
                "lost": count.lost,
                "rtt_us": None if count.rtt_us < 0 else count.rtt_us,
            }
            for plane, count in sorted(agent.planes.items())
        ],
    }


def picture(name: str, shape: Shape, collector: Collector, now_ns: int, offset_ns: int) -> dict[str, Any]:
    """The fabric as it is known at `now_ns`, CLOCK_MONOTONIC. Hosts without an agent are not in `agents`."""
    inference = collector.inference
    return {
        "fabric": name,
        "at_unix_ns": now_ns + offset_ns,
        **shape.sizes,
        "cables": [list(link.ends) for link in shape.fabric_links() if link.plane == 0],
        "faults": [fault_document(fault, offset_ns) for fault in inference.faults],
        "suspicions": [
            {"names": list(each.names), "since_unix_ns": each.since_ns + offset_ns} for each in inference.suspicions
        ],
        "agents": [agent_document(agent, now_ns) for _, agent in sorted(collector.agents.items())],
        "malformed": collector.malformed,
    }
