"""The RC endpoint: owns queue pairs and memory, takes packets apart and hands them on.

Sans-IO, in the shape of `mrc.endpoint.endpoint.Endpoint`, so that the same sockets and the same virtual time run it:
every entry takes `now` in nanoseconds, packets come and go in batches, randomness comes from the seed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable

import numpy as np

from mrc.endpoint.completions import Completion
from mrc.endpoint.events import Event, local_port, qp_error
from mrc.endpoint.memory import MemoryTable
from mrc.endpoint.node.local_ports import LocalPorts, PortLimit
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.rc.checks import sound_rows
from mrc.endpoint.rc.config import RcConfig, RcEndpointConfig
from mrc.endpoint.rc.counters import RcCounters
from mrc.endpoint.rc.qp import RcQueuePair
from mrc.errors import CallerError
from mrc.wire.fields import COMMON
from mrc.wire.psn import PSN_MODULUS
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import PSN_BITS_MASK
from mrc.wire.transmit_batch import TransmitBatch

FIRST_QPN, QPN_LIMIT = 0x10, 1 << 24
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
        self._random = np.random.default_rng(self.config.seed)
        self._draw_rkey = draw_rkey or (lambda: int(self._random.integers(1 << 32)))
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
        if qpn is None:
            qpn = int(self._random.integers(FIRST_QPN, QPN_LIMIT))
            while qpn in self.qps:
                qpn = int(self._random.integers(FIRST_QPN, QPN_LIMIT))
        elif not FIRST_QPN <= qpn < QPN_LIMIT or qpn in self.qps:
            raise CallerError(f"QPN {qpn:#x} is taken, or not one of {FIRST_QPN:#x}..{QPN_LIMIT - 1:#x}")
        if first_psn is None:
            first_psn = int(self._random.integers(PSN_MODULUS))
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
        rows = sound_rows(batch, self.config.wire, self.counters)
        fields = batch.fields(COMMON)
        qpns = (fields["dqp_word"][rows] & PSN_BITS_MASK).tolist()
        opcodes = fields["opcode"][rows].tolist()
        # In the order they came, which is what RC lives by.
        for row, qpn, opcode in zip(rows.tolist(), qpns, opcodes, strict=True):
            qp = self.qps.get(qpn)
            if qp is None:
                self.counters.unknown_qp += 1
                continue
            qp.receive(batch, row, opcode, now)
        for qpn in set(qpns) & self.qps.keys():
            self._after_event(self.qps[qpn])

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
