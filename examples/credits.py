# SPDX-License-Identifier: BSD-2-Clause
"""A receiver that takes its time: writes with immediate, receives, and how credit comes back.

Each write with immediate consumes a receive. The receiver grants as many writes at once (`max_wimm_dest`) as it posts
receives, and posts another for each that completes. MRC has no "receiver not ready": a write that finds no receive
waits unacknowledged, and so the sender, which has used up its grant, waits too. Where no receive comes for four seconds
both QPs end, and `explain` says why at either end.

Runs in virtual time, without privileges: python examples/credits.py
"""

from __future__ import annotations

from mrc.fabric import Clos
from mrc.sim import SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import QP, Context, QPCap, RecvWR, SendWR, WROpcode, connect, describe

RECEIVES, WRITES = 8, 100
MILLISECOND = 1_000_000


def main() -> None:
    fabric = SimFabric(Clos(planes=2, spines=4), seed=1)
    with Context(SimDevice(fabric, "h0")) as sender, Context(SimDevice(fabric, "h1")) as receiver:
        sends, arrivals = sender.cq(256), receiver.cq(256)
        out = QP(sender.pd(), send_cq=sends, recv_cq=sends, cap=QPCap(max_send_wr=WRITES), sq_sig_all=True)
        into = QP(receiver.pd(), send_cq=arrivals, recv_cq=arrivals, cap=QPCap(max_recv_wr=RECEIVES))
        # No more is granted than receives are posted.
        ours, theirs = describe(out), describe(into, max_wimm_dest=RECEIVES)
        connect(into, theirs, ours)
        connect(out, ours, theirs)
        for _ in range(RECEIVES):
            into.post_recv(RecvWR())

        for number in range(WRITES):
            out.post_send(SendWR(number, WROpcode.RDMA_WRITE_WITH_IMM, imm_data=number))
        taken: list[int | None] = []
        while len(taken) < WRITES:
            fabric.run(fabric.now + 50 * MILLISECOND)  # the program is busy with something else
            for done in arrivals.poll(RECEIVES):
                taken.append(done.imm_data)
                into.post_recv(RecvWR())  # credit for one more
        print(
            f"{len(taken)} taken in order: {taken == list(range(WRITES))}; both QPs: {out.state.name} {into.state.name}"
        )
        print(f"{into.figures.counters.waited_for_receive} waited for a receive")
        sends.poll(WRITES)

        # Nobody posts another receive.
        for number in range(RECEIVES + 1):
            out.post_send(SendWR(number, WROpcode.RDMA_WRITE_WITH_IMM, imm_data=number))
        while not (failed := [done for done in sends.poll(WRITES) if done.status]):
            fabric.run(fabric.now + 50 * MILLISECOND)
        print(f"sender:   {failed[0].status.name}: {out.explain(failed[0].status)}")
        print(f"receiver: {into.error}")


if __name__ == "__main__":
    main()
