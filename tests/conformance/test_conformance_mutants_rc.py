# SPDX-License-Identifier: BSD-2-Clause
"""Every wrong endpoint of plain RC fails the cases that name what is wrong with it."""

from __future__ import annotations

import pytest
from interpreted_alone import interpreted_alone
from mutants.mutant import Mutant
from mutants.rc import rc_mutants

from mrc.conformance.runner import run_case
from mrc.conformance.wrong_endpoints import wrong_endpoint, wrong_endpoints
from mrc.errors import CallerError
from mrc.rc.conformance.case import rc_requirements
from mrc.rc.conformance.catalogue import rc_catalogue
from mrc.rc.conformance.suite import RC_MUTANTS

interpreted_alone()

AT_LEAST = 60


@pytest.mark.parametrize("mutant", rc_mutants().values(), ids=lambda mutant: mutant.name)
def test_the_suite_fails_it(mutant: Mutant) -> None:
    assert mutant.what.endswith(".")
    assert mutant.caught_by
    for requirement in mutant.caught_by:
        results = [run_case(each, mutant.target()) for each in rc_catalogue() if each.requirement.id == requirement]
        assert "failed" in {result.verdict for result in results}, f"{requirement}: {mutant.what}"
        for result in results:
            assert result.verdict != "error", f"{result.case.id}: {result.actual}\n{result.traceback}"
            assert not result.traceback, f"{result.case.id}: {result.actual}"


def test_each_requirement_has_a_mutant_that_fails_it() -> None:
    assert len(rc_mutants()) >= AT_LEAST
    assert {each for mutant in rc_mutants().values() for each in mutant.caught_by} == set(rc_requirements())


def test_they_are_found_by_name() -> None:
    for name, found in wrong_endpoints(RC_MUTANTS).items():
        assert found is rc_mutants()[name] is wrong_endpoint(name, RC_MUTANTS)
        assert found.target().name == name
    with pytest.raises(CallerError, match=r"no mutant nobody of RC: tests/mutants/rc holds"):
        wrong_endpoint("nobody", RC_MUTANTS)
