# SPDX-License-Identifier: BSD-2-Clause
"""An endpoint of this project's under test, whatever its transport: a session in virtual time, and one of its QPs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from mrc.conformance.codec.carriage import read_carriage
from mrc.conformance.setup import TargetQpTerms
from mrc.conformance.target import Frame, Refused, TargetCompletion, TargetQp, Unsupported
from mrc.conformance.virtual import VirtualSession, endpoint_at_work
from mrc.endpoint.completions import Completion, WorkKind
from mrc.endpoint.counters import Counters
from mrc.endpoint.memory import MemoryRegion, MemoryTable
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

DEFAULT_MTU = 1024


@contextmanager
def caller_error_as(kind: type[Refused | Unsupported]) -> Iterator[None]:
    """An error in what the endpoint was asked for becomes one of the suite's, of this kind."""
    try:
        yield
    except CallerError as error:
        raise kind(str(error)) from None


REGION_VA = 0x7F00_0000_0000
REGION_LENGTH = 256 * 1024
_BATCH = 256
_MOST_FRAMES = 1 << 16


class OwnEndpoint(Protocol):
    """What endpoints have in common. Times are in ns."""

    completions: deque[Completion]
    memory: MemoryTable

    def receive(self, batch: ReceivedBatch, now: int) -> None: ...
    def transmit(self, batch: TransmitBatch, now: int) -> int: ...
    def next_deadline(self) -> int | None: ...
    def on_timer(self, now: int) -> None: ...
    def wake(self, qp: Any) -> None: ...
    def total_counters(self) -> Counters: ...


class OwnQp(Protocol):
    """What their QPs have in common."""

    qpn: int
    first_psn: int
    state: QpState

    def post_receive(self, wr_id: int) -> None: ...
    def post_write(self, request: WriteRequest) -> None: ...


EndpointT = TypeVar("EndpointT", bound=OwnEndpoint)
QpT = TypeVar("QpT", bound=OwnQp)


class EndpointSession(VirtualSession, Generic[EndpointT]):
    """One endpoint. Packets reach it without their outer headers."""

    def __init__(self, endpoint: EndpointT) -> None:
        super().__init__()
        self.endpoint = endpoint
        self._batch = TransmitBatch(_BATCH)

    def deliver(self, frames: Sequence[Frame], now: int) -> None:
        packets, classes = [], []
        for frame in frames:
            inner, traffic_class = _without_outer(frame.data)
            packets.append(inner)
            classes.append(traffic_class)
        batch = ReceivedBatch.from_packets(packets, traffic_class=classes)
        for row, frame in enumerate(frames):
            batch.ports[row] = frame.plane
        with endpoint_at_work():
            self.endpoint.receive(batch, now)

    def collect(self, now: int) -> Sequence[Frame]:
        batch = self._batch
        frames: list[Frame] = []
        while self._transmitted(now) and len(frames) < _MOST_FRAMES:
            frames += [self.framed(batch, row) for row in range(batch.count)]
            batch.clear()
        batch.clear()
        return frames

    def _transmitted(self, now: int) -> int:
        with endpoint_at_work():
            return self.endpoint.transmit(self._batch, now)

    def framed(self, batch: TransmitBatch, row: int) -> Frame:
        """A packet as it leaves the port: here without an outer header."""
        return Frame(batch.ports[row], batch.packet(row))

    def next_deadline(self) -> int | None:
        with endpoint_at_work():
            return self.endpoint.next_deadline()

    def on_timer(self, now: int) -> None:
        with endpoint_at_work():
            self.endpoint.on_timer(now)

    def counters(self) -> Mapping[str, int]:
        return self.endpoint.total_counters().as_dict()


class EndpointQp(TargetQp, Generic[EndpointT, QpT]):
    """One QP of that endpoint."""

    def __init__(
        self,
        session: EndpointSession[EndpointT],
        qp: QpT,
        path_mtu: int,
        *,
        mpr: int = 0,
        max_wimm: int = 0,
        agreed: frozenset[str] = frozenset(),
    ) -> None:
        """The tester may write to a new region. What only MRC has is 0 and empty without it."""
        self._session = session
        self._endpoint = session.endpoint
        self._qp = qp
        self._region = region = session.endpoint.memory.register(bytearray(REGION_LENGTH), va=REGION_VA)
        self.terms = TargetQpTerms(
            qpn=qp.qpn,
            first_psn=qp.first_psn,
            path_mtu=path_mtu,
            region_va=region.va,
            region_length=region.length,
            rkey=region.rkey,
            mpr=mpr,
            max_wimm=max_wimm,
            agreed=agreed,
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
        with caller_error_as(Refused):
            self._qp.post_receive(wr_id)
        self._endpoint.wake(self._qp)
        self._session.stir()

    def post_write(self, wr_id: int, data: bytes, remote_va: int, rkey: int, immediate: int | None) -> None:
        source = MemoryRegion(data, 0, 0, remote_write=False)
        with caller_error_as(Refused):
            self._qp.post_write(WriteRequest(wr_id, source, 0, len(data), remote_va, rkey, immediate))
        self._endpoint.wake(self._qp)
        self._session.stir()


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
