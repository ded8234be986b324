# SPDX-License-Identifier: BSD-2-Clause
"""Runs cases against a target, each on a connection of its own."""

from __future__ import annotations

import gc
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from mrc.conformance.case import Case
from mrc.conformance.control import CONTROL, TWIN
from mrc.conformance.endings import Ending, ending_of
from mrc.conformance.network import Network
from mrc.conformance.results import Result, Run
from mrc.conformance.target import AdapterFault, Session, Target
from mrc.conformance.verdicts import ERROR, FAILED, PASSED, UNSUPPORTED
from mrc.conformance.wire_log import WireLog
from mrc.errors import CallerError
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

_ATTEMPTS = 8
# Whatever keeps a host from its work often lasts for seconds: each pause is twice the one before.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0
# Objects made and kept between two looks for garbage while cases run: some cases' worth. Most of what they make is the
# log, which stays; with Python's 700 these looks took a sixth of a run.
_KEPT_BETWEEN_LOOKS = 50_000


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(max(_KEPT_BETWEEN_LOOKS, thresholds[0]) if thresholds[0] else 0, *thresholds[1:])
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def run_case(each: Case, target: Target, wire: WireProfile = DEFAULT_WIRE_PROFILE) -> Result:
    """Run one case. Never raises for what a target, its adapter or a script does. A case that fails or ends in an
    error in a session whose times are not to be trusted is run again, up to seven times, after longer and longer
    pauses; `took_s` is that of all runs.

    A repeat that passes withdraws the failure, and one that fails confirms it. One that could not be carried out, as
    where the target has no QP left for it, says nothing: the failure stands.
    """
    began, repeated, pause = time.perf_counter(), "", _FIRST_PAUSE_S
    failure: Result | None = None
    for attempt in range(1, _ATTEMPTS + 1):
        result, disturbed = _attempted(each, target, wire)
        if failure is not None and (
            result.verdict == UNSUPPORTED or (result.verdict, failure.verdict) == (ERROR, FAILED)
        ):
            result = replace(failure, lost=result.lost)
            break
        if attempt == _ATTEMPTS or result.verdict not in (FAILED, ERROR) or not disturbed:
            break
        failure = result
        repeated = disturbed
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
    return replace(result, took_s=time.perf_counter() - began, repeated=repeated)


def _attempted(each: Case, target: Target, wire: WireProfile) -> tuple[Result, str]:
    """(the result, why times were not to be trusted)."""
    began = time.perf_counter()
    network: Network | None = None
    session: Session | None = None
    ending, disturbed = Ending(PASSED), ""
    try:
        # The same profile where a case changes nothing: whatever is kept by it is found without comparing fields.
        wire = replace(wire, **each.setup.wire) if each.setup.wire else wire
        session = target.open(each.setup, wire, zlib.crc32(each.id.encode()))
        if not isinstance(session, Session):
            session, given = None, type(session).__name__
            raise AdapterFault(f"the adapter's open gave a {given}, not a mrc.conformance.target.Session")
        network = Network(session, wire, each.bench.table)
        each.script(each.bench(network, each.setup))
    except Exception as error:
        ending = ending_of(error)
    if session is not None:
        try:
            try:
                disturbed = session.disturbed
            finally:
                session.close()
        except Exception as error:
            closing = ending_of(error)
            # What the script saw before stands.
            ending = replace(ending, lost=closing.lost) if ending.verdict in (FAILED, ERROR) else closing
    log = network.log if network is not None else WireLog()
    unchecked = tuple(network.unchecked) if network is not None else ()
    result = _result(each, ending, unchecked, log, time.perf_counter() - began)
    return result, "" if result.lost else disturbed


def _result(each: Case, ending: Ending, unchecked: tuple[str, ...], log: WireLog, took_s: float) -> Result:
    more = {"traceback": ending.traceback, "lost": ending.lost}
    return Result(each, ending.verdict, ending.expected, ending.actual, unchecked, log, took_s, **more)


def close(target: Target) -> Ending | None:
    """Close a target after its last case. Returns how that ended where it raised."""
    try:
        target.close()
    except Exception as error:
        return ending_of(error)
    return None


def run(
    cases: Sequence[Case],
    target: Target,
    *,
    strict: bool = False,
    wire: WireProfile = DEFAULT_WIRE_PROFILE,
    control: Case = CONTROL,
    twin: Case = TWIN,
    on_result: Callable[[Result], None] = lambda result: None,
) -> Run:
    """Run the control case, its twin and then `cases`; `on_result` is called with each result of theirs as it comes.

    Raises CallerError for a wire profile that the tester cannot follow.
    """
    if wire.icrc_covers_outer or not wire.udp_checksum_zero:
        raise CallerError("the tester follows neither icrc_covers_outer nor udp_checksum_zero=false: leave them out")
    with _seldom_collecting():
        return _run(cases, target, strict, wire, control, twin, on_result)


def _run(
    cases: Sequence[Case],
    target: Target,
    strict: bool,
    wire: WireProfile,
    control: Case,
    twin: Case,
    on_result: Callable[[Result], None],
) -> Run:
    found = Run(target.name, strict, control.bench.table.transport)
    found.control = run_case(control, target, wire)
    answered = run_case(twin, target, wire)
    found.void = _void(found.control, answered)
    lost = found.control.lost or answered.lost
    for each in cases:
        if lost:
            ending = Ending(ERROR, actual=f"not run, the target was lost before: {lost}", lost=lost)
            result = _result(each, ending, (), WireLog(), 0.0)
        else:
            result = run_case(each, target, wire)
            if result.lost:
                found.void = f"the target was lost in {each.id}: {result.lost}"
        lost = result.lost
        found.results.append(result)
        on_result(result)
    return found


def _void(control: Result, twin: Result) -> str:
    """Why a run with this control case and its twin proves nothing, "" if both came out as they have to."""
    if control.verdict == PASSED:
        return "the control case, whose expectation is wrong on purpose, passed: this run sees no faults"
    for each in (twin, control):
        if each.verdict == ERROR:
            return f"{each.case.id} ended in an error: {each.actual}"
    if control.verdict == UNSUPPORTED or twin.verdict != PASSED:
        wanted = f"expected {twin.expected}; " if twin.expected else ""
        return f"the target does not answer one plain write: {wanted}{twin.actual or control.actual}"
    return ""
