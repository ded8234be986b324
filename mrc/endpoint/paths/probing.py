"""Probes that bring a bad EV back (behaviour.md, Probing).

The first probe goes out one path timer after the EV went bad; while they fail they come 10 ms apart, doubling to
250 ms; after an answer the next follows at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from mrc.endpoint.config import PathConfig
from mrc.endpoint.deadlines import FOREVER
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.states import EvState
from mrc.endpoint.tracing import QpTrace

# A plain number: an array compares with a member of an enum forty times as slowly.
_BAD = int(EvState.ASSUMED_BAD)


@dataclass(slots=True)
class _Probing:
    due_at: int
    interval: int
    answered: int = 0
    probe_id: int | None = None  # of the probe that is out


class PathProbing:
    """Which EVs are to be probed when, and what the answers do to them."""

    __slots__ = ("_by_index", "_config", "_next_due", "_paths", "_trace", "failed")

    def __init__(self, paths: PathSet, config: PathConfig, trace: QpTrace | None = None) -> None:
        self._paths = paths
        self._config = config
        self._trace = trace
        self._by_index: dict[int, _Probing] = {}
        self._next_due = FOREVER
        self.failed = 0

    def take_up(self, now: int, path_timer: int) -> None:
        """Schedule the first probe of every EV that went bad since the last call."""
        for index in self._paths.newly_bad:
            first = now + int(path_timer * self._config.first_probe_path_timers)
            self._by_index[index] = _Probing(first, self._config.probe_interval_ns)
        self._paths.newly_bad.clear()
        self._changed()

    def next_deadline(self) -> int:
        """When a probe is due, ns, or FOREVER."""
        return self._next_due

    def _changed(self) -> None:
        self._next_due = min((probing.due_at for probing in self._by_index.values()), default=FOREVER)

    def due(self, now: int, path_timer: int) -> list[int]:
        """Indexes to probe now. A probe still unanswered when the next is due has failed.

        The next is never due before a path timer is over: where a round trip takes longer than the interval, every
        probe would have failed before its answer could come.
        """
        if self._next_due > now:
            return []
        indexes = []
        for index, probing in list(self._by_index.items()):
            if self._paths.state[index] != _BAD:
                del self._by_index[index]  # restored some other way: its loss proved spurious, or it was denied
                continue
            if not self._paths.port_up(int(self._paths.port[index])):
                del self._by_index[index]  # newly bad once more when the port is back
                continue
            if probing.due_at > now:
                continue
            if probing.probe_id is not None:
                self.failed += 1
                if self._trace is not None:
                    self._trace.probe_failed(probing.probe_id, index)
                self._paths.on_probe_failed(index)
                probing.answered = 0
                probing.interval = min(probing.interval * 2, self._config.probe_interval_max_ns)
            probing.probe_id = None
            probing.due_at = now + max(probing.interval, path_timer)
            indexes.append(index)
        self._changed()
        return indexes

    def sent(self, index: int, probe_id: int) -> None:
        """A probe due on this EV goes out under this id."""
        self._by_index[index].probe_id = probe_id

    def on_answer(self, index: int, probe_id: int, m: int, now: int) -> None:
        """A probe on this EV was answered; `m` is the answer's ECN verdict. One given up before changes nothing."""
        probing = self._by_index.get(index)
        if probing is None or probing.probe_id != probe_id or m > 1:
            return
        probing.probe_id = None
        probing.answered += 1
        if probing.answered < self._config.probes_to_restore:
            probing.interval = self._config.probe_interval_ns
            probing.due_at = now
        else:
            del self._by_index[index]
            self._paths.on_probed(index, m == 1)
        self._changed()
