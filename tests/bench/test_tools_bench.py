# SPDX-License-Identifier: BSD-2-Clause
"""tools/bench: what counts as moved, from documents as pytest-benchmark writes them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmarks_compare", ROOT / "benchmarks" / "compare.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def document(before: float = 1.0, after: float | None = None, **seconds: float) -> dict[str, Any]:
    """One pass: what each benchmark took, and the calibrations around it."""
    around = {"calibration_s": [before, before if after is None else after]}
    return {
        "benchmarks": [
            {
                "fullname": f"benchmarks/test_benchmark_codec.py::test_{name}",
                "stats": {"median": value},
                "extra_info": around,
            }
            for name, value in seconds.items()
        ]
    }


def test_times_are_multiples_of_the_calibration(compare: ModuleType) -> None:
    found = compare.timings_of([document(0.0019, 0.0021, headers=0.001)])
    assert found == {"codec::headers": compare.Timing(us=1000.0, relative=0.5)}


def test_the_median_of_passes(compare: ModuleType) -> None:
    found = compare.timings_of([document(headers=each) for each in (3.0, 1.0, 2.0)])
    assert found["codec::headers"].relative == 2.0


def test_a_pass_in_which_the_machine_changed_does_not_count(compare: ModuleType) -> None:
    steady, changed = document(headers=1.0), document(1.0, 2.0, headers=5.0)
    assert compare.timings_of([changed, steady, changed])["codec::headers"].relative == 1.0
    # Where it changed in every pass there is nothing better: 5 over the mean of 1 and 2.
    assert compare.timings_of([changed])["codec::headers"].relative == pytest.approx(5 / 1.5)


def test_a_slower_machine_moves_nothing(compare: ModuleType) -> None:
    before = compare.timings_of([document(0.002, headers=0.001)])
    after = compare.timings_of([document(0.004, headers=0.002)])
    assert compare.moved(before, after) == {}


def test_what_moved_by_more_than_a_tenth(compare: ModuleType) -> None:
    before = compare.timings_of([document(same=1.0, slower=1.0, faster=1.0, gone=1.0)])
    after = compare.timings_of([document(same=1.09, slower=1.2, faster=0.5, new=9.0)])
    assert compare.moved(before, after) == {
        "codec::slower": pytest.approx(0.2),
        "codec::faster": pytest.approx(-0.5),
    }
    lines = compare.report(before, after).splitlines()
    assert lines[-2].split() == ["codec::faster", "50%", "faster"]
    assert lines[-1].split() == ["codec::slower", "20%", "slower"]
    assert any(line.startswith("codec::new") and line.endswith("new") for line in lines)


def test_the_recorded_run_is_of_the_suites_there_are(compare: ModuleType) -> None:
    suites = {name.partition("::")[0] for name in compare.load()}
    assert suites == {path.stem.removeprefix("test_benchmark_") for path in (ROOT / "benchmarks").glob("test_*.py")}
    assert suites == {"codec", "sacks", "paths"}
