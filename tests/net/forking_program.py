# SPDX-License-Identifier: BSD-2-Clause
"""A program with two open devices and a QP on each, which forks. Prints what its children and itself met, as JSON; the
trace of one device goes to the file that its argument names."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from mrc.net.control.places import own_directories
from mrc.net.device import open_device
from mrc.trace.writer import TraceWriter
from mrc.verbs import MR, QP, AccessFlag, Context, QPCap, RecvWR, SendWR, WROpcode, connect, describe

IMM = WROpcode.RDMA_WRITE_WITH_IMM


def in_a_child(action: Callable[[], Any]) -> str:
    """What a child said that did this: what it returned, or what it raised."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = repr(action())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def main() -> None:
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        tracer = stack.enter_context(TraceWriter.open(sys.argv[1], title="fork", vantage_point="sender"))
        devices = [
            stack.enter_context(open_device(addresses=[address], tracer=each))
            for address, each in (("127.0.0.2", tracer), ("127.0.0.3", None))
        ]
        contexts = [stack.enter_context(Context(each)) for each in devices]
        queues = [each.cq() for each in contexts]
        pds = [each.pd() for each in contexts]
        out, into = (
            QP(pd, send_cq=queue, recv_cq=queue, cap=QPCap(8, 8), sq_sig_all=True)
            for pd, queue in zip(pds, queues, strict=True)
        )
        memory = stack.enter_context(MR(pds[0], bytearray(8), AccessFlag.LOCAL_WRITE))
        ours, theirs = describe(out), describe(into)
        connect(into, theirs, ours)
        connect(out, ours, theirs)

        def write(number: int) -> str:
            into.post_recv(RecvWR())
            out.post_send(SendWR(number, IMM, imm_data=number))
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                for each in queues[0].poll():
                    return f"{each.wr_id} {each.status.name}"
                time.sleep(0.001)
            return "nothing"

        def places() -> list[str]:
            return sorted(each.name for each in own_directories()[0].glob(f"{os.getpid()}*.sock"))

        def leave() -> str:
            stack.close()
            return f"left {out!r}"[:4]

        found["before"], found["places"] = write(1), places()
        found["post"] = in_a_child(lambda: out.post_send(SendWR(7, IMM, imm_data=7)))
        found["again"] = in_a_child(lambda: (_tried(out), out.post_send(SendWR(8, IMM, imm_data=8))))
        found["receive"] = in_a_child(lambda: into.post_recv(RecvWR()))
        found["poll"] = in_a_child(queues[0].poll)
        found["make"] = in_a_child(lambda: QP(pds[0], send_cq=queues[0], recv_cq=queues[0]))
        found["register"] = in_a_child(lambda: MR(pds[0], bytearray(8), AccessFlag.LOCAL_WRITE))
        found["trace"] = in_a_child(tracer.flush)
        found["leave"] = in_a_child(leave)
        found["one more"] = in_a_child(lambda: (memory.close(), out.close(), contexts[0].close(), stack.close()))
        found["after"], found["still"] = write(2), places()
    json.dump(found, sys.stdout)


def _tried(out: QP) -> None:
    try:
        out.post_send(SendWR(7, IMM, imm_data=7))
    except Exception:
        return
    raise AssertionError("it was taken")


if __name__ == "__main__":
    main()
