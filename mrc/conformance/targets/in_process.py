"""This project's endpoint as a target, in virtual time: no socket, no clock, the same every time."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mrc.conformance.codec.carriage import Carriage, Outer, read_carriage
from mrc.conformance.setup import CAPABILITIES, MODES, Plane, Setup, TargetQpTerms, TesterQp
from mrc.conformance.target import Frame, Session, Target, TargetCompletion, TargetQp, Unsupported
from mrc.conformance.virtual import VirtualSession
from mrc.endpoint.completions import Completion, WorkKind
from mrc.endpoint.config import Capability, EndpointConfig, QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.operations import EvProbeResult
from mrc.endpoint.paths import EvState, Path
from mrc.endpoint.paths.addressing import PlanePair, srv6_path, stev_paths, udp_paths
from mrc.endpoint.qp import QpPeer, QueuePair
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError
from mrc.wire.batch import ReceivedBatch, TransmitBatch
from mrc.wire.ipv4 import address_number
from mrc.wire.profile import WireProfile
from mrc.wire.usid import UsidTemplate

DEFAULT_MTU = 1024
DEFAULT_PLANES = 2
DEFAULT_EVS_PER_PLANE = 4
REGION_VA = 0x7F00_0000_0000
REGION_LENGTH = 256 * 1024
# The tester is host 0 on leaf 0 of the default lab, the target host 1 on leaf 1.
_TO_TESTER = UsidTemplate(source_leaf=1, destination_leaf=0, destination_host=0)
_TARGET_HOST = 1
_FIRST_UDP_EV = 0xC000
_BATCH = 256
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
    """`mrc conformance run --target self`. With `one_by_one` 0 every packet takes the way that large batches take."""

    def __init__(self, name: str = "self", *, one_by_one: int | None = None) -> None:
        self.name = name
        self._one_by_one = one_by_one

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        config = EndpointConfig(wire=wire, seed=seed)
        if self._one_by_one is not None:
            config = replace(config, one_by_one=self._one_by_one)
        return InProcessSession(self.endpoint(config), setup, self.on_connected)

    def endpoint(self, config: EndpointConfig) -> Endpoint:
        """The endpoint under test."""
        return Endpoint(config)

    def on_connected(self, endpoint: Endpoint, qp: QueuePair) -> None:
        """A QP has come up: the last moment to swap a part of it."""


class InProcessSession(VirtualSession):
    """One endpoint, and between it and the tester what its ports do: the outer header on and off."""

    def __init__(self, endpoint: Endpoint, setup: Setup, on_connected: Any) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._on_connected = on_connected
        self._batch = TransmitBatch(_BATCH)
        self._probe_results: dict[int, int | None] = {}
        self.mode = setup.mode or "srv6"
        if self.mode not in MODES:
            raise Unsupported(f"no mode {self.mode}")
        self._version = setup.ip or 6
        if self.mode == "srv6" and self._version == 4:
            raise Unsupported("SRv6 mode has no IPv4")
        self._wire = endpoint.config.wire
        self._evs_per_plane = int(setup.options.get("evs_per_plane", DEFAULT_EVS_PER_PLANE))
        self._pairs = [
            PlanePair(plane, plane, _address(plane, 2, self._version), _address(plane, 1, self._version), 0)
            for plane in range(setup.planes or DEFAULT_PLANES)
        ]
        self._paths = [self._plane_paths(pair) for pair in self._pairs]
        self.planes = tuple(
            Plane(
                pair.plane,
                pair.peer_address,
                pair.local_address,
                tuple(path.ev for path in paths),
                tuple(path.ev for path in paths),
            )
            for pair, paths in zip(self._pairs, self._paths, strict=True)
        )

    def _plane_paths(self, pair: PlanePair) -> list[Path]:
        count, plane, wire = self._evs_per_plane, pair.plane, self._wire
        if self.mode == "srv6":
            return [srv6_path(pair, _TO_TESTER, uplink, wire) for uplink in range(count)]
        if self.mode == "udp":
            return udp_paths(pair, (_FIRST_UDP_EV + 0x100 * plane + number for number in range(count)), wire)
        width = 16 if self._version == 4 else 32
        top = width - 8
        return stev_paths(pair, ((number << top | 0x50 + plane, number) for number in range(count)), wire)

    # ------------------------------------------------------------------ set up

    def connect(self, setup: Setup, tester: TesterQp) -> TargetQp:
        config = _qp_config(setup, tester)
        controller = str(setup.options.get("controller", "fixed"))
        try:
            qp = self._endpoint.create_qp(config, controller)
        except CallerError as error:
            raise Unsupported(str(error)) from None
        if setup.target_first_psn is not None:
            qp.configure(config, first_psn=setup.target_first_psn)
        qp.to_init()
        sources = {pair.port: address_number(pair.peer_address) for pair in self._pairs}
        profile = [path for paths in self._paths for path in paths]
        peer = QpPeer(tester.qpn, tester.first_psn, profile, sources, _capabilities(tester.capabilities))
        qp.to_rtr(peer)
        qp.to_rts()
        self._on_connected(self._endpoint, qp)
        self.stir()
        return InProcessQp(
            self, self._endpoint, qp, self._endpoint.memory.register(bytearray(REGION_LENGTH), va=REGION_VA)
        )

    def outer_addresses(self, ev: int) -> tuple[int, int] | None:
        if self.mode != "srv6":
            return None
        plane = ev >> 24 if ev >> 24 < len(self._pairs) else 0
        # What is left of the uSIDs at the host: block and the port towards it.
        destination = 0x5F000000 << 96 | (0x4000 + 256 * plane + _TARGET_HOST) << 80
        return address_number(self._pairs[plane].peer_address), destination

    # ------------------------------------------------------------------ packets

    def deliver(self, frames: Sequence[Frame], now: int) -> None:
        packets, classes, ports = [], [], []
        for frame in frames:
            inner, traffic_class = _without_outer(frame.data)
            packets.append(inner)
            classes.append(traffic_class)
            ports.append(frame.plane)
        batch = ReceivedBatch.from_packets(packets, traffic_class=classes)
        batch.port[:] = ports
        self._endpoint.receive(batch, now)

    def collect(self, now: int) -> Sequence[Frame]:
        batch = self._batch
        frames: list[Frame] = []
        while self._endpoint.transmit(batch, now) and len(frames) < 1 << 16:
            frames += [self._framed(row) for row in range(batch.count)]
            batch.clear()
        batch.clear()
        return frames

    def _framed(self, row: int) -> Frame:
        batch = self._batch
        port, packet = int(batch.port[row]), batch.packet(row)
        if self.mode == "srv6":
            destination = int.from_bytes(batch.destination[row, 8:24].tobytes(), "big")
            source = address_number(self._pairs[port].local_address)
            outer = Outer(source, destination, int(batch.traffic_class[row]))
            packet = Carriage(0, 0, outer=outer).in_outer(packet)
        return Frame(port, packet)

    def next_deadline(self) -> int | None:
        return self._endpoint.next_deadline()

    def on_timer(self, now: int) -> None:
        self._endpoint.on_timer(now)

    # ------------------------------------------------------------------ what else a case may ask

    def counters(self) -> Mapping[str, int]:
        return self._endpoint.total_counters().as_dict()

    def set_port(self, plane: int, up: bool) -> None:
        self._endpoint.set_port(plane, up, self.now)
        self.stir()

    def set_port_room(self, plane: int, room: bool) -> None:
        self._endpoint.set_port_room(plane, room)
        self.stir()

    def probe_ev(self, ev: int, dscp: int | None) -> None:
        (node,) = self._endpoint.peer_nodes.values()
        number = next(number for number, path in enumerate(node.paths) if path.ev == ev)
        self._endpoint.probe_ev(node, number, dscp=dscp, on_result=self._on_probe_result)
        self.stir()

    def _on_probe_result(self, result: EvProbeResult) -> None:
        self._probe_results[result.ev] = result.rtt_ns

    def ev_probe_results(self) -> Mapping[int, int | None]:
        return self._probe_results


class InProcessQp(TargetQp):
    """One QP of that endpoint."""

    def __init__(self, session: InProcessSession, endpoint: Endpoint, qp: QueuePair, region: MemoryRegion) -> None:
        self._session = session
        self._endpoint = endpoint
        self._qp = qp
        self._region = region
        config = qp.config
        self.terms = TargetQpTerms(
            qpn=qp.qpn,
            first_psn=qp.first_psn,
            path_mtu=config.path_mtu,
            region_va=region.va,
            region_length=region.length,
            rkey=region.rkey,
            mpr=config.mpr_dest,
            max_wimm=config.max_wimm_dest,
            agreed=frozenset(name for name in CAPABILITIES if Capability[name] in qp.agreed),
        )

    def memory(self, offset: int, length: int) -> bytes:
        return bytes(self._region.view[offset : offset + length])

    def state(self) -> str:
        return self._qp.state.name

    def completions(self) -> Sequence[TargetCompletion]:
        there = list(self._endpoint.completions)
        self._endpoint.completions.clear()
        self._endpoint.completions.extend(each for each in there if each.qpn != self._qp.qpn)
        return [_completion(each) for each in there if each.qpn == self._qp.qpn]

    def post_receive(self, wr_id: int) -> None:
        self._qp.post_receive(wr_id)

    def post_write(self, wr_id: int, data: bytes, remote_va: int, rkey: int, immediate: int | None) -> None:
        source = MemoryRegion(data, 0, 0, remote_write=False)
        self._qp.post_write(WriteRequest(wr_id, source, 0, len(data), remote_va, rkey, immediate))
        self._endpoint.wake(self._qp)
        self._session.stir()

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
        self._qp.set_mpr(units)

    def set_receiver_penalty(self, penalty: int, restore: bool) -> None:
        self._qp.set_receiver_penalty(penalty, restore)

    def to_error(self) -> None:
        self._qp.to_error("told to")
        self._session.stir()


def target() -> Target:
    """This project's endpoint, each packet by itself as in a quiet network."""
    return InProcess()


def in_batches() -> Target:
    """The same, every packet on the way that large batches take."""
    return InProcess("self, in batches", one_by_one=0)


def _address(plane: int, host: int, version: int) -> str:
    return f"10.0.{plane}.{host}" if version == 4 else str(ipaddress.IPv6Address(f"fd4d:5243:{plane:x}::{host}"))


def _capabilities(names: frozenset[str]) -> Capability:
    found = Capability(0)
    for name in names:
        found |= Capability[name]
    return found


def _qp_config(setup: Setup, tester: TesterQp) -> QpConfig:
    options = setup.options
    changes: dict[str, Any] = {name: int(options[name]) for name in _QP_OPTIONS if name in options}
    if "timestamps" in options:
        changes["timestamps"] = bool(options["timestamps"])
    responder: dict[str, Any] = {name: int(options[name]) for name in _RESPONDER_OPTIONS if name in options}
    paths: dict[str, Any] = {name: int(options[name]) for name in _PATH_OPTIONS if name in options}
    known = {*_QP_OPTIONS, *_RESPONDER_OPTIONS, *_PATH_OPTIONS, "timestamps", "evs_per_plane", "controller"}
    unknown = options.keys() - known
    if unknown:
        raise Unsupported(f"no setting {', '.join(sorted(unknown))}")
    base = QpConfig()
    try:
        return QpConfig(
            path_mtu=setup.path_mtu or DEFAULT_MTU,
            mpr=tester.mpr,
            max_wimm=tester.max_wimm,
            capabilities=_capabilities(setup.agreed),
            responder=replace(base.responder, **responder),
            paths=replace(base.paths, **paths),
            **changes,
        )
    except CallerError as error:
        raise Unsupported(str(error)) from None


def _without_outer(data: bytes) -> tuple[bytes, int]:
    """(the inner packet, the outermost traffic class); what cannot be read goes on as it is."""
    found = read_carriage(data)
    if isinstance(found, str):
        return data, 0
    outer = found.carriage.outer
    return data[found.inner_at :], found.carriage.traffic_class if outer is None else outer.traffic_class


def _completion(each: Completion) -> TargetCompletion:
    kind = "RECEIVE" if each.kind == WorkKind.RECV_RDMA_WITH_IMM else "WRITE"
    return TargetCompletion(each.wr_id, kind, each.status.name, each.byte_len, each.immediate)
