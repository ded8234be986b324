# SPDX-License-Identifier: BSD-2-Clause
"""While an application holds the interpreter's lock the datapath goes on, at both ends: here they are one process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from patience import PATIENCE_S
from verbs_pair import End, open_end

from mrc import CORE
from mrc.core import COMPILED
from mrc.endpoint.memory import NEW_REGIONS
from mrc.fabric import Fabric
from mrc.lab import Lab
from mrc.net.device import NodeDevice, open_device
from mrc.net.driver import Driver
from mrc.net.tuning import transfer_config
from mrc.verbs import MR, ConnectionParameters, QPCap, QPState, RecvWR, SendWR, WCStatus, WROpcode, connect, describe

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
    pytest.mark.skipif(CORE.kind != COMPILED, reason="interpreted nothing runs without the interpreter"),
]

SIZE, WRITES = 1 << 16, 48
# A library called so keeps the interpreter's lock.
_held = ctypes.PyDLL(None)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(f"stand-in-{os.getpid()}") as built:
        yield built


class Watched:
    """What Python code calls while its thread has an endpoint, of all that calls the system: the interpreter is given
    up for it. New threads are watched, and the one that calls `here`."""

    MODULES = frozenset({"posix", "socket", "_socket", "select", "fcntl", "_io"})

    def __init__(self) -> None:
        self.drivers: list[Driver] = []
        self.calls: set[str] = set()
        threading.setprofile(self.here)

    def here(self, _frame: object, event: str, function: object) -> None:
        if event != "c_call":
            return
        module = getattr(function, "__module__", None) or type(getattr(function, "__self__", None)).__module__
        if module in self.MODULES and any(driver.is_inside() for driver in self.drivers):
            self.calls.add(f"{module}.{getattr(function, '__name__', function)}")


@pytest.fixture
def watched() -> Iterator[Watched]:
    yield Watched()
    threading.setprofile(None)
    sys.setprofile(None)


@pytest.fixture
def ends(lab: Lab) -> Iterator[tuple[End, End]]:
    def opened(host: str) -> NodeDevice:
        fabric = Fabric.load(lab.fabric_path(host))
        return lab.inside(host, lambda: stack.enter_context(open_device(fabric)))

    tuning = transfer_config(path_mtu=4096)
    with contextlib.ExitStack() as stack:
        devices = [opened("h0"), opened("h1")]
        left, right = (open_end(device, cqe=1024, cap=QPCap(512, 512), tuning=tuning) for device in devices)
        ours = ConnectionParameters.from_json(describe(left.qp).to_json())
        theirs = ConnectionParameters.from_json(describe(right.qp).to_json())
        connect(right.qp, theirs, ours, timeout=17)
        connect(left.qp, ours, theirs, timeout=17)
        with left.context, right.context:
            yield left, right


@contextlib.contextmanager
def interpreter_held() -> Iterator[Callable[[Callable[[], bool]], bool]]:
    """Nobody else gets the interpreter's lock inside. Gives what sleeps until something holds, and returns whether."""

    def until(holds: Callable[[], bool]) -> bool:
        patience = time.monotonic() + PATIENCE_S
        while not holds() and time.monotonic() < patience:
            _held.usleep(10_000)
        return holds()

    before = sys.getswitchinterval()
    # Who waits for the lock asks for it only after so many seconds.
    sys.setswitchinterval(10 * PATIENCE_S)
    try:
        yield until
    finally:
        sys.setswitchinterval(before)


def post(end: End, content: bytes, remote: tuple[int, int], first: int) -> None:
    post_from(end, end.pd.mr(bytearray(content)), remote, first)


def post_from(end: End, source: MR, remote: tuple[int, int], first: int) -> None:
    addr, rkey = remote
    for number in range(WRITES):
        at = number * SIZE
        write = SendWR(first + number, WROpcode.RDMA_WRITE, source.sge(at, SIZE), addr + at, rkey)
        end.qp.post_send(write)


def completions(end: End, count: int) -> list[tuple[int, WCStatus]]:
    got: list[tuple[int, WCStatus]] = []
    until = time.monotonic() + PATIENCE_S
    while len(got) < count and time.monotonic() < until:
        got += [(each.wr_id, each.status) for each in end.cq.poll(64)]
    return got


def test_what_is_posted_arrives_while_the_interpreter_is_held(ends: tuple[End, End]) -> None:
    left, right = ends
    target = bytearray(WRITES * SIZE)
    remote = right.pd.mr(target).remote
    where = (remote.addr, remote.rkey)
    # Once while everybody is there: what is made at the first packets is made.
    post(left, b"\1" * len(target), where, 0)
    assert completions(left, WRITES) == [(number, WCStatus.SUCCESS) for number in range(WRITES)]
    content = os.urandom(len(target))
    with interpreter_held() as until:
        post(left, content, where, 1000)
        assert until(lambda: target == content)
    assert completions(left, WRITES) == [(1000 + number, WCStatus.SUCCESS) for number in range(WRITES)]
    assert (left.qp.state, right.qp.state) == (QPState.RTS, QPState.RTS)


def test_immediates_find_the_receives_that_were_posted(ends: tuple[End, End]) -> None:
    left, right = ends
    target = bytearray(4096)
    remote = right.pd.mr(target).remote
    source = left.pd.mr(bytearray(b"\7" * 4096))

    def write(number: int) -> None:
        opcode = WROpcode.RDMA_WRITE_WITH_IMM
        left.qp.post_send(SendWR(number, opcode, source.sge(0, 4096), remote.addr, remote.rkey, number))

    right.qp.post_recv(RecvWR(100))
    write(0)
    assert completions(right, 1) == [(100, WCStatus.SUCCESS)]
    target[:] = bytes(4096)
    with interpreter_held() as until:
        for number in range(1, 9):
            right.qp.post_recv(RecvWR(100 + number))
            write(number)
        assert until(lambda: bytes(target) == b"\7" * 4096)
    assert completions(right, 8) == [(100 + number, WCStatus.SUCCESS) for number in range(1, 9)]
    assert completions(left, 9) == [(number, WCStatus.SUCCESS) for number in range(9)]
    assert (left.qp.state, right.qp.state) == (QPState.RTS, QPState.RTS)


def test_a_qp_outlives_an_application_that_is_away_for_longer_than_its_retries(ends: tuple[End, End]) -> None:
    left, right = ends
    target = bytearray(WRITES * SIZE)
    remote = right.pd.mr(target).remote
    post(left, b"\2" * len(target), (remote.addr, remote.rkey), 0)
    with interpreter_held():
        _held.sleep(6)
    assert completions(left, WRITES) == [(number, WCStatus.SUCCESS) for number in range(WRITES)]
    assert (left.qp.state, right.qp.state) == (QPState.RTS, QPState.RTS)


def test_who_has_the_endpoint_does_not_give_up_the_interpreter(watched: Watched, ends: tuple[End, End]) -> None:
    """Whoever gets it then may keep it for long, and the stand-in waits for the endpoint as long."""
    left, right = ends
    target = bytearray(WRITES * SIZE)
    remote = right.pd.mr(target).remote
    source = left.pd.mr(bytearray(target))
    watched.drivers += [end.context.device.node.driver for end in ends]
    sys.setprofile(watched.here)
    for first in range(0, 20 * WRITES, WRITES):
        left.cq.req_notify()
        post_from(left, source, (remote.addr, remote.rkey), first)
        left.channel.get_cq_event(PATIENCE_S)
        left.cq.ack_cq_events(1)
        assert completions(left, WRITES) == [(first + number, WCStatus.SUCCESS) for number in range(WRITES)]
    assert watched.calls == set()


def test_memory_is_registered_while_somebody_has_the_endpoint(ends: tuple[End, End]) -> None:
    """A turn with traffic takes milliseconds: who registers does not wait for it, and the R_Key is good at once."""
    left, right = ends
    driver = right.context.device.node.driver
    had, over, gave_back = threading.Event(), threading.Event(), threading.Event()

    def have() -> None:
        had.set()
        over.wait(PATIENCE_S)
        gave_back.set()

    holder = threading.Thread(target=lambda: driver.call(have))
    holder.start()
    assert had.wait(PATIENCE_S)
    try:
        targets = [bytearray(64) for _ in range(8)]
        regions = [right.pd.mr(target) for target in targets]
        assert not gave_back.is_set()
    finally:
        over.set()
        holder.join()
    source = left.pd.mr(bytearray(b"\5" * 64))
    for number, region in enumerate(regions):
        left.qp.post_send(SendWR(number, sge=source.sge(), remote_addr=region.addr, rkey=region.rkey))
    assert completions(left, 8) == [(number, WCStatus.SUCCESS) for number in range(8)]
    assert targets == [bytearray(b"\5" * 64)] * 8


def test_many_threads_register_more_regions_than_wait_at_once(ends: tuple[End, End]) -> None:
    left, right = ends
    made: list[MR] = []

    def register() -> None:
        made.extend(right.pd.mr(bytearray(8)) for _ in range(NEW_REGIONS))

    threads = [threading.Thread(target=register) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({mr.rkey for mr in made}) == 4 * NEW_REGIONS
    source = left.pd.mr(bytearray(b"\6" * 8))
    for number in range(0, len(made), 16):
        mr = made[number]
        left.qp.post_send(SendWR(number, sge=source.sge(), remote_addr=mr.addr, rkey=mr.rkey))
    assert completions(left, len(made) // 16) == [(n, WCStatus.SUCCESS) for n in range(0, len(made), 16)]
    for mr in made:
        mr.close()
    assert right.pd.memory.open.count == 0
