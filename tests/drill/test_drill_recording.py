"""What a recording tells of the machine it was made on."""

from __future__ import annotations

import threading
import time

import pytest
from recordings import MS, at, flow, recording, whole

from mrc.drill.heartbeat import LEAST_STANDSTILL_NS, Heartbeat
from mrc.drill.recording import Happening, Recording
from mrc.errors import CallerError


def recorded(*standstills: tuple[int, int]) -> Recording:
    return recording(flow([(6.0, 100.0)]), whole(0.0, 6.0, (2.0, "cut", "p0l1")), standstills=standstills)


def test_a_machine_that_stood_still_meanwhile_disturbs() -> None:
    assert recorded().disturbed is None
    assert recorded((at(3.0), 30 * MS)).disturbed is None
    assert recorded((at(3.0), 90 * MS)).disturbed == "the machine stood still for 90 ms"
    # Before the first flow began and after the last ended it disturbs nothing.
    assert recorded((at(-0.5), 90 * MS), (at(6.5), 400 * MS)).disturbed is None
    assert recorded((at(6.2), 400 * MS)).disturbed is not None


def test_a_failure_that_took_the_kernel_long_disturbs() -> None:
    slow = recording(flow([(6.0, 100.0)]), whole(0.0, 6.0))
    slow = Recording(slow.flows, {}, (*slow.happenings, Happening(at(2.0), "cut", "p0l1", 400 * MS)))
    assert slow.disturbed == "cut p0l1 took the kernel 400 ms"


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


def _hold(seconds: float) -> None:
    """Keep the interpreter's lock: a single call into C that does not give it up."""
    import sys

    before = sys.getswitchinterval()
    sys.setswitchinterval(10.0)
    try:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pass
    finally:
        sys.setswitchinterval(before)
