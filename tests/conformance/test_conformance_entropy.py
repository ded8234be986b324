# SPDX-License-Identifier: BSD-2-Clause
"""What cases on EVs and addresses are written with: generated fields, switches of the wire profile, what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mrc.conformance.bench import Bench
from mrc.conformance.case import Case
from mrc.conformance.cases.wire.entropy_setups import expect_refused, expect_taken
from mrc.conformance.catalogue import catalogue, chosen
from mrc.conformance.network import Network
from mrc.conformance.runner import run, run_case
from mrc.conformance.setup import GeneratedField, Setup, generated_fields
from mrc.conformance.target import Session, Target, Unsupported
from mrc.conformance.targets.in_process import InProcess
from mrc.conformance.verdicts import FAILED, PASSED, UNSUPPORTED, Failed
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile


def case_of(case_id: str) -> Case:
    return next(each for each in catalogue() if each.id == case_id)


def bench_of(**setup: Any) -> Bench:
    wanted = Setup(**setup)
    return Bench(Network(InProcess().open(wanted, DEFAULT_WIRE_PROFILE, 1), DEFAULT_WIRE_PROFILE), wanted)


def test_generated_fields_are_read_as_they_are_written() -> None:
    assert generated_fields("8:0xA0:0x0F:2:3 4:0:0xF") == (
        GeneratedField(8, 0xA0, 0x0F, 2, 3),
        GeneratedField(4, 0, 0xF, 0, None),
    )
    assert generated_fields("") == ()


def test_a_cases_switches_go_before_those_of_the_run() -> None:
    """And those it does not name stay as the run has them."""
    seen: list[WireProfile] = []

    class Watched(InProcess):
        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            seen.append(wire)
            return super().open(setup, wire, seed)

    wire = WireProfile(dscp_control=7, udp_port=4971, ev_low_half_in_source_port=False)
    assert run_case(case_of("MRC-EV-02"), Watched(), wire).verdict == PASSED
    assert run_case(case_of("MRC-ECN-09"), Watched(), wire).verdict == PASSED
    assert seen == [replace(wire, ev_low_half_in_source_port=True), wire]


def test_the_cases_hold_under_another_wire_profile() -> None:
    wire = WireProfile(ev_low_half_in_source_port=False, dscp_control=9, dscp_trimmed=40, udp_port=4971)
    found = run(chosen(catalogue(), ["MRC-EV", "MRC-SRV6", "MRC-ECN"]), InProcess(), wire=wire)
    assert {result.case.id for result in found.results if result.verdict != PASSED} == set()
    assert len(found.results) > 40


def test_a_target_that_cannot_follow_a_switch_makes_the_case_unsupported() -> None:
    class Fixed(Target):
        name = "fixed"

        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            if wire != DEFAULT_WIRE_PROFILE:
                raise Unsupported("the switches of this target cannot be set")
            return InProcess().open(setup, wire, seed)

    assert run_case(case_of("MRC-ECN-11"), Fixed()).verdict == UNSUPPORTED
    assert run_case(case_of("MRC-EV-02"), Fixed()).verdict == PASSED


def test_behind_switches_outer_destinations_tell_nothing() -> None:
    class BehindSwitches(InProcess):
        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            session = super().open(setup, wire, seed)
            session.outer_as_sent = False
            return session

    for case_id in ("MRC-SRV6-02", "MRC-SRV6-05", "MRC-SRV6-08", "MRC-SRV6-11", "MRC-EV-08", "MRC-PATH-03"):
        result = run_case(case_of(case_id), BehindSwitches())
        assert result.verdict == UNSUPPORTED, case_id
        assert "shortened" in str(result.actual)
    assert run_case(case_of("MRC-EV-04"), BehindSwitches()).verdict == PASSED


def test_what_is_taken_and_what_is_refused() -> None:
    bench = bench_of(mode="stev", ip=6)
    expect_taken(bench, ev_fields="32:0:0xFF")
    expect_refused(bench, "33 bits", ev_fields="33:0:0xFF")
    with pytest.raises(Failed, match="33 bits"):
        expect_taken(bench, ev_fields="33:0:0xFF")
    with pytest.raises(Failed, match="32 bits refused"):
        expect_refused(bench, "32 bits", ev_fields="32:0:0xFF")


@pytest.mark.parametrize("case_id", ["MRC-EV-13", "MRC-SRV6-10/beyond", "MRC-EV-10"])
def test_a_target_that_does_not_say_what_it_refuses(case_id: str) -> None:
    class Silent(InProcess):
        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            session = super().open(setup, wire, seed)
            session.check = lambda setup: Session.check(session, setup)  # type: ignore[method-assign]
            return session

    result = run_case(case_of(case_id), Silent())
    assert (result.verdict, result.actual) == (UNSUPPORTED, "the target cannot say what it would refuse")


def test_a_case_with_an_outer_header_that_lacks_fails() -> None:
    """And does not break down."""

    class Bare(InProcess):
        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            session: Any = super().open(setup, wire, seed)
            session._paths.on_the_wire = lambda packet, port, destination, traffic_class: packet
            return session  # type: ignore[no-any-return]

    for each in chosen(catalogue(), ["MRC-SRV6", "MRC-EV-08"]):
        if each.id in ("MRC-SRV6-04", "MRC-SRV6-10/beyond"):  # they look at the inner header, and at no packet
            continue
        result = run_case(each, Bare())
        assert result.verdict == FAILED, each.id
        assert result.expected != "a script that runs to its end", result.actual
