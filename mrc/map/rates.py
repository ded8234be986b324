# SPDX-License-Identifier: BSD-2-Clause
"""How much a fault loses, and in which direction, out of a fit of all faults that are known."""

from __future__ import annotations

from collections.abc import Sequence

from mrc.map.evidence import Evidence, Explanation, Term, loss_rate
from mrc.map.faults import Fault, Loss

# A direction counts when leaving it out costs so much likelihood.
_TELLING = 4.0


def measure(evidence: Evidence, fitted: Explanation, fault: Fault, at: Sequence[int]) -> None:
    """Set the rate, weights and direction of `fault`, whose terms are at the positions `at` of `fitted`."""
    if len(at) == 2:
        _measure_directions(evidence, fitted, fault, at)
        return
    weight = fitted.weights[at[0]]
    low, high = (loss_rate(each) for each in evidence.interval(fitted, at[0]))
    fault.loss = Loss(loss_rate(weight), low, high)
    fault.weights = {None: weight}


def _measure_directions(evidence: Evidence, fitted: Explanation, fault: Fault, at: Sequence[int]) -> None:
    listed = evidence.suspects.listed
    ends = [str(listed[fitted.terms[number].suspect].toward) for number in at]
    counts = [fitted.log_likelihood - evidence.without(fitted, {number}) > _TELLING for number in at]
    intervals = [evidence.interval(fitted, number) for number in at]
    weights = [fitted.weights[number] for number in at]
    fault.weights = dict(zip(ends, weights, strict=True))
    if all(counts):
        fault.toward = tuple(ends)
    else:
        alone = [
            one for one in (0, 1) if counts[one] and loss_rate(intervals[1 - one][1]) < loss_rate(intervals[one][0])
        ]
        fault.toward = tuple(ends[one] for one in alone)
    if fault.toward:
        worst = max((one for one in (0, 1) if ends[one] in fault.toward), key=lambda one: weights[one])
        fault.loss = Loss(loss_rate(weights[worst]), *(loss_rate(each) for each in intervals[worst]))
        return
    # Which way is not settled: the rate as if it were both.
    both = next(n for n, each in enumerate(listed) if each.component.name == fault.name and each.toward is None)
    terms = [term for number, term in enumerate(fitted.terms) if number not in at]
    terms.append(Term(both, fitted.terms[at[0]].first, fitted.terms[at[0]].end))
    joint, likelihood = evidence.fit(terms)
    together = Explanation(tuple(terms), joint, len(terms), likelihood, 0.0)
    low, high = evidence.interval(together, len(terms) - 1)
    fault.loss = Loss(loss_rate(joint[-1]), loss_rate(low), loss_rate(high))
