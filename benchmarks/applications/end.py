# SPDX-License-Identifier: BSD-2-Clause
"""One process of busy-application or ring: on `mrc.verbs` only, so that it runs with older trees, too.

    python -P benchmarks/applications/end.py PLAN           (a `Plan` as JSON)

The process that starts it talks to it in lines of JSON. It prints what its QPs and its memory are, reads those of its
peers, prints {}, reads a line that starts it, and prints what it did. It ends when its input does: a peer may still
want an answer.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import select
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from mrc.fabric import Fabric
from mrc.net.device import open_device
from mrc.threads import start_thread
from mrc.untrusted import own_json
from mrc.verbs import (
    CQ,
    MR,
    PD,
    QP,
    WC,
    AccessFlag,
    CompChannel,
    ConnectionParameters,
    Context,
    QPCap,
    QPState,
    RecvWR,
    RemoteMemory,
    SendFlag,
    SendWR,
    VerbsError,
    WCOpcode,
    WCStatus,
    WROpcode,
    connect,
    describe,
)

_LOOK_S = 0.02
_RECEIVES = 16
_POLLED_AT_ONCE = 64
_DRAIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What an end does. Times are seconds, `size` bytes of a write.

    `sends` and `receives`: it has a QP for each. `depth` writes are outstanding for `seconds`; with `blocks` it sends
    so many instead, one by one, and each is to arrive from the other side before the next leaves. `first` writes are
    posted at once, and no more. `computes`: another thread never rests. From `hold_at` on a thread holds the
    interpreter's lock for `hold_s`; with `first` the thread that posted does, as soon as it has.
    """

    size: int
    seconds: float = 0.0
    depth: int = 8
    blocks: int = 0
    first: int = 0
    sends: bool = False
    receives: bool = False
    computes: bool = False
    hold_at: float = 0.0
    hold_s: float = 0.0


@dataclass(slots=True)
class Noted:
    """What an end saw: times are CLOCK_MONOTONIC ns. `placed`: (time, bytes placed in its memory until then)."""

    began: int = 0
    ended: int = 0
    completed: int = 0
    hold: list[int] = field(default_factory=list)
    placed: list[tuple[int, int]] = field(default_factory=list)
    lost: str | None = None


class End:
    """The QPs and the memory of one process, and what it does with them."""

    def __init__(self, context: Context, plan: Plan) -> None:
        self._plan = plan
        self.noted = Noted()
        pd = context.pd()
        self._channel: CompChannel = context.comp_channel()
        self._depth = max(plan.depth, plan.first)
        self._cq: CQ = context.cq(2 * (self._depth + _RECEIVES), channel=self._channel)
        self._out = self._qp(pd) if plan.sends else None
        self._in = self._qp(pd) if plan.receives else None
        content = os.urandom(min(plan.size, 1 << 20))
        self._source: MR = pd.mr(content * (plan.size // len(content)), AccessFlag(0))
        self._memory = bytearray(plan.size)
        self._target: MR = pd.mr(self._memory)
        self._remote: RemoteMemory | None = None
        self._sides: dict[str, ConnectionParameters] = {}
        self._over = threading.Event()
        self._holder: threading.Thread | None = None
        self._arrived = 0

    def _qp(self, pd: PD) -> QP:
        return QP(pd, send_cq=self._cq, recv_cq=self._cq, cap=QPCap(self._depth, _RECEIVES), sq_sig_all=True)

    # ------------------------------------------------------------------ connecting

    def described(self) -> dict[str, Any]:
        """Each QP's side of a connection, and the memory that the peer of `in` may write to."""
        self._sides = {
            name: describe(qp, max_wimm_dest=_RECEIVES)
            for name, qp in (("out", self._out), ("in", self._in))
            if qp is not None
        }
        described: dict[str, Any] = {name: side.to_json() for name, side in self._sides.items()}
        return described | {"memory": self._target.remote.to_json()}

    def connect(self, theirs: dict[str, Any]) -> None:
        """`out` and `in`: the sides these QPs are to reach; `memory`: where `out` writes to."""
        for name, qp in (("out", self._out), ("in", self._in)):
            if qp is not None:
                connect(qp, self._sides[name], ConnectionParameters.from_json(theirs[name]))
        if self._out is not None:
            self._remote = RemoteMemory.from_json(theirs["memory"])
        if self._in is not None:
            for number in range(_RECEIVES):
                self._in.post_recv(RecvWR(number))

    # ------------------------------------------------------------------ the application

    def run(self) -> None:
        """Do what the plan says. A QP that is lost ends it: `noted.lost` says why."""
        plan = self._plan
        if plan.computes:
            start_thread(self._compute, name="mrc compute")
        if plan.hold_s and not plan.first:
            self._holder = start_thread(self._hold_later, name="mrc hold")
        self._note_placed()
        self.noted.began = time.monotonic_ns()
        try:
            if plan.blocks:
                self._exchange()
            elif plan.sends:
                self._write()
        except VerbsError as error:
            self.noted.lost = self.noted.lost or str(error)
        self.noted.ended = self.noted.ended or time.monotonic_ns()

    def _compute(self) -> None:
        number = 1
        while not self._over.is_set():
            for _ in range(1000):
                number = (number * 1103515245 + 12345) % 2147483648

    def _hold_later(self) -> None:
        time.sleep(self._plan.hold_at)
        self._hold()

    def _hold(self) -> None:
        """One call of C that keeps the interpreter's lock: no other thread of this process runs Python meanwhile."""
        call, microseconds = ctypes.PyDLL(None).usleep, int(self._plan.hold_s * 1e6)
        self._note_placed()
        began = time.monotonic_ns()
        call(microseconds)
        self.noted.hold = [began, time.monotonic_ns()]
        self._note_placed()

    def _note_placed(self) -> None:
        if self._in is not None:
            self.noted.placed.append((time.monotonic_ns(), self._in.figures.counters.bytes_placed))

    def _write(self) -> None:
        """Keep `depth` writes outstanding until the time is up, or post the first ones; then wait for all."""
        plan, posted = self._plan, 0
        if plan.first:
            for _ in range(plan.first):
                self._post()
            posted = plan.first
            self._hold()
        until = self.noted.began + int(plan.seconds * 1e9)
        while not plan.first and time.monotonic_ns() < until and self.noted.lost is None:
            while posted - self.noted.completed < plan.depth:
                self._post()
                posted += 1
            self._wait()
        # What is outstanding when the time is up is waited for, but not counted.
        self.noted.ended = 0 if plan.first else time.monotonic_ns()
        give_up = time.monotonic() + _DRAIN_S
        while self.noted.completed < posted and self.noted.lost is None:
            if time.monotonic() > give_up:
                self.noted.lost = f"{posted - self.noted.completed} of {posted} writes have not completed"
            self._wait()

    def _exchange(self) -> None:
        """Send and receive blocks in step: one leaves when the one before has left, and its like has arrived."""
        plan, sent = self._plan, 0
        give_up = time.monotonic() + _DRAIN_S + plan.seconds

        def done(count: int) -> bool:
            return (not plan.sends or self.noted.completed >= count) and (not plan.receives or self._arrived >= count)

        while not done(plan.blocks) and self.noted.lost is None:
            if plan.sends and sent < plan.blocks and done(sent):
                self._post(immediate=sent)
                sent += 1
            self._wait()
            if time.monotonic() > give_up:
                self.noted.lost = f"{self.noted.completed} blocks went and {self._arrived} came of {plan.blocks}"

    def _post(self, immediate: int | None = None) -> None:
        assert self._out is not None
        assert self._remote is not None
        opcode = WROpcode.RDMA_WRITE if immediate is None else WROpcode.RDMA_WRITE_WITH_IMM
        work = SendWR(0, opcode, self._source.sge(), self._remote.addr, self._remote.rkey, immediate, SendFlag.SIGNALED)
        self._out.post_send(work)

    def _wait(self) -> None:
        """Sleep until something has completed, and take it."""
        self._cq.req_notify()
        if self._take(self._cq.poll(_POLLED_AT_ONCE)):
            return
        if select.select([self._channel], (), (), _LOOK_S)[0]:
            self._channel.get_cq_event().ack_cq_events(1)
            self._take(self._cq.poll(_POLLED_AT_ONCE))

    def _take(self, completions: list[WC]) -> bool:
        for each in completions:
            if each.status != WCStatus.SUCCESS:
                self.noted.lost = self.noted.lost or self._why(each)
            elif each.opcode == WCOpcode.RECV_RDMA_WITH_IMM:
                assert self._in is not None
                self._in.post_recv(RecvWR(each.wr_id))
                self._arrived += 1
            else:
                self.noted.completed += 1
        return bool(completions)

    def _why(self, completion: WC) -> str:
        qp = next(qp for qp in (self._out, self._in) if qp is not None and qp.qp_num == completion.qp_num)
        return f"{completion.status.name}: {qp.error}"

    # ------------------------------------------------------------------ while it is written to, and the end

    def watch(self) -> None:
        """Note how far the peer's writes are until there is input, or none any more."""
        while not select.select([sys.stdin], (), (), _LOOK_S)[0]:
            self._note_placed()
        self._note_placed()

    def finish(self) -> dict[str, Any]:
        """What it saw, and counters of both QPs. Its threads end."""
        self._over.set()
        if self._holder is not None:
            # A peer that has lost its QP does not wait for the hold to end.
            self._holder.join()
        qps = [qp for qp in (self._out, self._in) if qp is not None]
        broken = next((qp.error for qp in qps if qp.state == QPState.ERROR), None)
        counters = [qp.figures.counters for qp in qps]
        noted = self.noted

        def total(*names: str) -> int:
            return sum(getattr(each, name) for each in counters for name in names)

        return {
            "began": noted.began,
            "ended": noted.ended,
            "completed": noted.completed,
            "hold": noted.hold,
            "placed": noted.placed,
            "lost": noted.lost or broken,
            "packets_sent": total("data_packets_sent"),
            "retransmitted_packets": total("retransmitted_packets"),
            "noticed_spurious": total("spurious_retransmissions"),
            "duplicates": total("duplicates_old", "duplicates_above_epsn"),
            "sent_sha256": hashlib.sha256(self._source.region.view).hexdigest(),
            "received_sha256": hashlib.sha256(self._memory).hexdigest(),
        }


def main() -> None:
    plan = Plan(**own_json(sys.argv[1]))
    with open_device(Fabric.load(os.environ["MRC_FABRIC"])) as device, Context(device) as context:
        end = End(context, plan)
        _send(end.described())
        end.connect(own_json(sys.stdin.readline()))
        _send({})
        sys.stdin.readline()
        end.run()
        if not plan.sends:
            end.watch()
        _send(end.finish())
        sys.stdin.read()


def _send(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    main()
