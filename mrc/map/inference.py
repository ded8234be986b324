# SPDX-License-Identifier: BSD-2-Clause
"""From results of probes to named faults: which part, what share it loses, since when, and when it was over.

It has no clock: results come with the time at which their probes were sent, in any order, and `evaluate` takes the
time. Nothing is named while another explanation is nearly as good, so a part is only accused when the loops that
would clear it have been heard of too. How the decision is made is in docs/map.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mrc.errors import CallerError
from mrc.map.components import Suspects, suspects_of
from mrc.map.evidence import BACKGROUND, MOST_WEIGHT, Evidence, Explanation, Term, cost_of, loss_rate
from mrc.map.faults import DEFAULT_INFERENCE, SECOND, Fault, InferenceConfig, Loss, Suspicion
from mrc.map.loops import Loop
from mrc.map.rates import measure

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class PlaneInference:
    """The faults of one plane. Loops are declared first; results name them by the numbers that `declare` gave."""

    def __init__(self, plane: int, config: InferenceConfig = DEFAULT_INFERENCE) -> None:
        self.plane = plane
        self.faults: list[Fault] = []
        self.suspicion: Suspicion | None = None
        self._config = config
        self._loops: list[Loop] = []
        self._number: dict[Loop, int] = {}
        self._suspects: Suspects | None = None
        self._past: list[Fault] = []
        self._new: list[tuple[int, int, bool]] = []
        self._times: I64 = np.zeros(0, np.int64)
        self._which: I64 = np.zeros(0, np.int64)
        self._lost: Bools = np.zeros(0, np.bool_)
        self._challenged_ns = 0
        self._unheard_losses = self._is_open = False

    def declare(self, loops: Iterable[Loop]) -> list[int]:
        """The numbers of these loops. Raises CallerError for one of another plane."""
        numbers = []
        for loop in loops:
            if loop.plane != self.plane:
                raise CallerError(f"{loop} is not of plane {self.plane}")
            if loop not in self._number:
                self._number[loop] = len(self._loops)
                self._loops.append(loop)
                self._suspects = None
            numbers.append(self._number[loop])
        return numbers

    def add(self, sent_ns: int, loops: Iterable[int], *, lost: bool) -> None:
        """Probes sent at `sent_ns` over these loops came back, or were lost."""
        self._new += [(sent_ns, loop, lost) for loop in loops]

    def evaluate(self, now_ns: int) -> list[Fault]:
        """The faults that were named, withdrawn or over at `now_ns`; `faults` are those that last."""
        self._take_in(now_ns)
        if not self.faults and not self._has_lost_of_late(now_ns):
            self.suspicion = None
            return []
        if self._suspects is None:
            self._suspects = suspects_of(self.plane, self._loops)
        changed = self._recovered(now_ns)
        found = self._found(now_ns) if self._is_worth_a_search(now_ns) else []
        self._measure(now_ns)
        return changed + self._still_lossy(found)

    def _take_in(self, now_ns: int) -> None:
        oldest = now_ns - self._config.memory_ns
        if self._new:
            times, which, lost = zip(*self._new, strict=True)
            self._unheard_losses |= any(lost)
            self._new = []
            self._times = np.concatenate((self._times, np.array(times, np.int64)))
            self._which = np.concatenate((self._which, np.array(which, np.int64)))
            self._lost = np.concatenate((self._lost, np.array(lost, np.bool_)))
            order = np.argsort(self._times, kind="stable")
            self._times, self._which, self._lost = self._times[order], self._which[order], self._lost[order]
        first = int(np.searchsorted(self._times, oldest))
        if first:
            self._times, self._which, self._lost = self._times[first:], self._which[first:], self._lost[first:]
        self._past = [each for each in self._past if each.until_ns is not None and each.until_ns > oldest]

    def _has_lost_of_late(self, now_ns: int) -> bool:
        """What was lost longer ago, and nothing since, says nothing of how the plane is now."""
        first = int(np.searchsorted(self._times, now_ns - round(self._config.rate_window_s * SECOND)))
        return bool(self._lost[first:].any())

    def _is_worth_a_search(self, now_ns: int) -> bool:
        """Not when nothing was lost since the last one, and that one left nothing open."""
        worth = self._unheard_losses or self._is_open or self._is_time_to_challenge(now_ns)
        self._unheard_losses = False
        return worth

    def _is_time_to_challenge(self, now_ns: int) -> bool:
        return now_ns - self._challenged_ns >= round(self._config.challenge_every_s * SECOND)

    # What is known, as terms.

    def _evidence(self, now_ns: int, window_ns: int, starts: Collection[int]) -> Evidence:
        assert self._suspects is not None
        begin = now_ns - window_ns
        bounds = {begin, *starts}
        for fault in (*self.faults, *self._past):
            bounds |= {at for at in (fault.since_ns, fault.until_ns) if at is not None and at > begin}
        first = int(np.searchsorted(self._times, begin))
        return Evidence(self._suspects, sorted(bounds), self._times[first:], self._which[first:], self._lost[first:])

    def _terms_of(self, evidence: Evidence, fault: Fault) -> list[Term]:
        first = evidence.stretch_at(fault.since_ns)
        end = evidence.stretches if fault.until_ns is None else evidence.stretch_at(fault.until_ns)
        return [Term(column, first, end) for column in evidence.suspects.columns_of(fault.name) if end > first]

    def _known(self, evidence: Evidence, but: Fault | None = None) -> list[Term]:
        known = [fault for fault in (*self.faults, *self._past) if fault is not but]
        terms = [term for fault in known for term in self._terms_of(evidence, fault)]
        return list(dict.fromkeys(terms))

    # New faults, and old ones that were something else.

    def _found(self, now_ns: int) -> list[Fault]:
        config = self._config
        starts = {now_ns - round(each * SECOND) for each in config.starts_s}
        starts |= {fault.since_ns for fault in self.faults} | set(self._outbreaks())
        starts = {at for at in starts if at >= now_ns - config.memory_ns}
        evidence = self._evidence(now_ns, config.memory_ns, starts)
        firsts = sorted({evidence.stretch_at(at) for at in starts})
        names = {fault.name for fault in self.faults}
        # A fault that is over does not come back without evidence of its own.
        best = evidence.explain(self._known(evidence), firsts, known=names)
        best, rival = self._compared(evidence, firsts, names, best)
        self._is_open = bool(rival)
        changed = self._challenged(now_ns, evidence, firsts, best)
        if changed:
            self._is_open = True
            return changed
        listed = evidence.suspects.listed
        rivals: set[str] = set()
        for name, without in rival.items():
            if best.score - without.score < config.margin:
                rivals |= {name} | {listed[term.suspect].component.name for term in without.found} - names
                continue
            fault = self._named(now_ns, evidence, best, name)
            if fault is not None:
                changed.append(fault)
        self.faults += changed
        self._suspect(now_ns, rivals)
        return changed

    def _compared(
        self, evidence: Evidence, firsts: Sequence[int], names: Collection[str], best: Explanation
    ) -> tuple[Explanation, dict[str, Explanation]]:
        """The best explanation, and for each new name in it the best one without that name.

        The search adds one part at a time and may go astray; then the better one is found when a name is left out.
        """
        listed = evidence.suspects.listed
        for _ in range(_MOST_ASTRAY):
            rival: dict[str, Explanation] = {}
            for name in dict.fromkeys(listed[term.suspect].component.name for term in best.found):
                if name not in names:
                    start = best.weights[: best.given]
                    given = best.terms[: best.given]
                    rival[name] = evidence.explain(given, firsts, known=names, banned={name}, start=start)
            better = max(rival.values(), key=lambda each: each.score, default=best)
            if better.score <= best.score:
                break
            best = better
        return best, rival

    def _outbreaks(self) -> list[int]:
        """When losses began after none for a while, the latest few."""
        lost = self._times[self._lost]
        first = np.flatnonzero(np.diff(lost, prepend=-_PEACE_NS) >= _PEACE_NS)
        return [int(at) for at in lost[first[-_MOST_OUTBREAKS:]]]

    def _named(self, now_ns: int, evidence: Evidence, best: Explanation, name: str) -> Fault | None:
        listed = evidence.suspects.listed
        new = range(best.given, len(best.terms))
        mine = [at for at in new if listed[best.terms[at].suspect].component.name == name]
        strongest = max(mine, key=lambda at: best.weights[at])
        if loss_rate(evidence.interval(best, strongest)[0]) < self._config.least_loss:
            return None
        suspect = listed[best.terms[strongest].suspect]
        ended = (fault.until_ns or 0 for fault in self._past if fault.name == name)
        since = self._beginning(evidence, best, mine, max(ended, default=0))
        return Fault(suspect.component, suspect.also, since, now_ns, Loss(0.0, 0.0, 1.0), last_loss_ns=0)

    def _beginning(self, evidence: Evidence, best: Explanation, mine: Sequence[int], least_ns: int) -> int:
        """When the first probe was lost of those that this fault explains: the most likely moment for a step up.

        Not before `least_ns`, when the part was well.
        """
        passes = evidence.suspects.passes
        own = passes[:, sorted({best.terms[at].suspect for at in mine})].max(axis=1)
        others = np.full(len(self._times), BACKGROUND)
        for at, (term, weight) in enumerate(zip(best.terms, best.weights, strict=True)):
            if at not in mine:
                others += weight * passes[self._which, term.suspect] * self._during(evidence, term)
        touched = np.flatnonzero((own[self._which] > 0) & (self._times >= least_ns))
        lost = self._lost[touched]
        # How much of a loss no other part explains.
        share = np.where(lost, np.exp(-np.minimum(50.0, others[touched] / 0.05)), 0.0)
        exposure = own[self._which[touched]]
        k = np.cumsum(share[::-1])[::-1]
        n = np.cumsum(exposure[::-1])[::-1]
        rate = np.clip(k / n, BACKGROUND, 1 - 1e-3)
        likelihood = k * np.log(rate / BACKGROUND) + np.maximum(n - k, 0.0) * np.log1p(-rate)
        likelihood[share < 0.5] = -np.inf
        return int(self._times[touched[int(np.argmax(likelihood))]])

    def _during(self, evidence: Evidence, term: Term) -> Bools:
        begin = evidence.bounds_ns[term.first]
        during = self._times >= begin
        if term.end < evidence.stretches:
            during &= self._times < evidence.bounds_ns[term.end]
        return during

    def _challenged(self, now_ns: int, evidence: Evidence, firsts: Sequence[int], best: Explanation) -> list[Fault]:
        """Take back a fault that the results are explained better without; end one that explains nothing any more."""
        if not self._is_time_to_challenge(now_ns):
            return []
        self._challenged_ns = now_ns
        for fault in self.faults:
            if self._adds(evidence, best, fault) <= _IDLE:
                # Once all that it was named for is out of memory, it was right as far as anyone knows.
                return [self._taken_back(fault, now_ns, wrong=fault.since_ns >= now_ns - self._config.memory_ns)]
        doubtful = [each for each in self.faults if each.doubt_ns <= now_ns]
        if not doubtful:
            return []
        fault = min(doubtful, key=lambda each: each.doubt_ns)
        # What has withstood is doubted half as often: this is the most expensive search of all.
        fault.doubt_ns = now_ns + max(now_ns - fault.named_ns, round(self._config.challenge_every_s * SECOND))
        others = {each.name for each in self.faults if each is not fault}
        without = evidence.explain(self._known(evidence, but=fault), firsts, known=others, banned={fault.name})
        # The fault costs what every fault costs, though it was found long ago.
        if without.score > best.score - cost_of(fault.component) + self._config.margin:
            return [self._taken_back(fault, now_ns, wrong=True)]
        return []

    def _taken_back(self, fault: Fault, now_ns: int, *, wrong: bool) -> Fault:
        self.faults.remove(fault)
        fault.until_ns, fault.withdrawn = now_ns, wrong
        if not wrong:
            self._past.append(fault)
        return fault

    def _adds(self, evidence: Evidence, best: Explanation, fault: Fault) -> float:
        """How much less likely the results are without this fault, and nothing in its place."""
        own = [
            at
            for at, term in enumerate(best.terms)
            if evidence.suspects.listed[term.suspect].component.name == fault.name
        ]
        return best.log_likelihood - evidence.without(best, own)

    def _suspect(self, now_ns: int, rivals: set[str]) -> None:
        if len(rivals) < 2:
            self.suspicion = None
        else:
            since = self.suspicion.since_ns if self.suspicion else now_ns
            self.suspicion = Suspicion(tuple(sorted(rivals)), since)

    def _still_lossy(self, found: Sequence[Fault]) -> list[Fault]:
        """Take back those just named that lost nothing in the last half minute: they were over before they were told
        apart, and nobody has heard of them. Returns the others."""
        idle = {id(fault) for fault in found if fault.until_ns is None and not fault.loss.rate}
        self.faults = [fault for fault in self.faults if id(fault) not in idle]
        return [fault for fault in found if id(fault) not in idle]

    # Faults that last: their rate and their end.

    def _measure(self, now_ns: int) -> None:
        """Loss rates and directions of the faults that last, over the last half minute."""
        if not self.faults:
            return
        window = round(self._config.rate_window_s * SECOND)
        evidence = self._evidence(now_ns, window, ())
        terms = self._known(evidence)
        weights, likelihood = evidence.fit(terms)
        fitted = Explanation(tuple(terms), weights, len(terms), likelihood, 0.0)
        for fault in self.faults:
            own = set(self._terms_of(evidence, fault))
            at = [number for number, term in enumerate(terms) if term in own]
            latest = self._latest_loss(fault)
            if latest == fault.last_loss_ns or not at:
                continue
            fault.last_loss_ns = latest
            # What others explain says nothing new of this one, and a rate of 0 would never be over.
            if any(fitted.weights[number] for number in at):
                measure(evidence, fitted, fault, at)

    def _latest_loss(self, fault: Fault) -> int:
        assert self._suspects is not None
        passes = self._suspects.passes[:, self._suspects.columns_of(fault.name)].sum(axis=1)
        lost = self._times[self._lost & (passes[self._which] > 0)]
        return int(lost[-1]) if len(lost) else fault.since_ns

    def _recovered(self, now_ns: int) -> list[Fault]:
        """Faults whose part has been well for long enough to believe it."""
        over = []
        for fault in self.faults:
            until = self._end(fault)
            if until is not None:
                fault.until_ns = until
                over.append(fault)
        self.faults = [fault for fault in self.faults if fault.until_ns is None]
        self._past += over
        return over

    def _end(self, fault: Fault) -> int | None:
        """The most likely moment at which it ended, once the results since then are telling enough."""
        # A rate that was taken for higher than it is would make a short pause look like an end.
        doubt = (fault.loss.low / fault.loss.rate) ** 0.5 if fault.loss.rate else 1.0
        own = self._along(fault, _MOST_WEIGHT_AGAINST) * doubt
        touched = np.flatnonzero((own > 0) & (self._times >= fault.since_ns))
        if not len(touched):
            return None
        others = np.full(len(touched), BACKGROUND)
        for other in (*self.faults, *self._past):
            if other is not fault:
                others += self._along(other, MOST_WEIGHT)[touched]
        own, lost = own[touched], self._lost[touched]
        against = np.log(-np.expm1(-others)) - np.log(-np.expm1(-(others + own)))
        well = np.concatenate(([0.0], np.cumsum(np.where(lost, against, own))))
        begin = int(np.argmin(well))
        if begin == len(touched) or well[-1] - well[begin] < self._config.recovery:
            return None
        return int(self._times[touched[begin]])

    def _along(self, fault: Fault, most: float) -> F64:
        """What the fault adds to the weight of each result's loop, while it lasts."""
        assert self._suspects is not None
        total = np.zeros(len(self._loops))
        for column in self._suspects.columns_of(fault.name):
            suspect = self._suspects.listed[column]
            weight = fault.weights.get(suspect.toward, fault.weights.get(None, 0.0))
            total += min(weight, most) * self._suspects.passes[:, column]
        during = self._times >= fault.since_ns
        if fault.until_ns is not None:
            during &= self._times < fault.until_ns
        return np.asarray(total[self._which] * during)


# How often the search is led back to a better explanation that it missed.
_MOST_ASTRAY = 3
# A fault is likely to have begun when losses did after so long without.
_PEACE_NS, _MOST_OUTBREAKS = SECOND, 4
# A fault that adds less likelihood than this explains nothing.
_IDLE = 1.0
# No single probe that comes back proves a part well: several in a row are needed even where all were lost.
_MOST_WEIGHT_AGAINST = 3.0


class FabricInference:
    """The faults of all planes. A loop is known by the number that `declare` gives, whichever plane it is of."""

    def __init__(self, config: InferenceConfig = DEFAULT_INFERENCE) -> None:
        self._config = config
        self._planes: dict[int, PlaneInference] = {}

    @property
    def faults(self) -> list[Fault]:
        """Those that last, oldest first."""
        return sorted(
            (fault for plane in self._planes.values() for fault in plane.faults), key=lambda each: each.since_ns
        )

    @property
    def suspicions(self) -> list[Suspicion]:
        return [plane.suspicion for plane in self._planes.values() if plane.suspicion is not None]

    def declare(self, loops: Iterable[Loop]) -> list[tuple[int, int]]:
        """(plane, number) of each of these loops, to be named so in `add`."""
        listed = list(loops)
        numbers: dict[Loop, int] = {}
        for plane in dict.fromkeys(loop.plane for loop in listed):
            inference = self._planes.setdefault(plane, PlaneInference(plane, self._config))
            own = [loop for loop in listed if loop.plane == plane]
            numbers |= dict(zip(own, inference.declare(own), strict=True))
        return [(loop.plane, numbers[loop]) for loop in listed]

    def add(self, sent_ns: int, loops: Iterable[tuple[int, int]], *, lost: bool) -> None:
        for plane, number in loops:
            self._planes[plane].add(sent_ns, (number,), lost=lost)

    def evaluate(self, now_ns: int) -> list[Fault]:
        return [fault for plane in self._planes.values() for fault in plane.evaluate(now_ns)]
