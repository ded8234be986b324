# SPDX-License-Identifier: BSD-2-Clause
"""This project's endpoint as a target, in virtual time: no socket, no clock, the same every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mrc.conformance.setup import CAPABILITIES, Setup, TesterQp
from mrc.conformance.target import (
    ATTRIBUTES,
    QP_ERROR,
    Frame,
    Refused,
    Session,
    Target,
    TargetEvent,
    TargetQp,
    Unsupported,
)
from mrc.conformance.targets.endpoint_session import DEFAULT_MTU, EndpointQp, EndpointSession, caller_error_as
from mrc.conformance.targets.in_process_congestion import CONGESTION_OPTIONS, controller_of
from mrc.conformance.targets.in_process_paths import PATH_OPTIONS, InProcessPaths, check_paths
from mrc.endpoint.config import Capability, EndpointConfig, QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.operations import EvProbeResult
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.trace.vocabulary import QP_STATE
from mrc.wire.frames import DESTINATION
from mrc.wire.ipv4 import address_number
from mrc.wire.profile import WireProfile
from mrc.wire.transmit_batch import TransmitBatch

_STEPS = ("INIT", "RTR", "RTS")
_QP_OPTIONS = (
    "mpr_dest",
    "max_wimm_dest",
    "sack_threshold_bytes",
    "timeout",
    "linear_retries",
    "exponential_retries",
)
_RESPONDER_OPTIONS = ("max_span", "max_held_packets", "max_stashed_immediates")
_PATH_OPTIONS = ("active_count", "ev_min_active")


class InProcess(Target):
    """`mrc conformance run --target self`."""

    def __init__(self, name: str = "self") -> None:
        self.name = name

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        config = EndpointConfig(wire=wire, seed=seed)
        with caller_error_as(Unsupported):
            paths = InProcessPaths(setup, wire, seed)
        return InProcessSession(self.endpoint(config), paths)

    def endpoint(self, config: EndpointConfig) -> Endpoint:
        """The endpoint under test."""
        return Endpoint(config)


class InProcessSession(EndpointSession[Endpoint]):
    """One endpoint, and between it and the tester what its ports do: the outer header on and off."""

    # What a QP has where a case does not say otherwise.
    base_config = QpConfig()

    def __init__(self, endpoint: Endpoint, paths: InProcessPaths) -> None:
        super().__init__(endpoint)
        self._probe_results: dict[int, int | None] = {}
        self._paths = paths
        self.mode = paths.mode
        self.planes = paths.planes

    # ------------------------------------------------------------------ set up

    def connect(self, setup: Setup, tester: TesterQp) -> TargetQp:
        config = _qp_config(setup, tester, self.base_config)
        with caller_error_as(Unsupported):
            controller = controller_of(setup.options)
            create = self.endpoint.create_qp
            qp = create(config) if controller is None else create(config, controller)
        if setup.target_first_psn is not None:
            qp.configure(config, first_psn=setup.target_first_psn)
        sources = {pair.port: address_number(pair.peer_address) for pair in self._paths.pairs}
        profile = [path for paths in self._paths.paths for path in paths]
        peer = QpPeer(tester.qpn, tester.first_psn, profile, sources, _capabilities(tester.capabilities))
        for state in _STEPS[: _STEPS.index(setup.state) + 1] if setup.state != "RESET" else ():
            self.take_step(qp, peer, state)
        return InProcessQp(self, qp, peer)

    def take_step(self, qp: QueuePair, peer: QpPeer, state: str) -> None:
        """Take a QP to the next state on its way up. Raises CallerError if it is not the next."""
        if state == "INIT":
            qp.to_init()
        elif state == "RTR":
            qp.to_rtr(peer)
        else:
            qp.to_rts()
        self.stir()

    def outer_addresses(self, ev: int) -> tuple[int, int] | None:
        return self._paths.outer_addresses(ev)

    def check(self, setup: Setup) -> None:
        check_paths(type(self._paths), setup, self.endpoint.config.wire)

    # ------------------------------------------------------------------ packets

    def framed(self, batch: TransmitBatch, row: int) -> Frame:
        port, start = batch.ports[row], row * DESTINATION
        destination = int.from_bytes(batch.flat_destinations[start + 8 : start + 24], "big")
        return Frame(port, self._paths.on_the_wire(batch.packet(row), port, destination, batch.classes[row]))

    # ------------------------------------------------------------------ what else a case may ask

    def events(self) -> Sequence[TargetEvent]:
        there = list(self.endpoint.events)
        self.endpoint.events.clear()
        return [
            TargetEvent(QP_ERROR if each.kind is QP_STATE else each.kind.name, each.qpn, each.detail) for each in there
        ]

    def set_port(self, plane: int, up: bool) -> None:
        self.endpoint.set_port(plane, up, self.now)
        self.stir()

    def set_port_room(self, plane: int, room: bool) -> None:
        self.endpoint.set_port_room(plane, room)
        self.stir()

    def probe_ev(self, ev: int, dscp: int | None) -> None:
        (node,) = self.endpoint.peer_nodes.values()
        number = next(number for number, path in enumerate(node.paths) if path.ev == ev)
        self.endpoint.probe_ev(node, number, dscp=dscp, on_result=self._on_probe_result)
        self.stir()

    def _on_probe_result(self, result: EvProbeResult) -> None:
        self._probe_results[result.ev] = result.rtt_ns

    def ev_probe_results(self) -> Mapping[int, int | None]:
        return self._probe_results


class InProcessQp(EndpointQp[Endpoint, QueuePair]):
    """One QP of that endpoint."""

    _session: InProcessSession

    def __init__(self, session: InProcessSession, qp: QueuePair, peer: QpPeer) -> None:
        super().__init__(
            session,
            qp,
            qp.config.path_mtu,
            mpr=qp.config.mpr_dest,
            max_wimm=qp.config.max_wimm_dest,
            agreed=frozenset(name for name in CAPABILITIES if Capability[name] in qp.agreed),
        )
        self._peer = peer

    def ev_states(self) -> Mapping[int, str]:
        paths = self._qp.paths
        if paths is None:
            raise Unsupported("the QP has no paths yet")
        return {path.ev: EvState(state).name for path, state in zip(paths.paths, paths.state.tolist(), strict=True)}

    def deny_ev(self, ev: int) -> None:
        if self._qp.paths is not None:
            self._qp.paths.deny(ev)
            self._session.stir()

    def allow_ev(self, ev: int) -> None:
        if self._qp.paths is not None:
            self._qp.paths.allow(ev)
            self._endpoint.wake(self._qp)
            self._session.stir()

    def set_mpr(self, units: int) -> None:
        with caller_error_as(Refused):
            self._qp.set_mpr(units)

    def set_receiver_penalty(self, penalty: int, restore: bool) -> None:
        with caller_error_as(Refused):
            self._qp.set_receiver_penalty(penalty, restore)

    def to_error(self) -> None:
        self._qp.to_error("asked to by its owner")
        self._session.stir()

    def go_to(self, state: str, attributes: Mapping[str, int]) -> None:
        unknown = attributes.keys() - ATTRIBUTES.keys()
        if state not in _STEPS or unknown:
            raise Unsupported(f"no step to {state} with {', '.join(sorted(unknown)) or 'nothing'}")
        with caller_error_as(Refused):
            if attributes:
                changes: dict[str, Any] = dict(attributes)
                self._qp.configure(replace(self._qp.config, **changes))
            self._session.take_step(self._qp, self._peer, state)


def target() -> Target:
    """This project's endpoint."""
    return InProcess()


def _capabilities(names: frozenset[str]) -> Capability:
    found = Capability(0)
    for name in names:
        found |= Capability[name]
    return found


def _qp_config(setup: Setup, tester: TesterQp, base: QpConfig) -> QpConfig:
    options = setup.options
    changes: dict[str, Any] = {name: int(options[name]) for name in _QP_OPTIONS if name in options}
    if "timestamps" in options:
        changes["timestamps"] = bool(options["timestamps"])
    responder: dict[str, Any] = {name: int(options[name]) for name in _RESPONDER_OPTIONS if name in options}
    paths: dict[str, Any] = {name: int(options[name]) for name in _PATH_OPTIONS if name in options}
    known = {*_QP_OPTIONS, *_RESPONDER_OPTIONS, *_PATH_OPTIONS, "timestamps", *PATH_OPTIONS, "controller"}
    known |= CONGESTION_OPTIONS.keys()
    unknown = options.keys() - known
    if unknown:
        raise Unsupported(f"no setting {', '.join(sorted(unknown))}")
    with caller_error_as(Unsupported):
        changes |= {
            "path_mtu": setup.path_mtu or DEFAULT_MTU,
            "mpr": tester.mpr,
            "max_wimm": tester.max_wimm,
            "capabilities": _capabilities(setup.agreed),
            "responder": replace(base.responder, **responder),
            "paths": replace(base.paths, **paths),
        }
        return replace(base, **changes)
