# SPDX-License-Identifier: BSD-2-Clause
"""Interleaved rounds in one lab: machines drift, so each subject runs once a round, right beside the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from mrc.bench.subject import Subject
from mrc.errors import CallerError
from mrc.lab import Lab


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, least and largest of one figure over the rounds."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Rounds:
    """What was measured: for each subject, in the order given, one document a round."""

    documents: Mapping[str, Sequence[Mapping[str, Any]]]

    def spread(self, name: str, key: str) -> Spread | None:
        """None for a figure the subject does not report."""
        values = [document.get(key) for document in self.documents[name]]
        known = [float(value) for value in values if value is not None]
        return Spread.of(known) if known else None

    def ratio_of_medians(self, above: str, below: str, key: str) -> float | None:
        """None when the lower median is 0."""
        top, bottom = self.spread(above, key), self.spread(below, key)
        return top.median / bottom.median if top is not None and bottom is not None and bottom.median else None

    def pair_ratios(self, above: str, below: str, key: str) -> Spread | None:
        """The ratios of the two in each round; None when there is none."""
        pairs = zip(self.documents[above], self.documents[below], strict=True)
        ratios = [float(top[key]) / float(bottom[key]) for top, bottom in pairs if bottom.get(key)]
        return Spread.of(ratios) if ratios else None


def run_rounds(
    lab: Lab,
    subjects: Sequence[Subject],
    rounds: int,
    on_run: Callable[[int, str, Mapping[str, Any]], None] = lambda number, name, document: None,
) -> Rounds:
    """Run every subject `rounds` times; every second round goes backwards, so that a steady drift favours nobody.

    `on_run(round, name, document)` hears of each run. Raises CallerError for less than one round and for two subjects
    of one name, SystemRefused when a subject needs what is not there, PeerError when one fails.
    """
    if rounds < 1:
        raise CallerError(f"there must be at least 1 round, got {rounds}")
    names = [subject.name for subject in subjects]
    if len(set(names)) != len(names):
        raise CallerError(f"something is to be measured twice: {', '.join(names)}")
    for subject in subjects:
        subject.check()
    for subject in subjects:
        subject.prepare(lab)
    documents: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    losing = 0.0
    for number in range(rounds):
        for subject in subjects if number % 2 == 0 else reversed(subjects):
            if subject.loss != losing:
                set_loss(lab, subject.loss)
                losing = subject.loss
            document = subject.run(lab)
            documents[subject.name].append(document)
            on_run(number, subject.name, document)
    return Rounds(documents)


def set_loss(lab: Lab, share: float) -> None:
    """Every path loses this share of its packets from end to end, each way: what comes to a spine from a leaf."""
    for link in lab.topology.fabric_links():
        if share:
            lab.impair(link.name, share, toward=link.upper)
        else:
            lab.clear(link.name, toward=link.upper)
