# SPDX-License-Identifier: BSD-2-Clause
"""An RC queue pair: one requestor, one responder, one path, and the states that let them work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mrc.endpoint.completion_ring import CompletionRing
from mrc.endpoint.completions import Completion, WorkStatus
from mrc.endpoint.datapath.qp_datapath import PeerSources
from mrc.endpoint.memory import MemoryTable
from mrc.endpoint.node.local_ports import LocalPorts
from mrc.endpoint.paths.addressing import Path
from mrc.endpoint.qp_states import (
    MAY_RECEIVE,
    MAY_SEND,
    QpState,
    check_takes_receives,
    check_transition,
    no_writes_yet,
)
from mrc.endpoint.responder.receives import Receives
from mrc.endpoint.work import WriteRequest
from mrc.rc.config import RcConfig
from mrc.rc.counters import RcCounters
from mrc.rc.framing import Framing
from mrc.rc.opcodes import OTHER_ANSWERS, RcOp
from mrc.rc.requestor import Requestor
from mrc.rc.responder import Responder
from mrc.wire.packet import Transport
from mrc.wire.transmit_batch import TransmitBatch


@dataclass(frozen=True, slots=True)
class RcPeer:
    """What a QP must know of its peer: QPN and first PSN (24 bit each), the `path` towards it, and the `source`
    (128 bit, IPv4-mapped for IPv4) its packets come from."""

    qpn: int
    first_psn: int
    path: Path
    source: int


class RcQueuePair:
    """One QP. Created in RESET by `RcEndpoint.create_qp`; `to_init`, `to_rtr` and `to_rts` bring it up."""

    __slots__ = (
        "_complete",
        "_framing",
        "_on_error",
        "_port",
        "_ports",
        "_receives",
        "_requestor",
        "_responder",
        "completions",
        "config",
        "counters",
        "error",
        "first_psn",
        "qpn",
        "sources",
        "state",
        "timer_at",
    )

    def __init__(
        self,
        *,
        qpn: int,
        first_psn: int,
        config: RcConfig,
        memory: MemoryTable,
        complete: Callable[[Completion], None],
        on_error: Callable[[RcQueuePair, QpState, str], None],
        ports: LocalPorts,
    ) -> None:
        self.qpn = qpn
        self.first_psn = first_psn
        self.config = config
        self.counters = RcCounters()
        self.state = QpState.RESET
        self.error: str | None = None
        # When the endpoint has this QP's timer scheduled, ns, or None.
        self.timer_at: int | None = None
        self._complete = complete
        self._on_error = on_error
        self._ports = ports
        # The addresses its packets come from.
        self.sources = PeerSources()
        self._port = 0
        self._framing: Framing | None = None
        # Work that has ended, until the endpoint hands it over.
        self.completions = CompletionRing(qpn, complete)
        self._receives = Receives(self.completions)
        self._responder = Responder(
            config=config, memory=memory, counters=self.counters, receives=self._receives, fail=self._refused
        )
        self._requestor = Requestor(
            first_psn=first_psn,
            config=config,
            counters=self.counters,
            completions=self.completions,
            fail=self._failed,
        )

    # ------------------------------------------------------------------ life

    def to_init(self) -> None:
        """Bring it from RESET to INIT. Raises CallerError in any other state."""
        check_transition(self.state, QpState.INIT)
        self.state = QpState.INIT

    def to_rtr(self, peer: RcPeer) -> None:
        """Ready to receive from `peer`. Raises CallerError in the wrong state."""
        check_transition(self.state, QpState.RTR)
        self._port = peer.path.port
        self.sources.add(self._port, peer.source)
        self._framing = Framing(peer.path, peer.qpn, self.config.traffic_class)
        self._responder.epsn = peer.first_psn
        self.state = QpState.RTR

    def to_rts(self) -> None:
        """Ready to send as well. Raises CallerError in the wrong state."""
        check_transition(self.state, QpState.RTS)
        self.state = QpState.RTS

    def to_error(self, why: str) -> None:
        """Give up: everything posted completes with errors."""
        self._fail(WorkStatus.FLUSHED, why)

    def _refused(self, status: WorkStatus, why: str) -> None:
        # What the peer did wrong is no fault of our own work.
        self._fail(WorkStatus.FLUSHED, why)

    def _failed(self, status: WorkStatus, why: str) -> None:
        if status == WorkStatus.RETRY_EXCEEDED:
            cause = self._ports.refuse_all((self._port,), self.config.path_mtu)
            why = f"{cause} ({why})" if cause else why
        self._fail(status, why)

    def _fail(self, status: WorkStatus, why: str) -> None:
        if self.state == QpState.ERROR:
            return
        old = self.state
        check_transition(old, QpState.ERROR)
        self.state = QpState.ERROR
        self.error = why
        self._requestor.flush(status)
        self._receives.flush()
        self.completions.drain()
        self._on_error(self, old, why)

    # ------------------------------------------------------------------ work

    def post_write(self, request: WriteRequest) -> None:
        """Post an RDMA write. In ERROR it completes at once, flushed. Raises CallerError in any other state but RTS."""
        if self.state == QpState.ERROR:
            self._complete(Completion(request.wr_id, self.qpn, WorkStatus.FLUSHED, 0))
            return
        if self.state not in MAY_SEND:
            raise no_writes_yet(self.qpn, self.state)
        self._requestor.post(request)

    def post_receive(self, wr_id: int) -> None:
        """Post a receive, which one write with immediate will consume. In ERROR it completes at once, flushed.

        Raises CallerError in RESET.
        """
        check_takes_receives(self.qpn, self.state)
        self._receives.post(wr_id)
        if self.state == QpState.ERROR:
            self._receives.flush()
            self.completions.drain()

    # ------------------------------------------------------------------ packets

    def receive(self, packet: Transport, now: int) -> None:
        """A packet of the peer's that passed the endpoint's checks."""
        layers = dict(packet.layers)
        opcode = layers["bth"]["opcode"]
        if opcode in OTHER_ANSWERS:
            self.counters.answers_to_nothing += 1
        elif self.state not in MAY_RECEIVE:
            self.counters.wrong_qp_state += 1
            if self.state == QpState.ERROR and opcode != RcOp.ACKNOWLEDGE:
                self._responder.on_request_in_error()
        elif opcode == RcOp.ACKNOWLEDGE:
            self._requestor.on_answer(layers, now)
        else:
            self._responder.on_request(layers, packet.payload)

    @property
    def has_work(self) -> bool:
        """Whether `transmit` has something to send."""
        return self._responder.has_answer or (self.state in MAY_SEND and self._requestor.may_send)

    def transmit(self, batch: TransmitBatch, most: int, now: int) -> None:
        """Put up to `most` (1 or more) packets into the batch, an answer first."""
        if self._framing is None:
            return
        if self._responder.transmit(batch, self._framing):
            most -= 1
        if self.state in MAY_SEND and most:
            self._requestor.transmit(batch, self._framing, most, now)

    # ------------------------------------------------------------------ time

    def next_deadline(self) -> int | None:
        """When `on_timer` is due, ns, or None."""
        return self._requestor.next_deadline()

    def on_timer(self, now: int) -> None:
        """Do what is due at `now`, ns."""
        self._requestor.on_timer(now)
