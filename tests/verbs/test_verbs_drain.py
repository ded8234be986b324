# SPDX-License-Identifier: BSD-2-Clause
"""`QP.drain`: when a QP may be closed without leaving either end waiting for the other."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable

import pytest
from verbs_pair import End, Pair

from mrc.endpoint.config import LossConfig, QpConfig, ResponderConfig
from mrc.errors import CallerError
from mrc.verbs import (
    MR,
    QPAttr,
    QPCap,
    QPState,
    RecvWR,
    SendWR,
    VerbsError,
    WCStatus,
    WROpcode,
)

MILLISECOND_NS = 1_000_000
# The local ACK timeout of `connect` is 16.8 ms; a lost answer is asked for again after 2 ms, 4, 8, and then each 16.8.
TIMEOUT_NS = 1024 << 14
TUNING = QpConfig(
    loss=LossConfig(tail_probe_min_ns=2 * MILLISECOND_NS),
    responder=ResponderConfig(ack_after_sack_ns=4 * MILLISECOND_NS),
)


def connected(seed: int = 1, **how: object) -> Pair:
    return Pair(seed, **({"tuning": TUNING, "cap": QPCap(64, 64)} | how)).connect()


def write(end: End, source: MR, target: MR, number: int, *, immediate: bool = False) -> None:
    opcode = WROpcode.RDMA_WRITE_WITH_IMM if immediate else WROpcode.RDMA_WRITE
    imm_data = number if immediate else None
    end.qp.post_send(
        SendWR(number, opcode, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey, imm_data=imm_data)
    )


def everything(end: End) -> list[WCStatus]:
    """Statuses of the completions in the queue; no time passes."""
    return [each.status for each in end.cq._queue]


def lose(pair: Pair, toward: str, loss: float) -> None:
    """So much of what this host is sent is lost from now on."""
    for cable in pair.fabric.shape.host_links():
        if cable.lower == toward:
            pair.fabric.impair(cable.name, toward, loss=loss)


def refusal(call: Callable[[], object]) -> VerbsError:
    with pytest.raises(VerbsError) as caught:
        call()
    return caught.value


def test_it_waits_for_every_send_and_leaves_the_completions() -> None:
    pair = connected(sq_sig_all=False)
    source, target, memory = pair.memory(b"\7" * 300_000)
    for number in range(8):
        write(pair.left, source, target, number)
    assert pair.left.qp.figures.packets_acknowledged == 0
    assert pair.right.qp.figures.asked_at_ns == -1
    pair.left.qp.drain()
    assert 0 < pair.right.qp.figures.asked_at_ns <= pair.left.context.device.now()
    assert pair.left.qp.figures.asked_at_ns == -1
    assert pair.left.qp.figures.packets_acknowledged == pair.left.qp.figures.counters.data_packets_sent
    assert memory == b"\7" * 300_000
    assert pair.left.cq.poll() == []
    pair.left.qp.drain(timeout=0)

    signaled = connected(seed=2)
    source, target, _ = signaled.memory(b"\7" * 3000)
    write(signaled.left, source, target, 0)
    signaled.left.qp.drain()
    assert everything(signaled.left) == [WCStatus.SUCCESS]


def test_a_qp_that_never_did_anything_is_drained() -> None:
    pair = Pair()
    pair.left.qp.drain(timeout=0)
    pair.connect()
    before = pair.fabric.now
    pair.left.qp.drain()
    pair.right.qp.drain()
    assert pair.fabric.now == before


def arrived(pair: Pair) -> bool:
    """Let time pass until the receiver has heard of the last write; whether the sender knows."""
    pair.fabric.run(pair.fabric.now + 1000 * MILLISECOND_NS, lambda: len(pair.right.cq._queue) > 0)
    assert everything(pair.right) == [WCStatus.SUCCESS]
    return everything(pair.left) != []


@pytest.mark.parametrize("lost_ms", [0, 1, 5, 10, 25])
def test_the_sender_completes_although_the_receiver_has_closed(lost_ms: int) -> None:
    """Acknowledgements of a write that has arrived are lost for some time. The receiver drains and closes."""
    pair = connected()
    source, target, _ = pair.memory(b"\7" * 20_000)
    pair.right.qp.post_recv(RecvWR(1))
    lose(pair, "h0", 1.0)
    write(pair.left, source, target, 0, immediate=True)
    assert not arrived(pair)
    heals = pair.fabric.now + lost_ms * MILLISECOND_NS
    pair.fabric.at(heals, lambda: lose(pair, "h0", 0.0))
    pair.right.qp.drain()
    pair.right.qp.close()
    pair.run(30_000 * MILLISECOND_NS)
    assert everything(pair.left) == [WCStatus.SUCCESS]
    assert pair.left.qp.state == QPState.RTS


@pytest.mark.parametrize("drains", [False, True])
def test_without_drain_the_sender_fails(drains: bool) -> None:
    """The test above detects a `drain` that returns too early."""
    pair = connected()
    source, target, _ = pair.memory(b"\7" * 20_000)
    pair.right.qp.post_recv(RecvWR(1))
    lose(pair, "h0", 1.0)
    write(pair.left, source, target, 0, immediate=True)
    assert not arrived(pair)
    pair.fabric.at(pair.fabric.now + 5 * MILLISECOND_NS, lambda: lose(pair, "h0", 0.0))
    if drains:
        # With quiet=0 the caller has to wait for the peer's word. This test does not.
        pair.right.qp.drain(quiet=0)
    pair.right.qp.close()
    pair.run(30_000 * MILLISECOND_NS)
    assert everything(pair.left) == [WCStatus.RETRY_EXCEEDED]


def test_answers_leave_before_it_returns() -> None:
    """An acknowledgement that may wait for a later one: 4 ms here."""
    pair = connected()
    source, target, _ = pair.memory(b"\7" * 20_000)
    pair.right.qp.post_recv(RecvWR(1))
    write(pair.left, source, target, 0, immediate=True)
    arrived(pair)
    pair.right.qp.drain(quiet=0)
    counters = pair.right.qp.figures.counters
    sent = counters.acks_sent + counters.sacks_sent
    pair.run(50 * MILLISECOND_NS)
    assert counters.acks_sent + counters.sacks_sent == sent > 0
    assert everything(pair.left) == [WCStatus.SUCCESS]


def test_it_answers_for_twice_the_local_ack_timeout_after_the_last_request() -> None:
    pair = connected()
    source, target, _ = pair.memory(b"\7" * 100)
    write(pair.left, source, target, 0)
    pair.left.qp.drain()
    asked = pair.right.qp.endpoint_qp.asked_at
    assert 0 < asked < pair.fabric.now
    pair.right.qp.drain()
    assert asked + 2 * TIMEOUT_NS <= pair.fabric.now < asked + 3 * TIMEOUT_NS
    pair.right.qp.drain(timeout=0)
    # It is drained from then on. The sender received no request, so it was drained at once.
    assert pair.left.qp.endpoint_qp.asked_at == -1


@pytest.mark.parametrize("seed", range(12))
def test_two_ends_that_end_one_after_the_other_over_a_bad_network(seed: int) -> None:
    """Both write; one in ten packets is lost each way. Each drains, and closes when both have drained."""
    pair = connected(seed)
    ends = (pair.left, pair.right)
    regions = [(end.pd.mr(bytearray(b"\5" * 30_000)), end.pd.mr(bytearray(30_000))) for end in ends]
    for near, far in itertools.permutations(range(2)):
        lose(pair, "h0" if far == 0 else "h1", 0.1)
        for number in range(10):
            ends[near].qp.post_recv(RecvWR(number))
            write(ends[near], regions[near][0], regions[far][1], number, immediate=True)
    first, second = ends if seed % 2 else ends[::-1]
    first.qp.drain(quiet=0)
    second.qp.drain(quiet=0)
    for end in ends:
        assert end.qp.state == QPState.RTS
        assert sorted(everything(end)) == [WCStatus.SUCCESS] * 20
        end.qp.close()


@pytest.mark.parametrize("seed", range(12))
def test_one_end_that_only_drains_leaves_the_other_all_it_waited_for(seed: int) -> None:
    """The ends exchange no word: the quiet period alone covers lost answers."""
    pair = connected(seed)
    source, target, memory = pair.memory(b"\5" * 30_000)
    lose(pair, "h0", 0.1)
    lose(pair, "h1", 0.1)
    for number in range(10):
        pair.right.qp.post_recv(RecvWR(number))
        write(pair.left, source, target, number, immediate=True)
    pair.fabric.run(pair.fabric.now + 3000 * MILLISECOND_NS, lambda: len(pair.right.cq._queue) == 10)
    pair.right.qp.drain()
    pair.right.qp.close()
    pair.run(30_000 * MILLISECOND_NS)
    assert everything(pair.left) == [WCStatus.SUCCESS] * 10
    assert memory == b"\5" * 30_000


# ------------------------------------------------------------------ what it says when it does not return


def test_it_says_what_is_under_way_when_the_time_is_up() -> None:
    pair = connected()
    source, target, _ = pair.memory(b"\7" * 300_000)
    lose(pair, "h1", 1.0)
    write(pair.left, source, target, 0)
    write(pair.left, source, target, 1)
    refused = refusal(lambda: pair.left.qp.drain(timeout=0))
    assert (refused.errno, "2 sends have not completed" in str(refused)) == (errno.EAGAIN, True)
    before = pair.fabric.now
    refused = refusal(lambda: pair.left.qp.drain(timeout=0.05))
    assert (refused.errno, "2 sends have not completed" in str(refused)) == (errno.ETIMEDOUT, True)
    assert 50 * MILLISECOND_NS <= pair.fabric.now - before < 60 * MILLISECOND_NS


def test_a_message_that_is_partly_here_is_under_way() -> None:
    pair = connected()
    source, target, _ = pair.memory(b"\7" * 1_000_000)
    write(pair.left, source, target, 0)
    pair.fabric.run(pair.fabric.now + 1000 * MILLISECOND_NS, lambda: pair.right.qp.figures.counters.bytes_placed > 0)
    lose(pair, "h1", 1.0)
    refused = refusal(lambda: pair.right.qp.drain(timeout=1.0))
    assert (refused.errno, "arrived in part" in str(refused)) == (errno.ETIMEDOUT, True)
    lose(pair, "h1", 0.0)
    pair.right.qp.drain()
    assert everything(pair.left) == [WCStatus.SUCCESS]


def test_a_qp_in_error_cannot_be_drained() -> None:
    pair = connected()
    source, _, _ = pair.memory(b"\7" * 100)
    pair.left.qp.post_send(SendWR(0, sge=source.sge(), remote_addr=0, rkey=1))
    refused = refusal(pair.left.qp.drain)
    assert (refused.errno, "remote_access_error" in str(refused)) == (errno.EIO, True)
    assert everything(pair.left) == [WCStatus.REMOTE_ACCESS_ERROR]


def test_reset_ends_it_and_a_closed_qp_refuses() -> None:
    pair = connected()
    source, target, _ = pair.memory(b"\7" * 100)
    lose(pair, "h1", 1.0)
    write(pair.left, source, target, 0)
    pair.fabric.at(pair.fabric.now + 3 * MILLISECOND_NS, lambda: pair.left.qp.modify(QPAttr(qp_state=QPState.RESET)))
    pair.left.qp.drain(timeout=1.0)
    assert pair.left.qp.state == QPState.RESET
    pair.left.qp.close()
    assert refusal(pair.left.qp.drain).errno == errno.EINVAL


def test_a_callback_of_the_simulation_cannot_drain() -> None:
    pair = connected()
    source, target, _ = pair.memory(b"\7" * 100)
    write(pair.left, source, target, 0)
    caught: list[CallerError] = []

    def drain() -> None:
        try:
            pair.left.qp.drain()
        except CallerError as error:
            caught.append(error)

    pair.fabric.at(pair.fabric.now + 1, drain)
    with pytest.raises(VerbsError, match="ETIMEDOUT"):
        pair.left.channel.get_cq_event(timeout=0.001)
    assert "virtual time does not pass while this waits" in str(caught[0])
    pair.left.qp.drain()
