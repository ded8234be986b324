# SPDX-License-Identifier: BSD-2-Clause
"""torch's own cases of torch.distributed: what passes over gloo passes over this backend, or the table says why not."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from torch_cases_run import RECORDED, Cases, recorded

# What passes over gloo and not over this backend, by the beginning of its name, with the reason.
EXCUSED = {
    "test_monitored_barrier": "torch.distributed.monitored_barrier refuses every backend but gloo itself; the "
    "group's own monitored_barrier is held to the same by test_torch_jobs.py",
}
# Of those that pass, some that are run over gloo as well: the record is of the torch that is installed.
SAMPLE_EVERY = 20


def excuse(case: str) -> str | None:
    return next((why for start, why in EXCUSED.items() if case.startswith(start)), None)


@pytest.fixture(scope="module")
def cases() -> Iterator[Cases]:
    with Cases() as made:
        yield made


def test_what_passes_over_gloo_passes(cases: Cases) -> None:
    wanted = [case for case in recorded() if excuse(case) is None]
    assert len(wanted) > 90
    found = {name: (outcome, why) for name, outcome, why in cases.outcomes("mrc", wanted)}
    assert found.keys() == set(wanted)
    failed = {name: each for name, each in found.items() if each[0] != "passed"}
    assert not failed, "\n\n".join(f"{name} {outcome}: {why}" for name, (outcome, why) in failed.items())


def test_the_record_is_of_gloo_and_this_torch(cases: Cases) -> None:
    assert RECORDED.read_text().startswith(f"# torch {version('torch').partition('+')[0]}, gloo"), (
        f"record again: python {Path(__file__).with_name('torch_cases_run.py')} gloo"
    )
    sample = recorded()[::SAMPLE_EVERY]
    found = [(name, outcome) for name, outcome, _ in cases.outcomes("gloo", sample)]
    assert found == [(each, "passed") for each in sample]


def test_the_excuses_are_needed(cases: Cases) -> None:
    """Each is of cases that pass over gloo, and that fail over this backend: so a case that fails is seen. The last
    test: it ends the processes that cases run in."""
    for start in EXCUSED:
        case = next(case for case in recorded() if case.startswith(start))
        ((_, outcome, why),) = cases.outcomes("mrc", [case])
        assert outcome == "failed"
        assert "only implemented for GLOO" in why
