# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What a requestor does about each kind of NACK (wire.md section 7), and the PSNs that wait because of one."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.parts.numbers import Heap
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.requestor.acknowledgements import OLDEST_PSNS
from mrc.endpoint.requestor.sending_parts import SendingParts
from mrc.endpoint.requestor.sent import PsnState, unbounded
from mrc.wire import octets
from mrc.wire.compiled import const_u8s, public, python, readonly, with_gil
from mrc.wire.names import NackReason
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import PSN_BITS_MASK, PSN_FLAGS_AT, RTX, fields_at

if TYPE_CHECKING:
    from mrc.endpoint.tracing import QpTrace

_ACKED, _OUTSTANDING = int(PsnState.ACKED), int(PsnState.OUTSTANDING)
_MAX_DOUBLINGS = 32
_ANY_WINDOW = 1 << 24
_NONE = -1
# Where in a packet (mrc.wire.fields.NACK); flags of the BTH's last word in their byte.
_RTX = RTX >> 24
_REASON_AT, _ENTROPY_AT, _NACK_PSN_AT = fields_at("neth", "reason entropy reserved2")


class NackResponse(IntEnum):
    """How the named PSN goes on."""

    RESEND = 0  # at once, within the window
    WAIT = 1  # after one RTT, doubling with each such NACK for the same PSN; at once when it becomes the oldest
    WAIT_FOR_WINDOW = 2  # once cack_psn has moved so far that it fits the peer's window
    FAIL = 3  # never: the QP goes to error
    UNKNOWN = 4  # a reason that the table does not have: RESEND or, by `QpConfig.fail_on_unknown_nack`, FAIL


RESPONSES: dict[int, NackResponse] = {
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
# By the byte that is the reason.
_UNKNOWN = int(NackResponse.UNKNOWN)
_RESPONSE_TO: const_u8s = memoryview(bytes(RESPONSES.get(value, NackResponse.UNKNOWN) for value in range(256)))
_IS_TRIM: const_u8s = memoryview(bytes(value in TRIM_REASONS for value in range(256)))
_IS_OF_PATH: const_u8s = memoryview(bytes(value in PATH_REASONS for value in range(256)))
_RESEND, _WAIT_FOR_WINDOW = int(NackResponse.RESEND), int(NackResponse.WAIT_FOR_WINDOW)
_FAIL = int(NackResponse.FAIL)


def _name_of(reason: int) -> python[str]:
    """What a reason is called; `UNKNOWN_0x0C` where the table does not have it."""
    return NackReason(reason).name if reason in RESPONSES else f"UNKNOWN_0x{reason:02X}"


class NackHandler:
    """Takes NACKs: their PSNs are lost, and sent again at once (`resend` takes them), later, or never (`fail`).

    `waits`: some of them may wait for their time or the window. While it is not set nothing else here need be asked.
    """

    def __init__(self, qp: QpParts, sending: SendingParts) -> None:
        self._most_wait = qp.config.local_ack_timeout_ns
        self._fails_on_unknown = qp.config.fail_on_unknown_nack
        self._trace: readonly[QpTrace | None] = qp.trace
        self._sent = sending.sent
        self._rtt = sending.rtt
        self._loss = sending.loss
        self._paths = qp.paths
        self._controller = sending.controller
        self._retries = sending.retries
        self._counters = qp.counters
        self._resend = sending.resend
        self._fail: public[Callable[[WorkStatus, str, int], None]] = sending.fail
        # PSNs by when they are due, ns; one for which `sent.due_at` says otherwise is void.
        self._waiting = Heap()
        self.waits = False
        # The oldest unacknowledged PSN when what waits was last looked at.
        self._oldest = sending.sent.una
        self._waiting_for_window = Heap()  # of PSNs
        # The peer's window as its refusals show it: so far above una lay the lowest PSN that did not fit.
        self._window = _ANY_WINDOW

    def on_nack(self, batch: ReceivedBatch, row: int, now: int) -> None:
        """A NACK. One that names what was never sent is dropped."""
        at = batch.row(row)
        psn = unbounded(octets.u32(batch.flat, at + _NACK_PSN_AT) & PSN_BITS_MASK, self._sent.una)
        reason = batch.flat[at + _REASON_AT]
        if psn >= self._sent.next_psn:
            self._counters.ack_for_unsent_psn += 1
        elif psn < self._sent.una - OLDEST_PSNS:
            self._counters.ack_too_old += 1
        else:
            if _RESPONSE_TO[reason] == _UNKNOWN:
                self._counters.unknown_nack_reason += 1
            rtx = (batch.flat[at + PSN_FLAGS_AT] & _RTX) != 0
            self._on_nack(psn, reason, octets.u32(batch.flat, at + _ENTROPY_AT), rtx, now)

    def _on_nack(self, psn: int, reason: int, entropy: int, rtx: bool, now: int) -> None:
        self._loss.on_heard(now)
        if self._trace is not None:
            self._trace_nack(psn, reason, entropy, rtx)
        if self._response_to(reason) == _FAIL:
            # An old PSN does not end the QP: half of all PSNs are old, and a forger soon guesses one. A peer that means
            # it refuses every packet, the latest too.
            if self._awaited(psn):
                self._fail_at(psn)
            return
        if _IS_OF_PATH[reason]:
            self._trimmed_on(entropy)
        if not self._names_latest(psn, entropy, rtx):
            return
        self._counters.losses_by_nack += 1
        self._lose(psn, reason, now)
        if not self._retries.draw(psn):
            self._give_up(psn, reason)

    def _response_to(self, reason: int) -> int:
        """What is done about a reason: one that nobody knows is taken for one that retransmits, or for a fatal one."""
        response = _RESPONSE_TO[reason]
        if response != _UNKNOWN:
            return response
        return _FAIL if self._fails_on_unknown else _RESEND

    def _trace_nack(self, psn: int, reason: int, entropy: int, rtx: bool) -> with_gil[None]:
        assert self._trace is not None
        self._trace.nack_received(psn, _name_of(reason), entropy, rtx)

    def _fail_at(self, psn: int) -> with_gil[None]:
        """The peer says that it cannot take this PSN, ever."""
        why = f"the peer cannot go on with PSN {psn & PSN_BITS_MASK}"
        self._fail(WorkStatus.REMOTE_OPERATION_ERROR, why, psn)

    def _give_up(self, psn: int, reason: int) -> with_gil[None]:
        """The retries of this PSN are spent."""
        why = self._retries.exceeded(psn, f"NACK {_name_of(reason)}")
        self._fail(WorkStatus.RETRY_EXCEEDED, why, psn)

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
        slot = psn & self._sent.mask
        if psn < self._sent.una or self._sent.state[slot] != _OUTSTANDING:
            return False
        if self._sent.times_sent[slot] == 1:
            return True
        latest = self._sent.log_ev[self._sent.transmission[slot] & self._sent.log_mask]
        return rtx and latest == self._paths.index(entropy)

    # ------------------------------------------------------------------ what is refused is lost

    def _lose(self, psn: int, reason: int, now: int) -> None:
        slot = psn & self._sent.mask
        transmission = self._sent.transmission[slot]
        size = self._sent.lose(transmission)
        self._controller.on_removed(size)
        self._controller.nacked(now, size, _IS_TRIM[reason] != 0)
        if self._trace is not None:
            self._trace_lost(transmission, reason)
        response = self._response_to(reason)
        if response == _RESEND or self._fits_by_now(psn, transmission):
            self._resend.push(psn, 0)
        else:
            self.waits, self._oldest = True, self._sent.una
            if response == _WAIT_FOR_WINDOW and psn > self._oldest:
                self._window = min(self._window, psn - self._oldest)
                self._waiting_for_window.push(psn, 0)
            else:
                self._wait(psn, now)

    def _trace_lost(self, transmission: int, reason: int) -> with_gil[None]:
        assert self._trace is not None
        trigger = f"nack:{_name_of(reason)}"
        psn, ev, sent_at = self._sent.transmitted(transmission)
        self._trace.lost((psn,), (ev,), (sent_at,), trigger)

    def _wait(self, psn: int, now: int) -> None:
        """Send this PSN again after one RTT, doubled for each time it has waited before."""
        slot = psn & self._sent.mask
        wait = self._rtt.srtt or self._loss.path_timer()
        doublings = min(self._sent.waits[slot], _MAX_DOUBLINGS)
        self._sent.waits[slot] += 1
        if wait > self._most_wait >> doublings:
            wait, doublings = self._most_wait, 0
        self._sent.due_at[slot] = now + (wait << doublings)
        self._waiting.push(self._sent.due_at[slot], psn)

    def _fits_by_now(self, psn: int, transmission: int) -> bool:
        """Whether a PSN that was refused has become the oldest since it was sent: then it fits any buffer and window.

        One that the peer refused although it was the oldest already has to wait (MRC-NACK-20, MRC-NACK-21).
        """
        return psn == self._sent.una and transmission < self._sent.una_since

    # ------------------------------------------------------------------ what waits

    def on_cack_moved(self) -> None:
        """Send again what fits the peer's buffers or window now. It is asked while something `waits`."""
        una = self._sent.una
        if una != self._oldest:
            self._oldest = una
            if una < self._sent.next_psn and self._stop_waiting(una):
                self._resend.push(una, 0)
        if self._waiting_for_window.count:
            while self._waiting_for_window.first() - una < self._window:
                self._resend.push(self._waiting_for_window.pop(), 0)
            if not self._waiting_for_window.count:
                self._window = _ANY_WINDOW
        self.waits = self.keeps_waiting()

    def _stop_waiting(self, psn: int) -> bool:
        """Let this PSN, which is in use, wait no longer for its time. False: it did not."""
        waited = self._sent.due_at[psn & self._sent.mask] != _NONE
        self._sent.due_at[psn & self._sent.mask] = _NONE
        return waited

    def next_deadline(self) -> int:
        """When `on_timer` wants to be called next, ns, or FOREVER. Those first in line that wait no longer go."""
        while self._waiting.count and not self._still_waits(self._waiting.first(), self._waiting.value()):
            self._waiting.pop()
        return self._waiting.first()

    def on_timer(self, now: int) -> None:
        """Send again what has waited long enough."""
        while self.next_deadline() <= now:
            psn = self._waiting.value()
            self._waiting.pop()
            self._stop_waiting(psn)
            self._resend.push(psn, 0)

    def waits_for_room(self) -> bool:
        """Whether any PSN that is still missing waits after a resource NACK.

        No new PSN is sent meanwhile: it would take the room that the old ones wait for (MRC-NACK-22).
        """
        return self._waiting.count > 0 and self.next_deadline() != FOREVER

    def _still_waits(self, when: int, psn: int) -> bool:
        return self._awaited(psn) and self._sent.due_at[psn & self._sent.mask] == when

    def keeps_waiting(self) -> bool:
        """Whether any PSN waits for its time or the window."""
        return self.waits_for_room() or self._waiting_for_window.count > 0

    def clear(self) -> None:
        """Let nothing wait any more."""
        while self._waiting.count:
            self._stop_waiting(self._waiting.value())
            self._waiting.pop()
        self._waiting_for_window.clear()
        self.waits = False
