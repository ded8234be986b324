"""Where packets come in: each is checked, then handed to the QP or the node operation it is for."""

from __future__ import annotations

from mrc.endpoint.counters import Counters
from mrc.endpoint.operation_answers import ENDPOINT_QPN
from mrc.endpoint.operations import EndpointOperations
from mrc.endpoint.packet_checks import DROPPED, SOUND, TRIMMED_LASTHOP, PacketChecks
from mrc.endpoint.qp import QueuePair
from mrc.wire import octets
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import PSN_BITS_MASK

_OPCODE_AT, _DQP_AT, _QPN_MASK = 48, 52, PSN_BITS_MASK
_DROPPED, _SOUND, _TRIMMED_LASTHOP = DROPPED, SOUND, TRIMMED_LASTHOP
_ENDPOINT_QPN = ENDPOINT_QPN


class Intake:
    """Takes packets one by one, in order of arrival: how many come at a time changes nothing. `qps` is the endpoint's
    own table."""

    __slots__ = ("_checks", "_counters", "_operations", "_qps")

    def __init__(
        self, checks: PacketChecks, qps: dict[int, QueuePair], operations: EndpointOperations, counters: Counters
    ) -> None:
        self._checks = checks
        self._qps = qps
        self._operations = operations
        self._counters = counters

    def take(self, batch: ReceivedBatch, now: int) -> list[QueuePair]:
        """Take all of a batch. Returns the QPs for which something came, in that order, each once."""
        touched: list[QueuePair] = []
        last: QueuePair | None = None
        for row in range(batch.count):
            verdict = self._checks.look(batch, row)
            if verdict == _DROPPED:
                continue
            base = batch.row(row)
            qpn = octets.u32(batch.flat, base + _DQP_AT) & _QPN_MASK
            opcode = batch.flat[base + _OPCODE_AT]
            if qpn == _ENDPOINT_QPN and verdict == _SOUND:
                self._operations.receive(batch, row, opcode, now)
                continue
            qp = self._qps.get(qpn)
            if qp is None:
                self._counters.unknown_qp += 1
                continue
            if qp is not last:
                last = qp
                if qp not in touched:
                    touched.append(qp)
            arrivals = qp.arrivals
            if verdict != _SOUND:
                arrivals.receive_trimmed(batch, row, verdict == _TRIMMED_LASTHOP, now)
                continue
            arrivals.receive(batch, row, opcode, now)
            node = qp.peer_node
            if node is not None and node.doubted:
                self._operations.peer_ports.heard_of(node, batch, row, now)
        return touched
