# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What a QP does with packets: its two halves, in their turns and at their times. Its life is `mrc.endpoint.qp`'s."""

from __future__ import annotations

from mrc.endpoint.completion_ring import CompletionRing
from mrc.endpoint.congestion.base import CongestionController
from mrc.endpoint.counters import Counters
from mrc.endpoint.datapath.arrivals import MAX_PORTS, Arrivals
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.requestor.requestor import Requestor
from mrc.endpoint.responder.receives import Receives
from mrc.endpoint.responder.responder import Responder
from mrc.endpoint.work_rings import ADDRESS, IMMEDIATE, LENGTH, REMOTE_VA, RKEY
from mrc.wire.compiled import public
from mrc.wire.transmit_batch import TransmitBatch

_FOREVER, _MAX_PORTS = FOREVER, MAX_PORTS
_ADDRESS, _LENGTH, _REMOTE_VA, _RKEY, _IMMEDIATE = ADDRESS, LENGTH, REMOTE_VA, RKEY, IMMEDIATE


class QpDatapath:
    """`responder`, `paths`, `controller` and `peer_node` are there from RTR on, `requestor` from RTS on, `receives`
    where a program posts into rings. Its owner keeps `may_send`, `is_over` and what `arrivals` knows of the QP's state
    up to date.

    `slot` is its place among the endpoint's QPs. `timer_at` is when the endpoint has its timers scheduled, ns, or
    FOREVER. `answers_wait`: the last packet sent went ahead of answers that are due; it is to leave before they are
    made. `doubted_ports`: bit n is set while the peer says that its port
    on the plane of our port n is down.
    """

    counters: Counters
    arrivals: Arrivals
    completions: CompletionRing
    controller: public[CongestionController | None]
    paths: public[PathSet | None]
    responder: public[Responder | None]
    requestor: public[Requestor | None]
    receives: public[Receives | None]
    peer_node: public[PeerNode | None]
    may_send: public[bool]
    answers_wait: public[bool]
    is_over: public[bool]
    slot: public[int]
    timer_at: public[int]
    doubted_ports: public[int]
    qpn: int

    __slots__ = (*__annotations__, "__weakref__")

    def __init__(self, qpn: int, counters: Counters, arrivals: Arrivals, completions: CompletionRing) -> None:
        self.qpn = qpn
        self.counters = counters
        self.arrivals = arrivals
        self.completions = completions
        self.controller = None
        self.paths = None
        self.responder = None
        self.requestor = None
        self.peer_node = None
        self.receives = None
        self.may_send = self.is_over = False
        self.slot = -1
        self.timer_at = FOREVER
        self.answers_wait = False
        self.doubted_ports = 0

    # ------------------------------------------------------------------ packets in

    def doubts(self, port: int) -> bool:
        """Whether the peer says that its port on the plane of this port of ours is down."""
        return 0 <= port < _MAX_PORTS and self.doubted_ports >> port & 1 != 0

    def epsn(self) -> int:
        """The PSN that it expects; -1 where it cannot receive."""
        return -1 if self.responder is None else self.responder.received.epsn

    # ------------------------------------------------------------------ work in

    def take_posted(self) -> None:
        """Take what a program has posted into its rings, if this QP has some."""
        if self.completions.rings is None or self.receives is None:
            return
        if self.is_over:
            self.completions.rings.flush()
            return
        if self.completions.rings.receive_waits():
            while self.completions.rings.receive_waits():
                self.receives.post_at(self.completions.rings.take_receive())
            if self.responder is not None:
                self.responder.on_receive_posted()
        if not self.may_send or self.requestor is None:
            return
        while self.completions.rings.send_waits():
            at = self.completions.rings.take_send()
            self.requestor.queue.post_at(
                self.completions.rings.send(at),
                self.completions.rings.send(at + _ADDRESS),
                self.completions.rings.send(at + _LENGTH),
                self.completions.rings.send(at + _REMOTE_VA),
                self.completions.rings.send(at + _RKEY),
                self.completions.rings.send(at + _IMMEDIATE),
            )

    # ------------------------------------------------------------------ packets out

    def pending(self) -> bool:
        """Whether `transmit` would send something now."""
        if self.responder is None or self.paths is None or self.paths.silent:
            return False
        return self.responder.pending() or (self.may_send and self.requestor is not None and self.requestor.ready())

    def has_work(self) -> bool:
        """Whether there is something to send, now or once a window opens."""
        if self.responder is None:
            return False
        return self.responder.pending() or (self.may_send and self.requestor is not None and self.requestor.has_work())

    def has_control(self) -> bool:
        """Whether there is something to send that no congestion window holds back: answers or probes."""
        if self.responder is None:
            return False
        return self.responder.pending() or (
            self.may_send and self.requestor is not None and self.requestor.has_probes()
        )

    def window_is_open(self) -> bool:
        """Whether the congestion window has room, if there is one."""
        return self.controller is None or self.controller.room() > 0

    def outstanding(self) -> int:
        """Packets of ours in the network."""
        return 0 if self.requestor is None else self.requestor.sent.outstanding

    def transmit(self, batch: TransmitBatch, limit: int, now: int, others_wait: bool) -> int:
        """Append up to `limit` packets, answers first. Returns how many. `others_wait` as in the requestor.

        Send a lone data packet before pending answers, once: in a ping-pong the peer waits for data. It goes alone: see
        `answers_wait`.
        """
        if self.responder is None or self.paths is None:
            return 0
        if self.paths.silent:
            # Only timers go on.
            if not self.may_send or self.requestor is None:
                return 0
            return self.requestor.transmit(batch, 0, now, others_wait)
        if (
            self.may_send
            and not self.answers_wait
            and self.requestor is not None
            and self.responder.pending()
            and self.requestor.one_packet_waits()
        ):
            sent = self.requestor.transmit(batch, min(limit, 1), now, others_wait)
            if sent:
                self.answers_wait = True
                return sent
        self.answers_wait = False
        sent = self.responder.transmit(batch, limit, now)
        if self.may_send and self.requestor is not None and self.requestor.has_work():
            sent += self.requestor.transmit(batch, limit - sent, now, others_wait)
        return sent

    # ------------------------------------------------------------------ time

    def next_deadline(self) -> int:
        """When `on_timer` wants to be called next, ns, or FOREVER."""
        of_responder = _FOREVER if self.responder is None else self.responder.next_deadline()
        if not self.may_send or self.requestor is None:
            return of_responder
        return min(of_responder, self.requestor.feedback.next_deadline())

    def on_timer(self, now: int) -> None:
        """Run every timer that is due."""
        if self.responder is not None:
            self.responder.on_timer(now)
        if self.may_send and self.requestor is not None:
            self.requestor.on_timer(now)
