# SPDX-License-Identifier: BSD-2-Clause
"""`mrc bench lab`: a lab of its own, MRC and whatever it is compared with in interleaved rounds."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrc.bench.baselines import make_baseline
from mrc.bench.rounds import Rounds, run_rounds
from mrc.bench.settings import Settings, Variant
from mrc.bench.subject import LATENCY_KEYS, THROUGHPUT_KEYS, Mrc, Subject
from mrc.fabric import Clos
from mrc.lab import Lab

LAB_NAME = "bench"
OURS = "mrc"


@dataclass(frozen=True, slots=True)
class LabPlan:
    """What to measure: MRC as `settings` say, each of `variants` of it, and each baseline, `rounds` times.

    `fast`: in a lab with a fast fabric.
    """

    shape: Clos
    settings: Settings
    variants: tuple[Variant, ...]
    baselines: tuple[str, ...]
    rounds: int
    fast: bool = False


def run_lab(plan: LabPlan, on_run: Callable[[int, str, Mapping[str, Any]], None]) -> Rounds:
    """Build the lab and run the rounds in it. Raises MrcError when the lab cannot be built or a subject fails."""
    subjects: list[Subject] = [Mrc(OURS, plan.settings)]
    subjects += [Mrc(variant.label, variant.settings) for variant in plan.variants]
    subjects += [make_baseline(name, plan.settings) for name in plan.baselines]
    for subject in subjects:
        subject.check()
    with Lab.up(LAB_NAME, plan.shape, fast=plan.fast) as lab:
        return run_rounds(lab, subjects, plan.rounds, on_run)


def comparisons(plan: LabPlan) -> list[tuple[str, str]]:
    """(above, below) of each ratio: MRC over each baseline, each variant over MRC."""
    return [(OURS, name) for name in plan.baselines] + [(variant.label, OURS) for variant in plan.variants]


def compared_keys(plan: LabPlan) -> tuple[tuple[str, str], ...]:
    """The figures whose ratios are reported, and what is put behind a ratio's name."""
    if plan.settings.latency:
        return ("t_typical_us", ""), ("p99_us", " p99")
    return (("goodput_gbps", ""),)


def document(plan: LabPlan, rounds: Rounds) -> dict[str, Any]:
    """The document that `--json` prints: medians, their spread, and ratios."""
    keys = LATENCY_KEYS if plan.settings.latency else THROUGHPUT_KEYS
    found: dict[str, Any] = {}
    for name, documents in rounds.documents.items():
        spreads = {key: rounds.spread(name, key) for key in keys}
        # A figure of MRC alone is left out where it is not known.
        shown = [key for key, spread in spreads.items() if spread or key in keys[:4]]
        found[name] = {key: _rounded(spread.median) if (spread := spreads[key]) else None for key in shown}
        found[name]["spread"] = {
            key: [_rounded(spread.least), _rounded(spread.most)] for key, spread in spreads.items() if spread
        }
        found[name]["rounds"] = list(documents)
    ratio: dict[str, Any] = {}
    pairs: dict[str, Any] = {}
    for above, below in comparisons(plan):
        for key, suffix in compared_keys(plan):
            name = f"{above}/{below}{suffix}"
            ratio[name] = _rounded(rounds.ratio_of_medians(above, below, key))
            spread = rounds.pair_ratios(above, below, key)
            pairs[name] = spread and {
                "median": _rounded(spread.median),
                "min": _rounded(spread.least),
                "max": _rounded(spread.most),
            }
    return found | {"ratio": ratio, "pair_ratio": pairs, "lab": lab_document(plan), "machine": machine()}


def lab_document(plan: LabPlan) -> dict[str, Any]:
    settings, shape = plan.settings, plan.shape
    return {
        "planes": shape.planes,
        "spines": shape.spines,
        "fast": plan.fast,
        "mtu_bytes": shape.mtu,
        "path_mtu_bytes": settings.mtu,
        "size_bytes": settings.size,
        "seconds": settings.seconds,
        "rounds": plan.rounds,
        "qps": settings.qps,
        "idle_qps": settings.idle_qps,
        "paths": settings.paths,
        "depth": settings.depth,
        "loss_percent": settings.loss * 100,
    }


def machine() -> dict[str, Any]:
    """What absolute figures are worth nothing without."""
    model = "unknown"
    for line in _lines(Path("/proc/cpuinfo")):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            model = value.strip()
            break
    cpus = sum(line.startswith("processor") for line in _lines(Path("/proc/cpuinfo")))
    return {"cpu": model, "cpus": cpus, "kernel": platform.release(), "python": platform.python_version()}


def _lines(path: Path) -> Sequence[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return ()


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
