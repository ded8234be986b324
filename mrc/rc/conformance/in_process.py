"""This project's RC endpoint in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mrc.conformance.setup import Plane, Setup, TargetQpTerms, TesterQp
from mrc.conformance.target import Frame, Refused, Session, Target, TargetCompletion, TargetQp, Unsupported
from mrc.conformance.virtual import VirtualSession, endpoint_at_work
from mrc.endpoint.completions import WorkKind
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.paths.addressing import PlanePair, udp_paths
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError
from mrc.fabric.address import address
from mrc.rc import RcConfig, RcEndpoint, RcEndpointConfig, RcPeer, RcQueuePair
from mrc.rc.conformance.case import RC_OPTIONS
from mrc.wire.ipv4 import address_number
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

_REGION_VA = 0x7F00_0000_0000
_REGION_LENGTH = 256 * 1024
_DEFAULT_MTU = 1024
_SOURCE_PORT = 0xC111
_BATCH = 256
# By IP version: the tester's address and the target's.
_ADDRESSES = {4: ("10.0.0.1", "10.0.0.2"), 6: (address("h0", 0), address("h1", 0))}


class RcInProcess(Target):
    """`mrc conformance run --transport rc`. Each packet is taken by itself: this endpoint has no other way."""

    def __init__(self, name: str = "self") -> None:
        self.name = name

    def open(self, setup: Setup, wire: WireProfile, seed: int) -> Session:
        if setup.mode not in (None, "udp") or (setup.planes or 1) > 1:
            raise Unsupported("plain RC has one path")
        return RcSession(RcEndpoint(RcEndpointConfig(wire=wire, seed=seed)), setup.ip or 6)


class RcSession(VirtualSession):
    """One endpoint at one address."""

    mode = "udp"

    def __init__(self, endpoint: RcEndpoint, version: int) -> None:
        super().__init__()
        self.endpoint = endpoint
        tester, target = _ADDRESSES[version]
        self._pair = PlanePair(0, 0, target, tester, 0)
        self.planes = (Plane(0, tester, target, (_SOURCE_PORT,), (_SOURCE_PORT,)),)

    def connect(self, setup: Setup, tester: TesterQp) -> TargetQp:
        unknown = setup.options.keys() - RC_OPTIONS.keys()
        if unknown:
            raise Unsupported(f"no setting {', '.join(sorted(unknown))}")
        options = {name: int(value) for name, value in setup.options.items()}
        try:
            config = RcConfig(path_mtu=setup.path_mtu or _DEFAULT_MTU, **options)
        except CallerError as error:
            raise Unsupported(str(error)) from None
        qp = self.endpoint.create_qp(config, first_psn=setup.target_first_psn)
        (path,) = udp_paths(self._pair, [_SOURCE_PORT], self.endpoint.config.wire)
        qp.to_init()
        qp.to_rtr(RcPeer(tester.qpn, tester.first_psn, path, address_number(self._pair.peer_address)))
        qp.to_rts()
        return RcTargetQp(self, qp, self.endpoint.memory.register(bytearray(_REGION_LENGTH), va=_REGION_VA))

    def deliver(self, frames: Sequence[Frame], now: int) -> None:
        batch = ReceivedBatch.from_packets([frame.data for frame in frames])
        with endpoint_at_work():
            self.endpoint.receive(batch, now)

    def collect(self, now: int) -> Sequence[Frame]:
        frames: list[Frame] = []
        batch = TransmitBatch(_BATCH)
        while self._transmitted(batch, now):
            frames += [Frame(0, batch.packet(row)) for row in range(batch.count)]
            batch.clear()
        return frames

    def _transmitted(self, batch: TransmitBatch, now: int) -> int:
        with endpoint_at_work():
            return self.endpoint.transmit(batch, now)

    def next_deadline(self) -> int | None:
        with endpoint_at_work():
            return self.endpoint.next_deadline()

    def on_timer(self, now: int) -> None:
        with endpoint_at_work():
            self.endpoint.on_timer(now)

    def counters(self) -> Mapping[str, int]:
        return self.endpoint.total_counters().as_dict()


class RcTargetQp(TargetQp):
    """One QP of that endpoint."""

    def __init__(self, session: RcSession, qp: RcQueuePair, region: MemoryRegion) -> None:
        self._session = session
        self._qp = qp
        self._region = region
        self.terms = TargetQpTerms(
            qpn=qp.qpn,
            first_psn=qp.first_psn,
            path_mtu=qp.config.path_mtu,
            region_va=region.va,
            region_length=region.length,
            rkey=region.rkey,
            mpr=0,  # MRC's windows and capabilities: RC has none
            max_wimm=0,
            agreed=frozenset(),
        )

    def memory(self, offset: int, length: int) -> bytes:
        return bytes(self._region.view[offset : offset + length])

    def state(self) -> str:
        return self._qp.state.name

    def completions(self) -> Sequence[TargetCompletion]:
        there = list(self._session.endpoint.completions)
        self._session.endpoint.completions.clear()
        self._session.endpoint.completions.extend(each for each in there if each.qpn != self._qp.qpn)
        return [
            TargetCompletion(
                each.wr_id,
                "RECEIVE" if each.kind == WorkKind.RECV_RDMA_WITH_IMM else "WRITE",
                each.status.name,
                each.byte_len,
                each.immediate,
            )
            for each in there
            if each.qpn == self._qp.qpn
        ]

    def post_receive(self, wr_id: int) -> None:
        self._qp.post_receive(wr_id)

    def post_write(self, wr_id: int, data: bytes, remote_va: int, rkey: int, immediate: int | None) -> None:
        source = MemoryRegion(data, 0, 0, remote_write=False)
        try:
            self._qp.post_write(WriteRequest(wr_id, source, 0, len(data), remote_va, rkey, immediate))
        except CallerError as error:
            raise Refused(str(error)) from None
        self._session.endpoint.wake(self._qp)
        self._session.stir()


def target() -> Target:
    """This project's RC endpoint."""
    return RcInProcess()
