# SPDX-License-Identifier: BSD-2-Clause
"""Times are whole nanoseconds to the end; what people read has as many digits as the file."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from analyzing import analysis_of, found_in
from click.testing import CliRunner
from crafted_flows import Crafted, ev_of, pcap_of, transfer

from mrc.cli import main

PATHS = [ev_of(plane, spine) for plane in range(2) for spine in range(2)]
# A time since 1970 that a double does not hold.
ODD_NS = 123_456_789


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every number of a document, with the name of its key."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, name)
    else:
        yield name, value


def lossy(unit_ns: int = 1) -> bytes:
    crafted = Crafted(payload=64)
    transfer(crafted, 400, PATHS, lambda chance, ev: chance.random() < 0.02)
    return in_units([(time + ODD_NS, frame) for time, frame in crafted.records], unit_ns)


def in_units(records: list[tuple[int, bytes]], unit_ns: int) -> bytes:
    """A pcap of nanoseconds, or of microseconds."""
    if unit_ns == 1:
        return pcap_of(records)
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    for time_ns, frame in records:
        second, part = divmod(time_ns, 10**9)
        parts.append(struct.pack("<IIII", 1_700_000_000 + second, part // unit_ns, len(frame), len(frame)) + frame)
    return b"".join(parts)


def analyzed(path: Path, *options: str) -> str:
    result = CliRunner().invoke(main, ["analyze", str(path), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_every_time_is_an_integer_of_nanoseconds(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(lossy())
    document = json.loads(analyzed(path, "--json"))
    times = [(name, value) for name, value in leaves(document) if name.endswith("_ns")]
    assert len(times) > 50
    assert {name for name, value in times if value is not None and type(value) is not int} == set()
    assert not {name for name, _ in leaves(document) if name.endswith(("_s", "_us", "_ms")) or name == "seconds"}
    assert document["start_ns"] == 1_700_000_000 * 10**9 + ODD_NS
    assert int(float(document["start_ns"])) != document["start_ns"]


@pytest.mark.parametrize(("unit_ns", "digits"), [(1, 9), (1000, 6), (1_000_000, 3)])
def test_tables_have_as_many_digits_as_the_file(tmp_path: Path, unit_ns: int, digits: int) -> None:
    records = [(time // unit_ns * unit_ns, frame) for time, frame in _records()]
    path = tmp_path / "x.pcap"
    path.write_bytes(in_units(records, min(unit_ns, 1000)))
    document = json.loads(analyzed(path, "--json"))
    assert document["resolution_ns"] == unit_ns
    (first, *_) = (each for each in document["findings"] if each["time_ns"])
    second, part = divmod(first["time_ns"], 10**9)
    assert f"(packet {first['packet']} at {second}.{part // 10 ** (9 - digits):0{digits}d} s)" in analyzed(path)


def _records() -> list[tuple[int, bytes]]:
    crafted = Crafted(payload=64)
    transfer(crafted, 4000, PATHS, lambda chance, ev: ev == PATHS[1] and chance.random() < 0.1)
    return crafted.records


def test_the_least_and_the_most_are_times_of_the_file() -> None:
    crafted = Crafted()
    for psn, took in enumerate((80_001, 90_000, 70_003)):
        crafted.data(psn * 1_000_000, psn, PATHS[0])
        crafted.sack(psn * 1_000_000 + took, psn, psn, PATHS[0])
    (direction,) = analysis_of(crafted.pcap()).directions
    assert (direction.figures.rtt.min_ns, direction.figures.rtt.max_ns) == (70_003, 90_000)
    assert direction.figures.rtt.p50_ns == 80_001
    assert found_in(crafted.pcap()) == {}
