# SPDX-License-Identifier: BSD-2-Clause
"""What `mrc top` shows from two answers to `status` (docs/control.md): totals become rates, EVs are summed by plane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mrc.records import record

_NS = 1e9
_BITS = 8e-9
IN_USE = ("good", "skip")
Status = Mapping[str, Any]


@record(frozen=True, slots=True)
class QpFigures:
    """A QP. Rates are of the interval, None before there are two answers; `loss` is the share of packets sent again."""

    qp_num: int
    peer: str
    state: str
    error: str
    sent_gbps: float | None
    received_gbps: float | None
    loss: float | None
    cwnd_bytes: int | None
    inflight_bytes: int | None
    srtt_us: float | None


@record(frozen=True, slots=True)
class PathFigures:
    """An EV towards a peer. `share` of all packets to that peer, `loss` and `marks` of its own packets in the interval;
    `lost` in all. `ports_up`: its plane's port here, and, as the peer reported, the one there."""

    peer: str
    ev: int
    plane: int
    spine: int | None
    state: str
    packets_per_s: float | None
    share: float | None
    loss: float | None
    marks: float | None
    lost: int
    ports_up: bool


@record(frozen=True, slots=True)
class PlaneFigures:
    """A plane: its port and the EVs that lead over it. `up` None: the endpoint has no port of that number. `peers`: how
    many there are; `peers_down`: those that reported their port as down."""

    plane: int
    up: bool | None
    peers: int
    peers_down: tuple[str, ...]
    evs_in_use: int
    evs: int
    packets_per_s: float | None
    loss: float | None


@record(frozen=True, slots=True)
class Picture:
    """An endpoint at one moment. QPs are in order of goodput, the busiest first; paths by peer, plane and EV."""

    pid: int
    name: str
    program: str
    qps_total: int
    sent_gbps: float | None
    received_gbps: float | None
    retransmitted: int
    qps: tuple[QpFigures, ...]
    planes: tuple[PlaneFigures, ...]
    paths: tuple[PathFigures, ...]


def picture(now: Status, before: Status | None = None) -> Picture:
    """What changed from `before` to `now`, two answers of one endpoint. Without `before` there are no rates."""
    seconds = (now["at_ns"] - before["at_ns"]) / _NS if before is not None else 0.0
    old_qps = _by(before, "qps", "qp_num") if before is not None and seconds > 0 else {}
    old_paths = _by(before, "paths", "peer", "ev") if before is not None and seconds > 0 else {}
    qps = [_qp(each, old_qps.get((each["qp_num"],)), seconds) for each in now["qps"]]
    own = {port["plane"] for port in now["ports"] if not port["up"]}
    down = {peer["peer"]: own.union(peer["planes_down"]) for peer in now["peers"]}
    paths = _paths(now["paths"], old_paths, seconds, down)
    endpoint = now["endpoint"]
    return Picture(
        pid=endpoint["pid"],
        name=endpoint["name"],
        program=endpoint["program"],
        qps_total=now["qps_total"],
        sent_gbps=_sum(each.sent_gbps for each in qps),
        received_gbps=_sum(each.received_gbps for each in qps),
        retransmitted=now["counters"].get("retransmitted_packets", 0),
        qps=tuple(sorted(qps, key=lambda each: -(each.sent_gbps or 0) - (each.received_gbps or 0))),
        planes=tuple(_planes(now["ports"], now["peers"], paths)),
        paths=tuple(paths),
    )


def _by(status: Status, rows: str, *keys: str) -> dict[tuple[Any, ...], Status]:
    return {tuple(row[key] for key in keys): row for row in status[rows]}


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _grown(now: Status, before: Status | None, name: str) -> int | None:
    """How much a total has grown; None where there is nothing to compare with, or it began anew."""
    if before is None or now[name] < before[name]:
        return None
    return int(now[name] - before[name])


def _share(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else part / whole


def _qp(row: Status, before: Status | None, seconds: float) -> QpFigures:
    sent, received = _grown(row, before, "data_bytes_sent"), _grown(row, before, "bytes_placed")
    return QpFigures(
        qp_num=row["qp_num"],
        peer=row["peer"],
        state=row["state"],
        error=row["error"],
        sent_gbps=None if sent is None else sent * _BITS / seconds,
        received_gbps=None if received is None else received * _BITS / seconds,
        loss=_share(_grown(row, before, "retransmitted_packets"), _grown(row, before, "data_packets_sent")),
        cwnd_bytes=row["cwnd_bytes"],
        inflight_bytes=row["inflight_bytes"],
        srtt_us=row["srtt_us"],
    )


def _paths(
    rows: Iterable[Status], old: Mapping[tuple[Any, ...], Status], seconds: float, down: Mapping[str, set[int]]
) -> list[PathFigures]:
    """`down`: the planes without a port at one of both ends, by peer."""
    rows = list(rows)
    grown = [_grown(row, old.get((row["peer"], row["ev"])), "packets") for row in rows]
    to_peer: dict[str, int] = {}
    for row, packets in zip(rows, grown, strict=True):
        to_peer[row["peer"]] = to_peer.get(row["peer"], 0) + (packets or 0)
    found = []
    for row, packets in zip(rows, grown, strict=True):
        before = old.get((row["peer"], row["ev"]))
        found.append(
            PathFigures(
                peer=row["peer"],
                ev=row["ev"],
                plane=row["plane"],
                spine=row["spine"],
                state=row["state"],
                packets_per_s=None if packets is None else packets / seconds,
                share=_share(packets, to_peer[row["peer"]]),
                loss=_share(_grown(row, before, "lost"), packets),
                marks=_share(_grown(row, before, "marked"), packets),
                lost=row["lost"],
                ports_up=row["plane"] not in down.get(row["peer"], ()),
            )
        )
    return found


def _planes(ports: Iterable[Status], peers: Sequence[Status], paths: list[PathFigures]) -> Iterable[PlaneFigures]:
    up = {port["plane"]: port["up"] for port in ports}
    for plane in sorted(up.keys() | {path.plane for path in paths}):
        mine = [path for path in paths if path.plane == plane]
        rate = _sum(path.packets_per_s for path in mine)
        lost = _sum(path.loss * path.packets_per_s for path in mine if path.loss is not None and path.packets_per_s)
        yield PlaneFigures(
            plane=plane,
            up=up.get(plane),
            peers=len(peers),
            peers_down=tuple(peer["peer"] for peer in peers if plane in peer["planes_down"]),
            # No EV of a port that is down is used, whatever its own state.
            evs_in_use=sum(path.state in IN_USE and path.ports_up for path in mine),
            evs=len(mine),
            packets_per_s=rate,
            loss=None if not rate or lost is None else lost / rate,
        )
