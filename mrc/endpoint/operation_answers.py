"""Answers to endpoint requests of peer nodes, in the control class (wire.md section 8)."""

from __future__ import annotations

from collections import deque
from collections.abc import Set

from mrc.endpoint.counters import Counters
from mrc.endpoint.peer_node import PeerNode
from mrc.records import record
from mrc.wire import octets
from mrc.wire.opcodes import HEADER_LENGTHS, Op
from mrc.wire.profile import WireProfile
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import BTH_AT, EXTENSION_AT, HEADER_ROOM, PSN_FLAGS_AT, TIMESTAMP_FTYPE, TIMESTAMP_UNIT_NS, TSR_BIT
from mrc.wire.transmit_batch import TransmitBatch

ENDPOINT_QPN = 2
_MAX_RESPONSES = 1024
# Where in a packet (mrc.wire.fields.ENDPOINT_REQUEST, ENDPOINT_RESPONSE).
_DQP_AT, _REQUEST_STAMP_AT, _RESPONSE_STAMP_AT = 52, 72, 88


@record(frozen=True, slots=True)
class _Response:
    """An answer that waits to be sent. `tx_timestamp` is the request's, in `unit_ns`; None when it had none."""

    node: PeerNode
    req_id: int
    operation: int
    tx_timestamp: int | None
    unit_ns: int
    received_at: int


class OperationAnswers:
    """The answers that wait to be sent. `ports_down` are the endpoint's local ports that are down."""

    __slots__ = ("_counters", "_ports_down", "_wire", "waiting")

    def __init__(self, wire: WireProfile, counters: Counters, ports_down: Set[int]) -> None:
        self._wire = wire
        self._counters = counters
        self._ports_down = ports_down
        self.waiting: deque[_Response] = deque()

    def add(self, node: PeerNode, req_id: int, operation: int, batch: ReceivedBatch, row: int, now: int) -> None:
        """Answer this request, unless too many answers wait already."""
        if len(self.waiting) >= _MAX_RESPONSES:
            self._counters.endpoint_responses_dropped += 1
            return
        at = batch.row(row) + _REQUEST_STAMP_AT
        word = octets.u16(batch.flat, at + 2)
        timestamp = octets.u16(batch.flat, at) if word & 0xF == TIMESTAMP_FTYPE else None
        unit_ns = self._wire.tsr1_unit_ns if word & TSR_BIT else TIMESTAMP_UNIT_NS
        self.waiting.append(_Response(node, req_id, operation, timestamp, unit_ns, now))

    def forget(self, node: PeerNode) -> None:
        """A node is gone."""
        self.waiting = deque(response for response in self.waiting if response.node is not node)

    def transmit(self, batch: TransmitBatch, now: int) -> None:
        """Append what waits, as far as there is room."""
        while self.waiting and batch.free:
            self._send(batch, self.waiting.popleft(), now)

    def _send(self, batch: TransmitBatch, response: _Response, now: int) -> None:
        node = response.node
        number = node.control_ev(self._ports_down)
        if number is None:
            self._counters.endpoint_responses_dropped += 1
            return
        at = append_operation(batch, node, number, self._wire.dscp_control << 2, HEADER_LENGTHS["eeth"])
        batch.flat[at + BTH_AT] = Op.ENDPOINT_RESPONSE
        octets.put32(batch.flat, at + PSN_FLAGS_AT, response.req_id)
        octets.put16(batch.flat, at + EXTENSION_AT, response.operation << self._wire.eeth_op_shift)
        if response.tx_timestamp is not None:
            held = (now - response.received_at) // response.unit_ns if node.service_time else 0
            octets.put16(batch.flat, at + _RESPONSE_STAMP_AT, response.tx_timestamp + held)


def append_operation(batch: TransmitBatch, node: PeerNode, number: int, traffic_class: int, length: int) -> int:
    """A packet to DQP 2 of `node` with an extension header of zeros. Returns where in `flat` its row begins."""
    row = batch.open_row(node.frames, number, traffic_class, EXTENSION_AT + length)
    batch.write_headers(row, EXTENSION_AT, bytes(length))
    at = row * HEADER_ROOM
    octets.put32(batch.flat, at + _DQP_AT, ENDPOINT_QPN)
    return at
