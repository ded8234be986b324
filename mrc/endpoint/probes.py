"""Reliability probes a requestor sends: one to find a lost tail, others to bring bad EVs back (wire.md section 8)."""

from __future__ import annotations

import struct

from mrc.endpoint.answers import append_control
from mrc.endpoint.config import QpConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.deadlines import FOREVER
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.probing import PathProbing
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.sent import SentPackets
from mrc.endpoint.tracing import QpTrace
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.wire.opcodes import Op
from mrc.wire.rows import P_KEY, TIMESTAMP_FTYPE, TIMESTAMP_UNIT_NS
from mrc.wire.transmit_batch import TransmitBatch

# BTH and PETH as the fields of mrc.wire.rows.PROBE lie.
_PACKED = struct.Struct(">BBHII HBBHHHHHH")
_TAIL = _NONE = -1
_DENIED = int(EvState.DENIED)  # arrays are compared with plain numbers, at a tenth of the price
_MAX_REMEMBERED = 1024


class Probes:
    """Probe ids, and what each probe was for."""

    __slots__ = (
        "_classes",
        "_config",
        "_counters",
        "_next_id",
        "_path_probing",
        "_paths",
        "_peer_qpn",
        "_purpose",
        "_qpn",
        "_queue",
        "_tail_at",
        "_tail_interval",
        "_trace",
        "asked_at",
        "tail_armed",
        "waiting",
    )

    def __init__(
        self,
        *,
        qpn: int,
        peer_qpn: int,
        config: QpConfig,
        paths: PathSet,
        counters: Counters,
        classes: TrafficClasses,
        trace: QpTrace | None = None,
    ) -> None:
        self._qpn = qpn
        self._trace = trace
        self._peer_qpn = peer_qpn
        self._config = config
        self._paths = paths
        self._counters = counters
        self._classes = classes
        self._path_probing = PathProbing(paths, config.paths, trace)
        self._next_id = 0
        # probe_id -> (EV index of a path probe or _TAIL; after which transmissions and when a tail probe was asked for)
        self._purpose: dict[int, tuple[int, int, int]] = {}
        # When the tail probe that was answered last had been asked for, ns.
        self.asked_at = 0
        self.waiting = False
        self.tail_armed = False
        self._queue: list[tuple[int, int]] = []  # (EV index or _TAIL, probe_id) to send
        self._tail_at = FOREVER
        self._tail_interval = 0

    def arm_tail(self, now: int, timer_ns: int) -> None:
        """Data was sent: a probe follows if nothing else is for `timer_ns`, and then again at twice the distance
        while it is not answered, up to the local ACK timeout."""
        self._tail_interval = timer_ns
        self._tail_at = now + timer_ns
        self.tail_armed = True

    def take_up_bad_evs(self, now: int, path_timer_ns: int) -> None:
        self._path_probing.take_up(now, path_timer_ns)

    def next_deadline(self) -> int:
        """When a probe is due, ns, or FOREVER."""
        return min(self._path_probing.next_deadline(), self._tail_at)

    def tail_is_due(self, now: int) -> bool:
        return now >= self._tail_at

    def on_timer(self, now: int, sent: SentPackets, path_timer_ns: int, asks: bool, goes_on: bool) -> None:
        """Queue the probes that are due. `asks`: with nothing outstanding there is still something to learn. `goes_on`:
        data may leave now, so what was sent last is no tail, and the timer starts afresh."""
        if self.tail_is_due(now):
            self._tail_at = FOREVER
            if goes_on:
                self._tail_at = now + self._tail_interval
            elif sent.outstanding or asks:
                longest = max(self._config.local_ack_timeout_ns, path_timer_ns)
                self._tail_interval = min(2 * self._tail_interval, longest)
                self._tail_at = now + self._tail_interval
                self._enqueue(_TAIL, sent.next_transmission, now)
                self._counters.tail_probes_sent += 1
            self.tail_armed = self._tail_at != FOREVER
        failed = self._path_probing.failed
        for index in self._path_probing.due(now, path_timer_ns):
            self._path_probing.sent(index, self._enqueue(index))
            self._counters.path_probes_sent += 1
        self._counters.path_probes_failed += self._path_probing.failed - failed

    def _enqueue(self, target: int, after: int = 0, asked_at: int = 0) -> int:
        probe_id = self._next_id
        self._next_id = (self._next_id + 1) & 0xFFFF
        self._purpose[probe_id] = (target, after, asked_at)
        if len(self._purpose) > _MAX_REMEMBERED:
            del self._purpose[next(iter(self._purpose))]
        self._queue.append((target, probe_id))
        self.waiting = True
        return probe_id

    def transmit(self, batch: TransmitBatch, limit: int, now: int) -> int:
        """Append up to `limit` of the probes that wait. A probe uses up no PSN and sends 0."""
        if not self._queue:
            return 0
        # An EV that was denied since carries none; what waits for an EV to be allowed is not remembered for ever.
        state = self._paths.state
        self._queue = [
            (target, probe)
            for target, probe in self._queue
            if probe in self._purpose and (target == _TAIL or int(state[target]) != _DENIED)
        ]
        count = min(limit, len(self._queue))
        for target, probe_id in self._queue[:count]:
            index = self._paths.control.take_one(now) if target == _TAIL else target
            headers = _PACKED.pack(
                Op.PROBE,
                0,
                P_KEY,
                self._peer_qpn,
                0,
                0,
                0,
                0,
                probe_id,
                0,
                self._qpn & 0xFFFF,
                self._peer_qpn & 0xFFFF,
                now // TIMESTAMP_UNIT_NS & 0xFFFF,
                TIMESTAMP_FTYPE,
            )
            append_control(batch, self._paths, index, self._classes.probe, headers)
            if self._trace is not None:
                self._trace.probe_sent(probe_id, index, tail=target == _TAIL)
        del self._queue[:count]
        self.waiting = bool(self._queue)
        return count

    def on_answer(self, probe_id: int, m: int, now: int) -> int:
        """An answer came. Returns the transmission before which a tail probe was asked for, at `asked_at`; -1 for any
        other probe."""
        purpose = self._purpose.pop(probe_id, None)
        if purpose is None:
            self._counters.unknown_probe_answer += 1
            return _NONE
        target, after, asked_at = purpose
        if self._trace is not None:
            self._trace.probe_answered(probe_id, m, tail=target == _TAIL)
        if target == _TAIL:
            self.asked_at = asked_at
            return after
        self._path_probing.on_answer(target, probe_id, m, now)
        return _NONE
