# SPDX-License-Identifier: BSD-2-Clause
"""The states of the three kinds of profile, all ways, against api.md written out by hand."""

from __future__ import annotations

import errno
import itertools
from dataclasses import replace
from typing import Any

import pytest
from control_pair import READY, ControlPair, refused, spine_ev

from mrc.control import CcProfileAttr, Controller, EvEventMask, EvFormatAttr, EvProfileAttr, ProfileState
from mrc.endpoint.congestion import NsccConfig
from mrc.endpoint.paths.profiles import EvProfileMode
from mrc.wire.entropy import EvMode

INIT, OFFLINE, ONLINE = ProfileState.INIT, ProfileState.OFFLINE, ProfileState.ONLINE
EVS = tuple(spine_ev(plane, spine) for plane in (0, 1) for spine in (0, 1))

# What a profile is given on each way; the ways that exist, and for each kind what each needs.
GOOD: dict[str, dict[ProfileState, dict[str, Any]]] = {
    "format": {OFFLINE: {"mode": EvMode.SRV6}, ONLINE: {"fields": (8, 8, 16)}},
    "ev": {OFFLINE: {"ev_mode": EvProfileMode.EXPLICIT, "format_id": 0, "count": 4}, ONLINE: {"evs": EVS, **READY}},
    "cc": {OFFLINE: {"algorithm": "uet-1.0-nscc"}, ONLINE: {"nscc": NsccConfig(line_rate_bps=1_000_000_000)}},
}
WAYS = {(INIT, OFFLINE), (OFFLINE, OFFLINE), (OFFLINE, ONLINE), (ONLINE, OFFLINE), (OFFLINE, INIT)}
ONLINE_CHANGES = {"ev"}  # modify-online
ATTRS: dict[str, Any] = {"format": EvFormatAttr, "ev": EvProfileAttr, "cc": CcProfileAttr}
KINDS = sorted(GOOD)
ALL_WAYS = list(itertools.product(ProfileState, ProfileState))


def modify(controller: Controller, kind: str, profile_id: int, **attributes: Any) -> None:
    call: Any = {
        "format": controller.modify_ev_format,
        "ev": controller.modify_ev_profile,
        "cc": controller.modify_cc_profile,
    }[kind]
    call(profile_id, ATTRS[kind](**attributes))


def query(controller: Controller, kind: str, profile_id: int) -> Any:
    call: Any = {
        "format": controller.query_ev_format,
        "ev": controller.query_ev_profile,
        "cc": controller.query_cc_profile,
    }[kind]
    return call(profile_id)


def bring_to(controller: Controller, kind: str, state: ProfileState, profile_id: int = 1) -> None:
    for step in (OFFLINE, ONLINE):
        if step <= state:
            modify(controller, kind, profile_id, state=step, **GOOD[kind][step])
    assert query(controller, kind, profile_id).state == state


@pytest.mark.parametrize("way", ALL_WAYS, ids=lambda way: f"{way[0].name}-{way[1].name}")
@pytest.mark.parametrize("kind", KINDS)
def test_a_way_exists_or_is_refused(kind: str, way: tuple[ProfileState, ProfileState]) -> None:
    """INIT -> OFFLINE -> ONLINE -> OFFLINE -> INIT, and a wrong transition changes nothing. MRC-CTL-03, MRC-CTL-04,
    MRC-CTL-25, MRC-CTL-32."""
    controller = ControlPair().controller
    bring_to(controller, kind, way[0])
    before = query(controller, kind, 1)
    attributes = {} if way[0] >= way[1] else GOOD[kind][way[1]]
    if way in WAYS or (way == (ONLINE, ONLINE) and kind in ONLINE_CHANGES):
        modify(controller, kind, 1, state=way[1], **attributes)
        assert query(controller, kind, 1).state == way[1]
    else:
        with refused(errno.EINVAL, "ONLINE: take it OFFLINE" if way == (ONLINE, ONLINE) else "cannot go to"):
            modify(controller, kind, 1, state=way[1], **attributes)
        assert query(controller, kind, 1) == before


@pytest.mark.parametrize(
    ("kind", "state", "missing"),
    [
        ("format", INIT, "mode"),
        ("format", OFFLINE, "fields"),
        ("ev", INIT, "ev_mode, format_id"),
        ("ev", OFFLINE, "event_mask, min_active"),
        ("cc", INIT, "algorithm"),
        ("cc", OFFLINE, "config"),
    ],
)
def test_what_a_way_needs_is_named(kind: str, state: ProfileState, missing: str) -> None:
    """An EV format: to go OFFLINE, mode; to go ONLINE, fields. MRC-CTL-06, MRC-CTL-07, MRC-CTL-04."""
    controller = ControlPair().controller
    bring_to(controller, kind, state)
    with refused(errno.EINVAL, f"needs {missing}$"):
        modify(controller, kind, 1, state=ProfileState(state + 1))
    assert query(controller, kind, 1).state == state


@pytest.mark.parametrize("kind", KINDS)
def test_a_profile_in_init_knows_nothing_of_what_it_was(kind: str) -> None:
    """MRC-CTL-03."""
    controller = ControlPair().controller
    bring_to(controller, kind, ONLINE)
    modify(controller, kind, 1, state=OFFLINE)
    modify(controller, kind, 1, state=INIT)
    assert query(controller, kind, 1) == ATTRS[kind](state=INIT)
    bring_to(controller, kind, ONLINE)


@pytest.mark.parametrize("kind", KINDS)
def test_the_way_down_takes_no_attributes(kind: str) -> None:
    """MRC-CTL-25."""
    controller = ControlPair().controller
    bring_to(controller, kind, ONLINE)
    before = query(controller, kind, 1)
    name, value = next(iter(GOOD[kind][OFFLINE].items()))
    with refused(errno.EINVAL, f"does not take {name}"):
        modify(controller, kind, 1, state=OFFLINE, **{name: value})
    assert query(controller, kind, 1) == before


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_profile_stays_online(kind: str) -> None:
    """MRC-CTL-29, MRC-CTL-04."""
    controller = ControlPair().controller
    before = query(controller, kind, 0)
    assert before.state == ONLINE
    with refused(errno.EPERM, "stays ONLINE"):
        modify(controller, kind, 0, state=OFFLINE)
    assert query(controller, kind, 0) == before


@pytest.mark.parametrize("number", [-1, 64, 1 << 20, "1", True])
@pytest.mark.parametrize("kind", KINDS)
def test_there_is_no_other_profile(kind: str, number: Any) -> None:
    """MRC-CTL-27: profiles are numbered up to what query_device tells."""
    controller = ControlPair().controller
    assert controller.query_device().max_ev_profiles == 64
    for call in (query, lambda *where: modify(*where, state=OFFLINE)):
        with refused(errno.ENOENT, "no .* profile"):
            call(controller, kind, number)


def test_a_profile_in_use_does_not_go_offline() -> None:
    """EBUSY, a profile in use: an EV and a CC profile by QPs, a format by an EV profile. MRC-CTL-28, MRC-CTL-04."""
    pair = ControlPair()
    controller = pair.controller
    for kind in ("format", "cc"):
        bring_to(controller, kind, ONLINE)
    modify(controller, "ev", 1, state=OFFLINE, **GOOD["ev"][OFFLINE] | {"format_id": 1})
    modify(controller, "ev", 1, state=ONLINE, evs=EVS, **READY)
    left, _ = pair.connect(ev_profile_id=1, cc_profile_id=1)
    for kind in KINDS:
        with refused(errno.EBUSY, "is used by"):
            modify(controller, kind, 1, state=OFFLINE)
        assert query(controller, kind, 1).state == ONLINE
    left.close()
    for kind in ("ev", "cc"):
        modify(controller, kind, 1, state=OFFLINE)
    modify(controller, "ev", 1, state=INIT)
    modify(controller, "format", 1, state=OFFLINE)


def test_a_qp_takes_online_profiles_only() -> None:
    """QPs name profiles of the device: those that are ONLINE. MRC-CTL-03, MRC-CTL-08."""
    from mrc.verbs import VerbsError

    pair = ControlPair()
    bring_to(pair.controller, "ev", OFFLINE)
    modify(pair.controller, "ev", 1, evs=EVS)
    with pytest.raises(VerbsError, match="no EV profile 1"):
        pair.connect(ev_profile_id=1)
    modify(pair.controller, "ev", 1, state=ONLINE, **READY)
    left, _ = pair.connect(ev_profile_id=1)
    pair.sent()
    pair.write(left, 1 << 17)
    assert set(pair.sent()["h0"]) == set(EVS)


@pytest.mark.parametrize("attributes", [{"count": 6}, {"min_active": 2}, {"active_count": 2}, {"format_id": 0}])
def test_an_ev_profile_that_is_online_keeps_its_shape(attributes: dict[str, Any]) -> None:
    """Only its events, its fields and its EVs may change then. MRC-CTL-35, MRC-CTL-25, MRC-CTL-04."""
    controller = ControlPair().controller
    bring_to(controller, "ev", ONLINE)
    before = query(controller, "ev", 1)
    with refused(errno.EINVAL, f"does not take {next(iter(attributes))}"):
        modify(controller, "ev", 1, **attributes)
    assert query(controller, "ev", 1) == before
    mask = EvEventMask.ASSUMED_BAD
    modify(controller, "ev", 1, event_mask=mask, evs=EVS[::-1])
    assert query(controller, "ev", 1) == replace(before, event_mask=mask)
    assert controller.query_ev_array(1) == list(EVS[::-1])


def test_every_way_of_the_tables_is_one_of_these() -> None:
    from mrc.control.states import CC_PROFILE, EV_FORMAT, EV_PROFILE

    assert set(EV_FORMAT) == set(CC_PROFILE) == WAYS
    assert set(EV_PROFILE) == WAYS | {(ONLINE, ONLINE)}
