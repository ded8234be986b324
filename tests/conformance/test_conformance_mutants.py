# SPDX-License-Identifier: BSD-2-Clause
"""Every mutant fails the cases that name what is wrong with it, by what it does and not by breaking down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from interpreted_alone import interpreted_alone
from mutants import mutants
from mutants.mutant import Mutant

from mrc.conformance import setup
from mrc.conformance.catalogue import catalogue
from mrc.conformance.requirements import requirements
from mrc.conformance.runner import run_case
from mrc.conformance.target import Frame, Unsupported
from mrc.conformance.targets.in_process import InProcessSession, target
from mrc.conformance.wrong_endpoints import MRC_MUTANTS, served_endpoint, wrong_endpoint, wrong_endpoints
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.responder.received import ReceivedPsns
from mrc.errors import CallerError
from mrc.wire.profile import WireProfile

interpreted_alone()

AT_LEAST = 40


@pytest.fixture(autouse=True, scope="module")
def mutants_leave_other_endpoints_alone() -> Iterator[None]:
    """After a run against each of them the endpoint itself is still right: what one left, the next would not undo."""
    yield
    case = next(each for each in catalogue() if each.id == "MRC-SACK-04")
    assert run_case(case, target()).verdict == "passed"


@pytest.mark.parametrize("mutant", mutants().values(), ids=lambda mutant: mutant.name)
def test_the_suite_fails_it(mutant: Mutant) -> None:
    wrong = mutant.target()
    for requirement in mutant.caught_by:
        results = [run_case(each, wrong) for each in catalogue() if each.requirement.id == requirement]
        assert "failed" in {result.verdict for result in results}, f"{requirement}: {mutant.what}"
        for result in results:
            # A case that breaks down over what a target does proves nothing: its script has to expect it.
            assert result.verdict != "error", f"{result.case.id}: {result.actual}\n{result.traceback}"
            # That nothing crashes is a requirement of its own; all others are caught by what their mutants do.
            assert requirement == "MRC-ERR-01" or not result.traceback, f"{result.case.id}: {result.actual}"


# Those that are wrong only about packets that they answer together, and whose cases a live target has to fail always.
OF_A_BURST = ("sack_echoes_another_ev", "nacks_of_a_burst_name_its_first", "nacks_of_a_burst_reflect_its_first")


@pytest.mark.parametrize("name", OF_A_BURST)
def test_it_is_failed_too_where_the_packets_of_a_burst_come_one_by_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at a live target that wakes up for each of them: on a busy machine one run in twenty passed it."""
    whole = InProcessSession.put

    def one_by_one(session: InProcessSession, frames: Sequence[Frame]) -> None:
        for frame in frames:
            whole(session, [frame])

    monkeypatch.setattr(InProcessSession, "put", one_by_one)
    for requirement in mutants()[name].caught_by:
        cases = [each for each in catalogue() if each.requirement.id == requirement]
        assert {run_case(each, target()).verdict for each in cases} == {"passed"}
        assert "failed" in {run_case(each, mutants()[name].target()).verdict for each in cases}


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
    for name, found in wrong_endpoints(MRC_MUTANTS).items():
        assert found is mutants()[name] is wrong_endpoint(name, MRC_MUTANTS) is served_endpoint(name)
        assert found.target().name == name
    for find in (lambda: wrong_endpoint("nobody", MRC_MUTANTS), lambda: served_endpoint("nobody")):
        with pytest.raises(CallerError, match=r"no mutant nobody of MRC: docs/conformance\.md lists"):
            find()


def test_one_whose_paths_no_fabric_has_is_not_served() -> None:
    with pytest.raises(CallerError, match="an_srh_is_always_there has paths that no real fabric knows"):
        served_endpoint("an_srh_is_always_there").take_over()


def test_a_process_that_is_taken_over_has_no_other_endpoints() -> None:
    """Those of a live target, which it does not make itself: all are wrong as long as it is in place."""
    case = next(each for each in catalogue() if each.id == "MRC-SACK-04")
    with mutants()["sack_echoes_another_ev"].put():
        assert run_case(case, target()).verdict == "failed"
    assert run_case(case, target()).verdict == "passed"


def test_there_is_one_at_a_time() -> None:
    one, other = mutants()["sack_echoes_another_ev"], mutants()["bitmap_base_off_by_one"]
    with one.put(), pytest.raises(CallerError, match="mutant sack_echoes_another_ev is in place"):
        other.put()
    other.put().close()


def test_it_is_in_place_until_its_session_ends() -> None:
    session = mutants()["bitmap_base_off_by_one"].target().open(setup.Setup(), WireProfile(), 1)
    received = ReceivedPsns(256, 0)
    received.add(2, False, FOREVER)
    wrong = received.bitmap(1)
    session.close()
    assert (wrong, received.bitmap(1)) == (0b1, 0b10)


def test_a_session_that_is_not_opened_leaves_nothing_behind() -> None:
    with pytest.raises(Unsupported):
        mutants()["bitmap_base_off_by_one"].target().open(setup.Setup(mode="srv6", ip=4), WireProfile(), 1)
    mutants()["bitmap_base_off_by_one"].put().close()
