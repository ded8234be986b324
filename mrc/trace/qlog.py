# SPDX-License-Identifier: BSD-2-Clause
"""A trace in qlog's schema (draft-ietf-quic-qlog-main-schema), as far as its events have a counterpart there.

Congestion state and losses get the names and fields of QUIC's recovery events, so that a viewer of qlog draws them; the
other events keep their data under names with `mrc_` in front.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mrc.trace.reader import Event, Header
from mrc.trace.records import encode
from mrc.trace.vocabulary import METRICS_UPDATED, PACKET_LOST, QP_STATE

_QLOG_VERSION = "0.3"
_STATES = {"RTR": "attempted", "RTS": "handshake_confirmed", "ERROR": "closed"}
# qlog knows two triggers of QUIC's; a NACK and a timeout are neither.
_TRIGGERS = {"hole": "reordering_threshold", "path_timer": "time_threshold", "local_ack_timeout": "pto_expired"}


def records(header: Header, events: Iterable[Event]) -> Iterator[bytes]:
    """The records of a JSON text sequence: qlog's header, then each event with its time in ms since the first."""
    begin: int | None = None
    for event in events:
        if begin is None:
            begin = event.time_ns
            yield encode(_header(header, event))
        name, data = _of(event)
        yield encode({"time": (event.time_ns - begin) / 1e6, "name": name, "data": data, **_group(event)})
    if begin is None:
        yield encode(_header(header, None))


def _header(header: Header, first: Event | None) -> dict[str, Any]:
    common: dict[str, Any] = {"time_format": "relative", "protocol_type": ["MRC"]}
    if first is not None and first.realtime_ns is not None:
        common["reference_time"] = first.realtime_ns / 1e6
    return {
        "qlog_format": "JSON-SEQ",
        "qlog_version": _QLOG_VERSION,
        "title": header.title,
        "trace": {
            "vantage_point": {
                "name": header.generator,
                "type": {"sender": "client", "receiver": "server"}.get(header.vantage_point, "unknown"),
            },
            "common_fields": common,
        },
    }


def _group(event: Event) -> dict[str, Any]:
    return {} if event.qpn is None else {"group_id": f"{event.qpn:#08x}"}


def _of(event: Event) -> tuple[str, dict[str, Any]]:
    if event.kind is METRICS_UPDATED:
        found = {
            "congestion_window": event["cwnd_bytes"],
            "bytes_in_flight": event["inflight_bytes"],
            "packets_in_flight": event["outstanding"],
        }
        if event["srtt_ns"]:
            times = {"smoothed_rtt": "srtt_ns", "rtt_variance": "rttvar_ns", "min_rtt": "min_rtt_ns"}
            found |= {name: event[field] / 1e6 for name, field in times.items()}
        return "recovery:metrics_updated", found
    if event.kind is PACKET_LOST:
        header = {"packet_type": "1RTT", "packet_number": event["psn"]}
        trigger = _TRIGGERS.get(event["trigger"])
        return "recovery:packet_lost", {
            "header": header,
            **({"trigger": trigger} if trigger else {}),
            "mrc": event.data,
        }
    if event.kind is QP_STATE and event["new"] in _STATES:
        return "connectivity:connection_state_updated", {"new": _STATES[event["new"]], "mrc": event.data}
    category, _, word = event.name.partition(":")
    return f"mrc_{category}:{word}", event.data
