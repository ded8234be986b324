# SPDX-License-Identifier: BSD-2-Clause
"""What `mrc recv` remembers of all its sessions: sums of all, details of the last."""

from __future__ import annotations

import json
import tracemalloc

from mrc.cli import recv
from mrc.net.transfer.receiver import SessionOutcome
from mrc.net.transfer.report import FileReport, TransferReport


def outcome(number: int, failure: str | None = None, files: int = 50) -> SessionOutcome:
    report = TransferReport()
    for each in range(files):
        report.add_file(FileReport(f"{number}-{each}", 10, sums_agree=True))
    report.counters = {"requests_received": 3}
    return SessionOutcome("::1", report, failure, ())


def test_sums_are_of_all_and_files_of_the_last() -> None:
    total = recv.AllSessions()
    for number in range(1000):
        total.add(outcome(number, "broken" if number == 0 else None), number == 0, detailed=True)
    document = json.loads(json.dumps(total.document()))
    assert document["sessions"] == 1000
    assert document["bytes"] == 1000 * 50 * 10
    assert document["counters"] == {"requests_received": 3000}
    assert len(document["files"]) == 10_000
    assert document["files"][-1]["name"] == "999-49"
    assert document["files_left_out"] == 40_000
    assert document["errors"] == ["broken"]
    assert document["sums_agree"] is False
    assert total.failed


def test_a_sum_that_was_wrong_is_not_forgotten_with_its_file() -> None:
    total = recv.AllSessions()
    wrong = outcome(0, files=0)
    wrong.report.add_file(FileReport("wrong", 10, sums_agree=False))
    total.add(wrong, failed=True, detailed=True)
    for number in range(300):
        total.add(outcome(number), failed=False, detailed=True)
    assert total.document()["sums_agree"] is False
    assert all(each["name"] != "wrong" for each in total.document()["files"])  # type: ignore[attr-defined]


def test_memory_does_not_grow_with_sessions() -> None:
    for detailed in (False, True):
        total = recv.AllSessions()
        for number in range(400):
            total.add(outcome(number, "x" * 100), failed=True, detailed=detailed)
        tracemalloc.start()
        for number in range(400, 1200):
            total.add(outcome(number, "x" * 100), failed=True, detailed=detailed)
        grown = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        # Of the details at most what takes the place of older ones, which were not traced.
        assert grown < (4_000_000 if detailed else 10_000)


def test_without_sessions_nothing_agrees() -> None:
    document = recv.AllSessions().document()
    assert document["sessions"] == 0
    assert document["sums_agree"] is False
    assert document["errors"] == []
    assert "files_left_out" not in document
