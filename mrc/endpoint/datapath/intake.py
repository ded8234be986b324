# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Where packets come in: each is checked, then handed to the QP or the node operation it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.counters import Counters
from mrc.endpoint.datapath.packet_checks import DROPPED, SOUND, TRIMMED_LASTHOP, PacketChecks
from mrc.endpoint.datapath.qp_table import QpTable
from mrc.endpoint.node.node_evs import ENDPOINT_QPN
from mrc.endpoint.node.operations import EndpointOperations
from mrc.endpoint.node.put_aside import PutAside
from mrc.endpoint.parts.flags import Away
from mrc.wire import octets
from mrc.wire.compiled import pointer, python, readonly, with_gil
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import fields_at

if TYPE_CHECKING:
    from mrc.endpoint.node.operation_intake import OperationIntake
    from mrc.endpoint.node.peer_node import PeerNode

(_OPCODE_AT,) = fields_at("bth", "opcode")
_DROPPED, _SOUND, _TRIMMED_LASTHOP = DROPPED, SOUND, TRIMMED_LASTHOP
_ENDPOINT_QPN = ENDPOINT_QPN
_NONE = -1


class Intake:
    """Takes packets one by one, in order of arrival: how many come at a time changes nothing.

    The QPs for which something came in a batch are `touched` afterwards: so many `slots` from the first on, in that
    order, each once. A QP that was destroyed meanwhile is no longer in its slot. While Python may be away the endpoint
    operations that are Python's wait `aside`.
    """

    _checks: readonly[PacketChecks]
    _qps: QpTable
    _operations: EndpointOperations
    _operation_intake: OperationIntake
    _counters: Counters
    _away: Away
    aside: PutAside
    touched: int
    _batches: int
    _room: int
    slots: pointer
    _touched_in: pointer

    __slots__ = tuple(__annotations__)

    def __init__(
        self, checks: PacketChecks, qps: QpTable, operations: EndpointOperations, counters: Counters, away: Away
    ) -> None:
        self._checks = checks
        self._qps = qps
        self._operations = operations
        self._operation_intake = operations.intake
        self._counters = counters
        self._away = away
        self.aside = PutAside(counters)
        self.touched = 0
        # By slot the batch in which it was touched last, by a number that counts them.
        self._batches = 0
        self.slots, self._touched_in, self._room = octets.words(0), octets.words(0), 0

    def __dealloc__(self) -> None:
        octets.free_words(self.slots)
        octets.free_words(self._touched_in)

    def make_room(self, slots: int) -> None:
        """There are so many slots, in the middle of a batch too."""
        self.slots = octets.longer_words(self.slots, self._room, slots)
        self._touched_in = octets.longer_words(self._touched_in, self._room, slots)
        self._room = slots

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        """Take all of a batch."""
        self._batches += 1
        self.touched = 0
        for row in range(batch.count):
            self._receive_one(batch, row, now)

    def _receive_one(self, batch: ReceivedBatch, row: int, now: int) -> None:
        verdict = self._checks.look(batch, row)
        if verdict == _DROPPED:
            return
        if self._checks.packet.dqp == _ENDPOINT_QPN and verdict == _SOUND:
            if not self._operation_intake.receive(batch, row, self._checks.packet.opcode, now):
                return
            if self._away.up:
                self.aside.put(batch, row, now)
                self._away.urgent = True
            else:
                self._operate(batch, row, self._checks.packet.opcode, now)
            return
        slot = self._qps.find(self._checks.packet.dqp)
        if slot == _NONE:
            self._counters.unknown_qp += 1
            return
        if self._touched_in[slot] != self._batches:
            self._touched_in[slot] = self._batches
            self.slots[self.touched] = slot
            self.touched += 1
        if verdict != _SOUND:
            self._qps.at[slot].arrivals.receive_trimmed(batch, self._checks.packet, verdict == _TRIMMED_LASTHOP, now)
            return
        self._qps.at[slot].arrivals.receive(batch, self._checks.packet, now)
        doubted = self._qps.at[slot].doubted_ports != 0 and self._qps.at[slot].doubts(batch.ports[row])
        if doubted and not self._away.up and self._qps.holds(slot):
            self._hear(self._qps.at[slot].peer_node, batch, row, now)

    def catch_up(self) -> python[None]:
        """Python is back: take what was put aside."""
        waiting = self.aside
        if not waiting.count:
            return
        for row in range(waiting.count):
            opcode = waiting.batch.flat[waiting.batch.row(row) + _OPCODE_AT]
            self._operations.receive(waiting.batch, row, opcode, waiting.arrived_at[row])
        waiting.forget()

    def _operate(self, batch: ReceivedBatch, row: int, opcode: int, now: int) -> with_gil[None]:
        try:
            self._operations.receive(batch, row, opcode, now)
        except BaseException as error:
            # Raised by Python code that a probe answer is reported to, say.
            self._away.fail(error)

    def _hear(self, node: PeerNode | None, batch: ReceivedBatch, row: int, now: int) -> with_gil[None]:
        if node is not None:
            self._operations.peer_ports.heard_of(node, batch, row, now)
