# SPDX-License-Identifier: BSD-2-Clause
"""An interrupt wherever CPython looks for signals in the loop: it ends the loop, and leaves nobody waiting for ever."""

from __future__ import annotations

import dis
import os
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from patience import PATIENCE_S

import mrc.net.calls
import mrc.net.driver
import mrc.net.port_care
import mrc.net.reach
from mrc.errors import CallerError
from mrc.fabric import Fabric
from mrc.lab import Lab
from mrc.net.node import Node

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
]
TURNS = 3
# What the loop is made of.
LOOP = {each.__file__ for each in (mrc.net.driver, mrc.net.reach, mrc.net.calls, mrc.net.port_care)}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab.up(f"interrupted-{os.getpid()}") as built:
        yield built


@pytest.fixture
def node(lab: Lab) -> Iterator[Node]:
    def opened() -> Node:
        return Node(Fabric.load(lab.fabric_path("h0")))

    with lab.inside("h0", opened) as made:
        yield made


class Signals:
    """Runs a signal's handler in the driver at the places whose numbers are given, of all where CPython might.

    CPython does so when a function begins, after a call, and when it jumps back.
    """

    def __init__(self, handler: Callable[[], bool], at: set[int]) -> None:
        self._handler = handler
        self._at = at
        self._last: dict[FrameType, str] = {}
        self.seen = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Signals | None:
        if frame.f_code.co_filename not in LOOP or frame.f_code.co_name == "interrupt":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = self._last.get(frame)
            self._last[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if before is not None and before.startswith(("RESUME", "CALL", "JUMP_BACKWARD")):
                self.seen += 1
                if self.seen in self._at and not self._handler():
                    raise KeyboardInterrupt
        elif event == "return":
            self._last.pop(frame, None)
        return self


def turned(node: Node, at: set[int]) -> tuple[int, bool]:
    """Turn TURNS times with a signal there; how many bytecodes that took, and whether the interrupt came out."""
    asked = 0

    def until() -> bool:
        nonlocal asked
        asked += 1
        return asked > TURNS

    signals = Signals(node.driver.interrupt, at)
    before = sys.gettrace()
    sys.settrace(signals)
    try:
        node.driver.run(until, 0.001, before_sending=lambda: True)
    except KeyboardInterrupt:
        return signals.seen, True
    finally:
        sys.settrace(before)
    return signals.seen, False


def answers(node: Node) -> bool:
    """Whether another thread can have something done."""
    done: list[int] = []
    thread = threading.Thread(target=lambda: done.append(node.driver.call(lambda: 7, PATIENCE_S)), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return done == [7]


def forget(node: Node) -> None:
    """As before the interrupt, so that one node will do for all of them."""
    node.driver._interrupted = node.driver._put_off = False


def test_it_comes_out_of_the_loop_wherever_it_arrives_and_gives_the_endpoint_back(node: Node) -> None:
    node.driver.call(lambda: None)
    all_of_them, _ = turned(node, set())
    assert all_of_them > 50
    for number in range(1, all_of_them + 1):
        seen, came_out = turned(node, {number})
        # Fewer turns are made where less is to be looked after.
        assert came_out or seen < number, number
        assert not node.driver.is_inside(), number
        forget(node)
    assert answers(node)


def test_a_second_one_ends_what_the_first_one_waits_for(node: Node) -> None:
    def until() -> bool:
        assert node.driver.interrupt() is True
        assert node.driver.interrupt() is False
        return False

    with pytest.raises(KeyboardInterrupt):
        node.driver.run(until)


def test_outside_of_the_loop_what_is_done_to_the_endpoint_is_done_first(node: Node) -> None:
    done = []

    def act() -> None:
        assert node.driver.interrupt() is True
        done.append("act")

    with pytest.raises(KeyboardInterrupt):
        node.driver.call(act)
    assert done == ["act"]
    assert node.driver.call(lambda: 7) == 7
    # Where nothing is under way it is for the caller to raise.
    forget(node)
    assert node.driver.interrupt() is False


def test_it_is_told_where_what_is_done_to_the_endpoint_fails(node: Node) -> None:
    def act() -> None:
        assert node.driver.interrupt() is True
        raise CallerError("you did")

    with pytest.raises(KeyboardInterrupt) as told:
        node.driver.call(act)
    assert isinstance(told.value.__context__, CallerError)
    # Once: what comes next is not interrupted.
    assert node.driver.call(lambda: 7) == 7


def test_the_loop_that_has_just_ended_passes_it_on(node: Node) -> None:
    def until() -> bool:
        assert node.driver.interrupt() is True
        return True

    with pytest.raises(KeyboardInterrupt):
        node.driver.run(until)
