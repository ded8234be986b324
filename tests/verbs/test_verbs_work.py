# SPDX-License-Identifier: BSD-2-Clause
"""Work: writes of every size, immediates, what is signaled, what is refused, how it ends."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest
from verbs_pair import SECOND_NS, Pair

from mrc import CORE
from mrc.core import COMPILED
from mrc.endpoint.config import QpConfig
from mrc.verbs import (
    QP,
    SGE,
    AccessFlag,
    AsyncEventType,
    QPAttr,
    QPCap,
    QPState,
    RecvWR,
    SendFlag,
    SendWR,
    VerbsError,
    WCOpcode,
    WCStatus,
    WROpcode,
    connect,
    describe,
)
from mrc.wire.psn import PSN_MASK

SIZES = [
    0,
    1,
    2,
    3,
    5,
    255,
    1023,
    1024,
    1025,
    4095,
    4096,
    4097,
    8191,
    65537,
    pytest.param((1 << (20 if CORE.kind == COMPILED else 17)) + 13, marks=pytest.mark.seconds),
]
SPINES = ("p0s0", "p0s1", "p1s0", "p1s1")
IMM = WROpcode.RDMA_WRITE_WITH_IMM


def content_of(size: int) -> bytes:
    return bytes(at * 73 + (at >> 8) & 0xFF or 1 for at in range(size))


@pytest.mark.parametrize("immediate", [None, 0, 0xFFFFFFFF], ids=["plain", "imm-0", "imm-all-ones"])
@pytest.mark.parametrize("size", SIZES)
def test_a_write_arrives_and_completes(size: int, immediate: int | None) -> None:
    pair = Pair().connect(path_mtu=1024)
    source, target, arrived = pair.memory(content_of(size), room=size + 16)
    pair.right.qp.post_recv(RecvWR(wr_id=1 << 63))
    opcode = WROpcode.RDMA_WRITE if immediate is None else IMM
    pair.left.qp.post_send(
        SendWR(
            wr_id=(1 << 64) - 1,
            opcode=opcode,
            sge=source.sge() if size else None,
            remote_addr=target.addr + 3,
            rkey=target.rkey,
            imm_data=immediate,
        )
    )
    (sent,) = pair.left.poll_all(1)
    assert (sent.wr_id, sent.status, sent.opcode) == ((1 << 64) - 1, WCStatus.SUCCESS, WCOpcode.RDMA_WRITE)
    assert (sent.byte_len, sent.qp_num, sent.imm_data) == (size, pair.left.qp.qp_num, None)
    assert arrived == b"\0" * 3 + content_of(size) + b"\0" * 13
    pair.run(1_000_000)
    told = pair.right.cq.poll(4)
    if immediate is None:
        assert told == []
    else:
        (received,) = told
        assert (received.wr_id, received.opcode) == (1 << 63, WCOpcode.RECV_RDMA_WITH_IMM)
        assert (received.byte_len, received.imm_data) == (size, immediate)
        assert (received.status, received.qp_num) == (WCStatus.SUCCESS, pair.right.qp.qp_num)


def test_both_ends_write_at_once() -> None:
    pair = Pair().connect()
    ends = [(pair.left, pair.right), (pair.right, pair.left)]
    targets = []
    for number, (near, far) in enumerate(ends):
        target = bytearray(50_000)
        remote = far.pd.mr(target).remote
        source = near.pd.mr(bytearray([number + 1]) * 50_000)
        near.qp.post_send(SendWR(number, sge=source.sge(), remote_addr=remote.addr, rkey=remote.rkey))
        targets.append(target)
    for near, _ in ends:
        near.poll_all(1)
    assert targets == [bytearray([1]) * 50_000, bytearray([2]) * 50_000]


def test_completions_come_in_post_order_each_once() -> None:
    pair = Pair().connect()
    source, target, _ = pair.memory(bytes(1000))
    for number in range(100):
        pair.left.qp.post_send(SendWR(number, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey))
    assert [done.wr_id for done in pair.left.poll_all(100)] == list(range(100))
    pair.run(1_000_000)
    assert pair.left.cq.poll(8) == []


def test_immediates_consume_receives_in_post_order() -> None:
    pair = Pair().connect()
    for number in range(20):
        pair.right.qp.post_recv(RecvWR(100 + number))
        pair.left.qp.post_send(SendWR(number, IMM, imm_data=number * 3))
    told = pair.right.poll_all(20)
    assert [(done.wr_id, done.imm_data) for done in told] == [(100 + n, n * 3) for n in range(20)]


def test_more_immediates_than_the_peer_granted_wait_their_turn() -> None:
    pair = Pair(cap=QPCap(max_send_wr=100, max_recv_wr=100)).connect(max_wimm_dest=2)
    for number in range(50):
        pair.right.qp.post_recv(RecvWR(number))
        pair.left.qp.post_send(SendWR(number, IMM, imm_data=number))
    assert [done.imm_data for done in pair.right.poll_all(50)] == list(range(50))
    assert pair.left.qp.state == pair.right.qp.state == QPState.RTS


# ------------------------------------------------------------------ signaled or not


def test_only_what_is_signaled_completes_unless_all_is() -> None:
    pair = Pair(sq_sig_all=False).connect()
    source, target, _ = pair.memory(bytes(10))
    for number in range(6):
        flags = SendFlag.SIGNALED if number % 3 == 2 else SendFlag(0)
        pair.left.qp.post_send(
            SendWR(number, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey, send_flags=flags)
        )
    assert [done.wr_id for done in pair.left.poll_all(2)] == [2, 5]


def test_an_error_completes_whether_signaled_or_not() -> None:
    pair = Pair(sq_sig_all=False).connect()
    source, target, _ = pair.memory(bytes(10))
    pair.left.qp.post_send(SendWR(7, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey ^ 1))
    (done,) = pair.left.poll_all(1)
    assert (done.wr_id, done.status) == (7, WCStatus.REMOTE_ACCESS_ERROR)


# ------------------------------------------------------------------ queues that are full


def test_a_full_send_queue_refuses_and_has_room_again_when_work_ends() -> None:
    pair = Pair(cap=QPCap(max_send_wr=3)).connect()
    for number in range(3):
        pair.left.qp.post_send(SendWR(number))
    with pytest.raises(VerbsError, match=r"3 sends are outstanding \(max_send_wr\)") as caught:
        pair.left.qp.post_send(SendWR(3))
    assert caught.value.errno == errno.ENOMEM
    pair.left.poll_all(3)
    pair.left.qp.post_send(SendWR(4))
    assert pair.left.poll_all(1)[0].wr_id == 4


def test_a_full_receive_queue_refuses() -> None:
    """All that are posted at once, or none."""
    pair = Pair(cap=QPCap(max_recv_wr=2)).connect()
    with pytest.raises(VerbsError, match=r"3 receives would be outstanding, max_recv_wr is 2"):
        pair.left.qp.post_recv(RecvWR(7), RecvWR(8), RecvWR(9))
    pair.left.qp.post_recv(RecvWR(0), RecvWR(1))
    with pytest.raises(VerbsError, match=r"3 receives would be outstanding, max_recv_wr is 2") as caught:
        pair.left.qp.post_recv(RecvWR(2))
    assert caught.value.errno == errno.ENOMEM
    pair.right.qp.post_send(SendWR(0, IMM, imm_data=1))
    pair.left.poll_all(1)
    pair.left.qp.post_recv(RecvWR(3))


# ------------------------------------------------------------------ refused work


@pytest.mark.parametrize("state", [QPState.RESET, QPState.INIT, QPState.RTR], ids=lambda state: state.name)
def test_nothing_is_sent_before_rts(state: QPState) -> None:
    pair = Pair()
    pair.bring_left_to(state)
    with pytest.raises(VerbsError, match=f"is in {state.name}; this is for RTS, ERROR") as caught:
        pair.left.qp.post_send(SendWR(0))
    assert caught.value.errno == errno.EINVAL


def test_receives_are_posted_from_init_on() -> None:
    pair = Pair()
    with pytest.raises(VerbsError, match="is in RESET; this is for INIT, RTR, RTS, ERROR"):
        pair.left.qp.post_recv(RecvWR(0))
    pair.bring_left_to(QPState.INIT)
    pair.left.qp.post_recv(RecvWR(5))
    pair.left.qp.modify(QPAttr(qp_state=QPState.RESET))
    pair.connect()
    pair.right.qp.modify(QPAttr(qp_state=QPState.RESET))


def test_a_receive_posted_in_init_is_there_later() -> None:
    pair = Pair()
    pair.left.qp.modify(QPAttr(qp_state=QPState.INIT, ev_profile_id=0, cc_profile_id=0))
    pair.left.qp.post_recv(RecvWR(5))
    pair.connect()
    pair.right.qp.post_send(SendWR(0, IMM, imm_data=9))
    assert [(done.wr_id, done.imm_data) for done in pair.left.poll_all(1)] == [(5, 9)]


REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    ("an immediate in a plain write", {"imm_data": 3}, errno.EINVAL, "imm_data goes with"),
    ("no immediate", {"opcode": IMM}, errno.EINVAL, "imm_data goes with"),
    ("a wide immediate", {"opcode": IMM, "imm_data": 1 << 32}, errno.EINVAL, "32-bit"),
    ("another opcode", {"opcode": 2}, errno.ENOTSUP, "RDMA_WRITE and RDMA_WRITE_WITH_IMM only"),
    ("an unknown lkey", {"sge": SGE(0, 1, 1)}, errno.EINVAL, "names no region"),
    ("a wide rkey", {"rkey": 1 << 32}, errno.EINVAL, "rkey 32"),
    ("a wide address", {"remote_addr": 1 << 62}, errno.EINVAL, "62 bits"),
]


@pytest.mark.parametrize(("what", "changes", "number", "text"), REFUSED, ids=[each[0] for each in REFUSED])
def test_a_wrong_request_is_refused_and_leaves_nothing(
    what: str, changes: dict[str, Any], number: int, text: str
) -> None:
    pair = Pair(cap=QPCap(max_send_wr=1)).connect()
    source, target, _ = pair.memory(b"12345")
    request: dict[str, Any] = {"sge": source.sge(), "remote_addr": target.addr, "rkey": target.rkey} | changes
    with pytest.raises(VerbsError, match=text) as caught:
        pair.left.qp.post_send(SendWR(0, **request))
    assert caught.value.errno == number
    pair.left.qp.post_send(SendWR(1))
    assert pair.left.poll_all(1)[0].wr_id == 1


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, 6), (5, 1), (6, 0), (0, -1)])
def test_an_sge_stays_inside_its_region(offset: int, length: int) -> None:
    pair = Pair().connect()
    source, _, _ = pair.memory(b"12345")
    with pytest.raises(VerbsError, match=r"leaves? the region of 5"):
        source.sge(offset, length)
    if length:
        with pytest.raises(VerbsError, match="leave the region of 5"):
            pair.left.qp.post_send(SendWR(0, sge=SGE(source.addr + offset, length, source.lkey)))


def test_one_sge_at_most() -> None:
    pair = Pair().connect()
    source, target, arrived = pair.memory(b"12345")
    where = {"remote_addr": target.addr, "rkey": target.rkey}
    with pytest.raises(VerbsError, match=r"at most 1 SGE \(max_sge\), got 2"):
        pair.left.qp.post_send(SendWR(0, sge=(source.sge(0, 2), source.sge(2)), **where))
    pair.left.qp.post_send(SendWR(0, sge=(source.sge(1, 2),), **where))
    pair.left.qp.post_send(SendWR(0, sge=(), **where))
    pair.left.poll_all(2)
    assert arrived == b"23\0\0\0"


def test_memory_of_another_domain_is_refused_at_both_ends() -> None:
    pair = Pair().connect()
    other = pair.left.context.pd().mr(bytearray(5))
    with pytest.raises(VerbsError, match="names no region of this protection domain"):
        pair.left.qp.post_send(SendWR(0, sge=other.sge()))
    foreign = pair.right.context.pd().mr(bytearray(5))
    source, _, _ = pair.memory(b"12345")
    pair.left.qp.post_send(SendWR(1, sge=source.sge(), remote_addr=foreign.addr, rkey=foreign.rkey))
    assert pair.left.poll_all(1)[0].status == WCStatus.REMOTE_ACCESS_ERROR


def test_memory_without_remote_write_is_not_written() -> None:
    pair = Pair().connect()
    closed = bytearray(5)
    region = pair.right.pd.mr(closed, AccessFlag.LOCAL_WRITE)
    source, _, _ = pair.memory(b"12345")
    pair.left.qp.post_send(SendWR(1, sge=source.sge(), remote_addr=region.addr, rkey=region.rkey))
    assert pair.left.poll_all(1)[0].status == WCStatus.REMOTE_ACCESS_ERROR
    assert closed == bytes(5)


# ------------------------------------------------------------------ inline


def test_inline_data_may_change_once_it_is_posted() -> None:
    pair = Pair().connect()
    content, target = bytearray(b"before"), bytearray(6)
    source, remote = pair.left.pd.mr(content), pair.right.pd.mr(target)
    pair.fabric.cut(*SPINES)
    pair.left.qp.post_send(
        SendWR(0, sge=source.sge(), remote_addr=remote.addr, rkey=remote.rkey, send_flags=SendFlag.INLINE)
    )
    content[:] = b"after!"
    source.close()
    pair.fabric.heal(*SPINES)
    pair.left.poll_all(1)
    assert target == b"before"


def test_more_inline_than_the_cap_is_refused() -> None:
    pair = Pair(cap=QPCap(max_inline_data=4)).connect()
    source, _, _ = pair.memory(b"12345")
    with pytest.raises(VerbsError, match="5 bytes INLINE, the QP takes 4") as caught:
        pair.left.qp.post_send(SendWR(0, sge=source.sge(), send_flags=SendFlag.INLINE))
    assert caught.value.errno == errno.ENOMEM


# ------------------------------------------------------------------ ends


def test_error_flushes_what_is_posted_and_what_comes_after() -> None:
    pair = Pair().connect()
    pair.fabric.cut(*SPINES)
    for number in range(3):
        pair.left.qp.post_send(SendWR(number))
        pair.left.qp.post_recv(RecvWR(10 + number))
    pair.left.qp.modify(QPAttr(qp_state=QPState.ERROR))
    pair.left.qp.post_send(SendWR(3))
    pair.left.qp.post_recv(RecvWR(13))
    done = pair.left.cq.poll(16)
    assert {each.status for each in done} == {WCStatus.FLUSHED}
    sends = [each.wr_id for each in done if each.opcode == WCOpcode.RDMA_WRITE]
    receives = [each.wr_id for each in done if each.opcode == WCOpcode.RECV_RDMA_WITH_IMM]
    assert (sends, receives) == ([0, 1, 2, 3], [10, 11, 12, 13])
    # Whoever asked for it is not told of it as an event.
    with pytest.raises(VerbsError, match="EAGAIN"):
        pair.left.context.get_async_event(timeout=0)


def test_error_before_rtr_flushes_receives() -> None:
    pair = Pair()
    pair.bring_left_to(QPState.INIT)
    pair.left.qp.post_recv(RecvWR(4))
    pair.left.qp.modify(QPAttr(qp_state=QPState.ERROR))
    assert [(done.wr_id, done.status) for done in pair.left.cq.poll(4)] == [(4, WCStatus.FLUSHED)]


def test_a_refusal_at_the_peer_is_an_event_at_both_ends() -> None:
    pair = Pair().connect()
    source, target, _ = pair.memory(b"12345")
    pair.left.qp.post_send(SendWR(0, sge=source.sge(), remote_addr=target.addr + 1, rkey=target.rkey))
    pair.left.qp.post_send(SendWR(1))
    statuses = [done.status for done in pair.left.poll_all(2)]
    assert statuses == [WCStatus.REMOTE_ACCESS_ERROR, WCStatus.FLUSHED]
    for end in (pair.left, pair.right):
        event = end.context.get_async_event(timeout=1.0)
        assert (event.event_type, event.element) == (AsyncEventType.QP_FATAL, end.qp)
        assert end.qp.state == QPState.ERROR
        assert end.qp.error in str(event)


def test_a_write_with_immediate_without_a_receive_ends_both_qps() -> None:
    pair = Pair().connect()
    pair.left.qp.post_send(SendWR(0, IMM, imm_data=1))
    assert pair.left.poll_all(1)[0].status == WCStatus.REMOTE_INVALID_REQUEST
    assert (pair.left.qp.state, pair.right.qp.state) == (QPState.ERROR, QPState.ERROR)


def test_a_dead_network_ends_in_retry_exceeded() -> None:
    pair = Pair(tuning=QpConfig()).connect()
    pair.fabric.cut(*SPINES)
    pair.left.qp.post_send(SendWR(0))
    assert pair.left.poll_all(1)[0].status == WCStatus.RETRY_EXCEEDED
    said = pair.left.qp.explain(WCStatus.RETRY_EXCEEDED)
    assert said.startswith("retry counter exceeded: ")
    assert said.endswith(
        "; no packet of the peer ever arrived: every path between h0 and h1 is perhaps cut, in one direction or in both"
    )


def test_a_network_that_dies_after_an_answer_is_not_said_to_be_blocked() -> None:
    pair = Pair(tuning=QpConfig()).connect()
    pair.left.qp.post_send(SendWR(0))
    assert pair.left.poll_all(1)[0].status == WCStatus.SUCCESS
    pair.fabric.cut(*SPINES)
    pair.left.qp.post_send(SendWR(1))
    assert pair.left.poll_all(1)[0].status == WCStatus.RETRY_EXCEEDED
    said = pair.left.qp.explain(WCStatus.RETRY_EXCEEDED)
    assert "no packet of the peer ever arrived" not in said
    assert "the peer may have ended" in said


@pytest.mark.parametrize("beside", [-1, -100, 100])
def test_a_peer_that_expects_another_first_psn_is_told_from_a_silent_one(beside: int) -> None:
    """What it acknowledges was never sent: the work ends as if nothing came, and the reason names rq_psn."""
    pair = Pair(tuning=QpConfig())
    ours, theirs = describe(pair.left.qp), describe(pair.right.qp)
    connect(pair.right.qp, theirs, replace(ours, psn=ours.psn + beside & PSN_MASK))
    connect(pair.left.qp, ours, theirs)
    began = pair.fabric.now
    pair.left.qp.post_send(SendWR(0))
    assert pair.left.poll_all(1)[0].status == WCStatus.RETRY_EXCEEDED
    assert pair.fabric.now - began < 4.5 * SECOND_NS
    said = pair.left.qp.explain(WCStatus.RETRY_EXCEEDED)
    assert said == pair.left.qp.error
    assert f"perhaps its rq_psn is not this QP's first PSN (sq_psn), {ours.psn} (retry counter exceeded" in said


def test_reset_forgets_work_and_completions() -> None:
    pair = Pair().connect()
    pair.left.qp.post_send(SendWR(0))
    pair.run(1_000_000)
    pair.fabric.cut(*SPINES)
    pair.left.qp.post_send(SendWR(1))
    pair.left.qp.post_recv(RecvWR(2))
    pair.left.qp.modify(QPAttr(qp_state=QPState.RESET))
    pair.fabric.heal(*SPINES)
    assert pair.left.cq.poll(4) == []
    pair.run(1_000_000_000)
    assert pair.left.cq.poll(4) == []
    pair.right.qp.modify(QPAttr(qp_state=QPState.RESET))
    pair.connect()
    pair.left.qp.post_send(SendWR(3))
    assert pair.left.poll_all(1)[0].wr_id == 3


def test_two_qps_share_a_completion_queue() -> None:
    pair = Pair().connect()
    other = QP(pair.left.pd, send_cq=pair.left.cq, recv_cq=pair.left.cq, sq_sig_all=True)
    peer = QP(pair.right.pd, send_cq=pair.right.cq, recv_cq=pair.right.cq)
    first, pair.left.qp, pair.right.qp = pair.left.qp, other, peer
    pair.connect()
    for number, qp in enumerate((first, other, first, other)):
        qp.post_send(SendWR(number))
    done = {each.wr_id: each.qp_num for each in pair.left.poll_all(4)}
    assert done == {0: first.qp_num, 1: other.qp_num, 2: first.qp_num, 3: other.qp_num}
    other.close()
    assert other not in pair.left.cq.qps
    with pytest.raises(VerbsError, match="the QP is closed"):
        other.post_send(SendWR(0))
