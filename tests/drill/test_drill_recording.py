# SPDX-License-Identifier: BSD-2-Clause
"""What a recording tells of the machine it was made on."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from patience import PATIENCE_S
from recordings import MS, at, flow, recording, whole

from mrc.drill.heartbeat import LEAST_STANDSTILL_NS, Heartbeat, ProcessorWait
from mrc.drill.recording import Happening, Recording
from mrc.errors import CallerError


def recorded(*standstills: tuple[int, int]) -> Recording:
    return recording(flow([(6.0, 100.0)]), whole(0.0, 6.0, (2.0, "cut", "p0l1")), standstills=standstills)


def test_a_machine_that_stood_still_meanwhile_disturbs() -> None:
    assert recorded().machine.disturbance is None
    assert recorded((at(3.0), 30 * MS)).machine.disturbance is None
    assert recorded((at(3.0), 90 * MS)).machine.disturbance == "the machine stood still for 90 ms"
    # Before the first flow began and after the last ended it disturbs nothing.
    assert recorded((at(-0.5), 90 * MS), (at(6.5), 400 * MS)).machine.disturbance is None
    assert recorded((at(6.2), 400 * MS)).machine.disturbance is not None


def test_a_failure_that_took_the_kernel_long_disturbs() -> None:
    slow = recording(flow([(6.0, 100.0)]), whole(0.0, 6.0))
    slow = Recording(slow.flows, {}, (*slow.happenings, Happening(at(2.0), "cut", "p0l1", 400 * MS)))
    assert slow.machine.disturbance == "cut p0l1 took the kernel 400 ms"


def test_full_socket_buffers_and_a_starved_host_disturb() -> None:
    assert replace(recorded(), socket_drops=7).machine.disturbance == (
        "socket buffers overflowed and dropped 7 packets"
    )
    assert replace(recorded(), waited=0.1).machine.disturbance is None
    assert replace(recorded(), waited=0.25).machine.disturbance == "a host waited for a processor 25% of the time"
    both = replace(recorded((at(3.0), 90 * MS)), socket_drops=7).machine
    assert both.disturbance == "the machine stood still for 90 ms, socket buffers overflowed and dropped 7 packets"


def test_what_was_measured_of_the_machine_is_there_whatever_it_was() -> None:
    found = replace(recorded((at(3.0), 17 * MS), (at(4.0), 16 * MS)), waited=0.03).machine
    assert found.disturbance is None
    assert found.to_json() == {
        "longest_gap_ms": 17.0,
        "slowest_action_ms": 0.0,
        "socket_drops": 0,
        "waited_for_processor": 0.03,
    }


def test_what_did_not_happen_is_refused() -> None:
    with pytest.raises(CallerError, match="no heal of p0l1"):
        recorded().time("heal", "p0l1")


def test_the_heart_notices_that_it_could_not_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is stopped for a while beats no more; what is told is how long that was."""
    with Heartbeat() as heartbeat:
        time.sleep(0.02)
        # Whoever holds the interpreter for 120 ms stops every other thread of it.
        holder = threading.Thread(target=_hold, args=(0.12,))
        holder.start()
        holder.join()
        time.sleep(0.02)
    assert heartbeat.standstills
    assert max(took for _, took in heartbeat.standstills) >= 100 * MS
    assert all(took >= LEAST_STANDSTILL_NS for _, took in heartbeat.standstills)


def test_a_thread_that_waits_for_a_processor_is_seen_to_wait() -> None:
    """Two busy processes on one processor: each waits for about half of its time (proc(5), schedstat)."""
    processor = {min(os.sched_getaffinity(0))}
    allowed = os.sched_getaffinity(0)
    rival = subprocess.Popen(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {processor})\nwhile True: pass"]
    )
    try:
        os.sched_setaffinity(0, processor)
        waiting = ProcessorWait()
        by = time.monotonic() + PATIENCE_S
        while waiting.share() < 0.2:
            assert time.monotonic() < by, "it never waited"
    finally:
        os.sched_setaffinity(0, allowed)
        rival.kill()
        rival.wait()


def _hold(seconds: float) -> None:
    """Keep the interpreter's lock: a single call into C that does not give it up."""
    ctypes.PyDLL(None).usleep(round(seconds * 1e6))
