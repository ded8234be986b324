# SPDX-License-Identifier: BSD-2-Clause
"""The drill of training jobs: what is read off recordings made by hand, and its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from recordings import at

from mrc.drill import run as running
from mrc.drill.catalogue import find
from mrc.drill.drill import Judgement, Verdict
from mrc.drill.job_record import JobRecord, RankRecord
from mrc.drill.recording import Happening, Recording
from mrc.drill.training.model import BATCH, WIDTHS, Data, Model
from mrc.drill.training.plan import TRANSFORMER
from mrc.drill.training.training import TRAINING, training
from mrc.errors import CallerError, SystemRefused

STEPS = 100
SAME, OTHER = "a" * 64, "b" * 64
JOB_S = 100.0  # from the beginning of one job to that of the next
JOBS = [(transport, weather) for transport in ("mrc", "tcp", "mptcp") for weather in ("fair", "foul")]
JOBS += [("mrc", "port gone"), ("tcp", "port gone")]
CUT_S, HEALED_S = 1.5, 4.7


def job(
    transport: str,
    weather: str,
    steps_s: Sequence[float],
    *,
    digest: str | None = SAME,
    error: str | None = None,
    losses: Sequence[float] = (5.0, 0.8),
    began_s: float | None = None,
) -> JobRecord:
    """Two ranks, the second of which ends each step a millisecond later."""
    began = JOB_S * JOBS.index((transport, weather)) if began_s is None else began_s
    ends = began + np.cumsum(steps_s)
    ranks = [
        RankRecord(
            at(began),
            at(float(ends[-1]) + later + (10.0 if error else 1.0)),
            [at(float(end) + later) for end in ends],
            list(np.linspace(losses[0], losses[1], len(ends))),
            digest,
            error,
        )
        for later in (0.0, 0.001)
    ]
    return JobRecord(transport, weather, ranks)


def steps(usual_s: float, **slow: float) -> list[float]:
    """100 steps; `s20=0.5`: the twentieth takes half a second."""
    took = [usual_s] * STEPS
    for name, step_s in slow.items():
        took[int(name[1:]) - 1] = step_s
    return took


def recorded(**changed: JobRecord) -> Recording:
    """All jobs as one would wish; `changed` by transport and weather, `mrc_foul`."""
    jobs = {
        "mrc_fair": job("mrc", "fair", steps(0.1)),
        "mrc_foul": job("mrc", "foul", steps(0.1, s20=0.25)),
        "tcp_fair": job("tcp", "fair", steps(0.18)),
        "tcp_foul": job("tcp", "foul", steps(0.18, s9=6.5)),
        "mptcp_fair": job("mptcp", "fair", steps(0.12)),
        "mptcp_foul": job("mptcp", "foul", steps(0.12, s15=0.9)),
        "mrc_port_gone": job("mrc", "port gone", steps(0.2)),
        "tcp_port_gone": job("tcp", "port gone", [0.18] * 8, digest=None, error="Timed out waiting 10000ms for recv"),
    } | changed
    happened = []
    for each in jobs.values():
        began = (each.began_ns - at(0)) / 1e9
        happened.append(Happening(each.began_ns, "begin", f"{each.transport}, {each.weather}"))
        if each.weather != "fair":
            happened.append(Happening(at(began + CUT_S), "cut", "p0s0"))
        if each.weather == "foul":
            happened.append(Happening(at(began + HEALED_S), "heal", "p0s0"))
    happened.sort(key=lambda each: each.at_ns)
    return Recording({}, {}, happened, jobs=tuple(jobs.values()))


def failed(judgement: Judgement) -> list[str]:
    return [check.expectation.figure for check in judgement.failed]


def test_as_one_would_wish_it_passes_with_its_figures() -> None:
    judgement = TRAINING.judge(recorded())
    assert failed(judgement) == []
    assert judgement.verdict is Verdict.PASSED
    figures = judgement.figures
    assert figures["mrc_fair_s"] == pytest.approx(10.001)
    assert figures["mrc_foul_s"] == pytest.approx(10.151)
    assert figures["mrc_median_step_before_s"] == pytest.approx(0.1)
    assert figures["mrc_longest_step_of_median"] == pytest.approx(2.5)
    assert figures["mrc_steps_after_the_last_repair"] == 55
    assert figures["tcp_fair_time_of_mrc"] == pytest.approx(18.001 / 10.001)
    assert figures["tcp_foul_longest_step_s"] == pytest.approx(6.5)
    assert figures["mptcp_foul_time_of_mrc"] == pytest.approx(12.781 / 10.151)
    assert figures["tcp_port_gone_timeouts"] == 2


@pytest.mark.parametrize(
    ("name", "made", "figures"),
    [
        ("mrc_foul", lambda: job("mrc", "foul", steps(0.1, s20=0.31)), ["mrc_longest_step_of_median"]),
        # The very first step counts, too.
        ("mrc_foul", lambda: job("mrc", "foul", steps(0.1, s1=0.31)), ["mrc_longest_step_of_median"]),
        ("mrc_foul", lambda: job("mrc", "foul", steps(0.04)), ["mrc_steps_after_the_last_repair"]),
        ("mrc_foul", lambda: job("mrc", "foul", steps(0.1), digest=OTHER), ["mrc_foul_other_weights"]),
        ("mrc_port_gone", lambda: job("mrc", "port gone", steps(0.2), digest=OTHER), ["mrc_port_gone_other_weights"]),
        ("tcp_fair", lambda: job("tcp", "fair", steps(0.18), digest=OTHER), ["tcp_fair_other_weights"]),
        ("mptcp_foul", lambda: job("mptcp", "foul", steps(0.12), digest=OTHER), ["mptcp_foul_other_weights"]),
        ("tcp_fair", lambda: job("tcp", "fair", steps(0.09)), ["tcp_fair_time_of_mrc"]),
        ("mptcp_foul", lambda: job("mptcp", "foul", steps(0.09)), ["mptcp_foul_time_of_mrc"]),
        ("tcp_port_gone", lambda: job("tcp", "port gone", steps(0.18)), ["tcp_port_gone_timeouts"]),
        (
            "tcp_port_gone",
            lambda: job("tcp", "port gone", [0.18], digest=None, error="Connection closed by peer"),
            ["tcp_port_gone_timeouts"],
        ),
        ("mrc_fair", lambda: job("mrc", "fair", steps(0.1), losses=(4.2, 4.2)), ["loss_last_step"]),
    ],
)
def test_what_is_not_as_expected_fails(name: str, made: Callable[[], JobRecord], figures: list[str]) -> None:
    judgement = TRAINING.judge(recorded(**{name: made()}))
    assert failed(judgement) == figures
    assert judgement.verdict is Verdict.FAILED


def test_a_job_over_mrc_that_dies_fails() -> None:
    died = job("mrc", "foul", [0.1] * 20, digest=None, error="rank 1 is gone")
    judgement = TRAINING.judge(recorded(mrc_foul=died))
    assert judgement.verdict is Verdict.FAILED
    assert {"mrc_foul_other_weights", "tcp_foul_time_of_mrc", "mrc_steps_after_the_last_repair"} <= {*failed(judgement)}


def test_a_rank_with_other_weights_than_its_neighbour_is_found() -> None:
    fair = job("mrc", "fair", steps(0.1))
    one, other = fair.ranks
    split = replace(fair, ranks=[one, replace(other, digest=OTHER)])
    assert "mrc_foul_other_weights" in failed(TRAINING.judge(recorded(mrc_fair=split)))


CALM = {"tcp_foul": lambda: job("tcp", "foul", steps(0.18, s9=2.9))}


def test_where_the_control_does_not_stall_there_is_no_judgement(monkeypatch: pytest.MonkeyPatch) -> None:
    calm = recorded(tcp_foul=CALM["tcp_foul"]())
    assert TRAINING.judge(calm).verdict is Verdict.UNSUPPORTED
    runs = [calm, calm, calm]
    monkeypatch.setattr(running, "_perform", lambda *told: runs.pop(0))
    result = running.run_drill(TRAINING, 1)
    assert (result.verdict, result.attempts) == (Verdict.UNSUPPORTED, 3)
    assert "tcp_foul_longest_step_s at least 3, got 2.9" in str(result.reason)
    assert [one["weather"] for one in result.to_json()["jobs"]] == [weather for _, weather in JOBS]


def test_what_fails_beside_a_control_that_does_not_stall_has_failed() -> None:
    wrong = job("mrc", "foul", steps(0.1), digest=OTHER)
    assert TRAINING.judge(recorded(tcp_foul=CALM["tcp_foul"](), mrc_foul=wrong)).verdict is Verdict.FAILED


def test_a_stalled_control_in_a_second_run_is_a_judgement(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [recorded(tcp_foul=CALM["tcp_foul"]()), recorded()]
    monkeypatch.setattr(running, "_perform", lambda *told: runs.pop(0))
    result = running.run_drill(TRAINING, 1)
    assert (result.verdict, result.attempts, len(result.run_again_because)) == (Verdict.PASSED, 2, 1)


@pytest.mark.parametrize(("absent", "left"), [(("tcp", "mptcp"), {"mrc"}), (("mptcp",), {"mrc", "tcp"})])
def test_without_its_rivals_the_rest_is_judged(absent: Sequence[str], left: set[str]) -> None:
    whole = recorded()
    jobs = tuple(each for each in whole.jobs if each.transport in left)
    alone = replace(whole, jobs=jobs, extra={"missing": dict.fromkeys(absent, "torch is not installed")})
    judgement = TRAINING.judge(alone)
    assert judgement.verdict is Verdict.PASSED
    assert not [
        check for check in judgement.checks for name in absent if check.expectation.figure.startswith(f"{name}_")
    ]
    assert "mrc_foul_other_weights" in {check.expectation.figure for check in judgement.checks}


def test_of_more_ranks_gloo_need_not_give_the_same_bits() -> None:
    figures: Mapping[int, set[str]] = {
        hosts: {each.figure for each in training(hosts).all_expectations} for hosts in (2, 4)
    }
    assert figures[2] - figures[4] == {
        f"{rival}_{weather}_other_weights" for rival in ("tcp", "mptcp") for weather in ("fair", "foul")
    }
    (four,) = find(["training"], 4)
    assert four.shape.host_count == 4
    for told in (0, 1, 3, 10):
        with pytest.raises(CallerError, match="takes 2, 4, 6 or 8 hosts"):
            find(["training"], told)
    with pytest.raises(CallerError, match="number of hosts is for training"):
        find(["leaf-fail"], 4)


def test_the_transformer_needs_torch_and_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc.bench.torch_build.find_spec", lambda name: None)
    with pytest.raises(SystemRefused, match=r"transformer of the drill training needs PyTorch: pip install torch"):
        find(["training"], training_model=TRANSFORMER)
    assert find(["training"]) == [TRAINING]
    with pytest.raises(CallerError, match="the model is for training"):
        find(["leaf-fail"], training_model=TRANSFORMER)


# ---------------------------------------------------------------------- the model


def trained(
    seed: int, count: int, ranks: int = 2, data_of: Any = Data, model_of: Any = Model
) -> tuple[list[Any], list[float]]:
    """Ranks of one process, their sums numpy's own."""
    data, models, losses = data_of(seed), [model_of(seed) for _ in range(ranks)], []
    for step in range(count):
        losses.append(
            float(np.mean([model.differentiate(*data.batch(rank, step)) for rank, model in enumerate(models)]))
        )
        total = np.sum([model.gradient for model in models], axis=0, dtype=np.float32)
        for model in models:
            model.gradient[...] = total
            model.learn(ranks)
    return models, losses


def test_the_same_seed_gives_the_same_weights_and_another_does_not() -> None:
    (one, other), _ = trained(1, 4)
    (again, _), _ = trained(1, 4)
    (different, _), _ = trained(2, 4)
    assert one.digest() == other.digest() == again.digest()
    assert different.digest() != one.digest()
    assert len(one.weights) == sum((a + 1) * b for a, b in pairwise(WIDTHS)) == 1_025_984


def test_it_learns() -> None:
    _, losses = trained(1, 60)
    assert losses[0] > np.log(WIDTHS[-1])
    assert np.mean(losses[-5:]) < 2.5


def test_the_gradient_is_that_of_the_loss() -> None:
    """Held against differences of the loss itself, along one direction in each layer."""
    model, data = Model(3), Data(3)
    points, kinds = data.batch(0, 0)
    filled: list[tuple[int, int]] = []
    model.differentiate(points, kinds, lambda bucket: filled.append((len(bucket), int(np.count_nonzero(bucket)))))
    gradient, at_first = model.gradient.astype(np.float64), model.weights.copy()
    sizes = [(a + 1) * b for a, b in pairwise(WIDTHS)]
    # Whole buckets, the last layer's first, and filled when they are handed out.
    assert [length for length, _ in filled] == sizes[::-1]
    assert all(count > length / 10 for length, count in filled)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    loss = partial(_loss, model, points, kinds)
    for start, stop in pairwise(starts):
        way = np.zeros(len(at_first), np.float32)
        way[start:stop] = np.sign(gradient[start:stop])
        way /= np.linalg.norm(way)
        step = 0.02
        slope = (loss(at_first + np.float32(step) * way) - loss(at_first - np.float32(step) * way)) / (2 * step)
        assert slope == pytest.approx(float(gradient @ way.astype(np.float64)), rel=0.05), (start, stop)


def _loss(model: Model, points: Any, kinds: Any, weights: Any) -> float:
    model.weights[...] = weights
    return model.differentiate(points, kinds)


def test_no_two_ranks_or_steps_share_their_data() -> None:
    data = Data(1)
    batches = [data.batch(rank, step)[0] for rank in range(2) for step in range(3)]
    assert all(batch.shape == (BATCH, WIDTHS[0]) for batch in batches)
    assert len({batch.tobytes() for batch in batches}) == len(batches)
