# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints that do too much or too little when a QP goes to ERROR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mrc.endpoint.completion_ring import NO_IMMEDIATE
from mrc.endpoint.completions import WorkKind, WorkStatus
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.events import qp_error
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.requestor.requestor import Requestor
from mrc.endpoint.responder.receives import Receives
from mrc.endpoint.work import WriteRequest
from mrc.wire.received_batch import ReceivedBatch
from mutants.bursts import part_of
from mutants.mutant import mutant
from mutants.requestors import _Syndromes


def _on_error(qp: QueuePair, on_error: Callable[[QueuePair, QpState, str, int], None]) -> None:
    """Have the QP call this when it goes to ERROR, instead of the endpoint."""
    qp._node = replace(qp._node, on_error=on_error)


@mutant("MRC-ERR-03")
def all_qps_fail_together(endpoint: Endpoint, qp: QueuePair) -> None:
    """A QP that goes to ERROR takes all others with it."""

    def on_error(failed: QueuePair, old: QpState, why: str, waited_ns: int) -> None:
        endpoint._qp_error(failed, old, why, waited_ns)
        for each in list(endpoint.qps.values()):
            each.to_error("another QP failed")

    _on_error(qp, on_error)


@mutant("MRC-ERR-03")
def all_qps_of_the_node_fail_together(endpoint: Endpoint, qp: QueuePair) -> None:
    """A NAK or UNEXP_EVENT takes with it all QPs towards the node that sent it."""
    changed: Any = qp.requestor
    own = changed.feedback._fail

    def fail(status: WorkStatus, why: str, psn: int) -> None:
        own(status, why, psn)
        for each in list(endpoint.qps.values()):
            if each.peer_node is qp.peer_node:
                each.to_error("the peer's node is at fault")

    changed.feedback._fail = changed._nacks._fail = fail


@mutant("MRC-ERR-03")
class NaksAreOverlooked(_Syndromes):
    """A NAK of the peer's changes nothing."""

    def read(self, syndrome: int) -> int | None:
        return syndrome if syndrome < 0x60 else None


@mutant("MRC-ERR-03")
def the_node_goes_with_the_qp(endpoint: Endpoint, qp: QueuePair) -> None:
    """When a QP goes to ERROR no data goes to its node any more: all its EVs are denied, in every QP."""

    def on_error(failed: QueuePair, old: QpState, why: str, waited_ns: int) -> None:
        endpoint._qp_error(failed, old, why, waited_ns)
        for each in endpoint.qps.values():
            if each.paths is not None:
                for path in each.paths.paths:
                    each.paths.deny(path.ev)

    _on_error(qp, on_error)


@mutant("MRC-ERR-04")
class WritesAreNotFlushed(Requestor):
    """Writes that are out when the QP goes to ERROR never complete."""

    def flush(self, status: WorkStatus, failed_psn: int | None = None) -> None:
        self.abandon()


@mutant("MRC-ERR-04")
class OnlyTheOldestWriteIsFlushed(Requestor):
    """Of the writes not done only the oldest completes with an error."""

    def flush(self, status: WorkStatus, failed_psn: int | None = None) -> None:
        if self.queue.next_msn > self.queue.oldest:
            self.queue.next_msn = self.queue.oldest + 1
        super().flush(status, failed_psn)


@mutant("MRC-ERR-04")
class ReceivesAreNotFlushed(Receives):
    """Receives that are posted when the QP goes to ERROR never complete."""

    def flush(self) -> None:
        self.forget()


@mutant("MRC-ERR-04")
class EarlyImmediatesAreDeliveredAtLast(Receives):
    """An immediate that waits above a hole is delivered when the QP goes to ERROR."""

    def flush(self) -> None:
        for _, _, immediate, length in reversed(self._stash.rows()[: self.posted]):
            self.consume(immediate, length)
        super().flush()


@mutant("MRC-ERR-04")
class WhatIsFlushedSucceeds(Requestor):
    """Writes that are not done when the QP goes to ERROR complete without an error."""

    def flush(self, status: WorkStatus, failed_psn: int | None = None) -> None:
        queue = self.queue
        for msn in queue.unfinished():
            queue._completions.add(
                queue.wr_ids[msn & queue._mask], WorkStatus.SUCCESS, 0, WorkKind.RDMA_WRITE, NO_IMMEDIATE
            )
        self.abandon()


@mutant("MRC-ERR-04")
class EveryWriteIsBlamed(Requestor):
    """All writes complete with the error of the one that was refused."""

    def flush(self, status: WorkStatus, failed_psn: int | None = None) -> None:
        for msn in self.queue.unfinished():
            request = self.queue.request(msn)
            if request is not None:
                self._completions.add(request.wr_id, status, 0, WorkKind.RDMA_WRITE, NO_IMMEDIATE)
        self.abandon()


@mutant("MRC-ERR-04")
class WorkForAQpInErrorIsForgotten(QueuePair):
    """What is posted on a QP in ERROR is dropped without a completion."""

    __slots__ = ()

    def post_write(self, request: WriteRequest) -> None:
        if self.state != QpState.ERROR:
            super().post_write(request)


@mutant("MRC-ERR-05")
def nobody_is_told(endpoint: Endpoint, qp: QueuePair) -> None:
    """A QP goes to ERROR without an event."""
    _on_error(qp, lambda failed, old, why, waited_ns: endpoint.datapath.scheduler.window_moved(failed.datapath.slot))


@mutant("MRC-ERR-05")
def the_event_names_the_peers_qp(endpoint: Endpoint, qp: QueuePair) -> None:
    """The event of a QP in ERROR has the QPN of the peer's."""

    def on_error(failed: QueuePair, old: QpState, why: str, waited_ns: int) -> None:
        endpoint._report(qp_error(endpoint.datapath.now, failed._parts.peer.qpn if failed._parts else 0, old, why))

    _on_error(qp, on_error)


@mutant("MRC-ERR-05")
class EachAttemptIsTold(QueuePair):
    """A QP that is in ERROR already leaves an event each time it is asked to go there."""

    __slots__ = ()

    def to_error(self, why: str) -> None:
        if self.state == QpState.ERROR:
            self._node.on_error(self, self.state, why, 0)
        super().to_error(why)


@mutant("MRC-ERR-05")
def retries_run_out_quietly(endpoint: Endpoint, qp: QueuePair) -> None:
    """A QP whose retry budget is gone goes to ERROR without an event; one that was violated leaves one."""

    def on_error(failed: QueuePair, old: QpState, why: str, waited_ns: int) -> None:
        if "retry" not in why:
            endpoint._qp_error(failed, old, why, waited_ns)

    _on_error(qp, on_error)


@mutant("MRC-ERR-03")
class ABurstEndsWithAViolation(Endpoint):
    """A violation has the rest of its burst dropped, whichever QPs that is for."""

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        for row in range(batch.count):
            failed = self._failed()
            super().receive(part_of(batch, [row]), now)
            if self._failed() > failed:
                return

    def _failed(self) -> int:
        return sum(qp.state == QpState.ERROR for qp in self.qps.values())
