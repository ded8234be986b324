# SPDX-License-Identifier: BSD-2-Clause
"""tools/bench: what counts as moved, from documents as pytest-benchmark writes them."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setitem(sys.modules, "<run_path>", sys)  # its dataclasses look themselves up there
    return runpy.run_path(str(BENCHMARKS / "compare.py"))


def document(before: float = 1.0, after: float = 1.0, **seconds: float) -> dict[str, Any]:
    """One pass: what each benchmark took, and the calibrations around it."""
    name, around = "benchmarks/test_benchmark_codec.py::test_", {"calibration_s": [before, after]}
    return {
        "benchmarks": [
            {"fullname": name + each, "stats": {"median": value}, "extra_info": around}
            for each, value in seconds.items()
        ]
    }


def test_only_what_moved_by_more_than_a_tenth_of_a_steady_machine_has_moved(compare: dict[str, Any]) -> None:
    timings_of, moved = compare["timings_of"], compare["moved"]
    before = timings_of([document(same=each, slower=1.0, faster=1.0, gone=1.0) for each in (3.0, 1.0, 0.5)])
    # A machine that is slower altogether moves nothing, and a pass in which it changed does not count.
    passes = [document(2.0, 2.0, same=2.18, slower=2.4, faster=1.0, new=9.0), document(1.0, 2.0, same=9.0)]
    assert moved(before, timings_of(passes)) == {
        "codec::slower": pytest.approx(0.2),
        "codec::faster": pytest.approx(-0.5),
    }
