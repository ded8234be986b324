# SPDX-License-Identifier: BSD-2-Clause
"""The RC endpoint: owns queue pairs and memory, takes packets apart and hands them on.

Sans-IO, in the shape of `mrc.endpoint.endpoint.Endpoint`, so that the same sockets and the same virtual time run it:
every entry takes `now` in nanoseconds, packets come and go in batches, randomness comes from the seed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random

from mrc.endpoint.completions import Completion
from mrc.endpoint.datapath.receive import SOUND, PacketChecks
from mrc.endpoint.events import Event, local_port, qp_error
from mrc.endpoint.memory import MemoryTable
from mrc.endpoint.node.local_ports import LocalPorts, PortLimit
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.qpns import free_qpn
from mrc.errors import CallerError
from mrc.rc.config import RcConfig, RcEndpointConfig
from mrc.rc.counters import RcCounters
from mrc.rc.opcodes import RC_TERMS
from mrc.rc.qp import RcQueuePair
from mrc.wire.packet import decode_transport
from mrc.wire.psn import PSN_MODULUS
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import BTH_AT
from mrc.wire.transmit_batch import TransmitBatch

_KEPT_EVENTS = 1024


class RcEndpoint:
    """One host's RC queue pairs."""

    def __init__(self, config: RcEndpointConfig | None = None, *, draw_rkey: Callable[[], int] | None = None) -> None:
        """`draw_rkey` gives 32-bit numbers for R_Keys that peers cannot guess; without it they come from the seed,
        which is for simulations."""
        self.config = config or RcEndpointConfig()
        self.counters = RcCounters()
        self.completions: deque[Completion] = deque()
        self.events: deque[Event] = deque(maxlen=_KEPT_EVENTS)
        self.qps: dict[int, RcQueuePair] = {}
        self._checks = PacketChecks(self.config.wire, self.counters, RC_TERMS)
        self._random = Random(self.config.seed)
        self._draw_rkey = draw_rkey or (lambda: self._random.getrandbits(32))
        self.memory = self.create_memory()
        # QPs that may have something to send, in the order of their turns.
        self._ready: dict[int, RcQueuePair] = {}
        self._timers: list[tuple[int, int]] = []
        self._now = 0
        self._ports = LocalPorts()

    # ------------------------------------------------------------------ resources

    def create_memory(self) -> MemoryTable:
        """A table of regions for QPs that are to share no memory with others."""
        return MemoryTable(self._draw_rkey)

    def create_qp(
        self,
        config: RcConfig | None = None,
        *,
        memory: MemoryTable | None = None,
        complete: Callable[[Completion], None] | None = None,
        qpn: int | None = None,
        first_psn: int | None = None,
    ) -> RcQueuePair:
        """A new QP in RESET, with a QPN and a first PSN drawn at random unless they are given.

        `memory` is what the peer may write to, the endpoint's own table without; `complete` gets its completions,
        without they are kept in `completions`. Raises CallerError for a QPN that is taken or out of range, and for a
        PSN that does not fit 24 bits.
        """
        qpn = free_qpn(qpn, self.qps, self._random)
        if first_psn is None:
            first_psn = self._random.randrange(PSN_MODULUS)
        elif not 0 <= first_psn < PSN_MODULUS:
            raise CallerError(f"a PSN is 0..{PSN_MODULUS - 1}, got {first_psn}")
        qp = RcQueuePair(
            qpn=qpn,
            first_psn=first_psn,
            config=config or RcConfig(),
            memory=memory or self.memory,
            complete=complete or self.completions.append,
            on_error=self._qp_error,
            ports=self._ports,
        )
        self.qps[qpn] = qp
        return qp

    def destroy_qp(self, qp: RcQueuePair) -> None:
        """Forget a QP; packets for it are dropped and counted. Raises CallerError if it is not one of ours."""
        if self.qps.get(qp.qpn) is not qp:
            raise CallerError(f"QP {qp.qpn:#08x} is not one of this endpoint's")
        del self.qps[qp.qpn]
        self._ready.pop(qp.qpn, None)
        self.counters.add(qp.counters)

    def wake(self, qp: RcQueuePair) -> None:
        """Work was posted on `qp`: give it its turn at the next `transmit`."""
        self._ready.setdefault(qp.qpn, qp)

    def set_port(self, port: int, up: bool, now: int) -> None:
        """A local port's link went down or came back. RC has one path: what is lost on it meanwhile is sent again."""
        self.events.append(local_port(now, port, up))

    def limit_port(self, port: int, limit: PortLimit | None, now: int) -> None:
        """A local port takes no longer packets than `limit` has it: longer ones are lost, and the retries run out."""
        self._ports.limit(port, limit)

    def total_counters(self) -> RcCounters:
        """The endpoint's counters and those of all its QPs, added up."""
        total = RcCounters()
        for counters in (self.counters, *(qp.counters for qp in self.qps.values())):
            total.add(counters)
        return total

    @property
    def data_before_answers(self) -> int:
        """How often data was sent ahead of answers that were due: never, RC answers first."""
        return 0

    def _qp_error(self, qp: RcQueuePair, old: QpState, why: str) -> None:
        self.events.append(qp_error(self._now, qp.qpn, old, why))

    # ------------------------------------------------------------------ packets

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        """Take a batch of packets. Whatever they hold, nothing is raised: what is wrong is dropped and counted."""
        self._now = now
        touched: dict[int, RcQueuePair] = {}
        # In the order they came, which is what RC lives by.
        for row in range(batch.count):
            if self._checks.look(batch, row) != SOUND:
                continue
            packet = decode_transport(batch.view(row, BTH_AT, batch.lengths[row]))
            qp = self.qps.get(packet.layers[0][1]["dqp"])
            if qp is None:
                self.counters.unknown_qp += 1
                continue
            touched[qp.qpn] = qp
            if qp.sources.has_sent(batch, self._checks.packet):
                qp.receive(packet, now)
            else:
                qp.counters.bad_source += 1
        for qp in touched.values():
            self._after_event(qp)

    def transmit(self, batch: TransmitBatch, now: int) -> int:
        """Fill `batch` with what may leave now, QP by QP in turn, and seal it. Returns the number of packets."""
        self._now = now
        start = batch.count
        while batch.free and self._ready:
            qp = self._ready.pop(next(iter(self._ready)))
            qp.transmit(batch, min(batch.free, self.config.fair_share), now)
            self._after_event(qp)
        batch.seal(start)
        return batch.count - start

    def _after_event(self, qp: RcQueuePair) -> None:
        qp.completions.drain()
        if self.qps.get(qp.qpn) is not qp:
            return  # it was destroyed as its work was completed
        if qp.has_work:
            self.wake(qp)
        deadline = qp.next_deadline()
        if deadline is not None and (qp.timer_at is None or deadline < qp.timer_at):
            qp.timer_at = deadline
            heapq.heappush(self._timers, (deadline, qp.qpn))

    # ------------------------------------------------------------------ time

    def next_deadline(self) -> int | None:
        """When `on_timer` should be called next, ns, or None. It may come early: a call too soon does nothing."""
        while self._timers:
            at, qpn = self._timers[0]
            qp = self.qps.get(qpn)
            if qp is not None and qp.timer_at == at:
                return at
            heapq.heappop(self._timers)
        return None

    def on_timer(self, now: int) -> None:
        """Run the timers that are due."""
        self._now = now
        while (at := self.next_deadline()) is not None and at <= now:
            _, qpn = heapq.heappop(self._timers)
            qp = self.qps[qpn]
            qp.timer_at = None
            qp.on_timer(now)
            self._after_event(qp)
