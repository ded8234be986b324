# SPDX-License-Identifier: BSD-2-Clause
"""Reading traces written by hand: RFC 7464 framing, damage, other releases, clocks."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc.errors import CallerError
from mrc.trace import Event, Events, Header, is_trace, is_trace_file, read_trace
from mrc.trace.vocabulary import EV_STATE, PACKET_LOST

OFFSET = 1_700_000_000_000_000_000
CLOCK = {"name": "CLOCK_MONOTONIC", "realtime_offset_ns": OFFSET, "uncertainty_ns": 90}
HEADER = {"mrc_trace": 1, "title": "mrc send", "vantage_point": "sender", "generator": "mrc 9", "clock": CLOCK}
LOST = {"psn": 5, "ev": 16777218, "sent_at_ns": 90, "trigger": "nack:TRIMMED"}


def record(value: Any) -> bytes:
    """RFC 7464 section 2.2: RS, a JSON text, LF."""
    return b"\x1e" + json.dumps(value).encode() + b"\n"


def event(time_ns: int, name: str = "recovery:packet_lost", data: Any = LOST, qpn: Any = 7) -> bytes:
    return record({"time_ns": time_ns, "name": name, "qpn": qpn, "data": data})


WHOLE = record(HEADER) + event(100) + event(200) + event(300, "trace:end", {"events": 2}, None)


def read(data: bytes) -> tuple[Header, list[Event], Events]:
    header, events = read_trace(io.BytesIO(data))
    return header, list(events), events


def test_a_whole_trace() -> None:
    header, events, state = read(WHOLE)
    assert header == Header("mrc send", "sender", "mrc 9", "CLOCK_MONOTONIC", OFFSET, 90)
    assert header.realtime_ns(100) == OFFSET + 100
    first, second, end = events
    assert first == Event(100, "recovery:packet_lost", 7, LOST, PACKET_LOST, OFFSET + 100)
    assert (first.category, first["trigger"]) == ("recovery", "nack:TRIMMED")
    assert (second.time_ns, second.realtime_ns) == (200, OFFSET + 200)
    assert (end.name, end.qpn) == ("trace:end", None)
    assert (state.skipped, state.cut, state.ended) == (0, False, True)


def test_a_simulation_has_no_wall_clock() -> None:
    header, events, _ = read(record(HEADER | {"clock": {"name": "virtual"}}) + event(5))
    assert (header.clock, header.realtime_offset_ns, header.realtime_ns(5)) == ("virtual", None, None)
    assert events[0].realtime_ns is None


def test_the_wall_clock_was_set() -> None:
    """trace:clock holds from where it stands."""
    step = event(250, "trace:clock", {"realtime_offset_ns": OFFSET + 3_000_000_000}, None)
    _, events, _ = read(record(HEADER) + event(200) + step + event(300))
    assert [each.realtime_ns for each in events] == [
        OFFSET + 200, OFFSET + 3_000_000_250, OFFSET + 3_000_000_300,
    ]  # fmt: skip


def test_cut_at_every_byte() -> None:
    """What is whole is read, the rest is said to be cut; a file without its header is no trace."""
    after = len(record(HEADER))
    ends = [after + len(event(100)), after + len(event(100) + event(200))]
    for length in range(len(WHOLE)):
        if length < after - 1:
            with pytest.raises(CallerError):
                read(WHOLE[:length])
            continue
        _, events, state = read(WHOLE[:length])
        # A record whose LF alone is missing is there.
        count = sum(length >= end - 1 for end in ends) + (length == len(WHOLE) - 1)
        assert [each.time_ns for each in events] == [100, 200, 300][:count]
        on_edge = length in {after - 1, after, *ends, *(end - 1 for end in ends), len(WHOLE) - 1}
        assert (state.cut, state.skipped) == (not on_edge and WHOLE[:length][-1:] != b"\x1e", 0)
        assert state.ended == (length == len(WHOLE) - 1)


def test_damage_in_the_middle_costs_the_records_it_hit() -> None:
    """RFC 7464 section 2.3: a parser goes on at the next RS."""
    damaged = event(150)[:20] + event(160) + b"\x1e\x1e\x1e" + b"\x1enot json\n" + record([1]) + record(5) + event(170)
    _, events, state = read(record(HEADER) + event(100) + damaged)
    assert [each.time_ns for each in events] == [100, 160, 170]
    assert (state.skipped, state.cut, state.ended) == (4, False, False)


@pytest.mark.parametrize(
    "bad",
    [
        {"name": "x:y", "qpn": 1, "data": {}},
        {"time_ns": "5", "name": "x:y", "qpn": 1, "data": {}},
        {"time_ns": True, "name": "x:y", "qpn": 1, "data": {}},
        {"time_ns": 1.5, "name": "x:y", "qpn": 1, "data": {}},
        {"time_ns": 5, "name": 7, "qpn": 1, "data": {}},
        {"time_ns": 5, "name": "x:y", "qpn": "1", "data": {}},
        {"time_ns": 5, "name": "x:y", "qpn": 1, "data": []},
        {"time_ns": 5, "name": "recovery:packet_lost", "qpn": 1, "data": {"psn": 1}},
        {"time_ns": 5, "name": "recovery:packet_lost", "qpn": 1, "data": LOST | {"psn": "1"}},
        {"time_ns": 5, "name": "recovery:packet_lost", "qpn": 1, "data": LOST | {"ev": None}},
        {"time_ns": 5, "name": "recovery:packet_lost", "qpn": 1, "data": LOST | {"ev": True}},
        {"time_ns": 5, "name": "path:port", "qpn": 1, "data": {"side": "local", "port": 1, "up": 1}},
    ],
)
def test_what_is_no_event_is_passed_over(bad: dict[str, Any]) -> None:
    """Whoever reads one can rely on the table: all fields of a known name are there and of their kind."""
    _, events, state = read(record(HEADER) + record(bad) + event(100))
    assert [each.time_ns for each in events] == [100]
    assert state.skipped == 1


def test_other_releases_may_say_more() -> None:
    more = event(1, "path:weather", {"sky": "blue"}) + event(2, data=LOST | {"weather": "fine"})
    _, (unknown, known), state = read(record(HEADER | {"weather": 1}) + more)
    assert (unknown.kind, unknown["sky"], unknown.category) == (None, "blue", "path")
    assert (known.kind, known["weather"]) == (PACKET_LOST, "fine")
    assert state.skipped == 0


def test_null_stands_only_where_it_may() -> None:
    spurious = {"psn": 1, "ev": None, "sent_again": True}
    _, events, _ = read(record(HEADER) + event(1, "recovery:spurious_loss", spurious))
    assert events[0]["ev"] is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x1e",
        b"hello",
        b'{"mrc_trace":1}',
        record({"mrc_trace": 1}),
        record({"mrc_trace": "1", "clock": {}}),
        record({"qlog_version": "0.3"}),
        record([]),
        bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"),
    ],
)
def test_what_is_no_trace(data: bytes) -> None:
    with pytest.raises(CallerError, match="not a trace"):
        read_trace(io.BytesIO(data))


def test_a_later_format_is_refused() -> None:
    with pytest.raises(CallerError, match="format 2"):
        read_trace(io.BytesIO(record(HEADER | {"mrc_trace": 2})))


@pytest.mark.parametrize(
    "hostile", [b"[" * 1_000_000, b"9" * 100_000, b'{"time_ns":NaN}', b"\xff\xfe" * 10, b"\\" * 99]
)
def test_hostile_records_are_passed_over(hostile: bytes) -> None:
    _, events, state = read(record(HEADER) + b"\x1e" + hostile + b"\n" + event(100))
    assert [each.time_ns for each in events] == [100]
    assert state.skipped == 1


def test_a_record_without_end_is_not_held_in_memory() -> None:
    """16 MiB without an RS are passed over as one; what is asked for at once is 64 KiB."""

    class Endless(io.RawIOBase):
        def __init__(self) -> None:
            self.parts = [record(HEADER) + b'\x1e{"a":"', *[b"x" * 65536] * 256, event(100), event(200)]

        def read(self, size: int = -1) -> bytes:
            assert 0 < size <= 65536
            return self.parts.pop(0) if self.parts else b""

    _, events = read_trace(Endless())  # type: ignore[arg-type]
    held = [len(text) for text, _ in events._records]
    assert held == [0, len(event(100)) - 1, len(event(200)) - 1]


@given(st.data())
def test_no_bytes_make_it_fail(data: st.DataObject) -> None:
    """Bytes of a trace changed, cut out or put in: a header is refused, events are passed over, nothing else."""
    changed = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(changed)))
        changed[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    try:
        _, events, _ = read(bytes(changed))
    except CallerError:
        return
    for each in events:
        if each.kind is not None:
            assert all(field.allows(each[field.name]) for field in each.kind.fields)


def test_telling_a_trace_from_other_files(tmp_path: Path) -> None:
    trace, other = tmp_path / "a.trace", tmp_path / "a.pcap"
    # The order of keys is the writer's: the mark is first.
    trace.write_bytes(b'\x1e{"mrc_trace":1,"clock":{}}\n')
    other.write_bytes(bytes.fromhex("d4c3b2a102000400"))
    assert is_trace(trace.read_bytes()[:16])
    assert is_trace_file(trace)
    assert not is_trace_file(other)
    assert not is_trace_file(tmp_path / "nothing")
    assert not is_trace_file(tmp_path)
    assert not is_trace(b'\x1e{"qlog_version"')


def test_events_can_be_told_by_their_kind() -> None:
    moved = event(5, "path:ev_state", {"ev": 1, "old": "GOOD", "new": "SKIP", "cause": "MARKED"})
    _, events, _ = read(record(HEADER) + moved + event(6))
    assert [each.kind for each in events] == [EV_STATE, PACKET_LOST]
