# SPDX-License-Identifier: BSD-2-Clause
"""How likely results are when some suspects lose packets, and which suspects explain them best.

A loop comes back when every part that it passes lets it through. With a suspect's loss rate p as a weight
w = -log(1 - p), the chance that a probe comes back is exp(-x), x the sum of the weights along its loop plus
`BACKGROUND`. The likelihood of results is then concave in all weights at once, so there is one best fit, found one
weight after the other.

A term of an explanation is a suspect that lost packets in some stretch of time. Each costs something, so that few
faults are preferred to many: that is a prior on faults being rare.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mrc.map.components import Component, Kind, Suspects

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Share of probes that are lost with nothing wrong: it takes several such losses at one place to look like a fault.
BACKGROUND = 1e-4
# In natural logarithms of odds: what another faulty part costs, what a whole plane does, which looks like several parts
# that fail together, and what a change of a part that is known to be faulty.
COST_OF_FAULT, COST_OF_PLANE, COST_OF_CHANGE = 10.0, 20.0, 4.0
# A weight of 7 is 99.9 % loss.
MOST_WEIGHT, _LEAST_WEIGHT = 7.0, 1e-5
_HALVINGS, _SWEEPS, _STEPS, _MOST_TERMS = 16, 12, 30, 16
# With how many first guesses the search for several single parts begins; a cable has three columns.
_BEAM, _COLUMNS_OF_ONE = 6, 3
# To choose among suspects, a weight known to a few per cent is enough.
_COARSE = 9
# Pairs of a row and a suspect that are looked at together: some tens of megabytes.
_MOST_AT_ONCE = 1 << 18
_SETTLED = 1e-3
_SINGLE = [Kind.LINK.value, Kind.HOST_PORT.value]
_BUT_PLANES = [*_SINGLE, Kind.LEAF.value, Kind.SPINE.value]
# Half the chi-squared of 95 % with one degree of freedom.
_DROP_AT_95 = 1.92


@dataclass(frozen=True, slots=True)
class Term:
    """Suspect number `suspect` loses packets from the beginning of stretch `first` to before stretch `end`."""

    suspect: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """Terms with their weights. `given` of them, the first ones, were given and cost nothing."""

    terms: tuple[Term, ...]
    weights: tuple[float, ...]
    given: int
    log_likelihood: float
    cost: float

    @property
    def score(self) -> float:
        return self.log_likelihood - self.cost

    @property
    def found(self) -> tuple[Term, ...]:
        return self.terms[self.given :]


class Evidence:
    """Results of one plane, counted by stretch of time and loop.

    `bounds_ns` are the beginnings of the stretches, in order, the first not later than any result; the last stretch
    is open. `times_ns`, `loops` and `lost` are one element a result.
    """

    def __init__(self, suspects: Suspects, bounds_ns: Sequence[int], times_ns: I64, loops: I64, lost: Bools) -> None:
        self.suspects = suspects
        self.bounds_ns = tuple(bounds_ns)
        self.stretches = len(bounds_ns)
        loop_count = suspects.passes.shape[0]
        stretch = np.maximum(np.searchsorted(np.asarray(bounds_ns, np.int64), times_ns, "right") - 1, 0)
        cell = stretch * loop_count + loops
        size = self.stretches * loop_count
        came = np.bincount(cell[~lost], minlength=size).reshape(self.stretches, loop_count).astype(np.float64)
        # What came back counts by itself: one number for each stretch and suspect.
        passed_well = came @ suspects.passes
        lost_cells = np.bincount(cell[lost], minlength=size)
        rows = np.flatnonzero(lost_cells)
        self._counts: F64 = lost_cells[rows].astype(np.float64)
        # Rows are in order of their stretches: a span of stretches is a run of rows.
        self._first_row: I64 = np.searchsorted(rows // max(loop_count, 1), np.arange(self.stretches + 1))
        # Of the stretches before each one.
        self._well_before: F64 = np.concatenate((np.zeros((1, passed_well.shape[1])), np.cumsum(passed_well, axis=0)))
        # Which rows each suspect is passed by, and how often: most rows pass few. Suspect by suspect, rows in order.
        row_passes = suspects.passes[rows % max(loop_count, 1)].T
        suspect, self._rows = np.nonzero(row_passes)
        self._times_passed: F64 = row_passes[suspect, self._rows]
        self._places: I64 = suspect * len(rows) + self._rows
        self._pieces: dict[Term, tuple[I64, F64, float]] = {}
        self._constant = -BACKGROUND * float(came.sum())
        self._names = [each.component.name for each in suspects.listed]
        self._costs: F64 = np.array([cost_of(each.component) for each in suspects.listed])

    @property
    def losses(self) -> int:
        return int(self._counts.sum())

    def stretch_at(self, at_ns: int) -> int:
        """The stretch that begins at `at_ns`, or the one it lies in."""
        return max(0, int(np.searchsorted(np.asarray(self.bounds_ns, np.int64), at_ns, "right")) - 1)

    def fit(self, terms: Sequence[Term], start: Sequence[float] = ()) -> tuple[tuple[float, ...], float]:
        """The best weights of these terms, and the log likelihood with them."""
        pieces = [self._piece(term) for term in terms]
        weights = [start[number] if number < len(start) else 0.0 for number in range(len(terms))]
        base = self._summed(terms, weights)
        for _ in range(_SWEEPS if len(terms) > 1 else 1):
            largest = 0.0
            for number, (at, own, well) in enumerate(pieces):
                before = weights[number]
                rest = np.maximum(base[at] - before * own, BACKGROUND)
                weights[number] = _best_weight(self._counts[at], rest, own, well, before)
                base[at] = rest + weights[number] * own
                largest = max(largest, abs(weights[number] - before) / (before + 0.01))
            if largest < _SETTLED:
                break
        linear = sum(weight * well for weight, (_, _, well) in zip(weights, pieces, strict=True))
        return tuple(weights), self._constant - linear + float(self._counts @ _log_lost(base))

    def without(self, explanation: Explanation, dropped: Iterable[int]) -> float:
        """The log likelihood when the terms at these positions are not there and the others fit as well as they can."""
        gone = set(dropped)
        kept = [number for number in range(len(explanation.terms)) if number not in gone]
        terms = [explanation.terms[number] for number in kept]
        return self.fit(terms, [explanation.weights[number] for number in kept])[1]

    def explain(
        self,
        given: Sequence[Term],
        firsts: Collection[int],
        *,
        banned: Collection[str] = (),
        known: Collection[str] = (),
        start: Sequence[float] = (),
    ) -> Explanation:
        """The best explanation that has the terms of `given` and no component of the names `banned`.

        New terms begin at one of the stretches `firsts`. Those about components of the names `known` cost less, and may
        also end where another could begin.
        """
        allowed = np.array([name not in banned for name in self._names], np.bool_)
        weights, likelihood = self.fit(given, start)
        bare = Explanation(tuple(given), weights, len(given), likelihood, 0.0)
        best = self._grown(bare, firsts, allowed, known)
        if not best.found:
            return best
        # What explains most alone, such as a whole plane, may stand in the way of a better pair: so without those too.
        kinds = np.array([each.component.kind.value for each in self.suspects.listed])
        others = [self._grown(bare, firsts, allowed & np.isin(kinds, _BUT_PLANES), known)]
        single = allowed & np.isin(kinds, _SINGLE)
        for term in self._most_telling(bare, firsts, single, known, _BEAM):
            begun = self._fitted(replace(bare, terms=(*bare.terms, term)), known)
            others.append(self._grown(begun, firsts, single, known))
        best = max(best, *others, key=lambda each: each.score)
        return self._exchanged(best, firsts, allowed, known)

    def _exchanged(
        self, best: Explanation, firsts: Collection[int], allowed: Bools, known: Collection[str]
    ) -> Explanation:
        """`best` with one of its terms in turn given up for another suspect's, as long as it gets better."""
        position = best.given
        while len(best.found) > 1 and position < len(best.terms):
            suspect = best.terms[position].suspect
            shorter = self._shortened(best, position, known)
            others = allowed.copy()
            others[suspect] = False
            chosen = {self._names[term.suspect] for term in shorter.found} | set(known)
            position += 1
            for term in self._most_telling(shorter, firsts, others, chosen):
                other = self._fitted(replace(shorter, terms=(*shorter.terms, term)), known)
                if other.score > best.score + _SETTLED:
                    best, position = self._grown(other, firsts, allowed, known), best.given
        return best

    def _shortened(self, explanation: Explanation, position: int, known: Collection[str]) -> Explanation:
        """Without the term at this position, the others fitted anew."""
        terms = explanation.terms[:position] + explanation.terms[position + 1 :]
        weights = explanation.weights[:position] + explanation.weights[position + 1 :]
        return self._fitted(replace(explanation, terms=terms, weights=weights), known)

    def _grown(self, best: Explanation, firsts: Collection[int], allowed: Bools, known: Collection[str]) -> Explanation:
        """`best` with terms of `allowed` suspects added, one at a time, as long as it gets better."""
        given = best.given
        while len(best.terms) < _MOST_TERMS + given:
            chosen = {self._names[term.suspect] for term in best.found} | set(known)
            telling = self._most_telling(best, firsts, allowed, chosen)
            if not telling:
                break
            grown = self._fitted(replace(best, terms=(*best.terms, *telling)), known)
            grown = self._without_idle(grown, known)
            if grown.score <= best.score:
                break
            best = grown
        return best

    def interval(self, explanation: Explanation, position: int) -> tuple[float, float]:
        """Between which weights that of the term at `position` lies with 95 %, the others as they are."""
        at, own, well = self._piece(explanation.terms[position])
        others = [number for number in range(len(explanation.terms)) if number != position]
        base = self._summed(
            [explanation.terms[each] for each in others], [explanation.weights[each] for each in others]
        )
        counts, base = self._counts[at], base[at]

        def likelihood(weight: float) -> float:
            return float(counts @ _log_lost(base + weight * own)) - weight * well

        best = explanation.weights[position]
        floor = likelihood(best) - _DROP_AT_95
        low = _crossing(likelihood, floor, best, 0.0)
        return low, _crossing(likelihood, floor, best, max(MOST_WEIGHT, best))

    def _piece(self, term: Term) -> tuple[I64, F64, float]:
        """The rows with losses that pass the term's suspect while it is at work, how often each does, and how often
        what came back did."""
        piece = self._pieces.get(term)
        if piece is None:
            place = term.suspect * len(self._counts)
            ends = [place + int(self._first_row[term.first]), place + int(self._first_row[term.end])]
            begin, end = np.searchsorted(self._places, ends).tolist()
            well = self._well_before[term.end, term.suspect] - self._well_before[term.first, term.suspect]
            piece = self._pieces[term] = self._rows[begin:end], self._times_passed[begin:end], float(well)
        return piece

    def _summed(self, terms: Sequence[Term], weights: Sequence[float]) -> F64:
        """The sum of the weights along each row with losses."""
        base = np.full(len(self._counts), BACKGROUND)
        for term, weight in zip(terms, weights, strict=True):
            at, own, _ = self._piece(term)
            base[at] += weight * own
        return base

    def _fitted(self, shape: Explanation, known: Collection[str]) -> Explanation:
        weights, likelihood = self.fit(shape.terms, shape.weights)
        seen, cost = set(known), 0.0
        for term in shape.found:
            name = self._names[term.suspect]
            cost += COST_OF_CHANGE if name in seen else float(self._costs[term.suspect])
            seen.add(name)
        return Explanation(shape.terms, weights, shape.given, likelihood, cost)

    def _without_idle(self, grown: Explanation, known: Collection[str]) -> Explanation:
        """Terms that a later one has made superfluous are gone."""
        while len(grown.found) > 1:
            shorter = [self._shortened(grown, at, known) for at in range(grown.given, len(grown.terms))]
            best = max(shorter, key=lambda each: each.score)
            if best.score <= grown.score:
                break
            grown = best
        return grown

    def _most_telling(
        self,
        best: Explanation,
        firsts: Collection[int],
        allowed: Bools,
        cheap: Collection[str],
        most: int = 1,
    ) -> list[Term]:
        """The terms that add most beyond their cost, of `most` different components; none when none adds anything."""
        base = self._summed(best.terms, best.weights)
        is_cheap = np.array([name in cheap for name in self._names], np.bool_)
        costs = np.where(is_cheap, COST_OF_CHANGE, self._costs)
        # Of two beginnings with no loss between them the later one is always better.
        ordered = [*sorted(firsts), self.stretches]
        held = self._first_row[ordered]
        spans = [(first, self.stretches) for at, first in enumerate(ordered[:-1]) if held[at] < held[at + 1]]
        # A fault that is known may also have been worse before.
        spans += [(0, end) for end in firsts if self._first_row[end] > 0] if is_cheap.any() else []
        if not spans:
            return []
        first, end = np.array(spans, np.int64).T
        # A suspect adds no more than what is yet unexplained of the rows that pass it.
        places = np.arange(len(self._names)) * len(self._counts)
        begin = np.searchsorted(self._places, places + self._first_row[first][:, None])
        behind = np.searchsorted(self._places, places + self._first_row[end][:, None])
        surprise = np.concatenate(([0.0], np.cumsum((-self._counts * _log_lost(base))[self._rows])))
        possible = (
            (surprise[behind] - surprise[begin] > costs) & allowed & ((end == self.stretches)[:, None] | is_cheap)
        )
        span, suspect = np.nonzero(possible)
        if not len(span):
            return []
        well = self._well_before[end[span], suspect] - self._well_before[first[span], suspect]
        gains = self._gains(base, begin[span, suspect], behind[span, suspect], well) - costs[suspect]
        found: dict[str, Term] = {}
        for at in np.argsort(-gains, kind="stable").tolist():
            if gains[at] <= 0 or len(found) == most:
                break
            found.setdefault(self._names[suspect[at]], Term(int(suspect[at]), *spans[span[at]]))
        return list(found.values())

    def _gains(self, base: F64, begin: I64, end: I64, well: F64) -> F64:
        """What suspects, each alone with its best weight on top of `base`, add to the log likelihood.

        `begin` and `end` bound their rows among those of all suspects, one at least; `well` is how often what came
        back passed them.
        """
        sizes = end - begin
        pieces = -(-int(sizes.sum()) // _MOST_AT_ONCE)
        if pieces > 1 and len(begin) > 1:
            parts = zip(*(np.array_split(each, min(pieces, len(begin))) for each in (begin, end, well)), strict=True)
            return np.concatenate([self._gains_at_once(base, *part) for part in parts])
        return self._gains_at_once(base, begin, end, well)

    def _gains_at_once(self, base: F64, begin: I64, end: I64, well: F64) -> F64:
        sizes = end - begin
        starts = np.cumsum(sizes) - sizes
        whose = np.repeat(np.arange(len(sizes)), sizes)
        at = np.arange(len(whose)) + (begin - starts)[whose]
        own, base, counts = self._times_passed[at], base[self._rows[at]], self._counts[self._rows[at]]
        low, high = np.full(len(sizes), np.log(_LEAST_WEIGHT)), np.full(len(sizes), np.log(MOST_WEIGHT))
        weighted = counts * own
        for _ in range(_COARSE):
            middle = (low + high) / 2
            rest = np.expm1(base + own * np.exp(middle)[whose])
            rising = np.add.reduceat(weighted / rest, starts) > well
            low = np.where(rising, middle, low)
            high = np.where(rising, high, middle)
        weights = np.exp((low + high) / 2)
        weights[weights < 2 * _LEAST_WEIGHT] = 0.0
        gained = counts * (_log_lost(base + own * weights[whose]) - _log_lost(base))
        gains: F64 = np.add.reduceat(gained, starts) - weights * well
        return gains


def _best_weight(counts: F64, base: F64, column: F64, well: float, start: float) -> float:
    """The weight at which likelihood is highest: Newton's method, kept between bounds that close in."""
    low, high = _LEAST_WEIGHT, MOST_WEIGHT
    weighted = counts * column

    def slope(weight: float) -> tuple[float, F64, F64]:
        rest = np.expm1(base + column * weight)
        each = weighted / rest
        return float(each.sum()) - well, each, rest

    if slope(low)[0] <= 0:
        return 0.0
    if slope(high)[0] >= 0:
        return high
    weight = start if low < start < high else min(high, max(low, float(np.log1p(counts.sum() / (well + 1e-9))))) / 2
    for _ in range(_STEPS):
        rising, each, rest = slope(weight)
        if rising > 0:
            low = weight
        else:
            high = weight
        step = weight + rising / float((each * column * (1 + 1 / rest)).sum())
        if not low < step < high:
            step = (low * high) ** 0.5
        if abs(step - weight) < _SETTLED * weight:
            return step
        weight = step
    return weight


def _log_lost(x: F64) -> F64:
    """The logarithm of the chance that a probe with the sum of weights `x` is lost."""
    return np.log(-np.expm1(-x))


def _crossing(likelihood: Callable[[float], float], floor: float, inside: float, outside: float) -> float:
    if likelihood(outside) >= floor:
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if likelihood(middle) >= floor:
            inside = middle
        else:
            outside = middle
    return inside


def cost_of(component: Component) -> float:
    """What it costs an explanation that this component is faulty."""
    return COST_OF_PLANE if component.kind is Kind.PLANE else COST_OF_FAULT


def loss_rate(weight: float) -> float:
    """The share of packets that a part of this weight loses."""
    return float(-np.expm1(-weight))
