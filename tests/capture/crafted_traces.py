# SPDX-License-Identifier: BSD-2-Clause
"""Traces written by hand from docs/trace.md, for the tests of analysis; nothing of the package under test is used."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from crafted_flows import BASE_PSN, REQUESTOR_QPN, RESPONDER_QPN

# Times of a crafted capture count from here, and those of a trace by this clock too.
EPOCH_NS = 1_700_000_000 * 10**9


def record(value: Any) -> bytes:
    return b"\x1e" + json.dumps(value).encode() + b"\n"


@dataclass
class CraftedTrace:
    """The trace of QP `qpn`. PSNs count from BASE_PSN. `offset_ns` is the header's; None for no wall clock."""

    qpn: int = REQUESTOR_QPN
    peer: int = RESPONDER_QPN
    offset_ns: int | None = EPOCH_NS
    records: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        clock = {"name": "x", "realtime_offset_ns": self.offset_ns, "uncertainty_ns": 90}
        header = {"mrc_trace": 1, "title": "by hand", "vantage_point": "sender", "generator": "x", "clock": clock}
        self.records.append(record(header))

    def event(self, time_ns: int, name: str, **data: Any) -> None:
        self.records.append(record({"time_ns": time_ns, "name": name, "qpn": self.qpn, "data": data}))

    def started(self, paths: list[int]) -> None:
        listed = [{"ev": ev, "plane": ev >> 24, "port": 0, "spine": ev & 0xFFFF} for ev in paths]
        peer = {"peer_qpn": self.peer, "peer_first_psn": 9, "path_mtu": 1024, "mpr_dest": 8, "capabilities": []}
        self.event(0, "connectivity:responder_started", **peer, paths=listed)
        first = BASE_PSN + 12
        self.event(0, "connectivity:requestor_started", first_psn=first, mpr=8, local_ack_timeout_ns=10**8)

    def lost(self, time_ns: int, psn: int, ev: int, trigger: str) -> None:
        wire = BASE_PSN + psn & 0xFFFFFF
        self.event(time_ns, "recovery:packet_lost", psn=wire, ev=ev, sent_at_ns=0, trigger=trigger)

    def resent(self, time_ns: int, psn: int, ev: int, times_sent: int = 2) -> None:
        wire = BASE_PSN + psn & 0xFFFFFF
        self.event(time_ns, "recovery:retransmission", psn=wire, ev=ev, times_sent=times_sent)

    def spurious(self, time_ns: int, psn: int, ev: int | None, sent_again: bool) -> None:
        wire = BASE_PSN + psn & 0xFFFFFF
        self.event(time_ns, "recovery:spurious_loss", psn=wire, ev=ev, sent_again=sent_again)

    def state(self, time_ns: int, ev: int, old: str, new: str, cause: str) -> None:
        self.event(time_ns, "path:ev_state", ev=ev, old=old, new=new, cause=cause)

    def metrics(self, time_ns: int, cwnd: int, srtt_ns: int) -> None:
        more = {"inflight_bytes": 7, "outstanding": 3, "rttvar_ns": 1, "min_rtt_ns": 90_000}
        self.event(time_ns, "recovery:metrics_updated", cwnd_bytes=cwnd, srtt_ns=srtt_ns, **more)
        counts = {"sacks": 2, "acks": 1, "data_packets": 4, "data_bytes": 4096, "retransmitted": 1}
        self.event(time_ns, "transport:sacks_received", since_ns=0, cack_psn=BASE_PSN + 12, **counts)

    def received(self, time_ns: int, requests: int, duplicates: int) -> None:
        more = {"sacks": 5, "acks": 1, "cack_psn": 3, "ooo_count": 0, "bytes_placed": 1024 * requests, "ecn_marked": 0}
        self.event(time_ns, "transport:sacks_sent", since_ns=0, requests=requests, duplicates=duplicates, **more)

    def bytes(self, ended: bool = True) -> bytes:
        end = {"time_ns": 10**9, "name": "trace:end", "qpn": None, "data": {"events": len(self.records) - 1}}
        return b"".join(self.records) + (record(end) if ended else b"")
