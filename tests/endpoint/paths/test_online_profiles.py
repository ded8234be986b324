# SPDX-License-Identifier: BSD-2-Clause
"""What the controller denied holds for QPs to come (api.md, EV operations)."""

from __future__ import annotations

from typing import Any

from mrc.endpoint.paths.online import OnlineProfiles

ONE, OTHER, THIRD = (frozenset({number}) for number in (1, 2, 3))


def test_an_ev_is_denied_towards_the_peer_that_was_named() -> None:
    online = OnlineProfiles()
    online.deny(4, 10, ONE)
    online.deny(4, 10, OTHER)
    online.deny(4, 11, OTHER)
    online.deny(5, 12, ONE)
    assert online.denied(4, ONE) == [10]
    assert online.denied(4, OTHER) == [10, 11]
    assert online.denied(4, THIRD) == []
    assert online.denied(5, ONE) == [12]
    assert online.denied(6, ONE) == []
    assert online.denied_towards(4, 10) == {ONE, OTHER}
    assert online.denied_towards(4, 12) == set()
    assert online.denied_towards(6, 10) == set()


def test_an_ev_that_is_denied_towards_all_is_so_towards_each() -> None:
    online = OnlineProfiles()
    online.deny(4, 10, None)
    assert online.denied(4, ONE) == online.denied(4, OTHER) == [10]
    online.allow(4, 10, ONE)
    assert online.denied(4, ONE) == [10]
    assert online.denied_towards(4, 10) == {None}


def test_it_is_allowed_towards_one_peer_or_towards_all() -> None:
    online = OnlineProfiles()
    for peer in (ONE, OTHER, THIRD):
        online.deny(4, 10, peer)
    online.allow(4, 10, OTHER)
    assert online.denied_towards(4, 10) == {ONE, THIRD}
    online.allow(4, 10, None)
    assert online.denied_towards(4, 10) == set()
    # What was never denied may be allowed.
    for profile, ev in ((4, 99), (9, 10)):
        online.allow(profile, ev, None)
        online.allow(profile, ev, ONE)
        assert online.denied_towards(profile, ev) == set()


def test_a_profile_that_is_no_longer_online_is_forgotten_with_what_was_denied_in_it() -> None:
    online = OnlineProfiles()
    profile: Any = object()
    online.ev[4] = online.ev[5] = profile
    online.deny(4, 10, None)
    online.deny(5, 10, None)
    online.forget(4)
    assert set(online.ev) == {5}
    assert online.denied(4, ONE) == []
    assert online.denied(5, ONE) == [10]
    online.forget(4)
