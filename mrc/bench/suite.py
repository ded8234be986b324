# SPDX-License-Identifier: BSD-2-Clause
"""`mrc bench lab --suite`: what decides between transports, each measured beside the others in interleaved rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from mrc.bench.baselines import BASELINES, make_baseline
from mrc.bench.lab_run import LAB_NAME, OURS, LabPlan, lab_document, machine
from mrc.bench.rounds import Rounds, run_rounds
from mrc.bench.settings import Settings
from mrc.bench.stall import Cut
from mrc.bench.subject import Mrc, Streaming, Subject
from mrc.lab import Lab

SMALL, PING = 64, 2  # bytes
LOSS = 0.01
GOODPUT, LATENCY, MESSAGES, LOSSY, CUT = "goodput", "latency", "messages", "loss", "cut"
MEASURES = (GOODPUT, LATENCY, MESSAGES, LOSSY, CUT)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the table: the run it comes from, its key there, and its key in the document."""

    heading: str
    measure: str
    key: str
    reported_as: str
    digits: int


FIGURES = (
    Figure("Gbit/s", GOODPUT, "goodput_gbps", "goodput_gbps", 2),
    Figure("CPU s/GB", GOODPUT, "cpu_seconds_per_gb", "cpu_seconds_per_gb", 2),
    Figure("half round trip [us]", LATENCY, "t_typical_us", "t_typical_us", 1),
    Figure(f"{SMALL}-byte messages/s", MESSAGES, "message_rate_mps", "message_rate_mps", 0),
    Figure(f"Gbit/s at {LOSS:.0%} loss", LOSSY, "goodput_gbps", "lossy_goodput_gbps", 2),
    Figure("stall at a cut [ms]", CUT, "stall_ms", "stall_ms", 0),
)


@dataclass(frozen=True, slots=True)
class Part:
    """One measure of MRC or a baseline, a subject of the rounds. `prepared`: another part prepares the same subject."""

    who: str
    measure: str
    subject: Subject
    prepared: bool = False

    @property
    def name(self) -> str:
        return part_name(self.who, self.measure)

    @property
    def loss(self) -> float:
        return self.subject.loss

    def check(self) -> None:
        self.subject.check()

    def prepare(self, lab: Lab) -> None:
        if not self.prepared:
            self.subject.prepare(lab)

    def run(self, lab: Lab) -> Mapping[str, Any]:
        return self.subject.run(lab)


def part_name(who: str, measure: str) -> str:
    return f"{who}: {measure}"


def parts_of(who: str, settings: Settings) -> list[Part]:
    """What can be measured of MRC or a baseline."""

    def made(**changes: object) -> Subject:
        changed = settings.changed(**changes)
        return Mrc(OURS, changed) if who == OURS else make_baseline(who, changed)

    baseline = BASELINES.get(who)
    bulk = made()
    parts = [Part(who, GOODPUT, bulk)]
    if baseline is None or baseline.latency is not None:
        parts.append(Part(who, LATENCY, made(size=PING, latency=True)))
    if baseline is None or baseline.messages:
        parts.append(Part(who, MESSAGES, made(size=SMALL)))
    parts.append(Part(who, LOSSY, made(loss=LOSS)))
    if baseline is None or baseline.cut:
        parts.append(Part(who, CUT, Cut(cast(Streaming, bulk)), prepared=True))
    return parts


def run_suite(plan: LabPlan, on_run: Callable[[int, str, Mapping[str, Any]], None]) -> Rounds:
    """Build the lab and run the rounds in it: in each every measure in turn, of MRC and of all baselines.

    Raises MrcError when the lab cannot be built or a subject fails.
    """
    parts = [part for name in (OURS, *plan.baselines) for part in parts_of(name, plan.settings)]
    parts.sort(key=lambda part: MEASURES.index(part.measure))
    for part in parts:
        part.check()
    with Lab.up(LAB_NAME, plan.shape, fast=plan.fast) as lab:
        return run_rounds(lab, parts, plan.rounds, on_run)


def suite_document(plan: LabPlan, rounds: Rounds) -> dict[str, Any]:
    """Medians, their spread, and each round; null for what a program does not report."""
    found: dict[str, Any] = {}
    for who in (OURS, *plan.baselines):
        spreads = {
            figure.reported_as: rounds.spread(part_name(who, figure.measure), figure.key)
            for figure in FIGURES
            if part_name(who, figure.measure) in rounds.documents
        }
        found[who] = {
            figure.reported_as: round(spread.median, 4) if (spread := spreads.get(figure.reported_as)) else None
            for figure in FIGURES
        }
        found[who]["resumed"] = resumed(rounds, who)
        found[who]["spread"] = {
            key: [round(spread.least, 4), round(spread.most, 4)] for key, spread in spreads.items() if spread
        }
        found[who]["rounds"] = {
            measure: list(rounds.documents[part_name(who, measure)])
            for measure in MEASURES
            if part_name(who, measure) in rounds.documents
        }
    return found | {"lab": lab_document(plan), "machine": machine()}


def resumed(rounds: Rounds, who: str) -> bool | None:
    """Whether data came again after the cut in every round; None when it was not cut."""
    documents = rounds.documents.get(part_name(who, CUT))
    return None if documents is None else all(document["resumed"] for document in documents)
