# SPDX-License-Identifier: BSD-2-Clause
"""The loop over real sockets: two nodes on a real fabric, link events, calls from other threads, interrupts."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from patience import PATIENCE_S, Fence, until_out_of_use

from mrc.conformance.live.watched import Watched
from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError, MrcError, PeerError, SystemRefused
from mrc.fabric import Fabric
from mrc.lab import Lab
from mrc.net.mtu import FullPackets
from mrc.net.negotiation import QpDescription
from mrc.net.node import Node
from mrc.net.ports import waiting_in
from mrc.net.sockets import Srv6Port
from mrc.net.tuning import transfer_config
from mrc.net.turn import MOST_TURNS_BEFORE_TIMERS
from mrc.trace.vocabulary import PORT

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
]

SIZE = 1 << 20


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(f"driver-{os.getpid()}") as built:
        yield built


def fabric(lab: Lab, host: str) -> Fabric:
    return Fabric.load(lab.fabric_path(host))


def open_node(lab: Lab, host: str) -> Node:
    return lab.inside(host, lambda: Node(fabric(lab, host)))


@pytest.fixture
def node(lab: Lab) -> Iterator[Node]:
    with open_node(lab, "h0") as opened:
        yield opened


@pytest.fixture
def peer(lab: Lab) -> Iterator[Node]:
    with open_node(lab, "h1") as opened:
        yield opened


def connected(node: Node, peer: Node) -> QueuePair:
    """A QP of `node` in RTS towards one of `peer`'s; nothing of it is exchanged over the fabric."""
    ours, theirs = node.create_qp(transfer_config(path_mtu=4096)), peer.create_qp(transfer_config(path_mtu=4096))
    node.connect(ours, peer.description, QpDescription(theirs.qpn, theirs.first_psn))
    peer.connect(theirs, node.description, QpDescription(ours.qpn, ours.first_psn))
    return ours


def test_writes_cross_the_fabric(node: Node, peer: Node) -> None:
    qp = connected(node, peer)
    content = os.urandom(SIZE)
    target = bytearray(SIZE)
    region = peer.endpoint.memory.register(target, va=0)
    source = node.endpoint.memory.register(content, remote_write=False)
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        receiving = pool.submit(peer.driver.run, over.is_set, 0.01)
        for number, start in enumerate(range(0, SIZE, SIZE // 4)):
            qp.post_write(WriteRequest(number, source, start, SIZE // 4, start, region.rkey))
        node.endpoint.wake(qp)
        node.driver.run(lambda: len(node.endpoint.completions) == 4, 0.01)
        over.set()
        peer.driver.wake()
        receiving.result(PATIENCE_S)
    assert [(each.wr_id, each.status, each.byte_len) for each in node.endpoint.completions] == [
        (number, WorkStatus.SUCCESS, SIZE // 4) for number in range(4)
    ]
    assert target == content
    assert peer.driver.socket_drops() == 0
    assert node.endpoint.counters.not_sent_by_system == 0


@pytest.fixture
def looping(node: Node) -> Iterator[threading.Thread]:
    """The node's loop in a thread of its own, asleep for long when nothing happens."""
    over = threading.Event()
    thread = threading.Thread(target=node.driver.run, args=(over.is_set, 600.0))
    thread.start()
    while node.driver.owner != thread.ident:
        assert thread.is_alive(), "the loop ended at once"
        time.sleep(0.001)
    yield thread
    over.set()
    node.driver.wake()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_call_runs_in_the_loops_thread_at_once(node: Node, looping: threading.Thread) -> None:
    began = time.monotonic()
    assert node.driver.call(threading.get_ident) == looping.ident
    # A call from inside a call does not wait for itself.
    assert node.driver.call(lambda: node.driver.call(threading.get_ident)) == looping.ident
    # Not when the loop next wakes by itself, ten minutes from now.
    assert time.monotonic() - began < PATIENCE_S


@pytest.mark.parametrize("error", [PeerError("the peer did"), CallerError("you did"), ZeroDivisionError("we did")])
def test_what_a_call_raises_is_raised_at_the_caller_and_the_loop_goes_on(
    node: Node, looping: threading.Thread, error: Exception
) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error), match="did"):
        node.driver.call(fail)
    assert node.driver.call(lambda: 7) == 7


def test_a_call_without_a_loop_runs_where_it_is_made(node: Node) -> None:
    assert node.driver.call(threading.get_ident) == threading.get_ident()


def test_calls_left_when_the_loop_ends_are_carried_out(node: Node) -> None:
    turns = 0

    def ask() -> int:
        return node.driver.call(lambda: 1, PATIENCE_S)

    with ThreadPoolExecutor(1) as pool:
        asked: list[Any] = []

        def until() -> bool:
            nonlocal turns
            turns += 1
            if turns == 2:
                # Nothing turns the loop any more once this call is waiting.
                asked.append(pool.submit(ask))
                while not node.driver._calls:
                    time.sleep(0.001)
                return True
            return False

        node.driver.run(until, 0.001)
        assert asked[0].result(PATIENCE_S) == 1


def test_what_was_asked_for_before_a_packet_was_sent_is_done_before_it_is_looked_at(
    lab: Lab, node: Node, peer: Node
) -> None:
    """A receive posted before the peer writes is there when the write arrives, however late the loop wakes."""
    qp = connected(node, peer)
    (receiving,) = peer.endpoint.qps.values()
    fence = Fence.of(lab)
    turns = 0

    def until() -> bool:
        nonlocal turns
        turns += 1
        if turns == 1:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(peer.driver.submit, lambda: receiving.post_receive(7)).result(PATIENCE_S)
            source = node.endpoint.memory.register(b"", remote_write=False)
            qp.post_write(WriteRequest(0, source, 0, 0, 0, 0, immediate=5))
            node.endpoint.wake(qp)
            node.driver.turn(0.0)
            fence.wait()  # the packet waits in the peer's socket now
        return turns == 5

    peer.driver.run(until, 0.01)
    fence.close()
    (done,) = peer.endpoint.completions
    assert (done.wr_id, done.status, done.immediate) == (7, WorkStatus.SUCCESS, 5)


def test_posts_from_the_loops_own_thread_leave_in_the_same_turn(node: Node, peer: Node) -> None:
    """In order, all of them before a later call and before the loop sends."""
    qp = connected(node, peer)
    source = node.endpoint.memory.register(bytes(8), remote_write=False)
    happened: list[str] = []

    def post(number: int) -> None:
        happened.append(f"post {number}")
        qp.post_write(WriteRequest(number, source, 0, 8, 0, 1))
        node.endpoint.wake(qp)

    def until() -> bool:
        for number in range(2):
            node.driver.submit(lambda number=number: post(number))
        assert happened == []
        node.driver.call(lambda: happened.append("call"))
        node.driver.submit(lambda: post(2))
        return True

    node.driver.run(until, 600.0, before_sending=lambda: True)
    assert happened == ["post 0", "post 1", "call", "post 2"]
    assert qp.counters.data_packets_sent == 3


def test_steps_run_in_the_loops_thread_and_do_not_hold_the_endpoint(node: Node) -> None:
    """From any thread, in order; one that a step asks for comes after the next turn."""
    happened: list[str] = []

    def first() -> None:
        assert threading.get_ident() == node.driver.owner
        assert not node.driver.is_inside()
        happened.append("first")
        node.driver.call_soon(lambda: happened.append("third"))

    caller = threading.Thread(target=node.driver.call_soon, args=(first,))
    caller.start()
    caller.join()
    node.driver.call_soon(lambda: happened.append("second"))
    assert happened == []
    node.driver.run(lambda: len(happened) == 3, 600.0)
    assert happened == ["first", "second", "third"]


def test_calls_to_a_closed_driver_are_refused(node: Node) -> None:
    node.driver.close()
    with pytest.raises(MrcError, match="shut down"):
        node.driver.call(lambda: 1)
    with pytest.raises(MrcError, match="shut down"):
        node.driver.call_soon(lambda: None)


@pytest.mark.parametrize("link", ["h0-p0l0", "h0-p1l0"])
def test_a_port_goes_down_and_comes_back(lab: Lab, node: Node, link: str) -> None:
    def wait_for(up: bool) -> int:
        by = time.monotonic() + PATIENCE_S
        node.driver.run(lambda: bool(node.endpoint.events) or time.monotonic() > by, 0.5)
        event = node.endpoint.events.popleft()
        assert (event.kind, event["side"], event["up"]) == (PORT, "local", up)
        return int(event["port"])

    try:
        lab.cut(link)
        assert wait_for(up=False) == int(link[4])
    finally:
        lab.heal(link)
    assert wait_for(up=True) == int(link[4])


@pytest.mark.parametrize("endpoint", ["ours", "changed"])
def test_a_loop_that_never_sleeps_sees_ports_too(lab: Lab, node: Node, endpoint: str) -> None:
    """Sleep tells what is readable; who polls, or is asked for completions in every turn, looks now and then."""
    if endpoint == "changed":
        node.driver.use(Watched(node.endpoint))
    for act, up in ((lab.cut, False), (lab.heal, True)):
        act("h0-p0l0")
        by = time.monotonic() + PATIENCE_S
        while not node.endpoint.events and time.monotonic() < by:
            node.driver.poll()
        event = node.endpoint.events.popleft()
        assert (event.kind, event["up"]) == (PORT, up)


def test_a_port_that_was_down_before_is_known_to_be_down(lab: Lab, peer: Node) -> None:
    """behaviour.md, Ports: the plane's EVs are out for QPs made later as well."""
    lab.cut("h0-p0l0")
    try:
        until_out_of_use("p0", lab.namespace_path("h0").name)
        with open_node(lab, "h0") as node:
            node.driver.turn(0.01)
            assert ports_used(node, connected(node, peer)) == {1}
    finally:
        lab.heal("h0-p0l0")


def test_a_qp_made_after_a_port_went_down_avoids_it(lab: Lab, node: Node, peer: Node) -> None:
    lab.cut("h0-p0l0")
    try:
        by = time.monotonic() + PATIENCE_S
        node.driver.run(lambda: bool(node.endpoint.events) or time.monotonic() > by, 0.1)
        assert [event.values for event in node.endpoint.events] == [("local", 0, False)]
        assert ports_used(node, connected(node, peer)) == {1}
    finally:
        lab.heal("h0-p0l0")


def ports_used(node: Node, qp: QueuePair) -> set[int]:
    """The ports a QP's first packets go out of."""
    source = node.endpoint.memory.register(bytes(64 * 4096), remote_write=False)
    qp.post_write(WriteRequest(0, source, 0, 64 * 4096, 0, 1))
    node.endpoint.wake(qp)
    node.driver.turn(0)
    assert qp.paths is not None
    assert qp.paths.packets.sum() == 64
    return {int(port) for port, packets in zip(qp.paths.port, qp.paths.packets, strict=True) if packets}


def test_closing_gives_every_descriptor_back(lab: Lab) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    with open_node(lab, "h0"):
        pass
    gc.collect()  # what earlier tests let go of is closed by now
    before = descriptors()
    opened = open_node(lab, "h0")
    assert descriptors() > before
    opened.driver.close()
    opened.driver.close()
    assert descriptors() == before


@pytest.mark.parametrize(
    ("change", "path_mtu", "says"),
    [
        ({"interface": "eth9"}, 1024, "no interface 'eth9' here"),
        ({"address": "fd00::77"}, 1024, "is the fabric up?"),
        (
            {},
            8192,
            "interface p0 has MTU 4400, and packets with a path MTU of 8192 take 8292: raise the interface's ",
        ),
    ],
)
def test_ports_that_cannot_be_opened(lab: Lab, change: dict[str, str], path_mtu: int, says: str) -> None:
    port = replace(fabric(lab, "h0").ports[0], **change)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SystemRefused) as raised:
        lab.inside("h0", lambda: Srv6Port(0, port, FullPackets(path_mtu, 100)))
    assert says in str(raised.value)
    assert len(os.listdir("/proc/self/fd")) == before


def test_descriptors_beyond_those_select_knows(lab: Lab) -> None:
    """A program may have thousands of files open before it opens its ports."""
    many = [os.dup(0) for _ in range(1100)]
    try:
        with open_node(lab, "h0") as node:
            assert min(port.receiver.fileno() for port in node.driver.ports) > 1024
            node.driver.turn(0.02)
            began = time.monotonic()
            node.driver.wake()
            node.driver.turn(600.0)
            assert time.monotonic() - began < PATIENCE_S
    finally:
        for each in many:
            os.close(each)


def test_what_is_posted_when_the_loop_asks_leaves_in_the_same_turn(node: Node, peer: Node) -> None:
    """Driver.run: it asks "between what arrives and what leaves"."""
    qp = connected(node, peer)
    source = node.endpoint.memory.register(bytes(8), remote_write=False)
    sent: list[int] = []

    def over() -> bool:
        sent.append(node.endpoint.total_counters().data_packets_sent)
        if len(sent) == 1:
            qp.post_write(WriteRequest(0, source, 0, 8, 0, 0))
            node.endpoint.wake(qp)
        return len(sent) == 2

    node.driver.run(over, 0.01, before_sending=lambda: True)
    assert sent == [0, 1]


def test_what_is_posted_when_the_loop_ends_leaves_before_it_does(node: Node, peer: Node) -> None:
    qp = connected(node, peer)
    source = node.endpoint.memory.register(bytes(8), remote_write=False)

    def over() -> bool:
        qp.post_write(WriteRequest(0, source, 0, 8, 0, 0))
        node.endpoint.wake(qp)
        return True

    node.driver.run(over, 0.01, before_sending=lambda: True)
    assert node.endpoint.total_counters().data_packets_sent == 1


def test_timers_wait_until_what_has_arrived_is_read(node: Node, peer: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that wakes late finds answers waiting: no timer may run out before they are read. What waits unread is
    told to the receive budget."""
    qp = connected(node, peer)
    source = node.endpoint.memory.register(bytes(4096 * 600), remote_write=False)
    region = peer.endpoint.memory.register(bytearray(4096 * 600), va=0)
    qp.post_write(WriteRequest(0, source, 0, 4096 * 600, 0, region.rkey))
    node.endpoint.wake(qp)
    while qp.counters.data_packets_sent < 380:
        node.driver.turn(0.0)
    waiting = sum(waiting_in(port.receiver) for port in peer.driver.ports)
    assert waiting > 380 * 4096
    read: list[int] = []
    timers_at: list[int] = []
    backlog: list[int] = []

    def received() -> int:
        return sum(each.counters.requests_received for each in peer.endpoint.qps.values())

    monkeypatch.setattr(peer.driver, "_budget", Recorded(backlog))
    peer.driver.use(AlwaysDue(peer.endpoint, lambda now: timers_at.append(received())))
    for _ in range(5):
        peer.driver.turn(0.0)
        read.append(received())
    # 128 packets of each port a turn: the timers ran in the first turn that left nothing behind.
    assert read[0] < 380 <= read[-1]
    assert timers_at[0] >= 380
    assert backlog[0] > 0
    assert backlog[-1] == 0


class AlwaysDue(Watched):
    """An endpoint whose timers are always due; `run` gets the time whenever they run."""

    def __init__(self, endpoint: Endpoint, run: Callable[[int], None]) -> None:
        super().__init__(endpoint)
        self.run = run

    def next_deadline(self) -> int | None:
        return 0

    def on_timer(self, now: int) -> None:
        self.run(now)


class Recorded:
    """A receive budget whose backlog is written down."""

    def __init__(self, backlog: list[int]) -> None:
        self._backlog = backlog

    def on_backlog(self, packets: int) -> None:
        self._backlog.append(packets)


def test_timers_do_not_wait_for_ever(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a flood there is always more to read."""
    ran: list[int] = []
    monkeypatch.setattr(node.driver, "_receiver", Flooded())
    node.driver.use(AlwaysDue(node.endpoint, ran.append))
    for _ in range(2 * (MOST_TURNS_BEFORE_TIMERS + 1)):
        node.driver.turn(0.0)
    assert len(ran) == 2


class Flooded:
    """A receiver whose ports always have more than it can take."""

    more = True

    def receive(self) -> int:
        return 0

    def check(self) -> None:
        return
