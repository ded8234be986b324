# SPDX-License-Identifier: BSD-2-Clause
"""Credit for writes with immediate: what may be granted, and a receiving program that takes its time."""

from __future__ import annotations

import errno
import random

import pytest
from verbs_pair import INIT, Pair

from mrc.endpoint.config import QpConfig, ResponderConfig
from mrc.sim import LinkModel
from mrc.verbs import QPAttr, QPCap, QPState, RecvWR, SendWR, VerbsError, WCStatus, WROpcode, describe

IMM = WROpcode.RDMA_WRITE_WITH_IMM
MILLISECOND = 1_000_000


def test_no_more_is_granted_than_receives_can_be_posted() -> None:
    pair = Pair(cap=QPCap(max_recv_wr=31))
    with pytest.raises(VerbsError, match=r"max_wimm_dest=32 .* at most 31 receives") as refused:
        describe(pair.left.qp, max_wimm_dest=32)
    assert refused.value.errno == errno.EINVAL
    assert describe(pair.left.qp, max_wimm_dest=31).max_wimm_dest == 31
    pair.left.qp.modify(QPAttr(qp_state=QPState.INIT, **INIT))
    with pytest.raises(VerbsError, match="max_recv_wr") as refused:
        pair.left.qp.modify(QPAttr(qp_state=QPState.RTR, **pair.rtr(max_wimm_dest=32)))
    assert (refused.value.errno, pair.left.qp.state) == (errno.EINVAL, QPState.INIT)


@pytest.mark.parametrize(("receives", "granted"), [(0, 0), (5, 5), (32, 32), (128, 32)])
def test_without_a_number_as_many_are_granted_as_there_are_receives(receives: int, granted: int) -> None:
    assert describe(Pair(cap=QPCap(max_recv_wr=receives)).left.qp).max_wimm_dest == granted


@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(3))
def test_a_receiver_that_naps_loses_no_qp(seed: int, loss: float) -> None:
    """As many receives as are granted; every 0 to 200 ms the program posts another for each that completed."""
    count, receives = 200, 32
    chance = random.Random(seed)
    pair = Pair(seed, link=LinkModel(rate_bps=10_000_000_000, delay_ns=1000, loss=loss), cap=QPCap(count, receives))
    pair.connect()
    for _ in range(receives):
        pair.right.qp.post_recv(RecvWR())
    for number in range(count):
        pair.left.qp.post_send(SendWR(number, IMM, imm_data=number))
    taken: list[int | None] = []
    while len(taken) < count and pair.right.qp.state == QPState.RTS:
        pair.run(chance.randrange(200 * MILLISECOND))
        for done in pair.right.cq.poll(receives):
            taken.append(done.imm_data)
            pair.right.qp.post_recv(RecvWR())
    assert taken == list(range(count))
    done = pair.left.poll_all(count)
    assert {each.status for each in done} == {WCStatus.SUCCESS}
    assert pair.left.qp.state == pair.right.qp.state == QPState.RTS
    assert pair.right.qp.figures.counters.waited_for_receive


def test_both_ends_say_that_no_receive_was_posted() -> None:
    pair = Pair(tuning=QpConfig(responder=ResponderConfig(wait_for_receive_ns=50 * MILLISECOND))).connect()
    pair.left.qp.post_send(SendWR(1, IMM, imm_data=1))
    (done,) = pair.left.poll_all(1)
    assert done.status == WCStatus.REMOTE_INVALID_REQUEST
    assert pair.left.qp.explain(done.status).endswith("that had arrived: no receive was posted for it in time")
    assert "no receive for it within 50 ms" in str(pair.right.qp.error)
    assert 50 * MILLISECOND <= pair.fabric.now < 60 * MILLISECOND
