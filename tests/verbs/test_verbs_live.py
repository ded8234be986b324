# SPDX-License-Identifier: BSD-2-Clause
"""Verbs programs on real sockets: two nodes of a lab, each with its loop in a thread of its own, or without one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from verbs_pair import End, open_end

from mrc.errors import CallerError, MrcError, PeerError
from mrc.fabric import Fabric
from mrc.lab import Lab
from mrc.net.device import NodeDevice, open_device
from mrc.net.node import Node
from mrc.net.tuning import transfer_config
from mrc.verbs import (
    AHAttr,
    AsyncEventType,
    ConnectionParameters,
    PortState,
    QPAttr,
    QPCap,
    QPState,
    RecvWR,
    SendWR,
    VerbsError,
    WCStatus,
    WROpcode,
    connect,
    describe,
)

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
]

WAIT_S = 120.0
TUNING = transfer_config(path_mtu=4096)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(f"verbs-{os.getpid()}") as built:
        yield built


def fabric(lab: Lab, host: str) -> Fabric:
    return Fabric.load(lab.fabric_path(host))


@pytest.fixture
def devices(lab: Lab) -> Iterator[list[NodeDevice]]:
    def opened(host: str) -> NodeDevice:
        return lab.inside(host, lambda: stack.enter_context(open_device(fabric(lab, host))))

    with contextlib.ExitStack() as stack:
        yield [opened("h0"), opened("h1")]


@pytest.fixture
def ends(devices: list[NodeDevice]) -> Iterator[tuple[End, End]]:
    left, right = (open_end(device, cqe=1024, cap=QPCap(512, 512), tuning=TUNING) for device in devices)
    ours = ConnectionParameters.from_json(describe(left.qp).to_json())
    theirs = ConnectionParameters.from_json(describe(right.qp).to_json())
    connect(right.qp, theirs, ours, timeout=17)
    connect(left.qp, ours, theirs, timeout=17)
    with left.context, right.context:
        yield left, right


def wait_for(end: End, count: int) -> list[tuple[int, WCStatus]]:
    """As programs do: ask, poll, and sleep on the channel when there is nothing."""
    got: list[tuple[int, WCStatus]] = []
    until = time.monotonic() + WAIT_S
    while len(got) < count:
        end.cq.req_notify()
        done = end.cq.poll(64)
        got += [(each.wr_id, each.status) for each in done]
        if not done:
            assert time.monotonic() < until, got
            end.channel.get_cq_event(timeout=WAIT_S)
            end.cq.ack_cq_events(1)
    return got


def test_writes_and_immediates_cross_a_fabric(ends: tuple[End, End]) -> None:
    left, right = ends
    content, target = os.urandom(1_000_003), bytearray(1_000_003)
    source, remote = left.pd.mr(bytearray(content)), right.pd.mr(target).remote
    right.qp.post_recv(RecvWR(77))
    step = 250_001
    for number, start in enumerate(range(0, len(content), step)):
        length = min(step, len(content) - start)
        last = start + length == len(content)
        left.qp.post_send(
            SendWR(
                number,
                WROpcode.RDMA_WRITE_WITH_IMM if last else WROpcode.RDMA_WRITE,
                source.sge(start, length),
                remote.addr + start,
                remote.rkey,
                4711 if last else None,
            )
        )
    assert wait_for(right, 1) == [(77, WCStatus.SUCCESS)]
    # Every earlier write has arrived before the immediate is told.
    assert target == content
    assert wait_for(left, 4) == [(number, WCStatus.SUCCESS) for number in range(4)]


def test_many_threads_post_and_poll(ends: tuple[End, End]) -> None:
    left, right = ends
    workers, each = 4, 100
    target = bytearray(workers * each * 8)
    remote = right.pd.mr(target).remote
    content = bytearray(b"".join(number.to_bytes(8, "big") for number in range(1, workers * each + 1)))
    source = left.pd.mr(content)
    done: list[int] = []

    def post(worker: int) -> None:
        for number in range(worker * each, (worker + 1) * each):
            left.qp.post_send(
                SendWR(number, sge=source.sge(number * 8, 8), remote_addr=remote.addr + number * 8, rkey=remote.rkey)
            )

    def poll() -> None:
        until = time.monotonic() + WAIT_S
        while len(done) < workers * each and time.monotonic() < until:
            done.extend(completion.wr_id for completion in left.cq.poll(16))
            time.sleep(0.001)

    threads = [threading.Thread(target=post, args=(worker,)) for worker in range(workers)]
    threads += [threading.Thread(target=poll) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * WAIT_S)
    assert sorted(done) == list(range(workers * each))
    assert target == content


def test_a_channel_wakes_a_poller(ends: tuple[End, End]) -> None:
    left, right = ends
    right.qp.post_recv(RecvWR(1))
    right.cq.req_notify()
    poller = select.epoll()
    poller.register(right.channel, select.EPOLLIN)
    assert poller.poll(0) == []
    left.qp.post_send(SendWR(0, WROpcode.RDMA_WRITE_WITH_IMM, imm_data=5))
    assert [fd for fd, _ in poller.poll(WAIT_S)] == [right.channel.fileno()]
    assert right.channel.get_cq_event(timeout=0) is right.cq
    assert right.cq.poll()[0].imm_data == 5
    poller.close()


def test_a_wait_ends_in_time(ends: tuple[End, End]) -> None:
    with pytest.raises(VerbsError, match="ETIMEDOUT"):
        ends[0].channel.get_cq_event(timeout=0.05)
    with pytest.raises(VerbsError, match="EAGAIN"):
        ends[0].context.get_async_event(timeout=0)


def test_ports_tell_of_themselves(lab: Lab, ends: tuple[End, End]) -> None:
    context = ends[0].context
    ports = [context.query_port(number) for number in (1, 2)]
    assert [port.state for port in ports] == [PortState.ACTIVE] * 2
    assert [port.max_mtu for port in ports] == [4096] * 2
    lab.cut("h0-p1l0")
    try:
        event = context.get_async_event(timeout=WAIT_S)
        assert (event.event_type, event.element) == (AsyncEventType.PORT_ERR, 2)
        assert context.query_port(2).state == PortState.DOWN
    finally:
        lab.heal("h0-p1l0")
    event = context.get_async_event(timeout=WAIT_S)
    assert (event.event_type, event.element) == (AsyncEventType.PORT_ACTIVE, 2)


def test_a_refused_write_is_told_at_both_ends(ends: tuple[End, End]) -> None:
    left, right = ends
    source = left.pd.mr(bytearray(10))
    left.qp.post_send(SendWR(1, sge=source.sge(), remote_addr=0, rkey=1))
    assert wait_for(left, 1) == [(1, WCStatus.REMOTE_ACCESS_ERROR)]
    assert right.context.get_async_event(timeout=WAIT_S).element is right.qp
    assert left.qp.state == right.qp.state == QPState.ERROR


def test_a_malformed_address_is_the_peers_error(ends: tuple[End, End]) -> None:
    left, right = ends
    left.qp.modify(QPAttr(qp_state=QPState.RESET))
    left.qp.modify(QPAttr(qp_state=QPState.INIT, ev_profile_id=0, cc_profile_id=0))
    to_rtr = right.qp.query()
    with pytest.raises(PeerError):
        left.qp.modify(
            QPAttr(
                qp_state=QPState.RTR,
                ah_attr=AHAttr({"host": "somewhere"}),
                dest_qp_num=right.qp.qp_num,
                rq_psn=to_rtr.sq_psn,
                path_mtu=4096,
                max_wimm_dest=32,
                mpr_dest=8,
            )
        )
    assert left.qp.state == QPState.INIT


def test_the_thread_that_runs_the_loop_does_not_wait_for_itself(ends: tuple[End, End]) -> None:
    left, _ = ends
    with pytest.raises(CallerError, match="would wait for itself"):
        left.context.device.call(lambda: left.channel.get_cq_event(timeout=1.0))
    # Polling is fine there.
    assert left.context.device.call(lambda: left.cq.poll()) == []


def test_without_a_thread_the_loop_turns_while_somebody_waits_or_polls(lab: Lab, devices: list[NodeDevice]) -> None:
    peer = open_end(devices[1], tuning=TUNING)
    with peer.context, lab.inside("h0", lambda: Node(fabric(lab, "h0"))) as node:
        end = open_end(NodeDevice(node), tuning=TUNING)
        with end.context:
            ours, theirs = describe(end.qp), describe(peer.qp)
            connect(peer.qp, theirs, ours, timeout=17)
            connect(end.qp, ours, theirs, timeout=17)
            end.qp.post_send(SendWR(1))
            until = time.monotonic() + WAIT_S
            while not (done := end.cq.poll()):
                assert time.monotonic() < until
            assert done[0].wr_id == 1
            end.cq.req_notify()
            end.qp.post_send(SendWR(2))
            assert end.channel.get_cq_event(timeout=WAIT_S) is end.cq
            assert end.cq.poll()[0].wr_id == 2


def test_a_call_from_inside_a_call_is_run_with_a_loop_or_without(lab: Lab, devices: list[NodeDevice]) -> None:
    with lab.inside("h0", lambda: Node(fabric(lab, "h0"))) as node:
        for device in (devices[0], NodeDevice(node)):
            assert device.call(lambda device=device: device.call(lambda: 4711)) == 4711  # type: ignore[misc]


def test_a_device_that_is_closed_refuses(lab: Lab) -> None:
    with lab.inside("h0", lambda: Node(fabric(lab, "h0"))) as node:
        device = NodeDevice(node)
        end = open_end(device)
    with pytest.raises(MrcError, match="shut down"):
        end.context.pd().mr(bytearray(4))


def test_coroutines_wait_for_completions_beside_sockets(ends: tuple[End, End]) -> None:
    """One takes completions, one answers writes with writes, one talks over a socket, all in one thread."""
    left, right = ends
    rounds = 50
    memories = [bytearray(8), bytearray(8)]
    targets = [end.pd.mr(memory) for end, memory in zip(ends, memories, strict=True)]
    sources = [end.pd.mr(bytearray(8)) for end in ends]

    def write(place: int, number: int) -> None:
        remote = targets[1 - place]
        opcode = WROpcode.RDMA_WRITE_WITH_IMM
        ends[place].qp.post_send(SendWR(number, opcode, sources[place].sge(), remote.addr, remote.rkey, number))

    async def answer() -> int:
        async for each in right.cq:
            if each.imm_data is not None:
                write(1, each.imm_data)
                if each.imm_data == rounds - 1:
                    return each.imm_data
        return -1

    async def ask() -> list[int]:
        heard: list[int] = []
        write(0, 0)
        while len(heard) < rounds:
            for each in await left.cq.wait(timeout=WAIT_S):
                assert each.status == WCStatus.SUCCESS
                if each.imm_data is not None:
                    heard.append(each.imm_data)
                    if len(heard) < rounds:
                        write(0, len(heard))
        return heard

    async def talk() -> bytes:
        near, far = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=near)
        far.sendall(b"beside")
        heard = await reader.readexactly(6)
        writer.close()
        far.close()
        return heard

    async def program() -> tuple[int, list[int], bytes]:
        for number in range(rounds):
            left.qp.post_recv(RecvWR(number))
            right.qp.post_recv(RecvWR(number))
        answered, heard, said = await asyncio.gather(answer(), ask(), talk())
        await asyncio.gather(left.qp.drained(WAIT_S), right.qp.drained(WAIT_S))
        return answered, heard, said

    assert asyncio.run(program()) == (rounds - 1, list(range(rounds)), b"beside")


def test_a_coroutine_that_is_cancelled_while_nothing_comes_leaves_the_queue_to_others(ends: tuple[End, End]) -> None:
    left, right = ends
    source, target = left.pd.mr(bytearray(b"12345678")), right.pd.mr(bytearray(8))

    async def program() -> list[int]:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(left.cq.wait(), 0.05)
        with pytest.raises(VerbsError, match="ETIMEDOUT"):
            await left.cq.wait(timeout=0.05)
        left.qp.post_send(SendWR(3, sge=source.sge(), remote_addr=target.addr, rkey=target.rkey))
        return [each.wr_id for each in await asyncio.wait_for(left.cq.wait(), WAIT_S)]

    assert asyncio.run(program()) == [3]


def test_without_a_thread_the_loop_turns_while_a_coroutine_waits(lab: Lab, devices: list[NodeDevice]) -> None:
    peer = open_end(devices[1], tuning=TUNING)
    with peer.context, lab.inside("h0", lambda: Node(fabric(lab, "h0"))) as node:
        end = open_end(NodeDevice(node), tuning=TUNING)
        with end.context:
            ours, theirs = describe(end.qp), describe(peer.qp)
            connect(peer.qp, theirs, ours, timeout=17)
            connect(end.qp, ours, theirs, timeout=17)

            async def program() -> int:
                end.qp.post_send(SendWR(1))
                await end.qp.drained(WAIT_S)
                return (await end.cq.wait(timeout=WAIT_S))[0].wr_id

            assert asyncio.run(program()) == 1


def test_a_qp_is_drained_by_a_thread_while_another_posts_no_more(ends: tuple[End, End]) -> None:
    left, right = ends
    content, target = bytearray(os.urandom(1 << 20)), bytearray(1 << 20)
    source, remote = left.pd.mr(content), right.pd.mr(target).remote
    for number in range(16):
        left.qp.post_send(SendWR(number, sge=source.sge(), remote_addr=remote.addr, rkey=remote.rkey))
    left.qp.drain(timeout=WAIT_S)
    assert target == content
    right.qp.drain(timeout=WAIT_S)
    right.qp.close()
    assert [each.status for each in left.cq.poll(64)] == [WCStatus.SUCCESS] * 16
    left.qp.post_send(SendWR(1, sge=source.sge(), remote_addr=remote.addr, rkey=remote.rkey))
    with pytest.raises(CallerError, match="would wait for itself"):
        left.context.device.call(lambda: left.qp.drain(timeout=5.0))
