# SPDX-License-Identifier: BSD-2-Clause
"""Training in a lab: ranks on its hosts, a spine that dies meanwhile, and the program of docs/training.md."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from patience import PATIENCE_S
from test_drill_training import trained

from mrc.drill.job_record import JobRecord
from mrc.drill.stage import Stage
from mrc.drill.training.crew import Crew
from mrc.drill.training.plan import MRC, PERCEPTRON, TRANSFORMER, RankPlan
from mrc.drill.training.rank import learner
from mrc.fabric import Clos
from mrc.lab import Lab

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 and os.environ.get("CI") != "true",
        reason="needs root",
    ),
]
STEPS, TRANSFORMER_STEPS = 14, 12


def alone(model: str, count: int) -> tuple[str, float]:
    """The same training in one process, its sums numpy's own and its AdamW torch's: the weights' digest and the sum of
    the losses."""
    if model == TRANSFORMER:
        import torch

        from mrc.drill.training import transformer

        # The making of an optimizer imports torch's compiler, as much again as all of torch, to leave it unused.
        sys.modules["torch._dynamo"] = torch._dynamo = SimpleNamespace(
            disable=lambda function, recursive, wrapping: function, graph_break=lambda: None
        )
        transformer._AdamW = lambda parameters: torch.optim.AdamW(parameters, lr=transformer._RATE)
    kinds: list[Any] = [lambda seed: learner(model, seed)[0], lambda seed: learner(model, seed)[1]]
    (one, _), losses = trained(5, count, 2, *kinds)
    return one.digest(), sum(losses)


@pytest.fixture
def lab() -> Lab:
    return Lab.up(f"training-{os.getpid()}", Clos(planes=2, spines=2, hosts_per_leaf=1))


def test_weights_are_those_of_one_process_while_a_spine_dies(lab: Lab, tmp_path: Path) -> None:
    with lab, Stage(lab, tmp_path, 5) as stage:
        stage.limit_hosts(rate_bps=200_000_000, queue_bytes=500_000)
        crew = Crew(stage, MRC, tmp_path)
        crew.wait_ready()
        began_ns = crew.begin(RankPlan("", 0, 2, 5, "", "", PATIENCE_S, STEPS))
        assert crew.until(began_ns + 1_000_000_000), "it was over before anything broke"
        stage.cut("p0s0")
        job = crew.result("foul", PATIENCE_S)
        recording = stage.finish()
    assert job.errors == []
    assert len(job.steps_s) == len(job.losses()) == STEPS
    cut_ns = recording.time("cut")
    assert job.began_ns < cut_ns < job.ended_ns
    check_weights(job, PERCEPTRON, STEPS)


def check_weights(job: JobRecord, model: str, steps: int) -> None:
    """Those of all ranks are those of the same training in one process, to the bit."""
    # A fork, which has all of torch, and keeps what it changes of it.
    with ProcessPoolExecutor(1, get_context("fork")) as pool:
        digest, losses = pool.submit(alone, model, steps).result(PATIENCE_S)
    assert [rank.digest for rank in job.ranks] == [digest] * 2
    assert sum(job.losses()) == pytest.approx(losses)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_a_transformer_of_torch_learns_and_has_the_weights_of_one_process(lab: Lab, tmp_path: Path) -> None:
    with lab, Stage(lab, tmp_path, 5) as stage:
        crew = Crew(stage, MRC, tmp_path, model=TRANSFORMER)
        crew.wait_ready()
        crew.begin(RankPlan("", 0, 2, 5, "", "", PATIENCE_S, TRANSFORMER_STEPS))
        job = crew.result("fair", PATIENCE_S)
    assert job.errors == []
    losses = job.losses()
    # It begins where it knows nothing of 64 symbols.
    assert losses[0] > 4.1
    assert losses[-1] < losses[0] - 0.3
    check_weights(job, TRANSFORMER, TRANSFORMER_STEPS)


def test_a_rank_goes_when_nobody_wants_it_any_more(lab: Lab, tmp_path: Path) -> None:
    with lab:
        with Stage(lab, tmp_path, 5) as stage:
            crew = Crew(stage, MRC, tmp_path)
            crew.wait_ready()
            crew.begin(RankPlan("", 0, 2, 5, "", "", PATIENCE_S, 1_000_000))
            assert len(lab.processes()) == 2
        assert lab.processes() == []


def test_the_program_of_the_page_runs(lab: Lab, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/training.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.S)
    assert "/tmp/my-job" in program
    script = tmp_path / "train.py"
    script.write_text(
        program.replace("/tmp/my-job", str(tmp_path / "job"))
        .replace("range(1000)", "range(101)")
        .replace("1_000_000", "100_000")
    )
    with lab:
        ranks = [
            lab.popen(f"h{rank}", [sys.executable, str(script), str(rank)], stdout=subprocess.PIPE, text=True)
            for rank in range(2)
        ]
        said = [rank.communicate(timeout=PATIENCE_S)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert said == ["step 0 1.5\nstep 100 1.5\n", ""]
