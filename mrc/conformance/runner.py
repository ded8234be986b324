"""Runs cases against a target, each on a connection of its own."""

from __future__ import annotations

import time
import traceback
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

from mrc.conformance.case import Case
from mrc.conformance.control import CONTROL, TWIN
from mrc.conformance.network import Network, asked
from mrc.conformance.results import Result, Run
from mrc.conformance.target import Session, Target, TargetLost, Unsupported
from mrc.conformance.verdicts import FAILED, PASSED, UNSUPPORTED, Failed
from mrc.conformance.wire_log import WireLog
from mrc.errors import CallerError
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

_ATTEMPTS = 8
# Whatever keeps a host from its work often lasts for seconds: each pause is twice the one before.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 5.0


def run_case(each: Case, target: Target, wire: WireProfile = DEFAULT_WIRE_PROFILE) -> Result:
    """Run one case. Never raises for what a target does. A case that fails in a session whose times are not to be
    trusted is run again, up to seven times, after longer and longer pauses; `took_s` is that of all runs."""
    began, repeated, pause = time.perf_counter(), "", _FIRST_PAUSE_S
    for attempt in range(1, _ATTEMPTS + 1):
        result, disturbed = _attempted(each, target, wire)
        if attempt == _ATTEMPTS or result.verdict != FAILED or not disturbed:
            break
        repeated = disturbed
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)
    return replace(result, took_s=time.perf_counter() - began, repeated=repeated)


def _attempted(each: Case, target: Target, wire: WireProfile) -> tuple[Result, str]:
    """(the result, why times were not to be trusted)."""
    began = time.perf_counter()
    network: Network | None = None
    session: Session | None = None
    verdict, expected, actual, lost = PASSED, None, None, ""
    wire = replace(wire, **each.setup.wire)
    try:
        session = _opened(target, each, wire)
        try:
            network = Network(session, wire, each.bench.table)
            each.script(each.bench(network, each.setup))
        finally:
            asked(session.close)
    except Unsupported as reason:
        verdict, actual = UNSUPPORTED, str(reason)
    except TargetLost as reason:
        verdict, expected, actual, lost = FAILED, "a target that can be reached", str(reason), str(reason)
    except Failed as failure:
        verdict, expected, actual = FAILED, failure.expected, failure.actual
    except Exception as error:
        verdict, expected = FAILED, "a script that runs to its end"
        actual = f"{type(error).__name__} in {_place(error)}: {error}"
    log = network.log if network is not None else WireLog()
    unchecked = tuple(network.unchecked) if network is not None else ()
    result = Result(each, verdict, expected, actual, unchecked, log, time.perf_counter() - began, lost=lost)
    return result, session.disturbed if session is not None and not lost else ""


def _opened(target: Target, each: Case, wire: WireProfile) -> Session:
    try:
        return target.open(each.setup, wire, zlib.crc32(each.id.encode()))
    except CallerError as error:
        raise Unsupported(str(error)) from None
    except (TargetLost, Unsupported):
        raise
    except Exception as error:
        raise Failed("no exception from the target", f"it raised {type(error).__name__}: {error}") from error


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "the target"


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
    found = Run(target.name, strict, control.bench.table.transport)
    found.control = run_case(control, target, wire)
    found.void = _void(found.control, run_case(twin, target, wire))
    lost = found.control.lost
    for each in cases:
        if lost:
            result = Result(each, FAILED, "a target that can be reached", lost, (), WireLog(), 0.0, lost=lost)
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
    if control.verdict == UNSUPPORTED or twin.verdict != PASSED:
        wanted = f"expected {twin.expected}; " if twin.expected else ""
        return f"the target does not answer one plain write: {wanted}{twin.actual or control.actual}"
    return ""
