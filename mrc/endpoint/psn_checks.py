"""Check PSN: what each request of a batch is by its PSN, the first step of the responder (behaviour.md, Responder)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mrc.endpoint.config import ResponderConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.nacked import NackReason
from mrc.endpoint.rate_limit import RateLimit
from mrc.endpoint.receive_window import ReceiveWindow
from mrc.endpoint.received import ReceivedPsns
from mrc.endpoint.received_requests import IMMEDIATE, ReceivedRequests
from mrc.endpoint.receives import Receives
from mrc.endpoint.resource_limits import ResourceLimits
from mrc.wire.arrays import first_occurrences
from mrc.wire.batch import ReceivedBatch
from mrc.wire.psn import PSN_HALF, psn_diff_array
from mrc.wire.rows import PSN_BITS_MASK

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SortedRequests:
    """A batch of requests by what its PSNs say. `new` are to be taken, `answered` are due a SACK on a trigger, `old`
    and `above` are the duplicates among those; `in_order` says all are new and follow on epsn without a gap."""

    psns: I64
    new: I64
    answered: Bools
    old: Bools
    above: Bools
    in_order: bool


class PsnChecks:
    """`refuse(batch, rows, psns, reasons, now)` queues a NACK for each of these requests. `beyond` limits how many are
    refused for a PSN beyond the window."""

    __slots__ = ("_beyond", "_config", "_counters", "_received", "_receives", "_refuse", "_window", "limits")

    def __init__(
        self,
        *,
        config: ResponderConfig,
        received: ReceivedPsns,
        window: ReceiveWindow,
        receives: Receives,
        counters: Counters,
        beyond: RateLimit,
        refuse: Callable[[ReceivedBatch, I64, I64, Sequence[int], int], None],
    ) -> None:
        self._config = config
        self._received = received
        self._window = window
        self._receives = receives
        self._counters = counters
        self._beyond = beyond
        self._refuse = refuse
        self.limits = ResourceLimits(config)

    def has_room_for(self, psn: int) -> bool:
        """Whether a PSN at or above epsn is in the window, new, and nothing is short."""
        received = self._received
        return self.limits.none and psn < self._window.end(received.epsn) and not received.has(psn)

    def sort(self, requests: ReceivedRequests, now: int) -> SortedRequests:
        """Check PSN: the table of behaviour.md. What is refused for its PSN or for want of room is answered here."""
        received = self._received
        epsn = received.epsn
        end = self._window.end(epsn)
        distance = psn_diff_array(requests.words & PSN_BITS_MASK, epsn & PSN_BITS_MASK)
        psns = epsn + distance
        count = len(psns)
        none = np.zeros(count, np.bool_)
        if (
            not received.held
            and distance[0] == 0
            and count <= end - epsn
            and (count == 1 or bool((distance[1:] - distance[:-1] == 1).all()))
        ):
            return SortedRequests(psns, np.arange(count), ~none, none, none, in_order=True)
        in_window = (distance >= 0) & (psns < end)
        old = (distance < 0) & (distance > -PSN_HALF)
        fresh = in_window.copy()
        fresh[in_window] = ~received.arrived(psns[in_window])
        new = np.flatnonzero(fresh)
        refused = none
        if len(new) and not self.limits.none:
            refused, new = self._without_room(requests, psns, new, now)
        new = new[first_occurrences(psns[new])]
        above = in_window & ~refused
        above[new] = False
        counters = self._counters
        counters.duplicates_old += int(np.count_nonzero(old))
        counters.duplicates_above_epsn += int(np.count_nonzero(above))
        counters.psn_out_of_range += int(np.count_nonzero(distance <= -PSN_HALF))
        beyond = np.flatnonzero(psns >= end)
        if len(beyond):
            counters.psn_out_of_window += len(beyond)
            if self._config.nack_out_of_window:
                beyond = beyond[: self._beyond.take_counted(len(beyond), now, counters)]
                reasons = [NackReason.PSN_OOR_WINDOW] * len(beyond)
                self._refuse(requests.batch, requests.rows[beyond], psns[beyond], reasons, now)
        return SortedRequests(psns, new, in_window & ~refused | old, old, above, in_order=False)

    def _without_room(self, requests: ReceivedRequests, psns: I64, candidates: I64, now: int) -> tuple[Bools, I64]:
        """(who is refused for want of room, whom of `candidates` there is room for); those refused are NACKed."""
        receives = self._receives
        refusals = self.limits.refusals(
            psns, candidates, IMMEDIATE[requests.opcodes], self._received, receives.stashed_psns()
        )
        refused = np.zeros(len(psns), np.bool_)
        if refusals:
            positions = list(refusals)
            refused[positions] = True
            self._refuse(requests.batch, requests.rows[positions], psns[positions], list(refusals.values()), now)
        self._counters.no_room += len(refusals)
        return refused, candidates[~refused[candidates]]
