# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints that deliver immediates when they should not, or let out more than they may."""

from __future__ import annotations

from typing import Any

from mrc.endpoint.completion_ring import NO_IMMEDIATE
from mrc.endpoint.completions import WorkKind, WorkStatus
from mrc.endpoint.datapath.qp_datapath import Arrivals
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.refusals import ACK_SYNDROME, Verdict
from mrc.endpoint.requestor.feedback import Feedback
from mrc.endpoint.responder.receives import Receives
from mrc.endpoint.responder.responder import Responder
from mrc.wire.opcodes import IMMEDIATE_OPCODES, REQUEST_OPCODES
from mrc.wire.psn import PSN_MASK
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant

_MANY = 1 << 10


@mutant("MRC-IMM-01")
def immediates_leave_as_they_like(endpoint: Endpoint, qp: QueuePair) -> None:
    """The peer's grant of writes with immediate is not looked at."""
    requestor: Any = qp.requestor
    requestor.queue._max_wimm = _MANY


@mutant("MRC-IMM-01")
class ImmediatesAreNeverGivenBack(Feedback):
    """A write with immediate counts against the grant for ever, acknowledged or not."""

    def _after_acknowledgement(self, now: int) -> None:
        out = self._queue.immediates_out
        super()._after_acknowledgement(now)
        self._queue.immediates_out = out


@mutant("MRC-IMM-02")
class EarlyImmediatesDoNotWait(Receives):
    """An immediate is delivered when it comes, whatever is missing before it."""

    def deliver(self, epsn: int) -> None:
        early = sorted(row[0] + 1 for row in self._stash.rows())[: self.posted]
        super().deliver(max([epsn, *early]))


@mutant("MRC-IMM-03")
class ReceivesAreAStack(Receives):
    """An immediate consumes the receive that was posted last."""

    def _oldest(self) -> int:
        self.posted -= 1
        return int(self._wr_ids[self._first + self.posted & self._mask])


@mutant("MRC-IMM-04")
def any_number_of_immediates_is_taken(endpoint: Endpoint, qp: QueuePair) -> None:
    """More writes with immediate than were granted are taken like the others."""
    qp._receives.max_in_flight = _MANY


@mutant("MRC-IMM-04")
def one_immediate_too_few_is_taken(endpoint: Endpoint, qp: QueuePair) -> None:
    """The last write with immediate of those granted is refused."""
    qp._receives.max_in_flight -= 1


@mutant("MRC-IMM-05")
class ImmediatesNeedNoReceive(Receives):
    """An immediate that finds no receive is dropped without a word."""

    def check(self, psn: int, rqmsn: int, edge: int) -> int:
        return super().check(psn, rqmsn, edge) if self.posted else Verdict.RIGHT

    def consume(self, immediate: int, length: int) -> None:
        if self.posted:
            super().consume(immediate, length)


@mutant("MRC-IMM-05")
class ReceivesAreLookedForAtOnce(Receives):
    """An early immediate is refused if there is no receive for it when it comes."""

    def check(self, psn: int, rqmsn: int, edge: int) -> int:
        waiting = [row[0] for row in self._stash.rows()] + [psn] * (rqmsn != NO_IMMEDIATE)
        if len(waiting) > self.posted:
            return self.refusal.of(Verdict.NO_RECEIVE, min(waiting), 0, 0)
        return super().check(psn, rqmsn, edge)


@mutant("MRC-IMM-07")
class ReceivesThatComeLateAreOfNoUse(Responder):
    """An immediate that waits for a receive goes on waiting when there is one."""

    def on_receive_posted(self) -> bool:
        return False


@mutant("MRC-IMM-07")
class WhatWaitsIsAcknowledged(Responder):
    """An immediate that waits for a receive is acknowledged like any other request."""

    def _transmit_aeth(self, batch: TransmitBatch, psn: int, syndrome: int, now: int) -> None:
        waits = syndrome == ACK_SYNDROME and self._receives.stop == self.received.epsn
        super()._transmit_aeth(batch, self.received.highest & PSN_MASK if waits else psn, syndrome, now)

    def _time_receive(self, now: int) -> None:
        began = self._receive_due
        super()._time_receive(now)
        self._ack_due = self._ack_due or self._receive_due != began


@mutant("MRC-IMM-06")
class PlainWritesConsumeReceives(Arrivals):
    """Any request completes a receive, if there is one."""

    def receive(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        receives = None if self._responder is None else self._responder._receives
        plain = packet.opcode in REQUEST_OPCODES and packet.opcode not in IMMEDIATE_OPCODES
        if plain and receives is not None and receives.posted:
            success, kind = WorkStatus.SUCCESS, WorkKind.RECV_RDMA_WITH_IMM
            receives._completions.add(receives._oldest(), success, 0, kind, NO_IMMEDIATE)
        super().receive(batch, packet, now)
