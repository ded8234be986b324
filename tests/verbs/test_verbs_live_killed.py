# SPDX-License-Identifier: BSD-2-Clause
"""The process of a peer is killed under many busy QPs: all are in error when docs/verbs.md says.

To the millisecond, in virtual time: test_verbs_silent_peer.py. Here it is a process that dies, over real sockets.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from patience import PATIENCE_S

from mrc import CORE
from mrc.core import COMPILED
from mrc.fabric import Fabric
from mrc.lab import Lab
from mrc.net.device import open_device
from mrc.verbs import (
    QP,
    AsyncEventType,
    ConnectionParameters,
    Context,
    QPCap,
    QPState,
    SendWR,
    VerbsError,
    WCStatus,
    connect,
    describe,
)

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(CORE.kind != COMPILED, reason="once is enough"),
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
]

PEER = Path(__file__).with_name("peer_to_kill.py")
SIZE, DEPTH = 1 << 16, 4
# docs/verbs.md, with the defaults of `connect`: after the peer's last answer, which may be older than its death.
GIVEN_UP_S, LAST_ANSWER_S = 4.4, 1.0
# What the peer had sent has come by then.
LAST_ANSWERS_S = 0.2
# A process that waits for a processor is late. Without a common end the last QPs would be given up seconds later too.
BUSY_S = 3.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(f"killed-{os.getpid()}") as built:
        yield built


@pytest.mark.parametrize("count", [8, 64])
def test_all_qps_to_a_killed_peer_are_in_error(lab: Lab, count: int) -> None:
    with contextlib.ExitStack() as stack:
        argv = [sys.executable, str(PEER), str(count), str(SIZE)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        peer = lab.popen("h1", argv, env=lab.environment("h1"), **pipes)
        stack.callback(peer.wait)
        stack.callback(peer.kill)
        assert peer.stdin is not None
        assert peer.stdout is not None
        fabric = Fabric.load(lab.fabric_path("h0"))
        device = lab.inside("h0", lambda: stack.enter_context(open_device(fabric)))
        context = stack.enter_context(Context(device))
        pd, cq = context.pd(), context.cq(count * DEPTH)
        qps = [QP(pd, send_cq=cq, recv_cq=cq, cap=QPCap(max_send_wr=DEPTH), sq_sig_all=True) for _ in range(count)]
        ours = [describe(qp) for qp in qps]
        told = json.loads(peer.stdout.readline())
        peer.stdin.write(json.dumps([each.to_json() for each in ours]) + "\n")
        peer.stdin.flush()
        for qp, mine, theirs in zip(qps, ours, told["qps"], strict=True):
            connect(qp, mine, ConnectionParameters.from_json(theirs))
        assert peer.stdout.readline() == "connected\n"

        source = pd.mr(bytearray(SIZE)).sge()
        numbers = {qp.qp_num: qp for qp in qps}

        def post(qp: QP) -> None:
            qp.post_send(SendWR(sge=source, remote_addr=told["addr"], rkey=told["rkey"]))

        for qp in qps:
            for _ in range(DEPTH):
                post(qp)
        until = time.monotonic() + PATIENCE_S
        written = dict.fromkeys(numbers, 0)
        while min(written.values()) < 3 * DEPTH:
            assert time.monotonic() < until
            for done in cq.poll(count * DEPTH):
                assert done.status is WCStatus.SUCCESS, done
                written[done.qp_num] += 1
                post(numbers[done.qp_num])

        peer.kill()
        killed = time.monotonic()
        peer.wait()
        time.sleep(LAST_ANSWERS_S)
        # A QP with nothing to wait for would stay as it is: what was acknowledged before is posted again.
        for done in cq.poll(count * DEPTH):
            post(numbers[done.qp_num])
        events = [context.get_async_event(timeout=GIVEN_UP_S + BUSY_S) for _ in qps]
        took = time.monotonic() - killed
        print(f"{count} QPs: {took:.3f} s")
        assert {event.event_type for event in events} == {AsyncEventType.QP_FATAL}
        assert {event.element for event in events} == set(qps)
        assert {qp.state for qp in qps} == {QPState.ERROR}
        assert GIVEN_UP_S - LAST_ANSWER_S < took < GIVEN_UP_S + BUSY_S
        found = cq.poll(count * DEPTH)
        assert {done.status for done in found} == {WCStatus.RETRY_EXCEEDED, WCStatus.FLUSHED}
        why = [done.qp_num for done in found if done.status is WCStatus.RETRY_EXCEEDED]
        assert sorted(why) == sorted(numbers), "the first of each QP says why, and only the first"
        with pytest.raises(VerbsError, match="EAGAIN"):
            context.get_async_event(timeout=0)
