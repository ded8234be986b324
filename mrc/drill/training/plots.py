# SPDX-License-Identifier: BSD-2-Clause
"""Two plots: how long each step took, and how many steps were done when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mrc.drill.moments import mark_moments
from mrc.drill.recording import CLEAR, HEAL, Recording
from mrc.drill.training.figures import during, job
from mrc.drill.training.plan import MPTCP, MRC, TCP
from mrc.drill.training.script import FAIR, FOUL
from mrc.report.palette import TRANSPORTS
from mrc.report.plots import legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(recording: Recording, figure: Figure) -> None:
    """Step time over step, and steps over time; thin lines are the same job where nothing breaks."""
    times: Any
    progress: Any
    times, progress = figure.subplots(2, 1)
    for transport in (MRC, MPTCP, TCP):
        for weather in (FOUL, FAIR):
            one = job(recording, transport, weather)
            if one is None:
                continue
            look = {"color": TRANSPORTS[transport], "linewidth": 1.3 if weather == FOUL else 0.7}
            look |= {"linestyle": "-" if weather == FOUL else ":"}
            words = transport.upper() + ("" if weather == FOUL else ", nothing breaks")
            if weather == FOUL:
                times.plot(np.arange(1, len(one.steps_s) + 1), one.steps_s * 1e3, label=words, **look)
            seconds = np.concatenate([[0.0], (one.ends_ns - one.began_ns) / 1e9])
            progress.plot(seconds, np.arange(len(seconds)), label=words, **look)
    times.set_xlabel("step")
    times.set_ylabel("ms a step")
    times.set_yscale("log")
    progress.set_xlabel("seconds since the first step began")
    progress.set_ylabel("steps done")
    progress.set_xlim(left=0)
    progress.set_ylim(bottom=0)
    mrc = job(recording, MRC, FOUL)
    if mrc is not None:
        mark_moments([progress], during(recording, mrc), mrc.began_ns, unnamed=(HEAL, CLEAR))
    legend(times)
    legend(progress)
