# SPDX-License-Identifier: BSD-2-Clause
"""Whatever comes over the control socket is answered: carried out or refused. It never ends the process."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import pytest
from control_served import Served
from draws import draws
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SECOND = 1_000_000_000
# The members of each op, and what its answer may depend on (docs/control.md, Requests).
MEMBERS = {
    "hello": (),
    "device": (),
    "status": ("most_qps",),
    "ports": (),
    "port_set": ("plane", "port_num", "admin"),
    "profiles": (),
    "profile_load": ("profiles",),
    "profile_state": ("kind", "profile", "state"),
    "profile_move": ("from", "to"),
    "evs": ("profile", "most"),
    "ev_ops": ("profile", "batch"),
    "probe": ("peer", "evs", "timeout_s"),
    "port_status": ("peer", "mask", "timeout_s"),
    "subscribe": ("states", "limit"),
    "unsubscribe": (),
}
# Text that means something somewhere: half of a document is then right, and the wrong half is reached.
_WORDS = (
    "up down init offline online ev_formats ev_profiles cc_profiles deny allow replace query good skip assumed_bad all "
    "h1 h9 p0s1 p1s2 p99s0 0x01000002 0123 \u0663 auto explicit generated srv6 udp nscc fixed 0 1 2 63 64"
)
_NAMES = (
    "mode fields srh state format count min_active active_count event_mask evs deny width init_val mask min_val "
    "max_val algorithm nscc gamma fi base_rtt trimming do ev new_ev index peer 0 1 ev_formats ev_profiles cc_profiles"
)
DIGITS = int("9" * 4000)
scalars = (
    st.sampled_from([None, True, False, 0, 1, -1, 2, 64, 1 << 31, 1 << 32, 1 << 63, 1 << 64, DIGITS, -DIGITS])
    | st.integers(0, 300)
    | st.sampled_from([0.0, 0.5, 1.0, -0.5, 1e9, 1e300, float("nan"), float("inf"), float("-inf")])
    | st.sampled_from(_WORDS.split())
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from(["x" * 70_000, "\ud800", "\udcff", "9" * 5000, "0x" + "f" * 5000])
)
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_NAMES.split()) | st.text(max_size=3), inner)
    ),
    max_leaves=12,
)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    op = draw(st.sampled_from(sorted(MEMBERS)) | documents)
    members = MEMBERS.get(op, ()) if isinstance(op, str) else ()
    request: dict[str, Any] = {"id": draw(st.just(1) | documents), "op": op}
    for name in members:
        value = draw(st.just(...) | documents)
        if value is not ...:
            request[name] = value
    return request


def no_number(text: str) -> NoReturn:
    raise AssertionError(f"{text} is no JSON")


def answer(served: Served, line: bytes) -> dict[str, Any]:
    """The one answer to a request, however long it takes in virtual time."""
    sock = served.client()
    sock.setblocking(True)
    sock.settimeout(0.001)
    left = line + b"\n"
    while left:
        try:
            left = left[sock.send(left) :]
        except TimeoutError:
            served.server.attend()
    sock.setblocking(False)
    data = b""
    for turn in range(200):
        served.server.attend()
        try:
            data += sock.recv(1 << 20)
        except BlockingIOError:
            if turn > 20 and b"\n" not in data:
                served.pair.left.call(lambda: None)
                served.pair.run(SECOND)
            elif turn > 3 and data.endswith(b"\n"):
                break
    lines = [json.loads(each, parse_constant=no_number) for each in data.splitlines()]
    answers = [each for each in lines if "event" not in each]
    assert len(answers) == 1, (line[:200], data[:200])
    sock.close()
    served.server.attend()
    told: dict[str, Any] = answers[0]
    return told


def check(served: Served, line: bytes) -> dict[str, Any]:
    told = answer(served, line)
    assert type(told["ok"]) is bool
    if not told["ok"]:
        assert told["error"]["errno"] in ("EINVAL", "E2BIG", "ENOENT", "EBUSY", "EPERM", "ENOTSUP"), told
        assert told["error"]["message"]
        # A refusal quotes what it refuses, but not all of it.
        assert len(told["error"]["message"]) < 4000
    hello = answer(served, b'{"id": 2, "op": "hello"}')
    assert (hello["id"], hello["ok"]) == (2, True)
    assert hello["result"]["internal_errors"] == 0
    return told


@settings(max_examples=draws(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(request_=requests())
def test_any_document_is_carried_out_or_refused(served: Served, request_: dict[str, Any]) -> None:
    check(served, json.dumps(request_).encode())


@settings(max_examples=draws(33), deadline=None, suppress_health_check=list(HealthCheck))
@given(line=st.binary(max_size=200).filter(lambda line: b"\n" not in line and line.strip()))
def test_any_line_is_answered(served: Served, line: bytes) -> None:
    assert check(served, line)["ok"] is False


NESTED = b"[" * 500 + b"]" * 500
# What an int of this interpreter does not take from text by default (sys.int_info.default_max_str_digits is 4300).
LONG = b"1" + b"0" * 5000


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":1,"op":[]}',
        b'{"id":1,"op":{}}',
        b'{"id":1,"op":null}',
        b'{"id":1,"op":' + LONG + b"}",
        b'{"id":' + LONG + b',"op":"hello"}',
        b'{"id":' + NESTED + b',"op":"hello"}',
        b'{"id":NaN,"op":"hello"}',
        b'{"id":1e999,"op":"hello"}',
        b'{"id":[1],"op":"hello"}',
        b'{"id":{"a":1},"op":"hello"}',
        b'{"id":"' + b"x" * 500_000 + b'","op":"hello"}',
        b'{"id":1,"op":"status","most_qps":NaN}',
        b'{"id":1,"op":"status","most_qps":1e999}',
        b'{"id":1,"op":"status","most_qps":' + LONG + b"}",
        b'{"id":1,"op":"profile_state","kind":[],"profile":1,"state":"online"}',
        b'{"id":1,"op":"profile_state","kind":"ev_profiles","profile":1,"state":{}}',
        b'{"id":1,"op":"ev_ops","batch":[{"do":[]}]}',
        b'{"id":1,"op":"ev_ops","batch":[{"do":{},"ev":1}]}',
        b'{"id":1,"op":"ev_ops","batch":[{"do":"deny","ev":"p0s1","peer":[]}]}',
        b'{"id":1,"op":"ev_ops","batch":[{"do":"deny","ev":"99999999999"}]}',
        b'{"id":1,"op":"port_set","plane":[],"admin":"up"}',
        b'{"id":1,"op":"port_set","plane":0,"admin":["up"]}',
        b'{"id":1,"op":"port_set","port_num":1.0,"admin":"up"}',
        b'{"id":1,"op":"profile_load","profiles":' + NESTED + b"}",
        b'{"id":1,"op":"profile_load","profiles":{"ev_profiles":{"' + b"9" * 5000 + b'":{}}}}',
        b'{"id":1,"op":"profile_load","profiles":{"ev_profiles":{"1":{"mode":[]}}}}',
        b'{"id":1,"op":"profile_load","profiles":{"ev_profiles":{"1":{"mode":"generated","count":2,'
        b'"fields":[{"width":1000000000000000000}]}}}}',
        b'{"id":1,"op":"profile_load","profiles":{"ev_profiles":{"1":{"mode":"explicit","count":4294967296}}}}',
        b'{"id":1,"op":"profile_load","profiles":{"cc_profiles":{"1":{"algorithm":[]}}}}',
        b'{"id":1,"op":"profile_load","profiles":{"cc_profiles":{"1":{"algorithm":"nscc","nscc":{"gamma":NaN}}}}}',
        b'{"id":1,"op":"profile_load","profiles":{"cc_profiles":{"1":{"algorithm":"nscc","nscc":{"fi":'
        + LONG
        + b"}}}}}",
        b'{"id":1,"op":"profile_load","profiles":{"cc_profiles":{"1":{"algorithm":"nscc","nscc":{"trimming":[]}}}}}',
        b'{"id":1,"op":"probe","peer":[],"evs":[]}',
        b'{"id":1,"op":"probe","peer":"\\ud800"}',
        b'{"id":1,"op":"probe","peer":"' + b"x" * 500_000 + b'"}',
        b'{"id":1,"op":"probe","peer":"h1","timeout_s":1e999}',
        b'{"id":1,"op":"port_status","peer":"h1","mask":1' + b"0" * 4000 + b"}",
        b'{"id":1,"op":"subscribe","states":{"all":1}}',
        b'{"id":1,"op":"subscribe","states":["good",[]]}',
        b'{"id":1,"op":"subscribe","limit":NaN}',
        b'"hello"',
        b"\xff\xfe\x00",
        b'{"id":1,"op":"\xff"}',
        b"nul",
    ],
    ids=lambda line: line[:60].decode("latin-1"),
)
def test_what_is_malformed_is_refused(served: Served, line: bytes) -> None:
    assert check(served, line)["error"]["errno"] in ("EINVAL", "ENOENT", "E2BIG")


@pytest.mark.parametrize("number", [None, 0, -7, 1 << 63, 1.5, True, "", "a", "\u2028", "x" * 200])
def test_an_id_comes_back_as_it_was(served: Served, number: object) -> None:
    assert check(served, json.dumps({"id": number, "op": "hello"}).encode())["id"] == number


def test_a_number_in_text_is_decimal_whatever_its_zeros(served: Served) -> None:
    """`0123` as an EV used to be Python's notation, in which it is an error."""
    told = check(served, b'{"id":1,"op":"ev_ops","batch":[{"do":"query","ev":"00000001"}]}')
    assert told["result"][0]["errno"] is None
    assert check(served, b'{"id":1,"op":"ev_ops","batch":[{"do":"query","ev":"\\u0661"}]}')["ok"] is False


def test_a_fault_of_our_own_is_answered_counted_and_logged(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The last barrier: MRC-CTL-36."""
    with monkeypatch.context() as broken:
        broken.setattr("mrc.control.controller.Controller.query_device", lambda self: 1 / 0)
        told = answer(served, b'{"id":"x","op":"device"}')
        assert (told["id"], told["ok"], told["error"]["errno"]) == ("x", False, "EIO")
        assert "internal error" in told["error"]["message"]
        assert "ZeroDivisionError" in caplog.text
        # An answer that cannot be written is one too.
        broken.setattr("mrc.control.controller.Controller.query_device", lambda self: float("nan"))
        assert answer(served, b'{"id":1,"op":"device"}')["error"]["errno"] == "EIO"
    assert answer(served, b'{"id":1,"op":"device"}')["ok"] is True
    assert answer(served, b'{"id":1,"op":"hello"}')["result"]["internal_errors"] == 2


def test_a_fault_in_an_answer_that_comes_later_is_held_back_too(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrc.control.service._operation_json", lambda operation, result: 1 / 0)
    assert answer(served, b'{"id":3,"op":"probe","peer":"h1"}')["error"]["errno"] == "EIO"
    assert answer(served, b'{"id":1,"op":"hello"}')["result"]["internal_errors"] == 1
