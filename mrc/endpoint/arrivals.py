"""What comes for one QP: whether it is the peer's, and which half of the QP it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.qp_peer import PeerSources
from mrc.endpoint.qp_states import MAY_RECEIVE, MAY_SEND, QpState
from mrc.endpoint.request_checks import ACK_SYNDROME, NAK_STATUS
from mrc.wire import octets
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import PSN_BITS_MASK

if TYPE_CHECKING:
    from mrc.endpoint.qp import QueuePair

_OPCODE_AT, _PSN_AT, _AETH_AT = 48, 56, 60
_SYNDROME_SHIFT = 24
# Plain numbers: an array compares with a member of an enum several times as slowly.
_PROBE, _SACK, _ACK, _NACK = int(Op.PROBE), int(Op.SACK), int(Op.ACKNOWLEDGE), int(Op.NACK)
_IS_REQUEST = memoryview(bytes(value in REQUEST_OPCODES for value in range(256)))
_IS_ENDPOINT_OPERATION = memoryview(bytes(value in (Op.ENDPOINT_REQUEST, Op.ENDPOINT_RESPONSE) for value in range(256)))


class Arrivals:
    """Packets of one QP that passed the endpoint's checks, one by one. `sources` is empty before RTR."""

    __slots__ = ("_qp", "sources")

    def __init__(self, qp: QueuePair) -> None:
        self._qp = qp
        self.sources = PeerSources()

    def receive(self, batch: ReceivedBatch, row: int, opcode: int, now: int) -> None:
        """A packet for this QP that passed the endpoint's checks."""
        qp = self._qp
        if qp.state not in MAY_RECEIVE:
            qp.counters.wrong_qp_state += 1
            if _IS_REQUEST[opcode]:
                self._receive_in_error(batch, row, now)
        elif not self.sources.has_sent(batch, row):
            qp.counters.bad_source += 1
        elif _IS_REQUEST[opcode]:
            if qp.peer_node is not None:
                qp.peer_node.on_requests(now)
            qp.responder.on_request(batch, row, now)
        elif opcode == _PROBE:
            if qp.peer_node is not None:
                qp.peer_node.on_requests(now)
            qp.responder.on_probe(batch, row, now)
        elif _IS_ENDPOINT_OPERATION[opcode]:
            qp.counters.misdirected += 1
        elif qp.state not in MAY_SEND:
            qp.counters.wrong_qp_state += 1
        elif opcode == _SACK:
            qp.requestor.on_sack(batch, row, now)
        elif opcode == _ACK:
            self._on_aeth(batch, row, now)
        elif opcode == _NACK:
            qp.requestor.on_nack(batch, row, now)

    def _receive_in_error(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """A request of a peer that has not understood yet that this QP is over. Nothing else is answered in ERROR, so
        two QPs in ERROR leave each other alone."""
        qp = self._qp
        if qp.state == QpState.ERROR and qp.knows_peer and self.sources.has_sent(batch, row):
            qp.responder.on_request_in_error(batch, row, now)

    def receive_trimmed(self, batch: ReceivedBatch, row: int, lasthop: bool, now: int) -> None:
        """A packet for this QP that a switch cut short, on the last hop or before it. It has no ICRC."""
        qp = self._qp
        if qp.state not in MAY_RECEIVE:
            qp.counters.wrong_qp_state += 1
        elif not self.sources.has_sent(batch, row):
            qp.counters.bad_source += 1
        elif _IS_REQUEST[batch.flat[batch.row(row) + _OPCODE_AT]]:
            qp.responder.on_trimmed(batch, row, lasthop, now)

    def _on_aeth(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """A transport ACK; a syndrome beyond them is a NAK."""
        qp, base = self._qp, batch.row(row)
        psn = octets.u32(batch.flat, base + _PSN_AT) & PSN_BITS_MASK
        syndrome = octets.u32(batch.flat, base + _AETH_AT) >> _SYNDROME_SHIFT
        if syndrome <= ACK_SYNDROME:
            qp.requestor.on_ack(psn, now)
        elif syndrome in NAK_STATUS:
            status = NAK_STATUS[syndrome]
            qp.requestor.on_nak(psn, status, f"the peer refused PSN {psn}: {status.name.lower()}")
        else:
            qp.counters.invalid_request += 1
