# SPDX-License-Identifier: BSD-2-Clause
"""A picture of a running endpoint: QPs, windows, paths, ports (docs/control.md, `status`)."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from mrc.control import texts
from mrc.control.peers import addresses
from mrc.control.profiles import Profiles
from mrc.endpoint.congestion import NO_WINDOW
from mrc.endpoint.counters import Counters
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import BEST_FIRST, worst
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_states import MAY_SEND

if TYPE_CHECKING:
    from mrc.control.controller import Controller

_US = 1e3


def snapshot(profiles: Profiles, controller: Controller, most_qps: int) -> dict[str, Any]:
    """The oldest `most_qps` QPs, and everything else summed up over those."""
    endpoint = profiles.endpoint
    qps = list(islice(endpoint.qps.values(), most_qps))
    total = Counters()
    for counters in (endpoint.counters, *(qp.counters for qp in qps)):
        total.add(counters)
    numbers = range(1, profiles.planes + 1)
    return {
        "at_ns": profiles.device.now(),
        "ports": [texts.plain(port) | {"up": port.up} for port in map(controller.query_port, numbers)],
        "peers": [_peer(node) for node in endpoint.peer_nodes.values()],
        "qps_total": len(endpoint.qps),
        "qps": [_qp(qp) for qp in qps],
        "paths": _paths(qps),
        "counters": total.as_dict(),
    }


def _us(time_ns: int) -> float | None:
    return round(time_ns / _US, 3) if time_ns else None


def _peer(node: PeerNode) -> dict[str, Any]:
    return {
        "peer": node.label,
        "addresses": addresses(node),
        "qps": len(node.qpns),
        "planes_down": sorted(node.planes_down),
        "probe_srtt_us": _us(node.rtt.srtt),
    }


def _qp(qp: QueuePair) -> dict[str, Any]:
    counters, controller = qp.counters, qp.controller
    rtt = qp.requestor.rtt if qp.state in MAY_SEND else None
    return {
        "qp_num": qp.qpn,
        "peer": qp.peer_node.label if qp.peer_node is not None else "",
        "state": qp.state.name,
        "error": qp.error,
        "ev_profile": qp.ev_profile_id,
        "cc_profile": qp.cc_profile_id,
        "data_packets_sent": counters.data_packets_sent,
        "data_bytes_sent": counters.data_bytes_sent,
        "retransmitted_packets": counters.retransmitted_packets,
        "requests_received": counters.requests_received,
        "bytes_placed": counters.bytes_placed,
        "outstanding_packets": qp.outstanding,
        "cwnd_bytes": controller.cwnd if controller is not None and controller.cwnd < NO_WINDOW else None,
        "inflight_bytes": controller.inflight if controller is not None else None,
        "controller": dict(controller.shown()) if controller is not None else {},
        "srtt_us": _us(rtt.srtt) if rtt is not None else None,
        "min_rtt_us": _us(rtt.minimum) if rtt is not None else None,
    }


def _paths(qps: list[QueuePair]) -> list[dict[str, Any]]:
    """Every EV towards every peer, added up over the QPs that have it; the worst state counts."""
    rows: dict[tuple[str, int], dict[str, Any]] = {}
    for qp in qps:
        if qp.paths is not None and qp.peer_node is not None:
            for index in qp.paths.current():
                _add(rows, qp.peer_node.label, qp.paths, index)
    return sorted(
        (row | {"state": row["state"].name.lower()} for row in rows.values()),
        key=lambda row: (row["peer"], row["plane"], row["ev"]),
    )


def _add(rows: dict[tuple[str, int], dict[str, Any]], peer: str, paths: PathSet, index: int) -> None:
    path = paths.paths[index]
    row = rows.setdefault(
        (peer, path.ev),
        {
            "peer": peer,
            "ev": path.ev,
            "plane": path.plane,
            "spine": path.spine,
            "port_num": path.port + 1,
            "state": BEST_FIRST[0],
            "qps": 0,
            "packets": 0,
            "lost": 0,
            "marked": 0,
        },
    )
    row["state"] = worst((row["state"], paths.table.state[index]))
    row["qps"] += 1
    row["packets"] += paths.table.packets[index]
    row["lost"] += paths.table.lost[index]
    row["marked"] += paths.table.marked[index]
