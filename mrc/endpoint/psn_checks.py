"""Check PSN: what each request of a batch is by its PSN, the first step of the responder (behaviour.md, Responder)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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
from mrc.endpoint.request_checks import NotTogether
from mrc.endpoint.resource_limits import ResourceLimits
from mrc.wire.arrays import first_occurrences
from mrc.wire.psn import PSN_HALF, psn_diff_array
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import PSN_BITS_MASK

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SortedRequests:
    """A batch of requests by what each of their PSNs says when its turn comes, one after the other.

    `new` are to be taken, `answered` are due a SACK on a trigger, `old` and `above` are the duplicates among those;
    `refusals` (position to reason) and `beyond` find no room and no window, `out_of_range` are half the circle behind.
    `in_order` says all are new and follow on epsn without a gap. `reached`: by distance from `epsn` the position of the
    request with which the left edge passes that PSN, or a position beyond all; None where the edge stays.
    """

    psns: I64
    new: I64
    answered: Bools
    old: Bools
    above: Bools
    in_order: bool
    epsn: int
    reached: I64 | None = None
    refusals: Mapping[int, NackReason] = field(default_factory=dict)
    beyond: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    out_of_range: int = 0

    def edges_after(self, positions: I64) -> I64:
        """epsn as each of these requests leaves it."""
        if self.in_order:
            return self.epsn + positions + 1
        if self.reached is None:
            return np.full(len(positions), self.epsn)
        return np.asarray(self.epsn + np.searchsorted(self.reached, positions, "right"))


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

    def sort(self, requests: ReceivedRequests) -> SortedRequests:
        """Check PSN: the table of behaviour.md. Changes nothing.

        Raises NotTogether where the window's edge passes a PSN that was beyond it when the batch came.
        """
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
            return SortedRequests(psns, np.arange(count), ~none, none, none, in_order=True, epsn=epsn)
        in_window = (distance >= 0) & (psns < end)
        old = (distance < 0) & (distance > -PSN_HALF)
        fresh = in_window.copy()
        fresh[in_window] = ~received.arrived(psns[in_window])
        new = np.flatnonzero(fresh)
        refusals: dict[int, NackReason] = {}
        refused = none
        if len(new) and not self.limits.none:
            refusals = self.limits.refusals(
                psns, new, IMMEDIATE[requests.opcodes], received, self._receives.stashed_psns()
            )
            if refusals:
                refused = np.zeros(count, np.bool_)
                refused[list(refusals)] = True
                new = new[~refused[new]]
        new = new[first_occurrences(psns[new])]
        above = in_window & ~refused
        above[new] = False
        reached = self._reached(psns, new)
        if reached is not None:
            moved = int(np.searchsorted(reached, count))
            if ((psns >= end) & (psns < self._window.end(epsn + moved)) | (distance <= moved - PSN_HALF)).any():
                raise NotTogether
            passed = above & (psns < epsn + np.searchsorted(reached, np.arange(count)))
            above &= ~passed
            old |= passed
        return SortedRequests(
            psns,
            new,
            in_window & ~refused | old,
            old,
            above,
            in_order=False,
            epsn=epsn,
            reached=reached,
            refusals=refusals,
            beyond=np.flatnonzero(psns >= end),
            out_of_range=int(np.count_nonzero(distance <= -PSN_HALF)),
        )

    def _reached(self, psns: I64, new: I64) -> I64 | None:
        received, epsn, count = self._received, self._received.epsn, len(psns)
        fresh = psns[new]
        if not (fresh == epsn).any():
            return None
        top = max(received.highest, int(fresh.max()))
        arrives = np.where(received.arrived(np.arange(epsn, top + 1)), -1, count)
        arrives[fresh - epsn] = new
        return np.asarray(np.maximum.accumulate(arrives))

    def report(self, requests: ReceivedRequests, found: SortedRequests, now: int) -> None:
        """Count what is not taken, and answer what is refused for its PSN or for want of room, in order of arrival."""
        if found.in_order:
            return
        counters = self._counters
        counters.duplicates_old += int(np.count_nonzero(found.old))
        counters.duplicates_above_epsn += int(np.count_nonzero(found.above))
        counters.psn_out_of_range += found.out_of_range
        counters.psn_out_of_window += len(found.beyond)
        counters.no_room += len(found.refusals)
        reasons: dict[int, NackReason] = dict(found.refusals)
        if self._config.nack_out_of_window and len(found.beyond):
            granted = self._beyond.take_counted(len(found.beyond), now, counters)
            reasons |= dict.fromkeys(found.beyond[:granted].tolist(), NackReason.PSN_OOR_WINDOW)
        if reasons:
            positions = sorted(reasons)
            codes = [reasons[position] for position in positions]
            self._refuse(requests.batch, requests.rows[positions], found.psns[positions], codes, now)
