# SPDX-License-Identifier: BSD-2-Clause
"""A mutant: a subclass of one small part of the endpoint, put in that part's place when a QP comes up.

Parts have slots, so that a part becomes another by a change of its class; a mutant's class has no slots of its own.
Bound methods that other parts took before a QP came up stay the old ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from unittest.mock import patch

from mrc import CORE
from mrc.conformance.setup import Setup
from mrc.conformance.target import Session, Target, Unsupported
from mrc.conformance.targets import in_process_paths
from mrc.conformance.targets.in_process import InProcess, InProcessSession
from mrc.conformance.targets.in_process_paths import InProcessPaths
from mrc.core import COMPILED, INTERPRETED, VARIABLE
from mrc.endpoint.config import EndpointConfig
from mrc.endpoint.congestion import Nscc
from mrc.endpoint.datapath.qp_datapath import Arrivals, PeerSources, QpDatapath
from mrc.endpoint.datapath.receive import Intake, PacketChecks
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.memory import MemoryTable
from mrc.endpoint.node.operation_intake import OperationIntake
from mrc.endpoint.node.operations import EndpointOperations
from mrc.endpoint.node.peer_ports import PeerPorts
from mrc.endpoint.paths.formats import EvFormat
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.probing import PathProbing
from mrc.endpoint.paths.reverse import ControlEvs
from mrc.endpoint.paths.rotation import Rotation
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.requestor.acknowledgements import Acknowledgements
from mrc.endpoint.requestor.feedback import Feedback
from mrc.endpoint.requestor.loss import LossDetector, RetryBudget
from mrc.endpoint.requestor.nacked import NackHandler
from mrc.endpoint.requestor.requestor import Requestor
from mrc.endpoint.requestor.send import DataSender, RequestMaker, SendRoom
from mrc.endpoint.requestor.sent import SentPackets
from mrc.endpoint.responder.answers import NackMaker, PendingAnswers, SackMaker
from mrc.endpoint.responder.received import ReceivedPsns, ReceiveWindow
from mrc.endpoint.responder.receives import Receives
from mrc.endpoint.responder.request_checks import Answer, MessageChecks, Reflector, ResourceLimits
from mrc.endpoint.responder.responder import Responder
from mrc.errors import CallerError
from mrc.wire.entropy import EvField
from mrc.wire.profile import WireProfile
from mrc.wire.usid import UsidTemplate

# Where each part of an endpoint is found once a QP is up.
PARTS: dict[type, Callable[[Any, Any], Any]] = {
    Endpoint: lambda endpoint, qp: endpoint,
    EndpointOperations: lambda endpoint, qp: endpoint._operations,
    OperationIntake: lambda endpoint, qp: endpoint._operations.intake,
    PeerPorts: lambda endpoint, qp: endpoint._operations.peer_ports,
    LossDetector: lambda endpoint, qp: qp.requestor.loss,
    MemoryTable: lambda endpoint, qp: endpoint.memory,
    Intake: lambda endpoint, qp: endpoint.datapath.intake,
    PacketChecks: lambda endpoint, qp: endpoint.datapath.intake._checks,
    QueuePair: lambda endpoint, qp: qp,
    QpDatapath: lambda endpoint, qp: qp.datapath,
    Arrivals: lambda endpoint, qp: qp.arrivals,
    PeerSources: lambda endpoint, qp: qp.arrivals.sources,
    PathSet: lambda endpoint, qp: qp.paths,
    Rotation: lambda endpoint, qp: qp.paths._rotation,
    ControlEvs: lambda endpoint, qp: qp.paths.control,
    PathProbing: lambda endpoint, qp: qp.requestor._probes._path_probing,
    Receives: lambda endpoint, qp: qp._receives,
    Responder: lambda endpoint, qp: qp.responder,
    MessageChecks: lambda endpoint, qp: qp.responder._messages,
    ResourceLimits: lambda endpoint, qp: qp.responder._limits,
    ReceivedPsns: lambda endpoint, qp: qp.responder.received,
    ReceiveWindow: lambda endpoint, qp: qp.responder.window,
    Reflector: lambda endpoint, qp: qp.responder._reflector,
    SackMaker: lambda endpoint, qp: qp.responder.sacks,
    NackHandler: lambda endpoint, qp: qp.requestor._nacks,
    NackMaker: lambda endpoint, qp: qp.responder.nacks,
    Requestor: lambda endpoint, qp: qp.requestor,
    SendRoom: lambda endpoint, qp: qp.requestor._room,
    DataSender: lambda endpoint, qp: qp.requestor._sender,
    RetryBudget: lambda endpoint, qp: qp.requestor._retries,
    RequestMaker: lambda endpoint, qp: qp.requestor._requests,
    Acknowledgements: lambda endpoint, qp: qp.requestor.feedback._acknowledgements,
    Feedback: lambda endpoint, qp: qp.requestor.feedback,
    SentPackets: lambda endpoint, qp: qp.requestor.sent,
    Nscc: lambda endpoint, qp: qp.controller,
}

# What has done its work before a QP comes up: what `InProcessPaths` makes EVs and addresses with.
ADDRESSING: tuple[type, ...] = (EvField, EvFormat, UsidTemplate)

Swap = Callable[[Endpoint, QueuePair], None]
Part = TypeVar("Part")


def check_interpreted() -> None:
    """Raises CallerError where the datapath of this process is compiled."""
    if CORE.kind == COMPILED:
        raise CallerError(
            f"the datapath is compiled, and endpoints that are wrong on purpose run interpreted: "
            f"set {VARIABLE}={INTERPRETED} in the environment"
        )


@dataclass(frozen=True, slots=True)
class Mutant:
    """`what` is wrong with it in a sentence; `caught_by` the requirements whose cases have to fail it."""

    name: str
    what: str
    caught_by: tuple[str, ...]
    swap: Swap
    # Whether it is swapped in while the QP is still in RESET, and not when it has come to RTS.
    at_creation: bool = False
    # What EVs and addresses are made with.
    paths: type[InProcessPaths] = InProcessPaths

    def target(self) -> Target:
        return _MutantTarget(self)

    def take_over(self) -> None:
        """Make every endpoint of this process wrong. Raises CallerError for one that exists in virtual time only."""
        if self.paths is not InProcessPaths:
            raise CallerError(f"mutant {self.name} has paths that no real fabric knows: run it in virtual time")
        change(Endpoint, self)


class _MutantTarget(InProcess):
    def __init__(self, mutant: Mutant) -> None:
        super().__init__(mutant.name)
        self._mutant = mutant

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        try:
            paths = self._mutant.paths(setup, wire, seed)
        except CallerError as error:
            raise Unsupported(str(error)) from None
        return InProcessSession(self.endpoint(EndpointConfig(wire=wire, seed=seed)), paths)

    def endpoint(self, config: EndpointConfig) -> Endpoint:
        class Changed(Endpoint):
            """Other endpoints of this process stay right."""

        change(Changed, self._mutant)
        return Changed(config)


def change(kind: type[Endpoint], mutant: Mutant) -> None:
    """Have endpoints of that class swap the mutant's part in each QP that they create from now on."""
    create_qp = kind.create_qp

    def create_changed_qp(endpoint: Endpoint, *arguments: Any, **options: Any) -> QueuePair:
        qp: Any = create_qp(endpoint, *arguments, **options)
        if mutant.at_creation:
            mutant.swap(endpoint, qp)
        else:
            qp.__class__ = _swapped_in_rts(endpoint, mutant.swap)
        return qp  # type: ignore[no-any-return]

    changed: Any = kind
    changed.create_qp = create_changed_qp


def _swapped_in_rts(endpoint: Endpoint, swap: Swap) -> type[QueuePair]:
    """The class of a QP until it comes to RTS, where it takes its own again and a part of it is swapped."""

    class Rising(QueuePair):
        __slots__ = ()

        def to_rts(self) -> None:
            super().to_rts()
            risen: Any = self
            risen.__class__ = QueuePair
            swap(endpoint, risen)

    return Rising


REGISTRY: dict[str, Mutant] = {}


def mutant(*caught_by: str, at_creation: bool = False) -> Callable[[Part], Part]:
    """Make a class, or a function that is given the endpoint and a QP that came up, a mutant of that name.

    Its docstring says what is wrong with it. With `at_creation` the QP is still in RESET and has few parts.
    """

    def register(part: Part) -> Part:
        described: Any = part
        name, what = words_of(described)
        if isinstance(part, type) and issubclass(part, (InProcessPaths, *ADDRESSING)):
            REGISTRY[name] = Mutant(name, what, caught_by, _swap_nothing, paths=_paths_with(part))
            return part
        swap = _swap_class(described) if isinstance(part, type) else described
        REGISTRY[name] = Mutant(name, what, caught_by, swap, at_creation)
        return part

    return register


def words_of(part: Any) -> tuple[str, str]:
    """Of a mutant's class or function: its name as a mutant, and what its docstring says."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", part.__name__).lower()
    return name, " ".join((part.__doc__ or "").split())


def taken(waiting: PendingAnswers, most: int = 1 << 10) -> list[Answer]:
    """The oldest answers that wait, up to `most`, taken out."""
    answers = [Answer() for _ in range(min(most, waiting.count))]
    for answer in answers:
        waiting.pop(answer)
    return answers


def _swap_nothing(endpoint: Endpoint, qp: QueuePair) -> None:
    return


def _paths_with(mutated: type) -> type[InProcessPaths]:
    """What makes EVs and addresses with such a part, or that is such a part itself."""
    if issubclass(mutated, InProcessPaths):
        return mutated
    kind = next(each for each in ADDRESSING if issubclass(mutated, each))

    class Changed(InProcessPaths):
        def __init__(self, setup: Setup, wire: WireProfile, seed: int) -> None:
            with patch.object(in_process_paths, kind.__name__, mutated):
                super().__init__(setup, wire, seed)

    return Changed


def _swap_class(mutated: type) -> Swap:
    kind = next(each for each in mutated.__mro__ if each in PARTS)

    def swap(endpoint: Endpoint, qp: QueuePair) -> None:
        part = PARTS[kind](endpoint, qp)
        # A controller may be another one than NSCC.
        if isinstance(part, kind):
            part.__class__ = mutated

    return swap
