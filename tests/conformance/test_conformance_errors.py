# SPDX-License-Identifier: BSD-2-Clause
"""Whose fault it is that a case does not end: an exception of the suite or of the adapter fails nobody, an expectation
that is not met and a target that crashes do."""

from __future__ import annotations

import gc
import json
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NoReturn
from xml.etree import ElementTree

import pytest
from toy_targets import ToyQp, ToySession, ToyTarget, silent

from mrc.conformance import setup as setups
from mrc.conformance.bench import Bench
from mrc.conformance.case import Case
from mrc.conformance.control import CONTROL, TWIN
from mrc.conformance.requirements import requirements
from mrc.conformance.results import Run
from mrc.conformance.runner import close, run, run_case
from mrc.conformance.setup import DYNAMIC_MPR, Setup
from mrc.conformance.target import Session, Target, TargetLost, TargetQp, Unsupported
from mrc.conformance.targets.in_process import InProcess, InProcessQp, InProcessSession
from mrc.conformance.verdicts import ERROR, FAILED, PASSED, Failed
from mrc.conformance.virtual import VirtualSession
from mrc.endpoint.config import EndpointConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.errors import CallerError
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch

HERE = Path(__file__).parent
DYNAMIC = Setup(agreed=frozenset({DYNAMIC_MPR}))


def scripted(script: Callable[[Bench], object], name: str = "MRC-WIRE-01") -> Case:
    def scripts(bench: Bench) -> None:
        script(bench)

    scripts.__doc__ = "What a test has written."
    return Case(name, requirements()["MRC-WIRE-01"], "wire", DYNAMIC, scripts, "About.", "nowhere")


# ---------------------------------------------------------------------- the suite's own


def raises(error: Exception) -> Callable[[Bench], NoReturn]:
    def script(bench: Bench) -> NoReturn:
        raise error

    return script


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such value"),
        IndexError("tuple index out of range"),
        KeyError(3),
        AssertionError("in a case"),
        StopIteration(),
        TypeError("int() takes nothing"),
        CallerError("reth.va is 0 or more, not -1"),
        RecursionError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_of_the_suite_is_an_error(error: Exception) -> None:
    result = run_case(scripted(raises(error)), InProcess())
    assert (result.verdict, result.expected) == (ERROR, None)
    assert str(result.actual).startswith(f"the suite raised {type(error).__name__}")
    assert "test_conformance_errors.py:" in str(result.actual)
    assert result.traceback.startswith("Traceback (most recent call last):")
    assert ", in script" in result.traceback
    assert not result.counts(strict=True)


def test_an_expectation_that_is_not_met_is_a_failure() -> None:
    result = run_case(scripted(lambda bench: bench.check(False, "one", "two")), InProcess())
    assert (result.verdict, result.expected, result.actual, result.traceback) == (FAILED, "one", "two", "")
    result = run_case(scripted(raises(Failed("one", "two"))), InProcess())
    assert result.verdict == FAILED
    assert result.counts(strict=False)


def test_garbage_is_looked_for_as_often_as_before_when_a_run_has_ended() -> None:
    """While cases run it seldom is: most of what they make is kept."""
    before, meanwhile = gc.get_threshold(), []

    def stopped(result: object) -> NoReturn:
        raise KeyboardInterrupt

    run([scripted(lambda bench: meanwhile.append(gc.get_threshold()))], InProcess())
    assert gc.get_threshold() == before
    with pytest.raises(KeyboardInterrupt):
        run([scripted(lambda bench: meanwhile.append(gc.get_threshold()))], InProcess(), on_result=stopped)
    assert gc.get_threshold() == before
    assert meanwhile == [(50_000, *before[1:])] * 2


# ---------------------------------------------------------------------- the adapter's

Raising = Callable[..., NoReturn]


def raising(cls: type, name: str) -> Raising:
    """A method of this class and name, as an adapter would have written it, that raises."""

    def method(self: object, *arguments: object, **more: object) -> NoReturn:
        raise RuntimeError("out of order")

    code: CodeType = method.__code__.replace(co_name=name, co_qualname=f"{cls.__name__}.{name}")
    return FunctionType(code, {"RuntimeError": RuntimeError}, name)


class BreakingSession(InProcessSession):
    """An adapter's session; a test takes one of its methods away."""


class BreakingQp(InProcessQp):
    """An adapter's QP."""


class BreakingTarget(InProcess):
    """An adapter whose session, or QP, raises in one method."""

    def __init__(self, kind: type, name: str) -> None:
        super().__init__("breaking")
        self._kind, self._name = kind, name

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        session = super().open(setup, wire, seed)
        assert isinstance(session, InProcessSession)
        session.__class__ = self._broken(BreakingSession)
        connect, broken_qp = session.connect, self._broken(BreakingQp)

        def connected(setup: Setup, tester: setups.TesterQp) -> TargetQp:
            qp = connect(setup, tester)
            qp.__class__ = broken_qp
            return qp

        if self._kind is BreakingQp:
            session.connect = connected  # type: ignore[method-assign]
        return session

    def _broken(self, kind: type) -> Any:
        if kind is not self._kind:
            return kind
        method: Any = raising(kind, self._name)
        made: Any = property(method) if isinstance(getattr(kind, self._name), property) else method
        return type(kind.__name__, (kind,), {self._name: made})


def offered(kind: type) -> list[str]:
    found = [name for name, each in vars(kind).items() if isinstance(each, FunctionType | property)]
    return [name for name in found if not name.startswith("_")]


SESSION = [name for name in dict.fromkeys([*offered(Session), *offered(VirtualSession)]) if name != "hold"]
QP = offered(TargetQp)


def everything(bench: Bench) -> None:
    """Ask for all that a script may ask for."""
    session, ev = bench.network.session, bench.planes[0].target_evs[0]
    bench.request(0, ackreq=1)
    bench.expect("SACK", ack_psn=0)
    bench.wait(1_000_000)
    bench.expect_memory(0, b"\0")
    bench.expect_nothing_written()
    bench.expect_state("RTS")
    bench.mark_counters()
    bench.expect_no_completion()
    bench.events()
    for question in (
        lambda: session.check(bench.setup),
        lambda: session.outer_addresses(ev),
        lambda: session.set_port_room(0, True),
        lambda: session.set_port(0, True),
        lambda: session.probe_ev(ev, None),
        session.ev_probe_results,
        bench.qp.ev_states,
        lambda: bench.qp.deny_ev(ev),
        lambda: bench.qp.allow_ev(ev),
        lambda: bench.qp.set_mpr(8),
        lambda: bench.qp.set_receiver_penalty(0, False),
    ):
        bench.ask(question)
    bench.post_receives(1)
    bench.post_write(b"abc")
    bench.wait(50_000_000)
    bench.expect_refused("a step that there is not", lambda: bench.qp.go_to("RTR", {}))
    bench.ask(bench.qp.to_error)


def test_an_adapter_that_does_not_raise_is_asked_for_everything() -> None:
    assert run_case(scripted(everything), InProcess()).verdict == PASSED


@pytest.mark.parametrize(
    ("kind", "name"),
    [(BreakingSession, name) for name in SESSION] + [(BreakingQp, name) for name in QP],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_an_adapter_that_raises_ends_a_case_in_an_error(kind: type, name: str) -> None:
    result = run_case(scripted(everything), BreakingTarget(kind, name))
    assert result.verdict == ERROR, (result.expected, result.actual)
    # The method that the suite called; what the adapter called in it is in the traceback.
    called = "InProcessSession.connect" if name in ("collect", "stir") else f"{kind.__name__}.{name}"
    assert str(result.actual).startswith(f"the adapter's {called} raised RuntimeError: out of order (")
    assert f", in {name}\n" in result.traceback
    assert result.traceback.endswith("RuntimeError: out of order")


def test_an_adapter_that_raises_as_it_is_opened_or_closed() -> None:
    class Unopened(InProcess):
        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            raise CallerError("no such device")

    result = run_case(TWIN, Unopened())
    assert result.verdict == ERROR
    assert str(result.actual).endswith(f"(test_conformance_errors.py:{_line('no such device')})")
    assert "Unopened.open raised CallerError: no such device" in str(result.actual)

    class Unclosed(InProcess):
        def close(self) -> None:
            raise OSError("busy")

    found = run([TWIN], Unclosed())
    assert found.good
    found.closing = close(Unclosed())
    assert found.closing is not None
    assert "Unclosed.close raised OSError: busy" in str(found.closing.actual)
    assert not found.good


def _line(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if f'raise CallerError("{text}")' in line)


def test_what_a_script_saw_before_a_session_could_not_be_closed_stands() -> None:
    target = BreakingTarget(BreakingSession, "close")
    assert run_case(scripted(raises(Failed("one", "two"))), target).verdict == FAILED
    assert run_case(scripted(raises(Unsupported("not that"))), target).verdict == ERROR
    assert "the suite raised ValueError" in str(run_case(scripted(raises(ValueError())), target).actual)


class Toy(ToyTarget):
    """An adapter whose session is of another class."""

    def __init__(self, session: type[ToySession]) -> None:
        super().__init__(silent)
        self._session = session

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        return self._session(silent)


def test_a_method_that_does_not_take_what_it_is_given() -> None:
    class Short(ToySession):
        def put(self) -> None:  # type: ignore[override]
            return

    result = run_case(TWIN, Toy(Short))
    assert result.verdict == ERROR
    assert "Short.put raised TypeError" in str(result.actual)


def test_an_attribute_that_an_adapter_has_not_set() -> None:
    class Qp(ToyQp):
        def __init__(self, setup: Setup) -> None:
            return

    class Bare(ToySession):
        def connect(self, setup: Setup, tester: setups.TesterQp) -> TargetQp:
            return Qp(setup)

    assert "the adapter's Qp.terms raised AttributeError" in str(run_case(TWIN, Toy(Bare)).actual)


def giving(name: str, value: object) -> ToyTarget:
    return Toy(type("Giving", (ToySession,), {name: lambda self, *arguments: value}))


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (giving("connect", None), "the adapter's connect gave a NoneType, not a mrc.conformance.target.TargetQp"),
        (giving("get", [b"abc"]), "the adapter gave b'abc' as a packet, not a Frame of a plane and bytes"),
        (giving("collect", None), "the adapter's VirtualSession.put raised TypeError"),
    ],
)
def test_an_adapter_that_gives_what_it_may_not_give(target: Target, told: str) -> None:
    result = run_case(TWIN, target)
    assert result.verdict == ERROR
    assert told in str(result.actual)


def test_a_factory_that_opens_nothing() -> None:
    class Nothing(ToyTarget):
        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            return None  # type: ignore[return-value]

    result = run_case(TWIN, Nothing(silent))
    assert (result.verdict, result.actual) == (
        ERROR,
        "the adapter's open gave a NoneType, not a mrc.conformance.target.Session",
    )


def test_memory_of_another_length_is_the_adapters_and_memory_beyond_the_region_the_scripts() -> None:
    class Short(InProcess):
        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            session: Any = super().open(setup, wire, seed)
            connect = session.connect

            def connected(setup: Setup, tester: setups.TesterQp) -> TargetQp:
                qp = connect(setup, tester)
                qp.memory = lambda offset, length: bytes(length - 1)
                return qp  # type: ignore[no-any-return]

            session.connect = connected
            return session  # type: ignore[no-any-return]

    assert "the adapter's memory gave 262143 bytes where 262144" in str(run_case(TWIN, Short()).actual)
    result = run_case(scripted(lambda bench: bench.expect_memory(bench.target.region_length, b"x")), InProcess())
    assert (result.verdict, "the suite raised ValueError" in str(result.actual)) == (ERROR, True)


# ---------------------------------------------------------------------- the target's own


class Crashing(Endpoint):
    def receive(self, batch: ReceivedBatch, now: int) -> None:
        raise KeyError("a QPN")


class CrashingTarget(InProcess):
    def endpoint(self, config: EndpointConfig) -> Endpoint:
        return Crashing(config)


def test_an_endpoint_that_crashes_fails_and_shows_its_traceback() -> None:
    result = run_case(TWIN, CrashingTarget())
    assert (result.verdict, result.expected) == (FAILED, "a target that keeps running")
    assert result.actual == "it raised KeyError: 'a QPN'"
    assert ", in receive\n" in result.traceback


def test_a_case_ended_by_an_error_is_run_again_when_time_was_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc.conformance.runner.time.sleep", lambda pause: None)
    tries: list[int] = []

    class Disturbed(InProcess):
        def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
            session = super().open(setup, wire, seed)
            session.__class__ = type("Slept", (type(session),), {"disturbed": "the host slept"})
            return session

    def script(bench: Bench) -> None:
        tries.append(1)
        if len(tries) < 3:
            raise IndexError

    result = run_case(scripted(script), Disturbed())
    assert (result.verdict, len(tries), result.repeated) == (PASSED, 3, "the host slept")


# ---------------------------------------------------------------------- a whole run


@cache
def mixed() -> Run:
    """One case of each verdict."""
    scripts = {
        "MRC-WIRE-01": lambda bench: None,
        "MRC-WIRE-01/failed": lambda bench: bench.check(False, "one", "two"),
        "MRC-WIRE-01/unsupported": raises(Unsupported("not that")),
        "MRC-WIRE-01/error": raises(IndexError("a tuple's <index>")),
    }
    return run([scripted(script, name) for name, script in scripts.items()], InProcess(), strict=True)


def test_an_error_is_counted_beside_the_others_and_fails_the_run() -> None:
    found = mixed()
    assert (found.passed, found.failed, found.unsupported, found.errors) == (1, 1, 1, 1)
    assert found.counted == 1
    alone = run([scripted(raises(IndexError()))], InProcess())
    assert (alone.failed, alone.counted, alone.errors, alone.void, alone.good) == (0, 0, 1, "", False)


def test_the_document_has_errors_and_tracebacks() -> None:
    from mrc.conformance.report.document import run_document

    document = json.loads(json.dumps(run_document(mixed())))
    assert [document[name] for name in ("passed", "failed", "unsupported", "errors")] == [1, 1, 1, 1]
    tracebacks = {each["verdict"]: each["traceback"] for each in document["cases"]}
    assert tracebacks.pop("error").startswith("Traceback (most recent call last):")
    assert set(tracebacks.values()) == {None}


def test_junit_has_an_error_element() -> None:
    from mrc.conformance.report.junit import junit

    (suite,) = (each for each in junit(mixed()).iter("testsuite") if each.get("name") == "wire")
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["4", "1", "1", "1"]
    (error,) = suite.iter("error")
    assert "the suite raised IndexError" in str(error.get("message"))
    assert "Traceback (most recent call last):" in str(error.text)


def test_the_page_has_a_section_of_errors() -> None:
    from mrc.conformance.report.page import page

    text = page(mixed())
    assert "<h2>Errors</h2>" in text
    assert "IndexError: a tuple&#39;s &lt;index&gt;" in text
    assert "1 ended in an error of the suite or the adapter" in text


def test_a_control_case_that_ends_in_an_error_makes_the_run_void() -> None:
    broken = scripted(raises(IndexError("here")), "CONTROL")
    for control, twin in ((broken, TWIN), (CONTROL, broken)):
        found = run([], InProcess(), control=control, twin=twin)
        assert found.void.startswith("CONTROL ended in an error: the suite raised IndexError: here (")


def test_a_target_that_is_lost_fails_no_case() -> None:
    """Neither the one at hand, of which nothing is known, nor those that were never run."""

    def lose(bench: Bench) -> None:
        raise TargetLost("it is gone")

    found = run([scripted(everything), scripted(lose, "LOST"), scripted(everything)], InProcess())
    assert [result.verdict for result in found.results] == [PASSED, ERROR, ERROR]
    told = [result.actual for result in found.results[1:]]
    assert told == ["the target was lost: it is gone", "not run, the target was lost before: it is gone"]
    assert found.void == "the target was lost in LOST: it is gone"
    assert (found.failed, found.good) == (0, False)


# ---------------------------------------------------------------------- the command


def broken_when_asked() -> Target:
    """For the command: an endpoint whose adapter cannot tell its states."""
    return BreakingTarget(BreakingQp, "state")


def broken_when_closed() -> Target:
    class Unclosed(InProcess):
        def close(self) -> None:
            raise OSError("busy")

    return Unclosed()


def mrc(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    import programs  # the commands import this file, from its folder alone

    command = [*programs.MRC, "conformance", "run", *arguments]
    return programs.run(command, capture_output=True, text=True, check=False, cwd=HERE)


ASKED = ("--target", "test_conformance_errors:broken_when_asked", "--id", "MRC-QP-02/rtr", "--id", "MRC-SACK-04")


def test_the_command_reports_errors_and_exits_with_1(tmp_path: Path) -> None:
    done = mrc(*ASKED, "--junit", tmp_path / "r.xml", "--html", tmp_path / "r.html")
    assert done.returncode == 1
    assert "ERROR   MRC-QP-02/rtr  the adapter's BreakingQp.state raised RuntimeError: out of order (" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert "1 case ended in an error and says nothing of the target: exit status 1" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("the control case failed, as it must")
    assert len(list(ElementTree.parse(tmp_path / "r.xml").iter("error"))) == 1
    assert "<h2>Errors</h2>" in (tmp_path / "r.html").read_text()
    verbose = mrc(*ASKED, "-v")
    assert "    Traceback (most recent call last):\n" in verbose.stdout
    assert "error        MRC-QP-02/rtr" in verbose.stderr
    document = json.loads(mrc(*ASKED, "--json").stdout)
    assert (document["errors"], document["failed"], document["void"]) == (1, 0, None)


def test_a_target_that_cannot_be_closed_leaves_its_results() -> None:
    done = mrc("--target", "test_conformance_errors:broken_when_closed", "--id", "MRC-SACK-04")
    assert done.returncode == 1
    assert "the target was not closed: the adapter's" in done.stdout
    assert "OSError: busy" in done.stdout
    assert "all                             2            0            0            0" in done.stdout


def test_progress_counts_errors() -> None:
    from mrc.cli.conformance_progress import progress_text

    assert progress_text("X", 0, 0) == "X"
    assert progress_text("X", 2, 0) == "X, 2 failed"
    assert progress_text("X", 2, 1) == "X, 2 failed, 1 error"
    assert progress_text("X", 0, 3) == "X, 3 errors"
