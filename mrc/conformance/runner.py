"""Runs cases against a target, each on a connection of its own."""

from __future__ import annotations

import time
import traceback
import zlib
from collections.abc import Callable, Sequence

from mrc.conformance.bench import Bench
from mrc.conformance.case import Case
from mrc.conformance.control import CONTROL, TWIN
from mrc.conformance.network import Network, asked
from mrc.conformance.results import Result, Run
from mrc.conformance.target import Session, Target, Unsupported
from mrc.conformance.verdicts import FAILED, PASSED, UNSUPPORTED, Failed
from mrc.conformance.wire_log import WireLog
from mrc.errors import CallerError
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile


def run_case(each: Case, target: Target, wire: WireProfile = DEFAULT_WIRE_PROFILE) -> Result:
    """Run one case. Never raises for what a target does."""
    began = time.perf_counter()
    network: Network | None = None
    verdict, expected, actual = PASSED, None, None
    try:
        session = _opened(target, each, wire)
        try:
            network = Network(session, wire)
            each.script(Bench(network, each.setup))
        finally:
            asked(session.close)
    except Unsupported as reason:
        verdict, actual = UNSUPPORTED, str(reason)
    except Failed as failure:
        verdict, expected, actual = FAILED, failure.expected, failure.actual
    except Exception as error:
        verdict, expected = FAILED, "a script that runs to its end"
        actual = f"{type(error).__name__} in {_place(error)}: {error}"
    log = network.log if network is not None else WireLog()
    unchecked = tuple(network.unchecked) if network is not None else ()
    return Result(each, verdict, expected, actual, unchecked, log, time.perf_counter() - began)


def _opened(target: Target, each: Case, wire: WireProfile) -> Session:
    try:
        return target.open(each.setup, wire, zlib.crc32(each.id.encode()))
    except CallerError as error:
        raise Unsupported(str(error)) from None
    except Unsupported:
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
    on_result: Callable[[Result], None] = lambda result: None,
) -> Run:
    """Run the control case, its twin and then `cases`; `on_result` is called with each result of theirs as it comes.

    Raises CallerError for a wire profile that the tester cannot follow.
    """
    if wire.icrc_covers_outer or not wire.udp_checksum_zero:
        raise CallerError("the tester follows neither icrc_covers_outer nor udp_checksum_zero=false: leave them out")
    found = Run(target.name, strict)
    found.control = run_case(CONTROL, target, wire)
    found.void = _void(found.control, run_case(TWIN, target, wire))
    for each in cases:
        result = run_case(each, target, wire)
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
