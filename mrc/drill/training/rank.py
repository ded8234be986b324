# SPDX-License-Identifier: BSD-2-Clause
"""One rank of the training jobs of one transport: `python -m mrc.drill.training.rank TRANSPORT MODEL` on a host.

Each line on stdin is a RankPlan as JSON, and answered by two on stdout: `{"began_ns": ...}` when all ranks are there,
and how it went. The end of stdin ends the process at once, in the midst of a job too.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np

from mrc.drill.training.learners import F32, Examples, Learner
from mrc.drill.training.model import Data, Model
from mrc.drill.training.plan import MRC, TRANSFORMER, RankPlan
from mrc.drill.training.reducers import Pending, Reducer, first_line, reducer
from mrc.errors import MrcError
from mrc.threads import start_thread
from mrc.untrusted import own_json


def train(plan: RankPlan, sums: Reducer, report: dict[str, Any]) -> None:
    """All steps of a job. Notes the end of each step, ns, and its loss, so far as it gets. Raises what a sum raises."""
    data, model = learner(plan.model, plan.seed)
    for step in range(plan.steps):
        pending: list[Pending] = []
        loss = model.differentiate(*data.batch(plan.rank, step), _starting(sums, pending))
        for each in pending:
            each.wait()
        model.learn(plan.ranks)
        report["ends_ns"].append(time.monotonic_ns())
        report["losses"].append(loss)
    report["digest"] = model.digest()


def learner(model: str, seed: int) -> tuple[Examples, Learner]:
    """Return the data and the model that `model` names. The same seed gives the same bits on the same machine."""
    if model == TRANSFORMER:
        from mrc.drill.training.transformer import Sequences, Transformer

        return Sequences(seed), Transformer(seed)
    return Data(seed), Model(seed)


def _starting(sums: Reducer, pending: list[Pending]) -> Callable[[F32], None]:
    return lambda bucket: pending.append(sums.start(bucket))


def run(plan: RankPlan) -> dict[str, Any]:
    report: dict[str, Any] = {"ends_ns": [], "losses": [], "digest": None, "error": None}
    try:
        with reducer(plan) as sums:
            together: F32 = np.ones(1, np.float32)
            sums.start(together).wait()
            report["began_ns"] = time.monotonic_ns()
            say({"began_ns": report["began_ns"]})
            train(plan, sums, report)
    except (MrcError, RuntimeError) as error:
        # Gloo raises RuntimeError for all that ends it.
        report["error"] = first_line(error)
    report["ended_ns"] = time.monotonic_ns()
    return report


def say(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)


def main(transport: str, model: str) -> None:
    if transport != MRC or model == TRANSFORMER:
        # Imported before any job's time begins; `ready` says that it is done.
        import torch.distributed

        # As its environment says, which a fork cannot read any more.
        torch.set_num_threads(1)
    say({"ready": transport})
    lines: SimpleQueue[str] = SimpleQueue()
    start_thread(_read, lines, name="commands")
    while True:
        say(run(RankPlan.from_json(own_json(lines.get()))))


def _read(lines: SimpleQueue[str]) -> None:
    """End this process once the one that started it closes our stdin. There is nothing to clear away."""
    for line in sys.stdin:
        lines.put(line)
    signal.raise_signal(signal.SIGTERM)


if __name__ == "__main__":
    main(*sys.argv[1:])
