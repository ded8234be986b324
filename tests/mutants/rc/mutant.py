# SPDX-License-Identifier: BSD-2-Clause
"""A mutant of the RC endpoint: like those of MRC's, a subclass of one part, put in its place when a QP comes up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from mrc.conformance.setup import Setup
from mrc.conformance.target import Session, Target
from mrc.endpoint.datapath.qp_datapath import PeerSources
from mrc.endpoint.datapath.receive import PacketChecks
from mrc.endpoint.responder.receives import Receives
from mrc.endpoint.responder.request_checks import RequestChecks
from mrc.rc import RcEndpoint, RcQueuePair
from mrc.rc.conformance.in_process import RcInProcess
from mrc.rc.framing import Framing
from mrc.rc.requestor import Requestor
from mrc.rc.responder import Responder
from mrc.wire.profile import WireProfile
from mutants.mutant import words_of

# Where each part of an endpoint is found once a QP is up.
PARTS: dict[type, Callable[[Any, Any], Any]] = {
    RcEndpoint: lambda endpoint, qp: endpoint,
    RcQueuePair: lambda endpoint, qp: qp,
    Responder: lambda endpoint, qp: qp._responder,
    Requestor: lambda endpoint, qp: qp._requestor,
    Framing: lambda endpoint, qp: qp._framing,
    PacketChecks: lambda endpoint, qp: endpoint._checks,
    PeerSources: lambda endpoint, qp: qp.sources,
    Receives: lambda endpoint, qp: qp._receives,
    RequestChecks: lambda endpoint, qp: qp._responder._checks,
}

RcSwap = Callable[[RcEndpoint, RcQueuePair], None]
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class RcMutant:
    """`what` is wrong with it in a sentence; `caught_by` the requirements whose cases have to fail it."""

    name: str
    what: str
    caught_by: tuple[str, ...]
    swap: RcSwap

    def target(self) -> Target:
        return _RcMutantTarget(self)


class _RcMutantTarget(RcInProcess):
    def __init__(self, mutant: RcMutant) -> None:
        super().__init__(mutant.name)
        self._mutant = mutant

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        session: Any = super().open(setup, wire, seed)
        session.endpoint.__class__ = _changed(self._mutant.swap)
        return session  # type: ignore[no-any-return]


def _changed(swap: RcSwap) -> type[RcEndpoint]:
    """The class of an endpoint that swaps a part in each QP that comes to RTS."""

    class Changed(RcEndpoint):
        def create_qp(self, *arguments: Any, **options: Any) -> RcQueuePair:
            qp: Any = super().create_qp(*arguments, **options)
            qp.__class__ = _swapped_in_rts(self, swap)
            return qp  # type: ignore[no-any-return]

    return Changed


def _swapped_in_rts(endpoint: RcEndpoint, swap: RcSwap) -> type[RcQueuePair]:
    """The class of a QP until it comes to RTS, where it takes its own again and a part of it is swapped."""

    class Rising(RcQueuePair):
        __slots__ = ()

        def to_rts(self) -> None:
            super().to_rts()
            risen: Any = self
            risen.__class__ = RcQueuePair
            swap(endpoint, risen)

    return Rising


REGISTRY: dict[str, RcMutant] = {}


def rc_mutant(*caught_by: str) -> Callable[[Part], Part]:
    """Make a class, or a function that is given the endpoint and a QP that came up, a mutant of that name.

    Its docstring says what is wrong with it.
    """

    def register(part: Part) -> Part:
        described: Any = part
        name, what = words_of(described)
        swap = _swap_class(described) if isinstance(part, type) else described
        REGISTRY[name] = RcMutant(name, what, caught_by, swap)
        return part

    return register


def _swap_class(mutated: type) -> RcSwap:
    kind = next(each for each in mutated.__mro__ if each in PARTS)

    def swap(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
        PARTS[kind](endpoint, qp).__class__ = mutated

    return swap
