# SPDX-License-Identifier: BSD-2-Clause
"""EVs that take their turns other than by chance, or too early."""

from __future__ import annotations

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.parts.draws import Draws
from mrc.endpoint.paths.path_set import NEVER, PathSet
from mrc.endpoint.paths.rotation import Rotation
from mrc.endpoint.qp import QueuePair
from mutants.mutant import mutant

_AHEAD = 256


@mutant("MRC-PATH-27")
class OrdersAreShuffledOnce(Rotation):
    """Each QP has a pseudo-random order of its own, and goes through it again and again."""

    def _next(self) -> int:
        if self._round >= self._open_count:
            self._round = 0
        return super()._next()

    def _shuffle(self, plane: int) -> None:
        self._taken[plane] = 0


@mutant("MRC-PATH-27")
def qps_march_in_step(endpoint: Endpoint, qp: QueuePair) -> None:
    """The order is reshuffled, but every QP begins with the same seed."""
    if qp.paths is not None:
        rotation = qp.paths._rotation
        rotation._draws = Draws(0)
        for plane in range(qp.paths._evs.planes):
            rotation.use(plane, sorted(rotation.active_of(plane)))


@mutant("MRC-PATH-28")
def evs_are_drawn_ahead(endpoint: Endpoint, qp: QueuePair) -> None:
    """A packet has its EV 256 packets before it is sent, and keeps it whatever becomes of that."""
    drawn: list[int] = []

    class Ahead(PathSet):
        __slots__ = ()

        def select(self, now: int, avoid: int = NEVER) -> int:
            while len(drawn) <= _AHEAD and (index := super().select(now)) != NEVER:
                drawn.append(index)
            return drawn.pop(0) if drawn else NEVER

    if qp.paths is not None:
        qp.paths.__class__ = Ahead
