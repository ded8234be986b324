# SPDX-License-Identifier: BSD-2-Clause
"""Retries for jobs on real sockets: a lab whose every path is cut for longer than other QPs wait, and then healed."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

import pytest
from patience import PATIENCE_S
from verbs_pair import End, open_end

from mrc import CORE
from mrc.core import COMPILED
from mrc.fabric import Fabric
from mrc.lab import Lab
from mrc.net.device import NodeDevice, open_device
from mrc.net.tuning import transfer_config
from mrc.verbs import FOR_JOBS, MR, QPCap, QPState, RemoteMemory, SendWR, WCStatus, connect, describe

pytestmark = [
    pytest.mark.root,
    # Twenty seconds that nobody can hurry. Both ways in virtual time: test_verbs_partition.py.
    pytest.mark.skipif(CORE.kind != COMPILED, reason="once is enough"),
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
]

SIZE, DEPTH = 1 << 18, 8
# Without FOR_JOBS a QP of this tuning is given up after 18 s.
OUTAGE_S = 20.0


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab.up(f"partition-{os.getpid()}") as built:
        yield built


@pytest.fixture
def ends(lab: Lab) -> Iterator[tuple[End, End]]:
    def opened(host: str) -> NodeDevice:
        fabric = Fabric.load(lab.fabric_path(host))
        return lab.inside(host, lambda: stack.enter_context(open_device(fabric)))

    with contextlib.ExitStack() as stack:
        devices = [opened("h0"), opened("h1")]
        left, right = (open_end(each, cap=QPCap(64, 64), tuning=transfer_config(path_mtu=4096)) for each in devices)
        ours, theirs = describe(left.qp), describe(right.qp)
        connect(right.qp, theirs, ours, **FOR_JOBS)
        connect(left.qp, ours, theirs, **FOR_JOBS)
        with left.context, right.context:
            yield left, right


class Writer(threading.Thread):
    """Keeps writing, each write to its place in turn, until it is told to end."""

    def __init__(self, end: End, source: MR, remote: RemoteMemory) -> None:
        super().__init__(daemon=True)
        self._end, self._source, self._remote = end, source, remote
        self.over = threading.Event()
        self.completed = 0
        self.statuses: set[WCStatus] = set()

    def run(self) -> None:
        posted = 0
        while not self.over.is_set() or self.completed < posted:
            while posted - self.completed < DEPTH and not self.over.is_set():
                at = posted % DEPTH * SIZE
                sge = self._source.sge(at, SIZE)
                self._end.qp.post_send(
                    SendWR(posted, sge=sge, remote_addr=self._remote.addr + at, rkey=self._remote.rkey)
                )
                posted += 1
            done = self._end.cq.poll(DEPTH)
            self.completed += len(done)
            self.statuses |= {each.status for each in done}
            if self.statuses - {WCStatus.SUCCESS}:
                return
            if not done:
                time.sleep(0.001)


@pytest.mark.parametrize("what", ["spines", "hosts"])
def test_a_transfer_goes_on_after_everything_was_cut(lab: Lab, ends: tuple[End, End], what: str) -> None:
    left, right = ends
    content, memory = bytearray(os.urandom(DEPTH * SIZE)), bytearray(DEPTH * SIZE)
    writer = Writer(left, left.pd.mr(content), right.pd.mr(memory).remote)
    writer.start()

    def until(completed: int) -> None:
        patience = time.monotonic() + PATIENCE_S
        while writer.completed < completed:
            assert time.monotonic() < patience, f"{writer.completed} of {completed}: {left.qp}"
            assert writer.is_alive(), writer.statuses
            time.sleep(0.01)

    until(2 * DEPTH)
    names = [name for name in lab.topology.switches if "s" in name] if what == "spines" else ["h0", "h1"]
    lab.cut(*names)
    time.sleep(1.0)
    during, counters = writer.completed, left.qp.figures.counters
    before = counters.data_packets_sent + counters.tail_probes_sent + counters.path_probes_sent
    time.sleep(OUTAGE_S)
    assert (left.qp.state, right.qp.state) == (QPState.RTS, QPState.RTS)
    assert writer.completed == during
    sent = counters.data_packets_sent + counters.tail_probes_sent + counters.path_probes_sent - before
    assert sent < 100 * OUTAGE_S
    lab.heal(*names)
    until(during + 4 * DEPTH)
    writer.over.set()
    writer.join(PATIENCE_S)
    left.qp.drain(timeout=PATIENCE_S)
    right.qp.drain(timeout=PATIENCE_S)
    assert writer.statuses == {WCStatus.SUCCESS}
    assert memory == content
    assert (left.qp.state, right.qp.state) == (QPState.RTS, QPState.RTS)
