# SPDX-License-Identifier: BSD-2-Clause
"""Traces and a lab's events as a document for Perfetto, in the Trace Event Format (ui.perfetto.dev).

A trace is a process there. Each QP is a track with its states, losses and timeouts, each EV a track with its states;
windows, bytes in flight, round trips and rates are counters. A lab's events are a process of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mrc.records import record
from mrc.trace.reader import Event, Header
from mrc.trace.vocabulary import (
    EV_STATE,
    EV_TOTALS,
    METRICS_UPDATED,
    PORT,
    QP_STATE,
    RESPONDER_STARTED,
    SACKS_RECEIVED,
    SACKS_SENT,
)

_ENDPOINT, _FIRST_EV = 0, 1 << 25
# What is drawn as a counter: the event's fields under the counter's name.
_COUNTERS = {
    METRICS_UPDATED: {
        "window, bytes": {"cwnd": "cwnd_bytes", "in flight": "inflight_bytes"},
        "packets in the network": {"outstanding": "outstanding"},
        "round trip, ns": {"smoothed": "srtt_ns", "least": "min_rtt_ns"},
    },
}
# Counts of an interval become a rate: (field, counter, unit's factor).
_RATES = {
    SACKS_RECEIVED: ("data_bytes", "sent, Gbit/s"),
    SACKS_SENT: ("bytes_placed", "received, Gbit/s"),
}


@record(frozen=True, slots=True)
class LabEvent:
    """One event of a lab's log: when, on both clocks, what and to what."""

    at_monotonic_ns: int
    at_unix_ns: int
    name: str
    target: str
    details: dict[str, Any]


def document(traces: Iterable[tuple[Header, Iterable[Event]]], lab: Iterable[LabEvent] = ()) -> dict[str, Any]:
    """The document. Times are microseconds since the first event of all; the wall clock's where every trace has one.

    Of a trace without a wall clock, a simulation's, the endpoint's own clock counts, and `lab` should be empty.
    """
    read = [(header, list(events)) for header, events in traces]
    lab_events = list(lab)
    walled = all(header.realtime_offset_ns is not None for header, _ in read)
    moments = [_moment(event, walled) for _, events in read for event in events]
    moments += [each.at_unix_ns if walled else each.at_monotonic_ns for each in lab_events]
    begin = min(moments, default=0)
    out: list[dict[str, Any]] = []
    for pid, (header, events) in enumerate(read, 1):
        out += _Process(pid, begin, walled).events(header, events)
    if lab_events:
        out += _lab(len(read) + 1, begin, walled, lab_events)
    origin = {"begin_unix_ns": begin} if walled else {"begin_ns": begin}
    return {"traceEvents": out, "displayTimeUnit": "ns", "otherData": origin}


def _moment(event: Event, walled: bool) -> int:
    return event.realtime_ns if walled and event.realtime_ns is not None else event.time_ns


def _named(kind: str, pid: int, name: str, tid: int = 0) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}}


class _Process:
    """One trace."""

    def __init__(self, pid: int, begin: int, walled: bool) -> None:
        self._pid = pid
        self._begin = begin
        self._walled = walled
        self._tracks: dict[tuple[str, int | None, int], int] = {}
        # By track: the state it is in, since when, and what led to it.
        self._states: dict[int, tuple[str, float, dict[str, Any]]] = {}
        self._paths: dict[tuple[int | None, int], str] = {}
        self._last = 0.0

    def events(self, header: Header, events: list[Event]) -> Iterator[dict[str, Any]]:
        yield _named("process_name", self._pid, f"{header.title} ({header.vantage_point})")
        for event in events:
            ts = (_moment(event, self._walled) - self._begin) / 1000
            self._last = max(self._last, ts)
            yield from self._of(event, ts)
        for track in list(self._states):
            yield from self._ended(track, self._last)

    def _of(self, event: Event, ts: float) -> Iterator[dict[str, Any]]:
        kind = event.kind
        if kind is RESPONDER_STARTED:
            for path in event["paths"]:
                if isinstance(path, dict) and isinstance(path.get("ev"), int):
                    self._paths[event.qpn, path["ev"]] = f"plane {path.get('plane')} spine {path.get('spine')}"
        if kind is QP_STATE:
            yield from self._changed(event, ts, *self._track(event))
        elif kind is EV_STATE:
            yield from self._changed(event, ts, *self._track(event, event["ev"]))
        elif kind in _COUNTERS:
            for name, series in _COUNTERS[kind].items():
                values = {label: event[field] for label, field in series.items()}
                yield self._counter(event, name, ts, values)
        elif kind in _RATES:
            field, name = _RATES[kind]
            seconds = (event.time_ns - event["since_ns"]) / 1e9
            yield self._counter(event, name, ts, {"rate": event[field] * 8 / seconds / 1e9 if seconds > 0 else 0.0})
        else:
            about_ev = kind not in (None, EV_TOTALS, PORT) and isinstance(event.data.get("ev"), int)
            track, made = self._track(event, event["ev"]) if about_ev else self._track(event)
            yield from made
            yield {
                "ph": "i",
                "s": "t",
                "pid": self._pid,
                "tid": track,
                "ts": ts,
                "name": event.name.partition(":")[2],
                "cat": event.category,
                "args": event.data,
            }

    def _counter(self, event: Event, name: str, ts: float, values: dict[str, Any]) -> dict[str, Any]:
        named = name if event.qpn is None else f"QP {event.qpn:#08x} {name}"
        return {"ph": "C", "pid": self._pid, "ts": ts, "name": named, "args": values}

    def _track(self, event: Event, ev: int | None = None) -> tuple[int, list[dict[str, Any]]]:
        """The track of a QP, an EV of it or the endpoint, and what names it where it is new."""
        key = ("ev" if ev is not None else "qp", event.qpn, ev or 0)
        made: list[dict[str, Any]] = []
        if key not in self._tracks:
            qp = "endpoint" if event.qpn is None else f"QP {event.qpn:#08x}"
            if ev is None:
                track, name = event.qpn or _ENDPOINT, qp
            else:
                track, name = _FIRST_EV + len(self._tracks), f"{qp} EV {ev:#010x}"
                name += f" {self._paths[event.qpn, ev]}" if (event.qpn, ev) in self._paths else ""
            self._tracks[key] = track
            made.append(_named("thread_name", self._pid, name, track))
        return self._tracks[key], made

    def _changed(self, event: Event, ts: float, track: int, made: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        yield from made
        if track not in self._states and event["old"] != event["new"]:
            # It was in this state since the trace began.
            self._states[track] = (event["old"], 0.0, {})
        yield from self._ended(track, ts)
        self._states[track] = (event["new"], ts, event.data)

    def _ended(self, track: int, ts: float) -> Iterator[dict[str, Any]]:
        state = self._states.pop(track, None)
        if state is not None:
            name, since, args = state
            yield {
                "ph": "X",
                "pid": self._pid,
                "tid": track,
                "ts": since,
                "dur": max(0.0, ts - since),
                "name": name,
                "cat": "state",
                "args": args,
            }


def _lab(pid: int, begin: int, walled: bool, events: list[LabEvent]) -> Iterator[dict[str, Any]]:
    yield _named("process_name", pid, "fabric")
    yield _named("thread_name", pid, "links", 1)
    for event in events:
        at = event.at_unix_ns if walled else event.at_monotonic_ns
        yield {
            "ph": "i",
            "s": "g",
            "pid": pid,
            "tid": 1,
            "ts": (at - begin) / 1000,
            "name": f"{event.name} {event.target}".strip(),
            "cat": "fabric",
            "args": event.details,
        }
