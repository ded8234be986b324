# SPDX-License-Identifier: BSD-2-Clause
"""History in SQLite: what is written is read by another process' eyes, across restarts."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mrc.errors import CallerError, SystemRefused
from mrc.map.history import SUM_NS, History, read_history

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND


def fault(name: str = "p0l0-p0s1", **changes: Any) -> dict[str, Any]:
    found = {
        "name": name,
        "kind": "link",
        "plane": 0,
        "since_unix_ns": NOW,
        "named_unix_ns": NOW + SECOND,
        "until_unix_ns": None,
        "loss_percent": 2.0,
        "loss_percent_low": 1.0,
        "loss_percent_high": 3.0,
        "state": "lossy",
        "toward": [],
        "also": [],
        "withdrawn": False,
    }
    return {**found, **changes}


def picture(at_ns: int = NOW, **more: Any) -> dict[str, Any]:
    whole = {"fabric": "mrc", "leaves": 2, "hosts_per_leaf": 1, "faults": [], "suspicions": [], "agents": []}
    return {"at_unix_ns": at_ns, **whole, **more}


def test_a_fault_is_one_row_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "map.sqlite"
    history = History(path)
    history.record([fault()])
    history.record([fault(loss_percent=5.0)])
    history.record([fault(loss_percent=3.0)])
    history.keep(picture(), {})
    assert read_history(path, 0) == (picture(), [])
    ended = fault(until_unix_ns=NOW + 9 * SECOND, loss_percent=3.0)
    history.record([ended])
    assert read_history(path, 0)[1] == history.past(10) == [ended]
    history.close()
    base = sqlite3.connect(path)
    assert base.execute("SELECT name, worst_loss_percent FROM fault").fetchall() == [("p0l0-p0s1", 5.0)]
    base.close()


def test_the_same_part_may_fail_again(tmp_path: Path) -> None:
    history = History(tmp_path / "map.sqlite")
    for at in range(3):
        since = NOW + at * 10 * SECOND
        history.record([fault(since_unix_ns=since)])
        history.record([fault(since_unix_ns=since, until_unix_ns=since + SECOND)])
    assert [each["since_unix_ns"] for each in history.past(2)] == [NOW + 20 * SECOND, NOW + 10 * SECOND]
    assert len(read_or_none(history, tmp_path)) == 3
    history.close()


def read_or_none(history: History, where: Path) -> list[dict[str, Any]]:
    history.keep(picture(), {})
    return read_history(where / "map.sqlite", 0)[1]


def test_what_was_open_when_the_last_process_died_ended_when_it_last_wrote(tmp_path: Path) -> None:
    path = tmp_path / "map.sqlite"
    first = History(path)
    first.record([fault()])
    first.keep(picture(NOW + 7 * SECOND), {})
    first.close()
    second = History(path)
    (ended,) = second.past(10)
    assert (ended["until_unix_ns"], ended["interrupted"]) == (NOW + 7 * SECOND, True)
    # And begins anew when it is still there.
    second.record([fault()])
    assert len(second.past(10)) == 1
    second.close()


def test_since_leaves_out_what_was_over_before(tmp_path: Path) -> None:
    history = History(tmp_path / "map.sqlite")
    for number in range(4):
        at = NOW + number * SECOND
        history.record([fault(f"p0l{number}-p0s0", since_unix_ns=at, until_unix_ns=at + SECOND)])
    history.keep(picture(), {})
    names = [each["name"] for each in read_history(tmp_path / "map.sqlite", NOW + 3 * SECOND)[1]]
    assert names == ["p0l3-p0s0", "p0l2-p0s0"]
    history.forget(NOW + 3 * SECOND)
    assert [each["name"] for each in history.past(10)] == names
    history.close()


def test_probes_are_kept_in_sums_and_an_agent_may_begin_anew(tmp_path: Path) -> None:
    history = History(tmp_path / "map.sqlite")
    history.keep(picture(NOW), {(0, 1): (100, 3)})
    history.keep(picture(NOW + SUM_NS // 2), {(0, 1): (150, 3)})
    history.keep(picture(NOW + SUM_NS), {(0, 1): (200, 4)})
    history.keep(picture(NOW + 2 * SUM_NS), {(0, 1): (30, 1)})
    history.close()
    base = sqlite3.connect(tmp_path / "map.sqlite")
    rows = base.execute("SELECT host, plane, back, lost FROM probes ORDER BY at_unix_ns").fetchall()
    base.close()
    assert rows == [(0, 1, 100, 3), (0, 1, 100, 1), (0, 1, 30, 1)]


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "text", tmp_path / "other.sqlite"
    text.write_text("not a database, and long enough to be sure of it" * 20)
    base = sqlite3.connect(other)
    base.execute("CREATE TABLE mine (x)")
    base.commit()
    base.close()
    before = text.read_bytes(), other.read_bytes()
    for path in (text, other):
        with pytest.raises(CallerError, match="not a history"):
            History(path)
    assert text.read_bytes() == before[0]
    with pytest.raises(CallerError, match="not a history"):
        read_history(text, 0)
    with pytest.raises(CallerError, match="no history"):
        read_history(tmp_path / "none", 0)
    assert not (tmp_path / "none").exists()
    with pytest.raises(SystemRefused):
        History(tmp_path / "no" / "where")


def test_a_history_with_nothing_in_it_yet_says_so(tmp_path: Path) -> None:
    History(tmp_path / "map.sqlite").close()
    # The file is there a moment before its tables.
    (tmp_path / "first.sqlite").touch()
    for name in ("map.sqlite", "first.sqlite"):
        with pytest.raises(CallerError, match="only just begun"):
            read_history(tmp_path / name, 0)
