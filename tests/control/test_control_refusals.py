# SPDX-License-Identifier: BSD-2-Clause
"""What a refused request is told: which member is wrong, what it has to be, and what came instead."""

from __future__ import annotations

import math
from errno import EINVAL
from typing import Any

import pytest

from mrc.control import requests
from mrc.control.errors import ControlError
from mrc.untrusted import quoted

HUGE = 10**39
WHOLE = "a whole number"
TEXT = "text of 1 to 256 characters"
BATCH = {"op": "ev_ops", "batch": [{"do": "query", "ev": 1}, {"do": "query", "ev": 1}]}


def second(**members: Any) -> dict[str, Any]:
    """A batch whose second operation has these members."""
    return {"op": "ev_ops", "batch": [{"do": "query", "ev": 1}, {"do": "deny", "ev": 1} | members]}


# Each with what its refusal has to say: the member, what is allowed, and the value that came.
REFUSED: list[tuple[object, tuple[str, ...]]] = [
    (None, ("request", "op", "hello", "subscribe", "None")),
    ([], ("request", "op", "hello", "[]")),
    ("hello", ("request", "op", "'hello'")),
    ({}, ("op", "hello", "unsubscribe", "None")),
    ({"op": "helo"}, ("op", "hello", "unsubscribe", "'helo'")),
    ({"op": []}, ("op", "hello", "[]")),
    ({"op": {}}, ("op", "hello", "{}")),
    ({"op": 1}, ("op", "hello", "1")),
    ({"op": "HELLO"}, ("op", "hello", "'HELLO'")),
    ({"op": "\ud800"}, ("op", "hello", "\\ud800")),
    # Numbers: kinds, limits, those that no machine word holds.
    ({"op": "status", "most_qps": True}, ("most_qps", WHOLE, "0", "1024", "True")),
    ({"op": "status", "most_qps": None}, ("most_qps", WHOLE, "None")),
    ({"op": "status", "most_qps": -1}, ("most_qps", WHOLE, "from 0 to 1024", "-1")),
    ({"op": "status", "most_qps": 1025}, ("most_qps", WHOLE, "from 0 to 1024", "1025")),
    ({"op": "status", "most_qps": 1.0}, ("most_qps", WHOLE, "1.0")),
    ({"op": "status", "most_qps": "1"}, ("most_qps", WHOLE, "'1'")),
    ({"op": "status", "most_qps": HUGE}, ("most_qps", WHOLE, "from 0 to 1024", "1000")),
    ({"op": "status", "most_qps": -HUGE}, ("most_qps", WHOLE, "from 0 to 1024", "-1000")),
    ({"op": "status", "most_qps": math.nan}, ("most_qps", WHOLE, "nan")),
    ({"op": "status", "most_qps": 10**5000}, ("most_qps", WHOLE, "too large to show")),
    ({"op": "evs", "most": (1 << 20) + 1}, ("most", WHOLE, "from 0 to 1048576", "1048577")),
    ({"op": "evs", "profile": "0"}, ("profile", WHOLE, "'0'")),
    ({"op": "evs", "profile": False}, ("profile", WHOLE, "False")),
    ({"op": "evs", "profile": HUGE}, ("profile", "a whole number of 64 bits")),
    ({"op": "evs", "profile": -HUGE}, ("profile", WHOLE)),
    ({"op": "subscribe", "limit": 65537}, ("limit", WHOLE, "from 0 to 65536", "65537")),
    ({"op": "subscribe", "limit": math.inf}, ("limit", WHOLE, "inf")),
    ({"op": "subscribe", "ev_only": 1}, ("ev_only", "true or false", "1")),
    ({"op": "subscribe", "ev_only": None}, ("ev_only", "true or false", "None")),
    ({"op": "subscribe", "ev_only": "true"}, ("ev_only", "true or false", "'true'")),
    ({"op": "subscribe", "standing": 1}, ("standing", "true or false", "1")),
    ({"op": "subscribe", "states": "good"}, ("states", '"all" or a list', "'good'")),
    ({"op": "subscribe", "states": {"all": 1}}, ("a list", "{'all': 1}")),
    ({"op": "subscribe", "states": ["good", "bad"]}, ("one of good, assumed_bad, denied, skip", "'bad'")),
    ({"op": "subscribe", "states": ["good", []]}, ("one of good, assumed_bad, denied, skip", "[]")),
    ({"op": "subscribe", "states": [1]}, ("one of good, assumed_bad, denied, skip", "1")),
    # Words.
    ({"op": "port_set", "plane": 0}, ("admin", "down", "up")),
    ({"op": "port_set", "plane": 0, "admin": "sideways"}, ("admin", "one of down, up", "'sideways'")),
    ({"op": "port_set", "plane": 0, "admin": ["up"]}, ("admin", "one of down, up", "['up']")),
    ({"op": "port_set", "plane": 0, "admin": 1}, ("admin", "one of down, up", "1")),
    ({"op": "port_set", "plane": 0, "admin": True}, ("admin", "one of down, up", "True")),
    ({"op": "port_set", "admin": "up"}, ("plane", WHOLE)),
    ({"op": "port_set", "plane": [], "admin": "up"}, ("plane", WHOLE, "[]")),
    ({"op": "port_set", "port_num": 1.0, "admin": "up"}, ("port_num", WHOLE, "1.0")),
    ({"op": "profile_load"}, ("profiles", "a mapping")),
    ({"op": "profile_load", "profiles": []}, ("profiles", "a mapping", "[]")),
    ({"op": "profile_load", "profiles": None}, ("profiles", "a mapping", "None")),
    ({"op": "profile_state"}, ("kind", "one of ev_formats, ev_profiles, cc_profiles")),
    (
        {"op": "profile_state", "kind": [], "profile": 1, "state": "online"},
        ("kind", "one of ev_formats, ev_profiles, cc_profiles", "[]"),
    ),
    ({"op": "profile_state", "kind": "ev_profiles", "state": "online"}, ("profile", WHOLE)),
    ({"op": "profile_state", "kind": "ev_profiles", "profile": "1", "state": "online"}, ("profile", WHOLE, "'1'")),
    ({"op": "profile_state", "kind": "ev_profiles", "profile": 1}, ("state", "one of init, offline, online")),
    (
        {"op": "profile_state", "kind": "ev_profiles", "profile": 1, "state": "gone"},
        ("state", "one of init, offline, online", "'gone'"),
    ),
    ({"op": "profile_move", "from": 0}, ("to", WHOLE)),
    ({"op": "profile_move", "from": "0", "to": 1}, ("from", WHOLE, "'0'")),
    # Lists of objects.
    ({"op": "ev_ops"}, ("batch", "a list")),
    (BATCH | {"batch": None}, ("batch", "a list", "None")),
    (BATCH | {"batch": {}}, ("batch", "a list", "{}")),
    (BATCH | {"batch": "ev"}, ("batch", "a list", "'ev'")),
    (BATCH | {"batch": [None]}, ("batch[0] is a mapping", "None")),
    (BATCH | {"batch": [[]]}, ("a mapping", "[]")),
    (BATCH | {"profile": 0.5}, ("profile", WHOLE, "0.5")),
    (second(do="denny"), ("batch[1].do", "one of deny, allow, replace, query", "'denny'")),
    (second(do=None), ("do", "one of deny, allow, replace, query", "None")),
    (second(do={}), ("do", "one of deny, allow, replace, query", "{}")),
    (second(ev="p0"), ("batch[1].ev", "'p0' is no EV", "0x01000002", "p1s2")),
    (second(ev="\u0661"), ("is no EV", "0x01000002", "p1s2")),
    (second(ev=True), ("True is no EV", "0x01000002")),
    (second(ev=-1), ("-1 is no EV", "a number of 32 bits")),
    (second(ev=1 << 32), ("4294967296 is no EV", "a number of 32 bits")),
    (second(ev="0x100000000"), ("is no EV", "a number of 32 bits")),
    (second(ev=HUGE), ("is no EV", "a number of 32 bits")),
    (second(ev=1.0), ("1.0 is no EV", "a number of 32 bits")),
    (second(ev=[1]), ("[1] is no EV", "a number of 32 bits")),
    (second(ev="p99s0"), ("plane", "99")),
    (second(new_ev=""), ("'' is no EV", "a number of 32 bits")),
    (second(index="0"), ("index", WHOLE, "'0'")),
    (second(index=True), ("index", WHOLE, "True")),
    (second(peer=""), ("peer", TEXT, "''")),
    (second(peer="x" * 257), ("peer", TEXT, "'xxx")),
    (second(peer=7), ("batch[1].peer", TEXT, "7")),
    (second(peer=[]), ("peer", TEXT, "[]")),
    # Operations that wait.
    ({"op": "probe"}, ("peer", TEXT)),
    ({"op": "probe", "peer": None}, ("peer", TEXT, "None")),
    ({"op": "probe", "peer": "x" * 500_000}, ("peer", TEXT)),
    ({"op": "probe", "peer": "h1", "evs": 1}, ("evs", "a list", "1")),
    ({"op": "probe", "peer": "h1", "evs": [None]}, ("None is no EV", "a number of 32 bits")),
    ({"op": "probe", "peer": "h1", "timeout_s": -0.1}, ("timeout_s", "a number from 0 to 60", "-0.1")),
    ({"op": "probe", "peer": "h1", "timeout_s": 60.5}, ("timeout_s", "a number from 0 to 60", "60.5")),
    ({"op": "probe", "peer": "h1", "timeout_s": True}, ("timeout_s", "a number from 0 to 60", "True")),
    ({"op": "probe", "peer": "h1", "timeout_s": "1"}, ("timeout_s", "a number from 0 to 60", "'1'")),
    ({"op": "probe", "peer": "h1", "timeout_s": math.nan}, ("timeout_s", "a number from 0 to 60", "nan")),
    ({"op": "probe", "peer": "h1", "timeout_s": math.inf}, ("timeout_s", "a number from 0 to 60", "inf")),
    ({"op": "probe", "peer": "h1", "timeout_s": HUGE}, ("timeout_s", "a number from 0 to 60", "1000")),
    ({"op": "probe", "peer": "h1", "timeout_s": 10**400}, ("timeout_s", "a number from 0 to 60", "1000")),
    ({"op": "probe", "peer": "h1", "evs": [1], "port_nums": [256]}, (WHOLE, "from 0 to 255", "256")),
    ({"op": "probe", "peer": "h1", "evs": [1], "port_nums": [1, 2]}, ("port_nums are as many as evs", "[1, 2]")),
    ({"op": "probe", "peer": "h1", "port_nums": [1]}, ("port_nums are as many as evs", "[1]")),
    ({"op": "probe", "peer": "h1", "dscp": "48"}, ("dscp", WHOLE, "'48'")),
    ({"op": "port_status", "peer": "h1", "mask": -1}, ("mask", WHOLE, "from 0 to 4294967295", "-1")),
    ({"op": "port_status", "peer": "h1", "mask": HUGE}, ("mask", WHOLE, "from 0 to 4294967295")),
    ({"op": "port_status", "peer": "h1", "port_num": 1.5}, (WHOLE, "from 0 to 255", "1.5")),
    ({"op": "port_status", "peer": "h1", "ev": {}}, ("{} is no EV", "a number of 32 bits")),
]


@pytest.mark.parametrize(("document", "said"), REFUSED, ids=[quoted(each) for each, _ in REFUSED])
def test_a_refusal_says_what_is_wrong_and_what_is_allowed(document: object, said: tuple[str, ...]) -> None:
    with pytest.raises(ControlError) as raised:
        requests.read(document)
    assert raised.value.errno == EINVAL
    assert [each for each in said if each not in raised.value.reason] == [], raised.value.reason
    assert len(raised.value.reason) < 600


@pytest.mark.parametrize(
    "document",
    [
        {"op": "hello", "later": []},
        {"op": "status", "most_qps": 0},
        {"op": "port_set", "port_num": 1, "admin": "UP"},
        {"op": "port_set", "plane": 0, "port_num": None, "admin": "Down"},
        {"op": "profile_state", "kind": "cc_profiles", "profile": -1, "state": "ONLINE"},
        {"op": "ev_ops", "batch": []},
        second(ev="p1s2", new_ev=None, index=None, peer=None, later=1),
        second(do="replace", ev="0xFFFFFFFF", new_ev="0123", index=-3),
        {"op": "probe", "peer": "h1", "evs": [], "port_nums": [], "timeout_s": 60, "dscp": None},
        {"op": "port_status", "peer": "h1", "mask": (1 << 32) - 1, "ev": "4294967295", "timeout_s": 0},
        {"op": "subscribe", "states": "all", "limit": 0},
        {"op": "subscribe", "states": ["GOOD", "skip"], "limit": 65536, "ev_only": True},
    ],
    ids=quoted,
)
def test_what_is_allowed_is_taken(document: object) -> None:
    requests.read(document)
