"""What a requestor does about each kind of NACK (wire.md section 7), and the PSNs that wait because of one."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import IntEnum

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.congestion.base import CongestionController
from mrc.endpoint.counters import Counters
from mrc.endpoint.loss import LossDetector
from mrc.endpoint.paths import PathSet
from mrc.endpoint.retries import RetryBudget
from mrc.endpoint.rtt import RttEstimator
from mrc.endpoint.sack_reading import OLDEST_PSNS
from mrc.endpoint.sent import PsnState, SentPackets
from mrc.endpoint.tracing import QpTrace
from mrc.wire import octets
from mrc.wire.psn import unwrap
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import PSN_BITS_MASK, PSN_FLAGS_AT, RTX

_ACKED, _OUTSTANDING = int(PsnState.ACKED), int(PsnState.OUTSTANDING)
_MAX_DOUBLINGS = 32
_ANY_WINDOW = 1 << 24
_OLDEST_PSNS = OLDEST_PSNS
# Where in a packet (mrc.wire.rows.NACK); flags of the BTH's last word in their byte.
_FLAGS_AT, _RTX = PSN_FLAGS_AT, RTX >> 24
_REASON_AT, _ENTROPY_AT, _NACK_PSN_AT = 62, 64, 72


class NackReason(IntEnum):
    TRIMMED = 0x01
    TRIMMED_LASTHOP = 0x02
    NO_BITMAP = 0x06
    NO_PKT_BUFFER = 0x07
    NO_RESOURCE = 0x0A
    PSN_OOR_WINDOW = 0x0B
    UNEXP_EVENT = 0x19


class NackResponse(IntEnum):
    """How the named PSN goes on."""

    RESEND = 0  # at once, within the window
    WAIT = 1  # after one RTT, doubling with each such NACK for the same PSN; at once when it becomes the oldest
    WAIT_FOR_WINDOW = 2  # once cack_psn has moved so far that it fits the peer's window
    FAIL = 3  # never: the QP goes to error


RESPONSES: dict[NackReason, NackResponse] = {
    NackReason.TRIMMED: NackResponse.RESEND,
    NackReason.TRIMMED_LASTHOP: NackResponse.RESEND,
    NackReason.NO_BITMAP: NackResponse.WAIT,
    NackReason.NO_PKT_BUFFER: NackResponse.WAIT,
    NackReason.NO_RESOURCE: NackResponse.WAIT,
    NackReason.PSN_OOR_WINDOW: NackResponse.WAIT_FOR_WINDOW,
    NackReason.UNEXP_EVENT: NackResponse.FAIL,
}
TRIM_REASONS = frozenset({NackReason.TRIMMED, NackReason.TRIMMED_LASTHOP})
# Only a trim inside the fabric says something about the path.
PATH_REASONS = frozenset({NackReason.TRIMMED})


class NackHandler:
    """Takes NACKs: their PSNs are lost, and sent again at once (`resend(psn)`), later, or never (`fail`)."""

    __slots__ = (
        "_controller",
        "_counters",
        "_due_at",
        "_fail",
        "_loss",
        "_most_wait",
        "_oldest",
        "_oldest_since",
        "_paths",
        "_resend",
        "_retries",
        "_rtt",
        "_sent",
        "_trace",
        "_waiting",
        "_waiting_for_window",
        "_window",
    )

    def __init__(
        self,
        *,
        config: QpConfig,
        sent: SentPackets,
        rtt: RttEstimator,
        loss: LossDetector,
        paths: PathSet,
        controller: CongestionController,
        retries: RetryBudget,
        counters: Counters,
        resend: Callable[[int], None],
        fail: Callable[[WorkStatus, str, int], None],
        trace: QpTrace | None = None,
    ) -> None:
        self._most_wait = config.local_ack_timeout_ns
        self._trace = trace
        self._sent = sent
        self._rtt = rtt
        self._loss = loss
        self._paths = paths
        self._controller = controller
        self._retries = retries
        self._counters = counters
        self._resend = resend
        self._fail = fail
        self._waiting: list[tuple[int, int]] = []  # a heap of (when, ns; PSN)
        self._due_at: dict[int, int] = {}  # by PSN; an entry of the heap that says otherwise is void
        # The oldest unacknowledged PSN, and the first transmission made since it has been that.
        self._oldest, self._oldest_since = sent.una, sent.next_transmission
        self._waiting_for_window: list[int] = []  # a heap of PSNs
        # The peer's window as its refusals show it: so far above una lay the lowest PSN that did not fit.
        self._window = _ANY_WINDOW

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """A NACK. One that names what was never sent is dropped."""
        at = batch.row(row)
        psn = unwrap(octets.u32(batch.flat, at + _NACK_PSN_AT) & PSN_BITS_MASK, self._sent.una)
        code = batch.flat[at + _REASON_AT]
        if psn >= self._sent.next_psn:
            self._counters.ack_for_unsent_psn += 1
        elif psn < self._sent.una - _OLDEST_PSNS:
            self._counters.ack_too_old += 1
        elif code not in RESPONSES:
            self._counters.unknown_nack_reason += 1
        else:
            rtx = (batch.flat[at + _FLAGS_AT] & _RTX) != 0
            self._on_nack(psn, NackReason(code), octets.u32(batch.flat, at + _ENTROPY_AT), rtx, now)

    def _on_nack(self, psn: int, reason: NackReason, entropy: int, rtx: bool, now: int) -> None:
        self._loss.on_heard(now)
        if self._trace is not None:
            self._trace.nack_received(psn, reason.name, entropy, rtx)
        if RESPONSES[reason] == NackResponse.FAIL:
            # An old PSN does not end the QP: half of all PSNs are old, and a forger soon guesses one. A peer that means
            # it refuses every packet, the latest too.
            if self._awaited(psn):
                why = f"the peer cannot go on with PSN {psn & PSN_BITS_MASK}"
                self._fail(WorkStatus.REMOTE_OPERATION_ERROR, why, psn)
            return
        if reason in PATH_REASONS:
            self._trimmed_on(entropy)
        if not self._names_latest(psn, entropy, rtx):
            return
        self._counters.losses_by_nack += 1
        self._lose(psn, reason, now)
        if not self._retries.draw(psn):
            self._fail(WorkStatus.RETRY_EXCEEDED, self._retries.exceeded(psn, f"NACK {reason.name}"), psn)

    def _trimmed_on(self, entropy: int) -> None:
        index = self._paths.index(entropy)
        if index < 0:
            self._counters.unknown_ev += 1
        else:
            self._paths.on_trimmed(index)

    def _awaited(self, psn: int) -> bool:
        """Whether a PSN that was sent has not been acknowledged."""
        return psn >= self._sent.una and self._sent.state[psn & self._sent.mask] != _ACKED

    def _names_latest(self, psn: int, entropy: int, rtx: bool) -> bool:
        """Whether a NACK is about the transmission that is outstanding: not about an acknowledged PSN, and not about
        an earlier transmission of this one."""
        sent = self._sent
        slot = psn & sent.mask
        if psn < sent.una or sent.state[slot] != _OUTSTANDING:
            return False
        if sent.times_sent[slot] == 1:
            return True
        latest = sent.log_ev[sent.transmission[slot] & sent.log_mask]
        return rtx and latest == self._paths.index(entropy)

    def _lose(self, psn: int, reason: NackReason, now: int) -> None:
        sent = self._sent
        slot = psn & sent.mask
        transmission = sent.transmission[slot]
        size = sent.lose(transmission)
        self._controller.on_removed(size)
        self._controller.on_nack(now, size, reason in TRIM_REASONS)
        if self._trace is not None:
            entry = transmission & sent.log_mask
            self._trace.lost((psn,), (sent.log_ev[entry],), (sent.log_sent_at[entry],), f"nack:{reason.name}")
        if RESPONSES[reason] == NackResponse.RESEND or self._fits_by_now(psn, transmission):
            self._resend(psn)
        elif RESPONSES[reason] == NackResponse.WAIT_FOR_WINDOW and psn > sent.una:
            self._window = min(self._window, psn - sent.una)
            heapq.heappush(self._waiting_for_window, psn)
        else:
            wait, doublings = self._rtt.srtt or self._loss.path_timer_ns, min(sent.waits[slot], _MAX_DOUBLINGS)
            sent.waits[slot] += 1
            if wait > self._most_wait >> doublings:
                wait, doublings = self._most_wait, 0
            self._due_at[psn] = now + (wait << doublings)
            heapq.heappush(self._waiting, (self._due_at[psn], psn))

    def _fits_by_now(self, psn: int, transmission: int) -> bool:
        """Whether a PSN that was refused has become the oldest since it was sent: then it fits any buffer and window.

        One that the peer refused although it was the oldest already has to wait (MRC-NACK-20, MRC-NACK-21).
        """
        return psn == self._oldest and transmission < self._oldest_since

    def on_cack_moved(self) -> None:
        """Send again what fits the peer's buffers or window now."""
        sent = self._sent
        if sent.una != self._oldest:
            self._oldest, self._oldest_since = sent.una, sent.next_transmission
            if self._due_at and self._due_at.pop(sent.una, None) is not None:
                self._resend(sent.una)
        if not self._waiting_for_window:
            return
        while self._waiting_for_window and self._waiting_for_window[0] - sent.una < self._window:
            self._resend(heapq.heappop(self._waiting_for_window))
        if not self._waiting_for_window:
            self._window = _ANY_WINDOW

    def next_deadline(self) -> int | None:
        return self._waiting[0][0] if self.waits_for_room else None

    def on_timer(self, now: int) -> None:
        """Send again what has waited long enough."""
        while self.waits_for_room and self._waiting[0][0] <= now:
            _, psn = heapq.heappop(self._waiting)
            del self._due_at[psn]
            self._resend(psn)

    @property
    def waits_for_room(self) -> bool:
        """Whether any PSN that is still missing waits after a resource NACK.

        No new PSN is sent meanwhile: it would take the room that the old ones wait for (MRC-NACK-22).
        """
        waiting = self._waiting
        while waiting and not self._still_waits(*waiting[0]):
            heapq.heappop(waiting)
        return bool(waiting)

    def _still_waits(self, when: int, psn: int) -> bool:
        if self._due_at.get(psn) != when:
            return False
        if self._awaited(psn):
            return True
        del self._due_at[psn]
        return False

    @property
    def keeps_waiting(self) -> bool:
        """Whether any PSN waits for its time or the window."""
        return self.waits_for_room or bool(self._waiting_for_window)

    def clear(self) -> None:
        self._waiting.clear()
        self._due_at.clear()
        self._waiting_for_window.clear()
