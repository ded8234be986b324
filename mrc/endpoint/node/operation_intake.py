# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What comes for DQP 2: judged, and answered where it is an EV probe. Port status and responses are for Python."""

from __future__ import annotations

from enum import IntEnum

from mrc.endpoint.counters import Counters
from mrc.endpoint.node.operation_answers import OperationAnswers
from mrc.endpoint.node.operation_rates import OTHER, RESPONSE, OperationRates
from mrc.endpoint.node.peer_table import PeerTable
from mrc.wire import octets
from mrc.wire.opcodes import Op
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import fields_at, header_at, masks_in


class Operation(IntEnum):
    """op of an ERTH and an EETH."""

    PORT_STATUS_UPDATE = 0
    EV_PROBE = 1


(OPERATION_BITS,) = masks_in("erth", "op")
_ERTH_AT = header_at("erth")
_SOURCE_AT, _DESTINATION_AT = fields_at("ipv6", "src dst")
_ADDRESS = 16
_REQUEST, _RESPONSE = int(Op.ENDPOINT_REQUEST), int(Op.ENDPOINT_RESPONSE)
_PORT_STATUS_UPDATE, _EV_PROBE = int(Operation.PORT_STATUS_UPDATE), int(Operation.EV_PROBE)
_NONE = -1


def is_from_own_address(batch: ReceivedBatch, row: int) -> bool:
    """Whether a packet comes from the address that it is sent to.

    Endpoints of one machine that share an address each receive what any of them sends, their own packets included.
    """
    base = batch.row(row)
    return octets.equal(batch.flat, base + _SOURCE_AT, batch.flat, base + _DESTINATION_AT, _ADDRESS)


class OperationIntake:
    """Looks at packets of `peers` only, and of each peer's at no more of a kind than `rates` allow. What is wrong is
    dropped and counted."""

    def __init__(self, peers: PeerTable, rates: OperationRates, answers: OperationAnswers, counters: Counters) -> None:
        self._peers = peers
        self._rates = rates
        self._answers = answers
        self._counters = counters

    def receive(self, batch: ReceivedBatch, row: int, opcode: int, now: int) -> bool:
        """Take a packet that passed the endpoint's checks. Returns whether the rest is Python's to do."""
        place = self._peers.find(batch, row)
        if place == _NONE:
            self._counters.unknown_peer += 1
            return False
        if not self._rates.is_welcome(self._peers.rate_slot(place), self._kind(batch, row, opcode), now):
            return False
        place = self._peers.sender(batch, row, place)
        if place == _NONE:
            self._counters.unknown_peer += 1
            return False
        if opcode == _REQUEST:
            return self._take_request(self._peers.handle(place), batch, row, now)
        if opcode != _RESPONSE:
            self._counters.misdirected += 1
        return opcode == _RESPONSE

    def _kind(self, batch: ReceivedBatch, row: int, opcode: int) -> int:
        if opcode == _REQUEST:
            return octets.u16(batch.flat, batch.row(row) + _ERTH_AT) & OPERATION_BITS
        return RESPONSE if opcode == _RESPONSE else OTHER

    def _take_request(self, handle: int, batch: ReceivedBatch, row: int, now: int) -> bool:
        operation = octets.u16(batch.flat, batch.row(row) + _ERTH_AT) & OPERATION_BITS
        if operation == _EV_PROBE and is_from_own_address(batch, row):
            # It may be one of ours: only Python knows their request ids.
            return True
        if operation == _EV_PROBE:
            self._counters.ev_probes_answered += 1
            self._answers.add(handle, _EV_PROBE, batch, row, now)
        elif operation != _PORT_STATUS_UPDATE:
            self._counters.unknown_endpoint_operation += 1
        return operation == _PORT_STATUS_UPDATE
