# SPDX-License-Identifier: BSD-2-Clause
"""Figures of the jobs: who was first, whose step took how long, and whether the weights came out the same."""

from __future__ import annotations

from mrc.drill.drill import Figures
from mrc.drill.job_record import JobRecord
from mrc.drill.recording import BEGIN, CUT, HEAL, Happening, Recording
from mrc.drill.training.plan import MPTCP, MRC, TCP
from mrc.drill.training.script import FAIR, FOUL, PORT_GONE

_RIVALS = (TCP, MPTCP)


def job(recording: Recording, transport: str, weather: str) -> JobRecord | None:
    found = (each for each in recording.jobs if (each.transport, each.weather) == (transport, weather))
    return next(found, None)


def during(recording: Recording, one: JobRecord) -> list[Happening]:
    """What the script did while a job ran."""
    return [each for each in recording.happenings if one.began_ns < each.at_ns < one.ended_ns]


def measure(recording: Recording) -> Figures:
    figures: Figures = {}
    for each in recording.jobs:
        name = f"{each.transport}_{each.weather.replace(' ', '_')}"
        figures[f"{name}_s"] = each.took_s
        figures[f"{name}_longest_step_s"] = _longest_s(each)
    fair, foul = job(recording, MRC, FAIR), job(recording, MRC, FOUL)
    if fair is not None and foul is not None:
        figures |= _of_mrc(recording, fair, foul)
    for rival in _RIVALS:
        for weather, mrc in ((FAIR, fair), (FOUL, foul)):
            other = job(recording, rival, weather)
            figures[f"{rival}_{weather}_time_of_mrc"] = _ratio(other, mrc)
            figures[f"{rival}_{weather}_other_weights"] = _other_weights([other, fair])
    gone, tcp_gone = job(recording, MRC, PORT_GONE), job(recording, TCP, PORT_GONE)
    figures["mrc_port_gone_other_weights"] = _other_weights([gone, fair])
    figures["tcp_port_gone_timeouts"] = None if tcp_gone is None else sum(map(_is_timeout, tcp_gone.errors))
    return figures


def _of_mrc(recording: Recording, fair: JobRecord, foul: JobRecord) -> Figures:
    first = min(each.at_ns for each in during(recording, foul) if each.what == CUT)
    later = (each.at_ns for each in recording.happenings if each.what == BEGIN and each.at_ns > foul.began_ns)
    until = next(later, recording.happenings[-1].at_ns + 1)
    # What a job that ended early has left broken is mended after it.
    last = max(each.at_ns for each in recording.happenings if each.what == HEAL and each.at_ns < until)
    longest, median = _longest_s(foul), foul.median_step_s(first)
    losses = fair.losses()
    return {
        "mrc_median_step_before_s": median,
        "mrc_longest_step_of_median": longest / median if longest is not None else None,
        "mrc_steps_after_the_last_repair": int((foul.ends_ns > last).sum()) if not foul.failed else None,
        "mrc_foul_other_weights": _other_weights([foul, fair]),
        "loss_first_step": float(losses[0]) if len(losses) else None,
        "loss_last_step": float(losses[-1]) if len(losses) else None,
    }


def _longest_s(one: JobRecord) -> float | None:
    steps = one.steps_s
    return float(steps.max()) if len(steps) else None


def _ratio(other: JobRecord | None, mrc: JobRecord | None) -> float | None:
    """How many times as long as MRC; None where either did not finish."""
    if other is None or mrc is None or other.failed or mrc.failed:
        return None
    return other.took_s / mrc.took_s


def _other_weights(jobs: list[JobRecord | None]) -> int | None:
    """Ranks of these jobs whose weights in the end are not those of the last one's first rank, to the bit."""
    reference = jobs[-1]
    if reference is None or reference.ranks[0].digest is None or None in jobs:
        return None
    wanted = reference.ranks[0].digest
    return sum(rank.digest != wanted for one in jobs if one is not None for rank in one.ranks)


def _is_timeout(error: str) -> bool:
    text = error.lower()
    return "timed out" in text or "timeout" in text
