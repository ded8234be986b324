# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts of a fabric in virtual time, and everything a program opens on each before it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from mrc.endpoint.config import QpConfig
from mrc.fabric import Clos
from mrc.sim import LinkModel, SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import CQ, MR, PD, QP, WC, AHAttr, CompChannel, Context, QPAttr, QPCap, QPState, connect, describe

SECOND_NS = 1_000_000_000

LINK = LinkModel(rate_bps=10_000_000_000, delay_ns=1000)
INIT: dict[str, Any] = {"ev_profile_id": 0, "cc_profile_id": 0}


@dataclass
class End:
    """One side: its context, a PD, a channel, a CQ for everything, a QP."""

    context: Context
    pd: PD
    channel: CompChannel
    cq: CQ
    qp: QP

    def poll_all(self, count: int) -> list[WC]:
        """Wait for so many completions."""
        taken: list[WC] = []
        began = self.context.device.now()
        while len(taken) < count:
            taken += self.cq.poll(count)
            assert self.context.device.now() - began < 30 * SECOND_NS, f"{taken} of {count}"
        return taken


def open_end(
    device: Any, *, cqe: int = 256, cap: QPCap | None = None, sq_sig_all: bool = True, tuning: QpConfig | None = None
) -> End:
    context = Context(device, tuning=tuning)
    pd, channel = context.pd(), context.comp_channel()
    cq = context.cq(cqe, channel=channel)
    return End(context, pd, channel, cq, QP(pd, send_cq=cq, recv_cq=cq, cap=cap, sq_sig_all=sq_sig_all))


class Pair:
    """h0 and h1 over 2 planes x 2 spines. Open until the end of the test (conftest.py)."""

    opened: ClassVar[list[Pair]] = []

    def __init__(self, seed: int = 1, link: LinkModel = LINK, **how: Any) -> None:
        self.fabric = SimFabric(Clos(planes=2, spines=2), link, seed=seed)
        self.left = open_end(SimDevice(self.fabric, "h0"), **how)
        self.right = open_end(SimDevice(self.fabric, "h1"), **how)
        Pair.opened.append(self)

    def close(self) -> None:
        self.left.context.close()
        self.right.context.close()

    def connect(self, **how: Any) -> Pair:
        ours, theirs = describe(self.left.qp, **how), describe(self.right.qp, **how)
        connect(self.right.qp, theirs, ours)
        connect(self.left.qp, ours, theirs)
        return self

    def rtr(self, **changes: Any) -> dict[str, Any]:
        """What the left QP needs on its way to RTR."""
        return {
            "ah_attr": AHAttr(self.right.context.address),
            "dest_qp_num": self.right.qp.qp_num,
            "rq_psn": self.right.qp.first_psn,
            "path_mtu": 1024,
            "max_wimm_dest": 32,
            "mpr_dest": 8,
        } | changes

    def rts(self, **changes: Any) -> dict[str, Any]:
        return {
            "sq_psn": 77,
            "max_wimm": 32,
            "mpr": 8,
            "linear_retries": 7,
            "exponential_retries": 7,
            "timeout": 14,
        } | changes

    def bring_left_to(self, state: QPState) -> None:
        qp = self.left.qp
        way: list[tuple[QPState, dict[str, Any]]] = [
            (QPState.INIT, INIT),
            (QPState.RTR, self.rtr()),
            (QPState.RTS, self.rts()),
        ]
        if state == QPState.ERROR:
            qp.modify(QPAttr(qp_state=state))
        for step, attributes in way:
            if state in (QPState.INIT, QPState.RTR, QPState.RTS) and step <= state:
                qp.modify(QPAttr(qp_state=step, **attributes))
        assert qp.state == state

    def run(self, duration_ns: int) -> None:
        self.fabric.run(self.fabric.now + duration_ns)

    def memory(self, content: bytes, room: int | None = None) -> tuple[MR, MR, bytearray]:
        """`content` registered on the left; as much room, or more, on the right; and that room's bytes."""
        target = bytearray(len(content) if room is None else room)
        return self.left.pd.mr(bytearray(content)), self.right.pd.mr(target), target
