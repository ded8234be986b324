# SPDX-License-Identifier: BSD-2-Clause
"""Traces in any state, with any numbers in them: never an exception, always a document."""

from __future__ import annotations

import io
import json
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
from analyzing import analysis_of
from crafted_flows import REQUESTOR_QPN
from crafted_traces import CraftedTrace, record
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from test_analysis_trace import capture, sender_trace

from mrc.capture.analysis.analysis import Analysis
from mrc.capture.analysis.comparison import compare
from mrc.capture.analysis.document import document, traces_document
from mrc.capture.analysis.report import report
from mrc.capture.analysis.reported import Trace, read_reported
from mrc.capture.analysis.trace_findings import trace_findings
from mrc.cli.analyze_reported import print_comparison, print_traces
from mrc.trace.vocabulary import EVENTS, Kind


@cache
def _of_capture() -> Analysis:
    return analysis_of(capture().pcap())


def analysis() -> Analysis:
    """Of the capture that every trace is held against. A comparison adds to it what a trace reports."""
    return deepcopy(_of_capture())


def analysed(data: bytes) -> Trace:
    """Everything that is made of a trace, with and without a capture."""
    trace = read_reported(io.BytesIO(data), "t")
    alone = trace_findings([trace], None)
    json.dumps(traces_document("t", [trace], alone))
    console = Console(file=io.StringIO(), width=200)
    print_traces(console, [trace], alone)
    held = analysis()
    both = compare(held, [trace])
    found = trace_findings([trace], both)
    print_comparison(console, [each.figures for each in held.directions])
    json.dumps(document("x", held, found, [trace]))
    assert "<script" in report("x", held, found, both)
    return trace


def test_cut_anywhere() -> None:
    whole = sender_trace().bytes()
    begin = whole.index(b"\x1e", 1)
    for end in range(begin, len(whole), 37):
        trace = analysed(whole[:end])
        assert not trace.ended
        # At the end of a record nothing is cut, nor where nothing of the next one is there but its mark.
        if whole[end - 1 : end] not in (b"\n", b"\x1e", b"}"):
            assert trace.cut


@given(st.data())
def test_bytes_changed(data: st.DataObject) -> None:
    whole = bytearray(sender_trace().bytes())
    begin = whole.index(b"\x1e", 1) + 1  # where nothing is left of the header it is no trace
    for _ in range(data.draw(st.integers(1, 12))):
        whole[data.draw(st.integers(begin, len(whole) - 1))] = data.draw(st.integers(0, 255))
    analysed(bytes(whole))


_INTEGERS = st.one_of(
    st.integers(-5, 70_000), st.sampled_from([2**24 - 1, 2**24, 2**32, 2**60, 2**63, 2**64, 10**400, -(2**63)])
)
_OF_KIND = {
    Kind.INTEGER: _INTEGERS,
    Kind.TEXT: st.one_of(st.text(max_size=9), st.sampled_from(["ASSUMED_BAD", "GOOD", "nack:", "hole", "\x1b[2J"])),
    Kind.FRACTION: st.one_of(_INTEGERS, st.floats(allow_nan=False, allow_infinity=False)),
    Kind.FLAG: st.booleans(),
    Kind.LIST: st.lists(st.one_of(_INTEGERS, st.dictionaries(st.sampled_from(["ev", "plane"]), _INTEGERS)), max_size=3),
    Kind.TABLE: st.dictionaries(st.text(max_size=3), _INTEGERS, max_size=3),
}


@st.composite
def _events(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(list(EVENTS.values())))
    data = {each.name: draw(_OF_KIND[each.kind]) for each in kind.fields}
    qpn = draw(st.sampled_from([REQUESTOR_QPN, REQUESTOR_QPN, 7, None, -1, 2**80]))
    return {"time_ns": draw(_INTEGERS), "name": kind.name, "qpn": qpn, "data": data}


@given(st.lists(_events(), max_size=25))
def test_any_numbers_in_any_order(events: list[dict[str, Any]]) -> None:
    trace = CraftedTrace()
    trace.started([0])
    trace.records += map(record, events)
    analysed(trace.bytes())


@pytest.mark.parametrize("psn", [-1, 2**24, 2**70])
def test_a_number_that_cannot_be_is_not_believed(psn: int) -> None:
    trace = CraftedTrace()
    trace.event(1, "recovery:packet_lost", psn=psn, ev=0, sent_at_ns=0, trigger="hole")
    reported = analysed(trace.bytes())
    assert (reported.not_believed, reported.qps) == (1, [])


def test_words_of_a_trace_are_no_commands_for_a_terminal_and_no_markup() -> None:
    trace = CraftedTrace()
    trace.started([0])
    trace.lost(1, 12, 0, "\x1b[2J<script>alert(1)</script>")
    reported = analysed(trace.bytes())
    assert list(reported.qps[0].by_trigger) == ["\\x1b[2J<script>alert(1)</script>"]
    held = analysis()
    both = compare(held, [reported])
    assert "<script>alert" not in report("x", held, trace_findings([reported], both), both)
