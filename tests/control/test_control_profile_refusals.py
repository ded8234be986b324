# SPDX-License-Identifier: BSD-2-Clause
"""What a wrong profile file or deny list is told: which key is wrong, what it has to be, and what stands there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mrc.control import deny_list, texts
from mrc.control.errors import ControlError
from mrc.errors import CallerError
from mrc.untrusted import quoted

HUGE = 10**39
WHOLE = "a whole number"
FORMAT = {"mode": "srv6", "fields": [8, "0x8"], "srh": True}
EV = {"mode": "generated", "count": 4, "fields": [{"width": 8, "mask": 3}, {"width": 8}]}
CC = {"algorithm": "nscc", "nscc": {"gamma": 0.5}}
ENTRY = {"plane": 0, "ev": "p0s1"}


def second(**members: Any) -> dict[str, Any]:
    """An EV profile whose second field has these members."""
    return EV | {"fields": [{"width": 8}, {"width": 8} | members]}


FORMATS: list[tuple[object, tuple[str, ...]]] = [
    (None, ("an EV format", "a mapping", "None")),
    ([], ("an EV format", "a mapping", "[]")),
    ({}, ("mode", "one of stev, srv6, udp")),
    (FORMAT | {"mode": "ipv4"}, ("mode", "one of stev, srv6, udp", "'ipv4'")),
    (FORMAT | {"mode": 1}, ("mode", "one of stev, srv6, udp", "1")),
    (FORMAT | {"mode": None}, ("mode", "one of stev, srv6, udp", "None")),
    (FORMAT | {"colour": 1, "a": 2}, ("an EV format has no a, colour", "there are fields, mode, srh, state")),
    (FORMAT | {"fields": 8}, ("fields", "a list", "8")),
    (FORMAT | {"fields": None}, ("fields is a list, not None",)),
    (FORMAT | {"fields": [8, True]}, ("fields[1]", WHOLE, "True")),
    (FORMAT | {"fields": [8, 1.0]}, (WHOLE, "1.0")),
    (FORMAT | {"fields": [8, "x"]}, (WHOLE, "'x'")),
    (FORMAT | {"fields": [HUGE]}, (WHOLE, "1000")),
    (FORMAT | {"srh": 1}, ("srh", "true or false", "1")),
    (FORMAT | {"srh": None}, ("srh", "true or false", "None")),
]
PROFILES: list[tuple[object, tuple[str, ...]]] = [
    ("auto", ("an EV profile", "a mapping", "'auto'")),
    ({}, ("mode", "one of auto, explicit, generated")),
    (EV | {"mode": []}, ("mode", "one of auto, explicit, generated", "[]")),
    (EV | {"counts": 1}, ("an EV profile has no counts", "active_count, count, deny", "state")),
    (EV | {"format": None}, ("format", WHOLE, "None")),
    (EV | {"format": "f"}, ("format", WHOLE, "'f'")),
    (EV | {"count": True}, ("count is a whole number, not True",)),
    (EV | {"min_active": 0.5}, ("min_active", WHOLE, "0.5")),
    (EV | {"active_count": math.nan}, ("active_count", WHOLE, "nan")),
    (EV | {"event_mask": "good"}, ("event_mask", "a list", "'good'")),
    (EV | {"event_mask": ["good", "bad"]}, ("event_mask", "one of good, assumed_bad, denied, skip", "'bad'")),
    (EV | {"fields": None}, ("fields is a list, not None",)),
    (EV | {"fields": [8]}, ("a mapping", "8")),
    (EV | {"fields": [{}]}, ("field", "width")),
    (second(colour=1), ("has no colour", "there are init_val, mask, max_val, min_val, width")),
    (
        second(width=0),
        (
            "fields[1]",
            "a field's width must be at least 1 bit, got 0",
        ),
    ),
    (second(width=10**18), ("a field's width must be at most",)),
    (second(width=None), ("fields[1].width", WHOLE, "None")),
    (second(max_val=None), ("max_val is a whole number, not None",)),
    (second(mask="0x100"), ("mask 0x100 does not fit a field of 8 bits",)),
    (second(mask=HUGE), ("mask", WHOLE)),
    (second(init_val=-1), ("init_val", "does not fit a field of 8 bits")),
    (EV | {"evs": None}, ("evs is a list, not None",)),
    (EV | {"evs": [1, None]}, ("None is no EV", "a number of 32 bits")),
    (EV | {"evs": ["p0s1", True]}, ("evs[1]", "True is no EV", "a number of 32 bits")),
]
CCS: list[tuple[object, tuple[str, ...]]] = [
    (7, ("a CC profile", "a mapping", "7")),
    ({}, ("algorithm", "text of 1 to 256 characters")),
    ({"algorithm": ""}, ("algorithm", "text of 1 to 256 characters", "''")),
    ({"algorithm": []}, ("algorithm", "text of 1 to 256 characters", "[]")),
    (CC | {"fixed": {}}, ("a CC profile of nscc has no fixed", "there are algorithm, nscc, state")),
    (CC | {"nscc": []}, ("nscc", "a mapping", "[]")),
    (CC | {"nscc": {"gama": 1}}, ("nscc has no gama", "gamma")),
    (CC | {"nscc": {"gamma": "1"}}, ("nscc.gamma", "a number", "'1'")),
    (CC | {"nscc": {"gamma": True}}, ("gamma", "a number", "True")),
    (CC | {"nscc": {"gamma": None}}, ("gamma", "a number", "None")),
    (CC | {"nscc": {"gamma": math.nan}}, ("gamma", "a number", "nan")),
    (CC | {"nscc": {"gamma": math.inf}}, ("gamma", "a number", "inf")),
    (CC | {"nscc": {"gamma": 10**400}}, ("gamma", "a number", "1000")),
    (CC | {"nscc": {"trimming": 1}}, ("trimming is true or false, not 1",)),
    (CC | {"nscc": {"gamma": 1e6}}, ("gamma must be", "got 1000000")),
    ({"algorithm": "fixed", "fixed": {"window_packets": 1.5}}, ("window_packets", WHOLE, "1.5")),
]
LISTS: list[tuple[object, tuple[str, ...]]] = [
    ([], ('an object with a list "deny"',)),
    ({}, ('an object with a list "deny"',)),
    ({"deny": {}}, ('an object with a list "deny"',)),
    ({"deny": [ENTRY, 7]}, ("deny[1] is a mapping", "7")),
    ({"deny": [ENTRY, {"plane": 0}]}, ("deny[1].ev", "EV")),
    ({"deny": [ENTRY | {"ev": "p"}]}, ("0", "'p' is no EV", "p1s2")),
    ({"deny": [ENTRY | {"plane": 16}]}, ("0", "plane", "a whole number from 0 to 15", "16")),
    ({"deny": [ENTRY | {"plane": True}]}, ("0", "plane", "a whole number from 0 to 15", "True")),
    ({"deny": [ENTRY | {"plane": HUGE}]}, ("0", "plane", "a whole number from 0 to 15", "1000")),
    ({"deny": [{"ev": 1}]}, ("0", "plane", "a whole number from 0 to 15")),
    ({"deny": [ENTRY | {"peer": ""}]}, ("0", "peer", "text of 1 to 256 characters", "''")),
    ({"deny": [ENTRY | {"endpoint": 7}]}, ("0", "endpoint", "text of 1 to 256 characters", "7")),
    ({"deny": [ENTRY | {"host": "h1"}]}, ("0", "has no host", "there are endpoint, ev, peer, plane, reason")),
    ({"deny": [], "fabric": 7}, ("fabric", "7")),
]
READERS: list[tuple[Callable[[object], object], object, tuple[str, ...]]] = [
    *((texts.ev_format, document, said) for document, said in FORMATS),
    *((texts.ev_profile, document, said) for document, said in PROFILES),
    *((texts.cc_profile, document, said) for document, said in CCS),
    *((texts.denied, document, said) for document, said in [(EV | {"deny": 1}, ("deny", "a list", "1"))]),
    *((texts.denied, document, said) for document, said in [(EV | {"deny": ["x"]}, ("'x' is no EV",))]),
]


@pytest.mark.parametrize(("read", "document", "said"), READERS, ids=[quoted(each) for _, each, _ in READERS])
def test_a_refusal_names_the_key(read: Callable[[object], object], document: object, said: tuple[str, ...]) -> None:
    with pytest.raises(ControlError) as raised:
        read(document)
    assert [each for each in said if each not in raised.value.reason] == [], raised.value.reason
    assert len(raised.value.reason) < 700


@pytest.mark.parametrize(("document", "said"), LISTS, ids=[quoted(each) for each, _ in LISTS])
def test_a_refusal_names_the_entry(tmp_path: Path, document: object, said: tuple[str, ...]) -> None:
    file = tmp_path / "deny.json"
    file.write_text(json.dumps(document))
    with pytest.raises(CallerError) as raised:
        deny_list.read(file)
    assert [each for each in (str(file), *said) if each not in str(raised.value)] == [], str(raised.value)


@pytest.mark.parametrize(
    ("read", "document"),
    [
        (texts.ev_format, FORMAT | {"state": [1]}),
        (texts.ev_format, {"mode": "UDP"}),
        (texts.ev_profile, EV | {"format": "3", "count": None, "event_mask": ["GOOD"], "deny": 7}),
        (texts.ev_profile, {"mode": "explicit", "evs": ["p0s1", 7, "0x7"], "event_mask": None}),
        (texts.ev_profile, second(width=100, mask=(1 << 64) - 1, min_val="0x1", max_val="4")),
        (texts.cc_profile, {"algorithm": "made up", "colour": 7}),
        (texts.cc_profile, {"algorithm": "nscc", "nscc": None}),
        (texts.cc_profile, {"algorithm": "nscc", "nscc": {"gamma": 0, "trimming": False}}),
        (texts.denied, {"deny": ["p0s1", 7], "colour": 7}),
        (texts.denied, {}),
    ],
)
def test_what_a_profile_may_say(read: Callable[[object], object], document: object) -> None:
    read(document)
