# SPDX-License-Identifier: BSD-2-Clause
"""The drill itself: what is run, and what is expected of it."""

from __future__ import annotations

from functools import partial

from mrc.bench.torch_build import need_torch
from mrc.drill.drill import Drill
from mrc.drill.training.figures import measure
from mrc.drill.training.plan import MPTCP, PERCEPTRON, STEPS, TCP, TRANSFORMER
from mrc.drill.training.plots import draw
from mrc.drill.training.script import perform
from mrc.errors import CallerError
from mrc.fabric import Clos
from mrc.report.expectations import at_least, at_most, exactly

PLANES, SPINES = 2, 4
TRAINING_HOSTS, MOST_HOSTS = 2, 8
_SECONDS = 130.0


def training(hosts: int, model: str = PERCEPTRON) -> Drill:
    """The drill with so many hosts, a rank on each, that train `model`.

    Raises CallerError for fewer than two hosts and for an odd number, SystemRefused where PyTorch is missing.
    """
    if model == TRANSFORMER:
        need_torch("the transformer of the drill training")
    if not 2 <= hosts <= MOST_HOSTS or hosts % 2:
        raise CallerError(f"training takes 2, 4, 6 or {MOST_HOSTS} hosts, half of them on each leaf, got {hosts}")
    to_gloos = "as gloo's, to the bit"
    tcp = [
        at_least("tcp_foul_longest_step_s", 3, "the control: what breaks stops a job over one path"),
        at_least("tcp_fair_time_of_mrc", 1, "MRC finishes first where nothing breaks"),
        at_least("tcp_foul_time_of_mrc", 1, "MRC finishes first where the network breaks"),
        at_least("tcp_port_gone_timeouts", 1, "gloo over TCP ends with its timeout when its port is gone"),
    ]
    mptcp = [
        at_least("mptcp_fair_time_of_mrc", 1, "MRC finishes first where nothing breaks"),
        at_least("mptcp_foul_time_of_mrc", 1, "MRC finishes first where the network breaks"),
    ]
    if hosts == 2:
        # Of more ranks each adds in an order of its own.
        tcp += [exactly(f"tcp_{weather}_other_weights", 0, to_gloos) for weather in ("fair", "foul")]
        mptcp += [exactly(f"mptcp_{weather}_other_weights", 0, to_gloos) for weather in ("fair", "foul")]
    return Drill(
        name="training",
        summary=f"{hosts} hosts train a {model} of a million parameters while the network breaks",
        shape=Clos(planes=PLANES, spines=SPINES, hosts_per_leaf=hosts // 2),
        seconds=_SECONDS,
        perform=partial(perform, model=model),
        measure=measure,
        draw=draw,
        expectations=(
            at_most("mrc_longest_step_of_median", 3, "no step takes longer than three usual ones of before"),
            at_least("mrc_steps_after_the_last_repair", 1, "the job met all that breaks"),
            exactly("mrc_foul_other_weights", 0, f"{STEPS} steps give the same weights as where nothing breaks"),
            exactly("mrc_port_gone_other_weights", 0, "and so they do when a port is cut for good"),
            at_most("loss_last_step", 2, "the model learns: it begins above ln 64, 4.16"),
        ),
        beside={TCP: tuple(tcp), MPTCP: tuple(mptcp)},
        common=(),
        void_without=tcp[0],
    )


TRAINING = training(TRAINING_HOSTS)
