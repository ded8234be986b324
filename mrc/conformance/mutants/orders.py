"""EVs that take their turns other than by chance, or too early."""

from __future__ import annotations

import numpy as np

from mrc.conformance.mutants.mutant import mutant
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths import PathSet
from mrc.endpoint.paths.rotation import Rotation
from mrc.endpoint.qp import QueuePair
from mrc.wire.rows import I64

_AHEAD = 256


@mutant("MRC-PATH-27")
class OrdersAreShuffledOnce(Rotation):
    """Each QP has a pseudo-random order of its own, and goes through it again and again."""

    __slots__ = ()

    def _shuffle(self) -> None:
        kept = self._order
        super()._shuffle()
        first = kept if len(kept) else self._order
        evs = len(np.unique(self._order))
        whole = first[:evs]
        if len(np.unique(whole)) == evs:
            self._order = np.resize(whole, len(self._order)).astype(np.int64)


@mutant("MRC-PATH-27")
def qps_march_in_step(endpoint: Endpoint, qp: QueuePair) -> None:
    """The order is reshuffled, but every QP begins with the same seed."""
    if qp.paths is not None:
        rotation = qp.paths._rotation
        rotation._random = np.random.default_rng(0)
        rotation.active = {port: sorted(active) for port, active in rotation.active.items()}


@mutant("MRC-PATH-28")
def evs_are_drawn_ahead(endpoint: Endpoint, qp: QueuePair) -> None:
    """A packet has its EV 256 packets before it is sent, and keeps it whatever becomes of that."""
    drawn: list[int] = []

    class Ahead(PathSet):
        __slots__ = ()

        def select(self, count: int, now: int, avoid: I64 | None = None) -> I64:
            if len(drawn) < count + _AHEAD:
                drawn.extend(super().select(count + _AHEAD, now, None).tolist())
            chosen = drawn[:count]
            del drawn[:count]
            return np.array(chosen, np.int64)

        def select_one(self, now: int) -> int:
            return -1

    if qp.paths is not None:
        qp.paths.__class__ = Ahead
