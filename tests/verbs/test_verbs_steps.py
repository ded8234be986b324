# SPDX-License-Identifier: BSD-2-Clause
"""Completion queues with a handler, and steps in the endpoint's thread."""

from __future__ import annotations

import errno

import pytest

from mrc.fabric import Clos
from mrc.sim import SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import QP, WC, Context, RecvWR, SendWR, VerbsError, WCStatus, WROpcode, connect, describe


def test_a_handler_gets_every_completion_and_the_queue_keeps_none() -> None:
    fabric = SimFabric(Clos(), seed=1)
    with Context(SimDevice(fabric, "h0")) as client, Context(SimDevice(fabric, "h1")) as server:
        came: list[tuple[str, WC]] = []
        sends = client.cq(1, handler=lambda done: came.append(("sent", done)))
        receives = server.cq(1, handler=lambda done: came.append(("received", done)))
        here = QP(client.pd(), send_cq=sends, recv_cq=sends, sq_sig_all=True)
        there = QP(server.pd(), send_cq=receives, recv_cq=receives)
        ours, theirs = describe(here), describe(there)
        connect(there, theirs, ours)
        connect(here, ours, theirs)
        for number in range(5):
            there.post_recv(RecvWR(number))
            here.post_send(SendWR(number, WROpcode.RDMA_WRITE_WITH_IMM, imm_data=number))
        fabric.run(fabric.now + 10**9, lambda: len(came) == 10)
        for kind in ("sent", "received"):
            assert [done.wr_id for each, done in came if each == kind] == list(range(5))
        assert all(done.status == WCStatus.SUCCESS for _, done in came)
        assert sends.poll(8) == receives.poll(8) == []
        assert not sends.overrun


def test_a_queue_has_a_handler_or_a_channel() -> None:
    with Context(SimDevice(SimFabric(Clos(), seed=1), "h0")) as context:
        channel = context.comp_channel()
        with pytest.raises(VerbsError) as caught:
            context.cq(1, channel=channel, handler=lambda _: None)
        assert caught.value.errno == errno.EINVAL


def test_steps_run_in_their_order_and_may_ask_for_more() -> None:
    fabric = SimFabric(Clos(), seed=1)
    with Context(SimDevice(fabric, "h0")) as context:
        ran: list[int] = []

        def first() -> None:
            ran.append(1)
            context.call_soon(lambda: ran.append(3))

        context.call_soon(first)
        context.call_soon(lambda: ran.append(2))
        assert not ran
        fabric.run(fabric.now + 1)
        assert ran == [1, 2, 3]
