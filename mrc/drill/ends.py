# SPDX-License-Identifier: BSD-2-Clause
"""The two ends of a flow: a source that keeps writes outstanding, a target that compares them with the pattern."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mrc.drill.flow import FlowPlan
from mrc.drill.pattern import SLOTS, Comparison, Pattern
from mrc.endpoint.config import MILLISECOND, LossConfig, PathConfig, QpConfig
from mrc.endpoint.congestion import Configured, Nscc, NsccConfig, PacketSizes
from mrc.endpoint.congestion.nscc_config import NANOSECONDS
from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.paths.profiles import EvProfile, EvProfileMode
from mrc.endpoint.requestor.send import full_packet_bytes
from mrc.errors import PeerError
from mrc.net.session.qps import MOST_IMMEDIATES, connect_qps, describe_qps, make_qps
from mrc.net.tuning import transfer_config
from mrc.verbs import (
    CQ,
    MR,
    PD,
    AccessFlag,
    ConnectionParameters,
    Context,
    QPCap,
    RecvWR,
    RemoteMemory,
    SendFlag,
    SendWR,
    WCStatus,
    WROpcode,
)
from mrc.wire.entropy import EvMode

# Every write carries its number as immediate, so that the target hears of each in order.
_RECEIVES = 2 * MOST_IMMEDIATES
_POLLED_AT_ONCE = 256
_SACK_THRESHOLD_BYTES = 16 * 1024
# A round trip here is 10 to 30 ms, most of it in queues; it grows to 80 where three planes of four are gone.
# And it differs so much from path to path that two of them are too few to distinguish late from lost.
_LOSS = LossConfig(
    reorder_guard_max_rtts=4, path_timer_min_ns=60 * MILLISECOND, path_timer_initial_ns=100 * MILLISECOND
)
_PATHS = PathConfig(first_probe_path_timers=0.0, probe_interval_ns=50 * MILLISECOND)
SLOWDOWN = 1000
_BASE_RTT_WINDOW_S = 10.0
# 537 ms: some 50 round trips without a queue, where hardware's default is more than a thousand.
_TIMEOUT = 19


def tuning() -> QpConfig:
    """As for files, but for slow links: a SACK for every fourth packet, since windows are a few dozen packets, and
    timers above the round trip that their queues make."""
    files = transfer_config(path_mtu=4096)
    return replace(files, sack_threshold_bytes=_SACK_THRESHOLD_BYTES, loss=_LOSS, paths=_PATHS, timeout=_TIMEOUT)


class _End:
    """A QP of one flow, described to the other end and connected to it."""

    def __init__(self, context: Context, plan: FlowPlan, number: int, receives: int) -> None:
        self.plan = plan
        self.pattern = Pattern(plan.seed, plan.size)
        self._context = context
        self._number = number
        self._pd: PD = context.pd()
        self._cq: CQ = context.cq(plan.depth + receives)
        cap = QPCap(max_send_wr=plan.depth, max_recv_wr=receives)
        (self.qp,) = make_qps(self._pd, self._cq, 1, cap)
        context.cc_profile(number, Configured(Nscc, _congestion(context, plan)))
        context.ev_profile(number, _ev_profile(context, plan))
        (self.side,) = describe_qps([self.qp], plan.path_mtu)

    def connect(self, theirs: ConnectionParameters) -> None:
        connect_qps([self.qp], [self.side], [theirs], ev_profile_id=self._number, cc_profile_id=self._number)

    def failed(self) -> str | None:
        """Why its QP is over, if it is."""
        return self.qp.error


class Source(_End):
    """Writes number 0, 1, 2 ... of the pattern, `plan.depth` of them outstanding, from `start` until `stop`."""

    def __init__(self, context: Context, plan: FlowPlan, number: int) -> None:
        super().__init__(context, plan, number, 0)
        self.posted = 0
        self.completed = 0
        self.failed_writes = 0
        self._posting = False
        self._region: MR = self._pd.mr(self.pattern.content(), AccessFlag(0))
        self._target: RemoteMemory | None = None

    def aim(self, target: RemoteMemory) -> None:
        """Where to write to. Raises PeerError for memory of another size than the pattern's ring."""
        if target.length != self.pattern.ring_bytes:
            raise PeerError(f"a ring of {self.pattern.ring_bytes} bytes is needed, the target gave {target.length}")
        self._target = target

    def start(self) -> None:
        self._posting = True
        self.turn()

    def stop(self) -> None:
        """Post no more; what is outstanding goes on."""
        self._posting = False

    @property
    def finished(self) -> bool:
        return not self._posting and self.completed + self.failed_writes == self.posted

    def turn(self) -> None:
        for done in self._cq.poll(_POLLED_AT_ONCE):
            if done.status == WCStatus.SUCCESS:
                self.completed += 1
            else:
                self.failed_writes += 1
                self._posting = False
        if self._posting and self._target is not None:
            while self.posted - self.completed < self.plan.depth:
                self._post(self.posted, self._target)
                self.posted += 1

    def _post(self, number: int, target: RemoteMemory) -> None:
        self.qp.post_send(
            SendWR(
                number,
                WROpcode.RDMA_WRITE_WITH_IMM,
                self._region.sge(self.pattern.source_offset(number), self.plan.size),
                target.addr + self.pattern.ring_offset(number),
                target.rkey,
                number & 0xFFFFFFFF,
                SendFlag.SIGNALED,
            )
        )

    def sample(self) -> dict[str, Any]:
        """How it stands: bytes acknowledged, congestion control, and of each path packets, losses and state."""
        figures = self.qp.figures
        controller, paths = figures.controller, figures.paths
        sample: dict[str, Any] = {
            "acked_bytes": figures.packets_acknowledged * self.plan.path_mtu,
            "srtt_ns": figures.srtt_ns,
            "retransmitted_packets": figures.counters.retransmitted_packets,
        }
        if controller is not None and paths is not None:
            sample |= {
                "cwnd_bytes": controller.cwnd,
                "inflight_bytes": controller.inflight,
                "packets": paths.packets.tolist(),
                "lost": paths.lost.tolist(),
                "states": paths.state.tolist(),
            }
        return sample

    def paths(self) -> list[tuple[int, int, int]]:
        """(EV, data packets put on it so far, how many of them are taken for lost) of every path."""
        paths = self.qp.figures.paths
        if paths is None:
            return []
        figures = zip(paths.paths, paths.packets.tolist(), paths.lost.tolist(), strict=True)
        return [(path.ev, packets, lost) for path, packets, lost in figures]

    def report(self) -> dict[str, Any]:
        paths = self.qp.figures.paths
        return {
            "qpn": self.qp.qp_num,
            "posted_writes": self.posted,
            "completed_writes": self.completed,
            "failed_writes": self.failed_writes,
            "error": self.failed(),
            "counters": self.qp.figures.counters.as_dict(),
            "paths": [] if paths is None else [[path.ev, path.plane, path.spine] for path in paths.paths],
        }


class Target(_End):
    """A ring of memory that one flow writes to. Each write is compared with the pattern as soon as it has arrived."""

    def __init__(self, context: Context, plan: FlowPlan, number: int) -> None:
        super().__init__(context, plan, number, _RECEIVES)
        self.delivered = 0
        self.wrong_bytes = 0
        self.misnumbered = 0
        ring = np.zeros(SLOTS * plan.size, np.uint8)
        self.region: MR = self._pd.mr(ring)
        self._comparison = Comparison(self.pattern, ring)
        self._first_psn: int | None = None

    @property
    def connected(self) -> bool:
        return self._first_psn is not None

    def connect(self, theirs: ConnectionParameters) -> None:
        super().connect(theirs)
        self.qp.post_recv(*map(RecvWR, range(_RECEIVES)))
        self._first_psn = self.qp.figures.epsn

    def turn(self) -> None:
        for done in self._cq.poll(_POLLED_AT_ONCE):
            if done.status != WCStatus.SUCCESS:
                continue
            if done.imm_data != self.delivered & 0xFFFFFFFF:
                self.misnumbered += 1
            self.wrong_bytes += self._comparison.wrong_bytes(self.delivered)
            self.delivered += 1
            self.qp.post_recv(RecvWR(done.wr_id))

    def sample(self) -> dict[str, Any]:
        """Bytes placed in any order, and bytes before which nothing is missing."""
        figures = self.qp.figures
        in_order = ((figures.epsn or 0) - (self._first_psn or 0)) * self.plan.path_mtu
        return {"placed_bytes": figures.counters.bytes_placed, "in_order_bytes": in_order}

    def report(self) -> dict[str, Any]:
        return {
            "delivered_writes": self.delivered,
            "wrong_bytes": self.wrong_bytes,
            "misnumbered_writes": self.misnumbered,
            "error": self.failed(),
            "counters": self.qp.figures.counters.as_dict(),
        }


def _congestion(context: Context, plan: FlowPlan) -> NsccConfig:
    """NSCC for a network that is SLOWDOWN times as slow as those its constants are for: its clock runs that much slower
    too, so that 120 Mbit/s and 10 ms are to it what 120 Gbit/s and 10 us are on hardware."""
    sizes = PacketSizes(full_packet_bytes(replace(context.tuning, path_mtu=plan.path_mtu)), plan.path_mtu)
    return NsccConfig(
        line_rate_bps=plan.line_rate_bps * SLOWDOWN,
        base_rtt=plan.base_rtt_ns,
        ticks_per_second=NANOSECONDS * SLOWDOWN,
        base_rtt_window_s=_BASE_RTT_WINDOW_S / SLOWDOWN,
        trimming=plan.trimming,
        max_cwnd=plan.max_cwnd_packets * sizes.mtu,
    )


def _ev_profile(context: Context, plan: FlowPlan) -> EvProfile:
    profile = context.device.ev_profile
    if plan.evs:
        profile = EvProfile(EvProfileMode.EXPLICIT, EvFormat(EvMode.SRV6), evs=plan.evs)
    return replace(profile, active_count=plan.active)
