"""Every mutant fails the cases that name what is wrong with it, by what it does and not by breaking down."""

from __future__ import annotations

import pytest

import mrc.conformance.mutants
from mrc.conformance.catalogue import catalogue
from mrc.conformance.mutants import mutants
from mrc.conformance.mutants.mutant import Mutant
from mrc.conformance.requirements import requirements
from mrc.conformance.runner import run_case

AT_LEAST = 40


@pytest.mark.parametrize("mutant", mutants().values(), ids=lambda mutant: mutant.name)
def test_the_suite_fails_it(mutant: Mutant) -> None:
    target = mutant.target()
    for requirement in mutant.caught_by:
        results = [run_case(each, target) for each in catalogue() if each.requirement.id == requirement]
        assert "failed" in {result.verdict for result in results}, f"{requirement}: {mutant.what}"
        for result in results:
            # A case that breaks down over what a target does proves nothing: its script has to expect it.
            assert result.verdict != "error", f"{result.case.id}: {result.actual}\n{result.traceback}"
            # That nothing crashes is a requirement of its own; all others are caught by what their mutants do.
            assert requirement == "MRC-ERR-01" or not result.traceback, f"{result.case.id}: {result.actual}"


@pytest.mark.parametrize("mutant", mutants().values(), ids=lambda mutant: mutant.name)
def test_it_says_what_is_wrong_with_it(mutant: Mutant) -> None:
    assert mutant.what.endswith(".")
    assert mutant.caught_by
    assert set(mutant.caught_by) <= set(requirements())


def test_there_are_enough_of_them() -> None:
    assert len(mutants()) >= AT_LEAST


def test_every_requirement_with_a_case_is_named_by_one() -> None:
    """A case that no mutant fails has not been shown to check anything."""
    named = {requirement for each in mutants().values() for requirement in each.caught_by}
    assert {case.requirement.id for case in catalogue()} - named == set()


def test_they_are_found_by_name() -> None:
    name = next(iter(mutants()))
    assert getattr(mrc.conformance.mutants, name)().name == name
    with pytest.raises(AttributeError, match="no mutant"):
        mrc.conformance.mutants.nobody  # noqa: B018


def test_a_mutant_leaves_other_endpoints_alone() -> None:
    """After a run against each of them the endpoint itself is still right."""
    from mrc.conformance.targets.in_process import target

    case = next(each for each in catalogue() if each.id == "MRC-SACK-04")
    for mutant in mutants().values():
        run_case(case, mutant.target())
        assert run_case(case, target()).verdict == "passed", mutant.name
