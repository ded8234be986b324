# SPDX-License-Identifier: BSD-2-Clause
"""Running drills: a lab and a stage for each, a judgement, its report and its files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc.drill.drill import Drill, Judgement, Verdict
from mrc.drill.recording import Recording
from mrc.drill.stage import Stage
from mrc.errors import SystemRefused
from mrc.lab import Lab
from mrc.lab.scratch import scratch_directory
from mrc.report.plots import NoPlots, svg
from mrc.whole_files import write_whole

# A drill that fails on a machine that stood still or was too busy says little: it is run again, so often in all.
MOST_ATTEMPTS = 3
_BIN_NS = 50_000_000
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Result:
    """How one drill ended. It is UNSUPPORTED for `reason`; `judgement` and `recording` are None where it could not run.

    `trim_to_bytes` is what switches kept of a frame they trimmed, None for what MRC's own kind keeps. `disturbed` is
    what the machine did in the last of `attempts` that a transport cannot help, `run_again_because` what it did in
    those before. A last attempt that failed while the machine disturbed it is DISTURBED, not FAILED.
    """

    drill: Drill
    seed: int
    seconds: float
    attempts: int = 1
    judgement: Judgement | None = None
    recording: Recording | None = None
    reason: str | None = None
    disturbed: str | None = None
    run_again_because: tuple[str, ...] = ()
    plot: Path | None = None
    trim_to_bytes: int | None = None

    @property
    def verdict(self) -> Verdict:
        if self.judgement is None:
            return Verdict.UNSUPPORTED
        if self.judgement.verdict is not Verdict.PASSED and self.disturbed is not None:
            return Verdict.DISTURBED
        return self.judgement.verdict

    def to_json(self) -> dict[str, Any]:
        """Figures and checks, when what happened, and goodput over time in bins of 50 ms."""
        judged = {} if self.judgement is None else self.judgement.to_json()
        document: dict[str, Any] = judged | {
            "name": self.drill.name,
            "summary": self.drill.summary,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "seed": self.seed,
            "trim_to_bytes": self.trim_to_bytes,
            "seconds": round(self.seconds, 3),
            "attempts": self.attempts,
            "disturbed": self.disturbed,
            "run_again_because": list(self.run_again_because),
            "plot": None if self.plot is None else str(self.plot),
        }
        if self.recording is not None:
            document["machine"] = self.recording.machine.to_json()
            document["missing"] = self.recording.extra.get("missing", {})
            if self.recording.jobs:
                document["jobs"] = [job.to_json() for job in self.recording.jobs]
            document |= _history(self.recording)
        return document


def run_drill(
    drill: Drill,
    seed: int,
    out: Path | None = None,
    on_time: Callable[[float], None] = lambda seconds_left: None,
    say: Callable[[str], None] = lambda line: None,
    trim_to_bytes: int | None = None,
) -> Result:
    """Run one drill, again where the machine disturbed it, and write its plot and result to `out` if there is one.

    A drill that trims has switches that keep `trim_to_bytes` of a frame; None: what MRC's own kind keeps.

    `on_time` receives the seconds left now and then, `say` receives progress messages. Raises MrcError
    when the lab cannot be built or a program in it fails; then nothing stays behind.
    """
    began = time.monotonic()
    again: list[str] = []
    for attempt in range(1, MOST_ATTEMPTS + 1):
        try:
            recording = _perform(drill, seed, on_time, trim_to_bytes, say)
        except SystemRefused as error:
            if not _is_about_bpf(error):
                raise
            return _kept(
                Result(drill, seed, time.monotonic() - began, attempt, reason=str(error), trim_to_bytes=trim_to_bytes),
                out,
            )
        judgement = drill.judge(recording)
        disturbed = recording.machine.disturbance
        # A machine too busy for the links is likely where they are not the limit. Without a measurement that says so,
        # the last attempt is a failure all the same.
        reason = disturbed or judgement.unfit
        if judgement.verdict is Verdict.PASSED or reason is None or attempt == MOST_ATTEMPTS:
            break
        again.append(reason)
        say(f"{drill.name}: {judgement.failed[0].expectation.figure} is out of bounds, but {reason}: once more")
    result = Result(
        drill,
        seed,
        time.monotonic() - began,
        attempt,
        judgement,
        recording,
        reason=judgement.void,
        disturbed=disturbed,
        run_again_because=tuple(again),
        plot=None if out is None else _plot(drill, recording, out, say),
        trim_to_bytes=trim_to_bytes,
    )
    return _kept(result, out)


def _perform(
    drill: Drill,
    seed: int,
    on_time: Callable[[float], None],
    trim_to_bytes: int | None,
    say: Callable[[str], None],
) -> Recording:
    with (
        scratch_directory("mrc-drill-", _memory()) as scratch,
        Lab.up(f"drill-{os.getpid()}", drill.shape) as lab,
        Stage(lab, scratch, seed, lambda at_s: on_time(drill.seconds - at_s), trim_to_bytes, say) as stage,
    ):
        drill.perform(stage)
        return stage.finish()


def _memory() -> Path | None:
    """A directory in memory, if there is one: a disk makes who writes to it wait now and then for half a second."""
    return _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK | os.X_OK) else None


def _is_about_bpf(error: SystemRefused) -> bool:
    from mrc.lab.bpf import EbpfRefused

    return isinstance(error, EbpfRefused)


def _plot(drill: Drill, recording: Recording, out: Path, say: Callable[[str], None]) -> Path | None:
    path = out / f"{drill.name}.svg"
    try:
        plot = svg(f"{drill.name}: {drill.summary}", lambda figure: drill.draw(recording, figure))
    except NoPlots as error:
        say(f"there is no plot: {error}")
        return None
    write_whole(path, plot)
    return path


def _kept(result: Result, out: Path | None) -> Result:
    if out is not None:
        write_whole(out / f"{result.drill.name}.json", json.dumps(result.to_json(), indent=1) + "\n")
    return result


def _history(recording: Recording) -> dict[str, Any]:
    if not recording.happenings:
        return {"happenings": [], "series": {}}
    began = recording.happenings[0].at_ns
    end = max(each.at_ns for each in recording.happenings)
    series = {name: flow.placed for name, flow in recording.flows.items()} | dict(recording.streams)
    return {
        "happenings": [
            {"at_s": round((each.at_ns - began) / 1e9, 4), "what": each.what, "target": each.target}
            for each in recording.happenings
        ],
        "series": {
            "bin_s": _BIN_NS / 1e9,
            "goodput_mbps": {
                name: [round(rate / 1e6, 2) for rate in each.rates_bps(began, end, _BIN_NS)[1].tolist()]
                for name, each in series.items()
            },
        },
    }
