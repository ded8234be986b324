# SPDX-License-Identifier: BSD-2-Clause
"""A program hears at once of all QPs that wait for a peer that has fallen silent (behaviour.md, Retry budget)."""

from __future__ import annotations

import pytest
from verbs_pair import SECOND_NS, Pair

from mrc import CORE
from mrc.core import COMPILED
from mrc.endpoint.config import QpConfig
from mrc.verbs import QP, AsyncEventType, QPState, SendWR, VerbsError, WCStatus, connect, describe


@pytest.mark.parametrize("count", [8, pytest.param(64, marks=pytest.mark.seconds)] if CORE.kind == COMPILED else [8])
def test_every_qp_that_waits_for_it_has_its_event_at_once(count: int) -> None:
    """Each began to wait at another time, the last three seconds after the first. One has nothing to wait for."""
    pair = Pair(tuning=QpConfig(), cqe=512)
    ends = (pair.left, pair.right)
    qps = [[QP(end.pd, send_cq=end.cq, recv_cq=end.cq, sq_sig_all=True) for _ in range(count + 1)] for end in ends]
    for ours, theirs in zip(*qps, strict=True):
        here, there = describe(ours), describe(theirs)
        connect(theirs, there, here)
        connect(ours, here, there)
    context, (*busy, idle) = pair.left.context, qps[0]
    pair.fabric.cut(*(name for name in pair.fabric.switches if "s" in name))
    began = context.device.now()
    for number, qp in enumerate(busy):
        pair.fabric.run(began + 3 * SECOND_NS * number // len(busy))
        qp.post_send(SendWR(number))
    # docs/verbs.md: 4.4 s, with the defaults of `connect`.
    pair.fabric.run(began + 4_390_000_000)
    with pytest.raises(VerbsError, match="EAGAIN"):
        context.get_async_event(timeout=0)
    pair.fabric.run(began + 4_410_000_000)
    events = [context.get_async_event(timeout=0) for _ in busy]
    assert [event.event_type for event in events] == [AsyncEventType.QP_FATAL] * len(busy)
    assert {event.element for event in events} == set(busy)
    assert {done.status for done in pair.left.cq.poll(512)} == {WCStatus.RETRY_EXCEEDED}
    with pytest.raises(VerbsError, match="EAGAIN"):
        context.get_async_event(timeout=0)
    assert (idle.state, {qp.state for qp in busy}) == (QPState.RTS, {QPState.ERROR})
