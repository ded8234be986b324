# SPDX-License-Identifier: BSD-2-Clause
"""repr() of the controller's objects: one line each, with what tells one from another."""

from __future__ import annotations

from control_pair import ControlPair

from mrc.control import EvEventMask


def test_a_controller_tells_its_device_and_profiles() -> None:
    pair = ControlPair()
    assert repr(pair.controller) == "<Controller of h0: 1 EV formats, 1 EV profiles, 1 CC profiles>"
    assert repr(pair.controller.profiles) == "<Profiles of h0: 1 EV formats, 1 EV profiles, 1 CC profiles>"


def test_a_queue_of_events_tells_how_full_it_is() -> None:
    pair = ControlPair()
    with pair.controller.ev_events(8, EvEventMask.ASSUMED_BAD) as queue:
        assert repr(queue) == "<EvEventQueue of h0: 0 of 8 events waiting, 0 dropped>"
    assert repr(queue) == "<EvEventQueue of h0 closed>"
