# SPDX-License-Identifier: BSD-2-Clause
"""The lines between agent and collector: round trips, and what is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc.errors import PeerError
from mrc.fabric.place import Place
from mrc.map.loops import loops_of
from mrc.map.prober import Counters, Report
from mrc.map.wording import (
    Hello,
    Totals,
    Welcome,
    hello_line,
    read_hello,
    read_result,
    read_welcome,
    refusal_line,
    report_line,
    totals_line,
    welcome_line,
)

HELLO = Hello(1, 100, loops_of(1, [Place(plane, 1, 4, 4) for plane in range(2)]))


def test_lines_say_what_was_put_into_them() -> None:
    assert read_welcome(welcome_line(Welcome("mrc", 4))) == Welcome("mrc", 4)
    assert read_hello(hello_line(HELLO)) == HELLO
    report = Report(12345, (1, 2, 2), (10, -1, 30), (81,), 3)
    assert read_result(report_line(report), 82) == report
    totals = Totals(Counters(10, 1, 2, 3), 0.25)
    assert read_result(totals_line(totals), 82) == totals
    for line in (welcome_line(Welcome("mrc", 4)), hello_line(HELLO), report_line(report), totals_line(totals)):
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")


def test_a_refusal_is_an_error_with_its_reason() -> None:
    with pytest.raises(PeerError, match="h0 has an agent already"):
        read_welcome(refusal_line("h0 has an agent already"))


GOOD = {"sent_ns": 5, "back": [0], "rtt_us": [1], "lost": [1], "void": 0}


@pytest.mark.parametrize(
    "change",
    [
        {"back": [2]},
        {"back": [-1]},
        {"back": [True]},
        {"back": ["0"]},
        {"back": 0},
        {"back": [0, 0]},
        {"rtt_us": [-2]},
        {"lost": None},
        {"lost": [1.0]},
        {"void": -1},
        {"void": "0"},
        {"sent_ns": -1},
        {"sent_ns": 2**70},
        {"sent_ns": True},
        {"back": [0] * 50_000, "rtt_us": [0] * 50_000},
    ],
)
def test_a_report_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    assert read_result(json.dumps(GOOD).encode(), 2) == Report(5, (0,), (1,), (1,), 0)
    with pytest.raises(PeerError):
        read_result(json.dumps({**GOOD, **change}).encode(), 2)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1},
        {"host": 256},
        {"host": None},
        {"rate": 0},
        {"loops": []},
        {"loops": [[]]},
        {"loops": [[0x1001, None]]},
        {"loops": [[0x1001, 0x14001]]},
        {"loops": [[0x0001, 0x4001]]},
        {"loops": [[0x1001, 0x4002]]},
        {"loops": [[0x1001, 0x2000, 0x4001]]},
        {"loops": [[0x1001, 0x4001]] * 2},
        {"loops": ["01234"]},
        {"loops": [7]},
    ],
)
def test_a_hello_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    good = json.loads(hello_line(HELLO))
    with pytest.raises(PeerError):
        read_hello(json.dumps({**good, **change}).encode())


@given(st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode)))
def test_noise_is_refused_and_nothing_worse(line: bytes) -> None:
    for read in (read_welcome, read_hello, lambda noise: read_result(noise, 10)):
        with pytest.raises(PeerError):
            read(line)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from([*GOOD, "host", "cpu_s"]), inner),
        max_leaves=20,
    )
)
def test_json_of_any_other_shape_is_refused(document: object) -> None:
    with pytest.raises(PeerError):
        read_hello(json.dumps(document).encode())
