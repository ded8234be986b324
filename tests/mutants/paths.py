# SPDX-License-Identifier: BSD-2-Clause
"""Path health gone wrong: what feedback does to an EV, and which EV a packet gets."""

from __future__ import annotations

import numpy as np

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.path_set import NEVER, PathSet
from mrc.endpoint.paths.port_set import PortSet
from mrc.endpoint.paths.probing import PathProbing
from mrc.endpoint.paths.rotation import Rotation
from mrc.endpoint.paths.states import EvInput, EvState
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.requestor.loss import RetryBudget
from mutants.mutant import mutant


@mutant("MRC-PATH-04")
class MarksSkipNothing(PathSet):
    """m=1 is counted and changes no state."""

    def on_mark(self, index: int, m: int) -> None:
        if m == 2:
            super().on_mark(index, m)


@mutant("MRC-PATH-05")
class TrimsSkipNothing(PathSet):
    """NACK TRIMMED leaves its EV GOOD."""

    def on_trimmed(self, index: int) -> None:
        return


@mutant("MRC-PATH-05")
class TrimsCondemn(PathSet):
    """A trimmed packet condemns its EV as a lost one does."""

    def on_trimmed(self, index: int) -> None:
        self._feed(index, EvInput.LOST)


class _Deaf(PathSet):
    """What happens to an EV that is in SKIP is ignored, if it is `ignored`."""

    ignored: EvInput

    def _feed(self, index: int, happened: int) -> int:
        if self.state[index] == EvState.SKIP and happened == self.ignored:
            return EvState.SKIP
        return super()._feed(index, happened)


@mutant("MRC-PATH-06")
class AlwaysSkipIsIgnoredInSkip(_Deaf):
    """m=2 does nothing to an EV that is in SKIP."""

    ignored = EvInput.ALWAYS_SKIP


@mutant("MRC-PATH-07")
class LossesAreIgnoredInSkip(_Deaf):
    """A loss does nothing to an EV that is in SKIP."""

    ignored = EvInput.LOST


@mutant("MRC-PATH-07")
class OneLossIsNotEnough(PathSet):
    """Only the second loss condemns an EV."""

    def on_loss(self, index: int, psn: int, sent_at: int = NEVER) -> None:
        if self.lost[index]:
            super().on_loss(index, psn, sent_at)
        self.lost[index] = 1


@mutant("MRC-PATH-10")
class MarksInSkipCondemn(PathSet):
    """A mark for an EV that is in SKIP condemns it."""

    def _feed(self, index: int, happened: int) -> int:
        if self.state[index] == EvState.SKIP and happened == EvInput.MARKED:
            happened = EvInput.ALWAYS_SKIP
        return super()._feed(index, happened)


@mutant("MRC-PATH-08")
class SkippedEvsAreTaken(Rotation):
    """An EV in SKIP is set GOOD when the rotation comes to it, and takes that very packet."""

    def next(self) -> int:
        if not self.usable():
            return -1
        index = self._next()
        if self._evs.state[index] == EvState.SKIP:
            self._evs.state[index] = EvState.GOOD
        return index


@mutant("MRC-PATH-09", "MRC-PATH-15")
class OnePacketResetsThemAll(Rotation):
    """A packet that meets an EV in SKIP sets all of them GOOD."""

    def _pass(self, index: int) -> None:
        for other, found in enumerate(self._evs.state):
            if found == EvState.SKIP:
                super()._pass(other)


@mutant("MRC-PATH-13")
class CondemnedIsCondemned(PathSet):
    """An EV stays bad although the loss that condemned it was none."""

    def on_spurious(self, index: int, psn: int) -> None:
        return


@mutant("MRC-PATH-14")
class LinksBringDeniedEvsBack(PathSet):
    """When a port is back all its EVs are GOOD, whatever a controller said."""

    def set_port(self, port: int, up: bool) -> None:
        super().set_port(port, up)
        if up:
            for index in np.flatnonzero(self.port == port).tolist():
                self._feed(index, EvInput.ALLOW)


@mutant("MRC-PATH-11")
class AnswersNeedNotBeConsecutive(PathProbing):
    """Three answered probes bring an EV back, however many failed in between."""

    def due(self, now: int, path_timer: int) -> None:
        before = self._answered.tolist()
        super().due(now, path_timer)
        for index, answered in enumerate(before):
            self._answered[index] = answered


@mutant("MRC-PATH-12")
class MarkedAnswersAreClear(PathProbing):
    """The mark of the answer that brings an EV back is not looked at."""

    def on_answer(self, index: int, probe_id: int, m: int, now: int) -> None:
        super().on_answer(index, probe_id, 0, now)


@mutant("MRC-PATH-18")
class BadEvsAreProbedAtOnce(PathProbing):
    """The first probe goes out as soon as an EV is bad."""

    def take_up(self, now: int, path_timer: int) -> None:
        super().take_up(now, 0)


@mutant("MRC-PATH-19")
class ProbesKeepTheirInterval(PathProbing):
    """Probes that fail come 10 ms apart, again and again."""

    def due(self, now: int, path_timer: int) -> None:
        for index in range(self._room):
            self._interval[index] = self._shortest_interval // 2
        super().due(now, path_timer)


@mutant("MRC-PATH-19")
class AnAnswerChangesNoInterval(PathProbing):
    """After an answer the next probe waits as long as after none."""

    def on_answer(self, index: int, probe_id: int, m: int, now: int) -> None:
        due_at = self._due_at[index]
        super().on_answer(index, probe_id, m, now)
        self._due_at[index] = due_at
        self._changed()


@mutant("MRC-PATH-17")
class EveryLossIsAnEventOfItsOwn(PathSet):
    """A packet that went down with its port condemns its EV when the port is back."""

    def on_loss(self, index: int, psn: int, sent_at: int = NEVER) -> None:
        super().on_loss(index, psn)


@mutant("MRC-PATH-20")
class RestoredEvsAlwaysRejoin(PathSet):
    """A restored EV carries data again, whether its plane is short or not."""

    def _rejoin(self, index: int, plane: int) -> None:
        self._rotation.size[plane] = len(self._evs.members_of(plane))
        self._rotation._widest = max(self._rotation.size)
        if self._rotation.rejoin(plane, index):
            self._changed()


@mutant("MRC-PATH-20")
class RestoredEvsStayReserve(PathSet):
    """A restored EV is reserve, even where its plane is short."""

    def _rejoin(self, index: int, plane: int) -> None:
        return


@mutant("MRC-PATH-21", "MRC-PATH-22")
class AnyEvCanBeSpared(PathSet):
    """EVs go bad down to the last one."""

    def _can_spare(self, plane: int) -> bool:
        return True


@mutant("MRC-PATH-22")
def a_quarter_rounded_down(endpoint: Endpoint, qp: QueuePair) -> None:
    """ev_min_active is a quarter of the profile, rounded down."""
    if qp.paths is not None and qp.config.paths.ev_min_active is None:
        qp.paths._min_active = max(1, len(qp.paths.paths) // 4)


@mutant("MRC-PATH-22")
class EvsOfAClosedPortCount(PathSet):
    """EVs of a port that is down count among those that are left."""

    def _can_spare(self, plane: int) -> bool:
        return sum(self._evs.usable) > self._min_active


@mutant("MRC-PATH-23")
class BadEvsAreNotReplaced(PathSet):
    """The reserve stays the reserve when an active EV goes bad."""

    def _leave(self, index: int, plane: int) -> None:
        if index in self._rotation.active_of(plane):
            self._rotation.remove(plane, index)
        self._changed()


@mutant("MRC-PATH-24", "MRC-PATH-26")
class EvsAreEquallyLoaded(Rotation):
    """EVs are drawn from all planes together: one with fewer EVs, or less luck, carries less."""

    def _next(self) -> int:
        every = [index for place in range(self._open_count) for index in self.active_of(self._open[place])]
        return every[self._draws.below(len(every))]


@mutant("MRC-PATH-25")
def dead_planes_keep_their_share(endpoint: Endpoint, qp: QueuePair) -> None:
    """The last EV of a plane goes on carrying its share, bad or not."""
    if qp.paths is not None:
        qp.paths.__class__ = _LastOfItsPlane


class _LastOfItsPlane(PathSet):
    def _leave(self, index: int, plane: int) -> None:
        if self._rotation.count[plane] > 1:
            super()._leave(index, plane)


@mutant("MRC-PATH-27")
class OneOrderForAll(Rotation):
    """EVs take their turns in the order of their numbers."""

    def _next(self) -> int:
        every = sorted(index for place in range(self._open_count) for index in self.active_of(self._open[place]))
        # The index of the last turn, in place of the turns of a round.
        self._round = next((index for index in every if index > self._round), every[0])
        return self._round


@mutant("MRC-PATH-28")
class RoomIsNotLookedAt(PathSet):
    """Packets go to a port that has no room as to any other."""

    def select(self, now: int, avoid: int = NEVER) -> int:
        full, self._full_ports = self._full_ports, PortSet()
        try:
            return super().select(now, avoid)
        finally:
            self._full_ports = full


@mutant("MRC-PATH-01")
def the_first_evs_are_active(endpoint: Endpoint, qp: QueuePair) -> None:
    """The active set is the first EVs of each plane, in every QP."""
    if qp.paths is not None:
        rotation = qp.paths._rotation
        for plane in range(qp.paths._evs.planes):
            rotation.use(plane, qp.paths._evs.members_of(plane)[: rotation.size[plane]])
        rotation.changed()


@mutant("MRC-PATH-03")
def the_last_ev_is_kept_back(endpoint: Endpoint, qp: QueuePair) -> None:
    """The last EV of each plane is reserve although nothing says so."""
    if qp.paths is not None:
        for plane in range(qp.paths._evs.planes):
            qp.paths._rotation.use(plane, qp.paths._evs.members_of(plane)[:-1])
        qp.paths._rotation.changed()


@mutant("MRC-PATH-16")
class ProbesStopWithoutAPath(PathProbing):
    """While no EV is usable none is probed."""

    def due(self, now: int, path_timer: int) -> None:
        super().due(now, path_timer)
        if not self._paths.usable():
            self.found_count = 0


@mutant("MRC-PATH-16")
class WithoutAPathNothingRunsOut(RetryBudget):
    """No timer runs for what waits for a usable EV."""

    def watch_unsent(self, psn: int, now: int) -> None:
        self.rest()


@mutant("MRC-PATH-16")
class WithoutAPathOneTimeoutIsEnough(RetryBudget):
    """What waits for a usable EV has no retries."""

    def watch_unsent(self, psn: int, now: int) -> None:
        super().watch_unsent(psn, now)
        self._sent.retries[psn & self._sent.mask] = self._linear + self._exponential
