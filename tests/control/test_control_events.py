# SPDX-License-Identifier: BSD-2-Clause
"""EV events: what they tell, and that nobody waits for who does not read them (api.md, Controller)."""

from __future__ import annotations

import errno
import select
from itertools import cycle

import pytest
from control_pair import MILLISECOND, ControlPair, refused, spine_ev

from mrc.control import (
    EvEventMask,
    EvOp,
    EvOpKind,
    EvProfileAttr,
    EvStateChange,
    PortAdmin,
    PortChange,
    ProfileState,
    QpFailed,
)
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.endpoint.paths.states import EvState
from mrc.verbs import QPAttr, QPState, VerbsError

VICTIM = spine_ev(1, 2)
EVERY = EvEventMask.GOOD | EvEventMask.SKIP | EvEventMask.ASSUMED_BAD | EvEventMask.DENIED


def change(pair: ControlPair, state: EvState, ev: int = VICTIM) -> None:
    (result,) = pair.controller.ev_operations(0, [EvOp(EvOpKind.MODIFY_STATE, ev=ev, state=state)])
    assert not result.errno


def test_an_event_tells_profile_ev_port_and_state() -> None:
    """MRC-CTL-20."""
    pair = ControlPair()
    left, _ = pair.connect()
    with pair.controller.ev_events() as events:
        pair.run(5 * MILLISECOND)
        change(pair, EvState.DENIED)
        event = events.get(0)
        at_ns = pair.fabric.now
    assert isinstance(event, EvStateChange)
    assert (event.profile_id, event.ev, event.port_num, event.plane) == (0, VICTIM, 2, 1)
    assert (event.state, event.qp_num, event.peer) == (EvState.DENIED, left.qp_num, "h1")
    assert event.at_ns <= at_ns


def test_every_change_of_a_state_makes_an_event() -> None:
    """Of a path that dies and comes back, one controlled, and marks: no change without an event. MRC-CTL-20."""
    pair = ControlPair(rate_bps=1_000_000_000)
    left, _ = pair.connect()
    paths = left.figures.paths
    assert paths is not None
    with pair.controller.ev_events(limit=1 << 16, mask=EVERY, ev_only=True) as events:
        told = {path.ev: EvState.GOOD for path in paths.paths}
        pair.fabric.cut("p1s2")
        pair.post(left)
        pair.run(6 * MILLISECOND)
        change(pair, EvState.DENIED, spine_ev(0, 0))
        pair.fabric.heal("p1s2")
        change(pair, EvState.GOOD, spine_ev(0, 0))
        pair.finish()
        pair.run(600 * MILLISECOND)
        for index in (1, 3):
            paths.on_mark(index, 1)
        pair.write(left)
        seen = set()
        for event in events.take(1 << 16):
            assert isinstance(event, EvStateChange)
            assert told[event.ev] != event.state, "an event without a change"
            told[event.ev] = event.state
            seen.add(event.state)
    assert seen == set(EvState)
    assert told == {path.ev: EvState(int(paths.state[index])) for index, path in enumerate(paths.paths)}
    assert events.dropped == 0


def test_the_mask_of_a_profile_selects() -> None:
    """MRC-CTL-09: with GOOD and ASSUMED_BAD alone a DENIED EV makes no event, its way back does."""
    pair = ControlPair()
    evs = (spine_ev(0, 0), VICTIM)
    mask = EvEventMask.GOOD | EvEventMask.ASSUMED_BAD
    attr = EvProfileAttr(ProfileState.OFFLINE, EvProfileMode.EXPLICIT, 0, event_mask=mask, evs=evs)
    pair.controller.modify_ev_profile(1, attr)
    pair.controller.modify_ev_profile(1, EvProfileAttr(ProfileState.ONLINE, min_active=1))
    pair.connect(ev_profile_id=1)
    with pair.controller.ev_events(mask=EVERY) as events:
        for state in (EvState.DENIED, EvState.GOOD):
            pair.controller.ev_operations(1, [EvOp(EvOpKind.MODIFY_STATE, ev=VICTIM, state=state)])
        (event,) = events.take(10)
    assert isinstance(event, EvStateChange)
    assert (event.profile_id, event.ev, event.state) == (1, VICTIM, EvState.GOOD)


def test_whoever_does_not_read_holds_nobody_up_and_learns_how_many_are_missing() -> None:
    """The oldest are kept, each other one is counted, the write takes as long as without. MRC-CTL-18, MRC-CTL-19."""

    def transfer(listening: bool) -> tuple[int, int, int]:
        pair = ControlPair(rate_bps=1_000_000_000)
        left, _ = pair.connect()
        if not listening:
            pair.post(left)
            pair.finish()
            return pair.fabric.now, 0, 0
        with pair.controller.ev_events(limit=5, mask=EVERY, ev_only=True) as events:
            pair.post(left)
            pair.finish()
            over = pair.fabric.now
            for _ in range(50):
                change(pair, EvState.DENIED)
                change(pair, EvState.GOOD)
            return over, len(events.take(1000)), events.dropped

    silent, _, _ = transfer(False)
    heard, kept, dropped = transfer(True)
    assert heard == silent
    assert (kept, kept + dropped) == (5, 100)


def test_the_count_goes_on_where_reading_begins_again() -> None:
    """MRC-CTL-19."""
    pair = ControlPair()
    pair.connect()
    with pair.controller.ev_events(limit=2) as events:
        for expected in (1, 2, 3):
            for state in (EvState.DENIED, EvState.GOOD, EvState.DENIED):
                change(pair, state)
            assert len(events.take(10)) == 2
            assert events.dropped == expected
            change(pair, EvState.GOOD)
            events.take(10)


def test_ports_and_failed_qps_are_told_too() -> None:
    pair = ControlPair()
    left, right = pair.connect()
    with pair.controller.ev_events() as events, pair.far_controller.ev_events() as far:
        pair.controller.modify_port(2, PortAdmin.DOWN)
        pair.run(5 * MILLISECOND)
        right.modify(QPAttr(qp_state=QPState.ERROR))
        ours, theirs = events.take(10), far.take(10)
    assert [(event.side, event.plane, event.up) for event in ours if isinstance(event, PortChange)] == [
        ("local", 1, False)
    ]
    assert [(event.side, event.plane, event.up) for event in theirs if isinstance(event, PortChange)] == [
        ("peer", 1, False)
    ]
    (failed,) = [event for event in theirs if isinstance(event, QpFailed)]
    assert failed.qp_num == right.qp_num
    assert "owner" in failed.reason
    assert left.qp_num != right.qp_num


def test_waiting_for_an_event() -> None:
    """A file descriptor, and the errno of the verbs' own queues."""
    pair = ControlPair()
    pair.connect()
    events = pair.controller.ev_events()
    with pytest.raises(VerbsError) as caught:
        events.get(0)
    assert caught.value.errno == errno.EAGAIN
    with pytest.raises(VerbsError) as caught:
        events.get(0.01)
    assert caught.value.errno == errno.ETIMEDOUT
    assert not select.select([events.fd], (), (), 0)[0]
    change(pair, EvState.DENIED)
    assert select.select([events.fd], (), (), 0)[0]
    events.close()
    events.close()
    with pytest.raises(VerbsError) as caught:
        events.get(0)
    assert caught.value.errno == errno.EIO
    change(pair, EvState.GOOD)
    with refused(errno.EINVAL):
        pair.controller.ev_events(limit=0)


def test_each_event_tells_how_many_were_dropped_before_it() -> None:
    """MRC-CTL-19."""
    pair = ControlPair()
    pair.connect()
    with pair.controller.ev_events(limit=2, mask=EVERY, ev_only=True) as events:
        counts, states = [], cycle([EvState.DENIED, EvState.GOOD])
        for changes in (5, 1, 4, 1):
            for _ in range(changes):
                change(pair, next(states))
            counts += [event.drop_count for event in events.take(10) if isinstance(event, EvStateChange)]
        assert events.dropped == 5
    assert counts == [0, 0, 3, 0, 0, 2]
