# SPDX-License-Identifier: BSD-2-Clause
"""Lines and JSON made for a run of packets at a time against those made one by one."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from test_capture_columns import LINK_TYPES, OTHER_PROFILE, WHOLE, Item, capture, items, linked

from mrc.capture.columns import read_columns
from mrc.capture.columns.documents import documents
from mrc.capture.columns.lines import Lines
from mrc.capture.fields import packet_document
from mrc.capture.files import read_capture
from mrc.capture.summary import Summary
from mrc.capture.walk import walk
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile


def one_by_one(data: bytes, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> list[str]:
    summary = Summary(profile)
    lines = []
    for number, record in enumerate(read_capture(io.BytesIO(data), "it"), 1):
        walked = walk(record.data, record.link_type, record.wire_length, profile)
        lines.append(summary.line(number, record, walked))
    return lines


def run_by_run(data: bytes, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> list[str]:
    lines = Lines(profile)
    return [line for columns in read_columns(io.BytesIO(data), "it", profile) for line in lines.lines(columns)]


def json_one_by_one(data: bytes, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> list[str]:
    texts = []
    for number, record in enumerate(read_capture(io.BytesIO(data), "it"), 1):
        walked = walk(record.data, record.link_type, record.wire_length, profile)
        texts.append(json.dumps(packet_document(number, record, walked, profile)))
    return texts


def json_run_by_run(data: bytes, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> list[str]:
    runs = read_columns(io.BytesIO(data), "it", profile)
    return [text for columns in runs for text in documents(columns, np.arange(len(columns)))]


@settings(max_examples=draws(50))
@given(st.lists(items(), min_size=1, max_size=30), st.sampled_from([DEFAULT_WIRE_PROFILE, OTHER_PROFILE]))
def test_both_ways_make_the_same_lines(packets: list[Item], profile: WireProfile) -> None:
    data = capture(packets)
    assert run_by_run(data, profile) == one_by_one(data, profile)
    assert json_run_by_run(data, profile) == json_one_by_one(data, profile)


def test_every_vector_on_every_link() -> None:
    frames = [(linked(packet, link_type), link_type) for link_type in LINK_TYPES for packet in WHOLE]
    data = capture([(frame, len(frame), link_type) for frame, link_type in frames])
    lines = run_by_run(data)
    assert lines == one_by_one(data)
    assert len(lines) == len(frames)
    assert json_run_by_run(data) == json_one_by_one(data)


def test_captures(softroce_capture: Path, external_captures: list[Path]) -> None:
    for path in (softroce_capture, *external_captures):
        data = path.read_bytes()
        assert run_by_run(data) == one_by_one(data) != []
        assert json_run_by_run(data) == json_one_by_one(data)


def test_some_lines_of_a_run_keep_numbers_and_times(softroce_capture: Path) -> None:
    with softroce_capture.open("rb") as stream:
        columns = next(read_columns(stream, "it"))
    lines = Lines()
    chosen = lines.lines(columns, columns.offsets("aeth")[0][:3])
    assert chosen == [line for line in one_by_one(softroce_capture.read_bytes()) if " MSN=" in line][:3]
