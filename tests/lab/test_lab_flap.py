# SPDX-License-Identifier: BSD-2-Clause
"""A flapping link: on its schedule, whole afterwards whatever ends it, each change in the event log."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import programs
import pytest
from on_a_terminal import WIPED, on_a_terminal
from patience import PATIENCE_S, eventually
from programs import MRC

from mrc.errors import CallerError, SystemRefused
from mrc.fabric import Link
from mrc.fabric.events import FabricEvent
from mrc.lab import Lab
from mrc.lab.flap import Flapped, Flapping, FlapResult
from mrc.trace.vocabulary import EventType

MS = 1_000_000


@pytest.fixture
def whole(lab: Lab) -> Iterator[Callable[[], list[FabricEvent]]]:
    """The events since the test began; after it the lab has to be whole."""
    before = len(lab.events.read()[0])
    yield lambda: lab.events.read()[0][before:]
    assert down(lab) == set()


def down(lab: Lab) -> set[str]:
    return {link.name for link in lab.status().links if link.state == "down"}


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ({"count": 0}, "count"),
        ({"duty": 0.0}, "duty"),
        ({"duty": 1.0}, "duty"),
        ({"period_s": 0.019}, "9.5 ms"),
        ({"period_s": 0.1, "duty": 0.95}, "5 ms"),
        ({"period_s": 86401.0}, "a day"),
        ({"period_s": float("nan")}, "a day"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(plan: dict[str, Any], says: str) -> None:
    with pytest.raises(CallerError, match=says):
        Flapping(**plan)


def test_the_shortest_plan_is_none_too_short() -> None:
    assert Flapping(period_s=0.02).down_ns == 10 * MS
    assert Flapping(period_s=0.1, duty=0.9).down_ns == 90 * MS


# A machine that stands still meanwhile makes changes late and leaves cycles out, and shows nothing: once more then.
TRIES = 20
# A look at the whole lab at each change takes longer where the machine has other work: one of these leaves time for it.
PERIODS_S = (0.5, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@pytest.mark.root
def test_each_change_is_made_and_written_down(lab: Lab, whole: Callable[[], list[FabricEvent]]) -> None:
    for period_s in PERIODS_S:
        before = len(whole())
        seen: list[tuple[Flapped, set[str]]] = []
        tell = partial(lambda seen, at: seen.append((at, down(lab))), seen)
        result = lab.flap("p0s1", "h0-p0l0", period_s=period_s, count=3, duty=0.4, on_change=tell)
        assert (result.cycles + result.left_out, result.ended) == (3, "done")
        if not result.left_out:
            break
    assert (result.cycles, result.left_out) == (3, 0)
    links = {"p0l0-p0s1", "p0l1-p0s1", "h0-p0l0"}
    assert [(at.cycle, at.count, at.down, is_down) for at, is_down in seen] == [
        (cycle, 3, is_cut, links if is_cut else set()) for cycle in (1, 2, 3) for is_cut in (True, False)
    ]
    found = whole()[before:]
    assert [each.event for each in found] == ["flap-start", *["cut", "heal"] * 3, "flap-end"]
    assert {each.target for each in found} == {"p0s1 h0-p0l0"}
    assert all(set(each.links) == links for each in found)
    assert found[0].details == {"period_s": period_s, "count": 3, "duty": 0.4}
    assert [each.at_monotonic_ns for each in found[1:-1]] == [at.at_monotonic_ns for at, _ in seen]
    began, times = found[0].at_monotonic_ns, round(2 * period_s)
    for number, each in enumerate(found[1:-1]):
        due = began + times * ((number // 2) * 500 * MS + (number % 2) * 200 * MS)
        assert each.at_monotonic_ns >= due
        assert seen[number][0].late_ns == each.at_monotonic_ns - due
    assert found[-1].details == {
        "cycles": 3, "left_out": 0, "latest_ns": max(at.late_ns for at, _ in seen), "ended": "done"
    }  # fmt: skip


# ------------------------------------------------------------------ in virtual time


class Stage:
    """Cables, each change of which takes 5 ms, and the clock of `mrc.lab.flap`, which moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0
        self.cuts: list[int] = []
        self.heals: list[int] = []

    def monotonic_ns(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)

    def prepare(self, *targets: str) -> tuple[Link, ...]:
        return ()

    def cut(self, *targets: str) -> int:
        return self._changed(self.cuts)

    def heal(self, *targets: str) -> int:
        return self._changed(self.heals)

    def record(self, kind: EventType, target: str, links: Iterable[Link], at_ns: int, **details: Any) -> None:
        pass

    def _changed(self, changes: list[int]) -> int:
        self.now += 5 * MS
        changes.append(self.now)
        return self.now


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()
    monkeypatch.setattr("mrc.lab.flap.time", made)
    return made


def test_lateness_does_not_add_up(stage: Stage) -> None:
    """Every change is followed by a pause of 30 ms: one after another they would make 480 ms."""
    late: list[int] = []

    def pause(change: Flapped) -> None:
        late.append(change.late_ns)
        stage.sleep(0.03)

    result = Flapping(0.2, 8).run(stage, ["p0s1"], on_change=pause)
    assert result == FlapResult(cycles=8, left_out=0, latest_ns=5 * MS, ended="done")
    assert late == [5 * MS] * 16
    assert stage.cuts == [cycle * 200 * MS + 5 * MS for cycle in range(8)]
    assert stage.heals == [at + 100 * MS for at in stage.cuts]


@pytest.mark.parametrize(
    ("when_down", "stood_still_s", "left_out", "cuts"),
    [
        # From 55 to 405 ms, up: cycles 2 to 4 could not begin, and the fifth begins late.
        (False, 0.35, 3, [0, 405, 500, 600, 700]),
        # From 5 to 355 ms, down: the heal is late, and the next cut is on time again.
        (True, 0.35, 3, [0, 400, 500, 600, 700]),
        # Until 145 ms, 5 ms before the second cut would be mended: that cycle is short. Until 155 ms: there is none.
        (False, 0.09, 0, [0, 145, 200, 300, 400, 500, 600, 700]),
        (False, 0.1, 1, [0, 200, 300, 400, 500, 600, 700]),
    ],
)
def test_what_was_missed_is_left_out_and_does_not_come_in_a_burst(
    stage: Stage, when_down: bool, stood_still_s: float, left_out: int, cuts: list[int]
) -> None:
    def stand_still(change: Flapped) -> None:
        if (change.cycle, change.down) == (1, when_down):
            stage.sleep(stood_still_s)

    result = Flapping(0.1, 8).run(stage, ["p0s1"], on_change=stand_still)
    assert (result.cycles, result.left_out) == (8 - left_out, left_out)
    assert stage.cuts == [at * MS + 5 * MS for at in cuts]


# ------------------------------------------------------------------ however it ends


@pytest.mark.root
@pytest.mark.parametrize("when_down", [True, False])
def test_stopped_at_any_moment_it_is_whole(lab: Lab, whole: Callable[[], list[FabricEvent]], when_down: bool) -> None:
    stop = threading.Event()
    ways: list[bool] = []

    def told(change: Flapped) -> None:
        ways.append(change.down)
        if ways.count(when_down) == 2:
            stop.set()

    result = lab.flap("plane:0", period_s=0.2, count=100, wait=stop.wait, on_change=told)
    assert (result.cycles, result.ended) == (1 if when_down else 2, "stopped")
    assert [each.event for each in whole()] == ["flap-start", *["cut", "heal"] * 2, "flap-end"]


@pytest.mark.root
def test_whatever_goes_wrong_it_is_whole(lab: Lab, whole: Callable[[], list[FabricEvent]]) -> None:
    def told(change: Flapped) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.flap("p0s1", period_s=0.2, on_change=told)
    found = whole()
    assert [each.event for each in found] == ["flap-start", "cut", "heal", "flap-end"]
    assert found[-1].details["ended"] == "failed"


@pytest.mark.root
def test_a_lab_taken_down_meanwhile_ends_it(lab_name: Callable[[str], str]) -> None:
    name = lab_name("flapped-away")
    held = Lab.up(name)
    with pytest.raises(SystemRefused, match="was taken down meanwhile"):
        held.flap("p0s1", period_s=0.1, count=100, on_change=lambda _: Lab.remove(name))
    held.close()


# ------------------------------------------------------------------ the command


def command(lab: Lab, *argv: str) -> list[str]:
    return [*MRC, "lab", "flap", "--name", lab.name, *argv]


def when_down(whole: Callable[[], list[FabricEvent]]) -> None:
    """Until a link was cut. Where a machine stands still it is up again when somebody looks; what was written stays."""
    eventually(lambda: "cut" in {each.event for each in whole()})


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_and_leaves_the_lab_whole(
    lab: Lab, whole: Callable[[], list[FabricEvent]], number: signal.Signals
) -> None:
    process = programs.start(
        command(lab, "p0s1", "--period", "10s", "--duty", "90%", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        when_down(whole)
        process.send_signal(number)
        while process.poll() is None:
            # However late the others come, the first is the one that counts.
            process.send_signal(number)
            time.sleep(0.0005)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert err == "interrupted; all is healed\n"
    document = json.loads(out)
    assert (document["ended"], document["cycles"]) == ("stopped", 0)
    assert document["links"] == ["p0l0-p0s1", "p0l1-p0s1"]
    assert whole()[-1].details["ended"] == "stopped"


@pytest.mark.root
def test_under_nohup_the_end_of_the_terminal_ends_nothing(lab: Lab, whole: Callable[[], list[FabricEvent]]) -> None:
    argv = ["env", "--ignore-signal=HUP", *command(lab, "p0l0-p0s1", "--period", "1s", "--count", "1", "--json")]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        when_down(whole)
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert process.returncode == 0
    assert json.loads(out)["ended"] != "stopped"
    assert whole()


@pytest.mark.root
def test_without_a_terminal_it_says_one_line(lab: Lab, whole: Callable[[], list[FabricEvent]]) -> None:
    argv = command(lab, "p0l0-p0s1", "--period", "40ms", "--count", "3", "--duty", "25%")
    done = programs.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.startswith("flap: p0l0-p0s1: ")
    assert done.stdout.count("\n") == 1
    assert whole()[0].details == {"period_s": 0.04, "count": 3, "duty": 0.25}


@pytest.mark.root
def test_on_a_terminal_it_shows_how_far_it_is(lab: Lab, whole: Callable[[], list[FabricEvent]]) -> None:
    for period_ms in range(100, 100 * TRIES, 100):
        shown, said = on_a_terminal(command(lab, "p0l0-p0s1", "--period", f"{period_ms}ms", "--count", "2", "--json"))
        if not json.loads(said)["left_out"]:
            break
    assert b"1 of 2: down" in shown
    assert b"2 of 2: up" in shown
    assert shown.endswith(WIPED)
    assert whole()


@pytest.mark.root
def test_a_misspelt_target_flaps_nothing(lab: Lab, whole: Callable[[], list[FabricEvent]]) -> None:
    done = programs.run(command(lab, "p0s1", "p0s9"), capture_output=True, text=True)
    assert done.returncode == 1
    assert "no node 'p0s9'" in done.stderr
    assert whole() == []
