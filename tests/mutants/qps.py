# SPDX-License-Identifier: BSD-2-Clause
"""QPs that come up in the wrong order, take what they should refuse, or mix up what was agreed on beforehand."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from mrc.endpoint.config import QpConfig
from mrc.endpoint.datapath.qp_datapath import Arrivals, QpDatapath
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.responder.received import ReceiveWindow
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.transmit_batch import TransmitBatch
from mutants.mutant import mutant


@mutant("MRC-QP-01", at_creation=True)
class InitMayBeLeftOut(QueuePair):
    """A QP goes from RESET to RTR without having been in INIT."""

    __slots__ = ()

    def to_rtr(self, peer: QpPeer) -> None:
        if self.state == QpState.RESET:
            self.to_init()
        super().to_rtr(peer)


@mutant("MRC-QP-01", at_creation=True)
class StatesMayBeEnteredAgain(QueuePair):
    """A QP that is asked to go to the state it is in accepts."""

    __slots__ = ()

    def to_init(self) -> None:
        if self.state != QpState.INIT:
            super().to_init()


@mutant("MRC-QP-01", at_creation=True)
class WritesMayBePostedInRtr(QueuePair):
    """A write posted in RTR is taken and forgotten."""

    __slots__ = ()

    def post_write(self, request: WriteRequest) -> None:
        if self.state != QpState.RTR:
            super().post_write(request)


@mutant("MRC-QP-01", at_creation=True)
class ErrorCanBeLeft(QueuePair):
    """A QP in ERROR goes on to INIT when it is asked to."""

    __slots__ = ()

    def to_init(self) -> None:
        if self.state == QpState.ERROR:
            self.state = QpState.RESET
        super().to_init()


@mutant("MRC-QP-02", at_creation=True)
class OnlyAQpInRtsCanFail(QueuePair):
    """A QP that has not come to RTS does not go to ERROR."""

    __slots__ = ()

    def to_error(self, why: str) -> None:
        if self.state == QpState.RTS:
            super().to_error(why)


@mutant("MRC-QP-02", at_creation=True)
class ErrorIsReset(QueuePair):
    """A QP that is asked to go to ERROR goes back to RESET."""

    __slots__ = ()

    def to_error(self, why: str) -> None:
        self.state = QpState.RESET


class _AnyConfig(QpConfig):
    """Ranges are not looked at."""

    __slots__ = ()

    def __post_init__(self) -> None:
        return


@mutant("MRC-QP-03", at_creation=True)
def attributes_are_not_checked(endpoint: Endpoint, qp: QueuePair) -> None:
    """What is out of range is taken as it is."""
    qp.config = _AnyConfig(**{each.name: getattr(qp.config, each.name) for each in fields(qp.config)})


@mutant("MRC-QP-03", at_creation=True)
class AttributesAreForgotten(QueuePair):
    """What a QP is given on its way up is checked, and has no effect."""

    __slots__ = ()

    def configure(self, config: QpConfig, **others: Any) -> None:
        super().configure(self.config, **others)


@mutant("MRC-QP-03", at_creation=True)
class TheRangeOfRetriesEndsEarly(QueuePair):
    """7 linear retries are refused as 8 are."""

    __slots__ = ()

    def configure(self, config: QpConfig, **others: Any) -> None:
        if config.linear_retries > 6 and self.state == QpState.RTR:
            raise CallerError("linear_retries must be 0..6")
        super().configure(config, **others)


@mutant("MRC-QP-04")
def the_peer_is_asked_in_band(endpoint: Endpoint, qp: QueuePair) -> None:
    """A QP that has come up asks its peer with a probe what it has received."""
    probes: Any = qp.requestor._probes
    probes._enqueue(-1, 0, 0)
    endpoint.wake(qp)


@mutant("MRC-QP-04")
def ones_own_grants_are_the_peers(endpoint: Endpoint, qp: QueuePair) -> None:
    """A requestor goes by what its own responder grants, not by what the peer granted."""
    requestor: Any = qp.requestor
    config = replace(qp.config, mpr=qp.config.mpr_dest, max_wimm=qp.config.max_wimm_dest)
    requestor.queue._max_wimm = config.max_wimm
    requestor.sent.right_edge = qp.first_psn + config.send_window
    requestor.feedback._mpr, requestor.feedback._send_window = config.mpr, config.send_window


@mutant("MRC-QP-04")
def ones_own_capabilities_are_the_peers(endpoint: Endpoint, qp: QueuePair) -> None:
    """A trimmed packet is answered whether or not the peer said that it understands the answer."""
    qp.responder._answers_trims = True


@mutant("MRC-QP-05")
def half_the_window_is_taken(endpoint: Endpoint, qp: QueuePair) -> None:
    """PSNs more than 512 above epsn are refused, whatever was granted."""
    qp.responder.window.__class__ = _HalfTheWindow


class _HalfTheWindow(ReceiveWindow):
    def end(self, epsn: int) -> int:
        return min(super().end(epsn), epsn + 512)


@mutant("MRC-QP-05")
def sixteen_immediates_are_taken(endpoint: Endpoint, qp: QueuePair) -> None:
    """More than 16 writes with immediate in flight are refused, whatever was granted."""
    qp._receives.max_in_flight = 16


@mutant("MRC-QP-06")
class AnswersWaitForTheRequestor(QpDatapath):
    """While packets of its own are out a QP answers nothing."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int, others_wait: bool) -> int:
        if self.may_send and self.outstanding() > 100:
            return 0
        return super().transmit(batch, limit, now, others_wait)

    def pending(self) -> bool:
        return super().pending() and not (self.may_send and self.outstanding() > 100)


@mutant("MRC-QP-06")
class RequestsWaitForTheResponder(QpDatapath):
    """While its responder has a hole a QP sends no requests."""

    def transmit(self, batch: TransmitBatch, limit: int, now: int, others_wait: bool) -> int:
        if self.responder is not None and self.responder.received.held:
            return self.responder.transmit(batch, limit, now)
        return super().transmit(batch, limit, now, others_wait)


@mutant("MRC-QP-06")
class RequestsAcknowledgeRequests(Arrivals):
    """What comes from the peer is taken for the answer to what went to it, as many PSNs of one as of the other."""

    def receive(self, batch: ReceivedBatch, packet: ReceivedPacket, now: int) -> None:
        super().receive(batch, packet, now)
        if self._feedback is None or self._responder is None:
            return
        sent = self._feedback._sent
        if self._responder.received.completed and sent.next_psn > sent.una:
            self._feedback.on_ack(sent.una & 0xFFFFFF, now)
