# SPDX-License-Identifier: BSD-2-Clause
"""This project's endpoint as a target that lacks something: whatever a case needs of it and cannot have, it refuses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from mrc.conformance import setup as setups
from mrc.conformance.setup import Setup
from mrc.conformance.target import Session, TargetQp, Unsupported
from mrc.conformance.targets.in_process import InProcess, InProcessQp, InProcessSession
from mrc.endpoint.config import QpConfig
from mrc.endpoint.memory import MemoryRegion
from mrc.rc.conformance.in_process import RcInProcess, RcSession
from mrc.wire.profile import WireProfile


@dataclass(frozen=True)
class Limits:
    """What the target has and no more; None: what a case asks for."""

    planes: int | None = None
    evs_per_plane: int | None = None
    path_mtu: int | None = None
    region_va: int | None = None
    region_length: int | None = None
    capabilities: frozenset[str] | None = None
    connections: int | None = None
    settings: bool = True
    granted: dict[str, int] = field(default_factory=dict)

    def applied(self, setup: Setup) -> Setup:
        """What becomes of a case's setup. Raises Unsupported."""
        options = dict(setup.options)
        if options and not self.settings:
            raise Unsupported("the target has no settings")
        if options.keys() & self.granted.keys():
            raise Unsupported("what the target grants cannot be set")
        if self.evs_per_plane is not None:
            if "ev_fields" in options or int(options.get("evs_per_plane", 0)) > self.evs_per_plane:
                raise Unsupported("EVs cannot be added")
            options.setdefault("evs_per_plane", self.evs_per_plane)
        if self.capabilities is not None and not setup.agreed <= self.capabilities:
            raise Unsupported("the target has no such capability")
        fixed: dict[str, Any] = {"options": options}
        fixed |= {"planes": self.planes} if self.planes is not None else {}
        fixed |= {"path_mtu": self.path_mtu} if self.path_mtu is not None else {}
        return replace(setup, **fixed)


class LimitedTarget(InProcess):
    """`mrc.conformance.needs` is given no help: a limit shows in what the target is, where it does show."""

    def __init__(self, limits: Limits) -> None:
        super().__init__("limited")
        self._limits = limits

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        session = super().open(self._limits.applied(setup), wire, seed)
        assert isinstance(session, InProcessSession)
        session.__class__ = LimitedSession
        session.__dict__["limits"] = self._limits
        session.most_connections = self._limits.connections
        session.base_config = replace(QpConfig(), **self._limits.granted)  # type: ignore[arg-type]
        return session


class LimitedSession(InProcessSession):
    limits: Limits
    opened = 0

    def connect(self, setup: Setup, tester: setups.TesterQp) -> TargetQp:
        self.opened += 1
        assert self.limits.connections is None or self.opened <= self.limits.connections, "a QP too many"
        qp = super().connect(self.limits.applied(setup), tester)
        assert isinstance(qp, InProcessQp)
        old, limits = qp._region, self.limits
        va = old.va if limits.region_va is None else limits.region_va
        length = old.length if limits.region_length is None else limits.region_length
        if (va, length) != (old.va, old.length):
            region = self.endpoint.memory.register(bytearray(length), va=va)
            qp._region = region
            qp.terms = _with_region(qp, region)
        return qp


def _with_region(qp: InProcessQp, region: MemoryRegion) -> Any:
    return replace(qp.terms, region_va=region.va, region_length=region.length, rkey=region.rkey)


class LimitedRc(RcInProcess):
    """A limited target of plain RC: path MTU and memory are all it may lack."""

    def __init__(self, limits: Limits) -> None:
        super().__init__("limited")
        self._limits = limits

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        session = super().open(setup, wire, seed)
        session.__class__ = LimitedRcSession
        session.__dict__["limits"] = self._limits
        return session


class LimitedRcSession(RcSession):
    limits: Limits

    def connect(self, setup: Setup, tester: setups.TesterQp) -> TargetQp:
        qp: Any = super().connect(self.limits.applied(setup), tester)
        length = self.limits.region_length or qp.terms.region_length
        va = qp.terms.region_va if self.limits.region_va is None else self.limits.region_va
        region = self.endpoint.memory.register(bytearray(length), va=va)
        qp._region = region
        qp.terms = replace(qp.terms, region_va=region.va, region_length=region.length, rkey=region.rkey)
        return qp
