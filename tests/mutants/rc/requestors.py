# SPDX-License-Identifier: BSD-2-Clause
"""Requestors that complete too much or too little, go back wrongly, or give up too soon or never."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mrc.endpoint.completions import WorkStatus
from mrc.rc import RcEndpoint, RcQueuePair
from mrc.rc.framing import Framing
from mrc.rc.messages import Message, SendQueue
from mrc.rc.requestor import Requestor
from mrc.wire.packet import Layer
from mrc.wire.psn import unwrap
from mrc.wire.transmit_batch import TransmitBatch
from mutants.rc.mutant import rc_mutant

Layers = Mapping[str, Mapping[str, int]]
_SEQUENCE_ERROR = 0x60
_LONGEST_DELAY_NS = 655_360_000


class _EachAnswer(Requestor):
    """Looks at each answer before it is taken."""

    __slots__ = ()

    def _read(self, layers: Layers) -> tuple[int, int]:
        """Unbounded PSN and syndrome."""
        return unwrap(layers["bth"]["psn"], self._queue.una), layers["aeth"]["syndrome"]


@rc_mutant("RC-REQ-01")
def psns_begin_one_too_late(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
    """The first packet has the PSN behind the one agreed on."""
    qp._requestor._queue = SendQueue(qp.config.path_mtu, qp.first_psn + 1)


@rc_mutant("RC-WIRE-04")
def packets_are_half_full(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
    """Messages are cut by half of the path MTU."""
    qp._requestor._queue = SendQueue(qp.config.path_mtu // 2, qp.first_psn)


class _Crossed:
    """A message of three packets or more whose first two carry each other's payload."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self.request, self.end_psn = message.request, message.end_psn

    def packet(self, psn: int) -> Any:
        message = self._message
        layers, start, stop = message.packet(psn)
        place = psn - message.first_psn
        if message.end_psn - message.first_psn > 2 and place < 2:
            _, start, stop = message.packet(message.first_psn + 1 - place)
        return layers, start, stop


@rc_mutant("RC-REQ-08")
class PiecesLeaveCrossed(Requestor):
    """The first two packets of a longer message carry each other's payload."""

    __slots__ = ()

    def _send_next(self, batch: TransmitBatch, framing: Framing, message: Message, *, last_of_window: bool) -> None:
        crossed: Any = _Crossed(message)
        super()._send_next(batch, framing, crossed, last_of_window=last_of_window)


@rc_mutant("RC-REQ-03")
class WritesCompleteWithTheirFirstPsn(Requestor):
    """An ACK of any packet of a message counts for all of it."""

    __slots__ = ()

    def _arrived(self, una: int, now: int) -> None:
        messages = [each for each in self._queue._messages if each.first_psn < una]
        super()._arrived(max([una, *(each.end_psn for each in messages)]), now)


@rc_mutant("RC-REQ-04")
class AnAckIsForOneMessage(Requestor):
    """An ACK completes at most one write."""

    __slots__ = ()

    def _arrived(self, una: int, now: int) -> None:
        first = next(iter(self._queue._messages), None)
        super()._arrived(una if first is None else min(una, first.end_psn), now)


@rc_mutant("RC-REQ-05")
class AcksOfTheFutureCount(_EachAnswer):
    """An ACK of a PSN that was never sent acknowledges all that was."""

    __slots__ = ()

    def on_answer(self, layers: Layers, now: int) -> None:
        psn, syndrome = self._read(layers)
        if syndrome < 0x20 and psn >= self._queue.highest:
            self._arrived(self._queue.highest, now)
        super().on_answer(layers, now)


@rc_mutant("RC-REQ-05")
class NaksOfThePastCount(_EachAnswer):
    """A NAK that ends a QP does so whatever PSN it names."""

    __slots__ = ()

    def on_answer(self, layers: Layers, now: int) -> None:
        if 0x60 < self._read(layers)[1] < 0x64:
            self._fail(WorkStatus.REMOTE_ACCESS_ERROR, "the peer refused something")
        super().on_answer(layers, now)


@rc_mutant("RC-REQ-06")
class WithoutCreditsNothingIsDone(_EachAnswer):
    """An ACK that grants no credits is not taken for an ACK."""

    __slots__ = ()

    def on_answer(self, layers: Layers, now: int) -> None:
        if self._read(layers)[1]:
            super().on_answer(layers, now)


@rc_mutant("RC-REQ-07")
class UnknownSyndromesAreAcks(_EachAnswer):
    """An answer with a reserved syndrome counts as an ACK."""

    __slots__ = ()

    def on_answer(self, layers: Layers, now: int) -> None:
        psn, syndrome = self._read(layers)
        if syndrome >= 0x64 or 0x40 <= syndrome < 0x60:
            self._arrived(psn + 1, now)
        super().on_answer(layers, now)


# ---------------------------------------------------------------------- going back


@rc_mutant("RC-LOSS-01")
class NaksAreNotHeard(Requestor):
    """A NAK of a sequence error is left to the timeout."""

    __slots__ = ()

    def _on_sequence_error(self, psn: int, now: int) -> None:
        return


@rc_mutant("RC-LOSS-01")
class OnePacketIsSentAgain(Requestor):
    """Only the packet that a NAK names is sent again, as if the rest were kept."""

    __slots__ = ()

    def _send_next(self, batch: TransmitBatch, framing: Framing, message: Message, *, last_of_window: bool) -> None:
        again = self._queue.next_psn < self._queue.highest
        super()._send_next(batch, framing, message, last_of_window=last_of_window)
        if again:
            self._queue.next_psn = self._queue.highest

    def transmit(self, batch: TransmitBatch, framing: Framing, most: int, now: int) -> None:
        super().transmit(batch, framing, 1, now)


@rc_mutant("RC-LOSS-01")
class NaksAcknowledgeNothing(_EachAnswer):
    """A NAK of a sequence error says nothing of what came before it: all of that is sent again."""

    __slots__ = ()

    def on_answer(self, layers: Layers, now: int) -> None:
        if self._read(layers)[1] == _SEQUENCE_ERROR:
            self._on_sequence_error(self._queue.una, now)
        else:
            super().on_answer(layers, now)


class _Marking:
    def __init__(self, framing: Framing) -> None:
        self._framing = framing

    def request(self, batch: TransmitBatch, layers: Sequence[Layer], *others: Any) -> None:
        (name, bth), *behind = layers
        self._framing.request(batch, [(name, {**bth, "rtx": 1}), *behind], *others)


@rc_mutant("RC-LOSS-02")
class RetransmissionsAreMarked(Requestor):
    """What is sent again says so in a reserved bit, as MRC's does."""

    __slots__ = ()

    def _send_next(self, batch: TransmitBatch, framing: Framing, message: Message, *, last_of_window: bool) -> None:
        again: Any = _Marking(framing) if self._queue.next_psn < self._queue.highest else framing
        super()._send_next(batch, again, message, last_of_window=last_of_window)


@rc_mutant("RC-LOSS-03")
def the_timeout_is_half_as_long(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
    """The local ACK timeout is 2.048 us x 2^t."""
    qp._requestor._config = replace(qp.config, timeout=qp.config.timeout - 1)


@rc_mutant("RC-LOSS-03")
class NoTimeout(Requestor):
    """Silence is waited out for ever."""

    __slots__ = ()

    def next_deadline(self) -> int | None:
        return self._wait_until


@rc_mutant("RC-LOSS-04")
class TheTimeoutRunsFromTheFirstPacket(Requestor):
    """An ACK does not start the local ACK timeout afresh while something is on its way."""

    __slots__ = ()

    def _arrived(self, una: int, now: int) -> None:
        was = self._timer_at
        super()._arrived(una, now)
        if self._timer_at is not None:
            self._timer_at = was


@rc_mutant("RC-LOSS-05")
def one_retry_too_many(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
    """There is one retry more than retry_count says."""
    qp._requestor._config = replace(qp.config, retry_count=min(7, qp.config.retry_count + 1))


@rc_mutant("RC-LOSS-05")
class SevenIsWithoutEnd(Requestor):
    """A retry_count of 7 means retries without end."""

    __slots__ = ()

    def _try_again(self, why: str) -> bool:
        return self._config.retry_count == 7 or super()._try_again(why)


@rc_mutant("RC-LOSS-06")
class NaksAreNoRetries(Requestor):
    """NAKs of sequence errors count against nothing."""

    __slots__ = ()

    def _on_sequence_error(self, psn: int, now: int) -> None:
        super()._on_sequence_error(psn, now)
        self._retries = 0


@rc_mutant("RC-LOSS-07")
class RetriesAreNeverGivenBack(Requestor):
    """Retries count over the QP's whole life."""

    __slots__ = ()

    def _arrived(self, una: int, now: int) -> None:
        retries = self._retries
        super()._arrived(una, now)
        self._retries = retries


# ---------------------------------------------------------------------- receivers that are not ready


@rc_mutant("RC-LOSS-08")
class HalfTheTimeIsEnough(Requestor):
    """After an RNR NAK half the time is waited."""

    __slots__ = ()

    def _on_not_ready(self, psn: int, delay_ns: int, now: int) -> None:
        super()._on_not_ready(psn, delay_ns // 2, now)


@rc_mutant("RC-LOSS-08")
class Code0IsNoTime(Requestor):
    """Code 0 of an RNR NAK is taken for no time at all."""

    __slots__ = ()

    def _on_not_ready(self, psn: int, delay_ns: int, now: int) -> None:
        super()._on_not_ready(psn, 0 if delay_ns == _LONGEST_DELAY_NS else delay_ns, now)


@rc_mutant("RC-LOSS-08")
class NewWorkDoesNotWait(Requestor):
    """A write posted while the receiver has time sends all at once."""

    __slots__ = ()

    def post(self, request: Any) -> None:
        super().post(request)
        self._wait_until = None


@rc_mutant("RC-LOSS-09")
class ReceiversMayNeverBeReady(Requestor):
    """RNR NAKs are taken without end, whatever rnr_retry says."""

    __slots__ = ()

    def _on_not_ready(self, psn: int, delay_ns: int, now: int) -> None:
        self._rnr_retries = -1
        super()._on_not_ready(psn, delay_ns, now)


@rc_mutant("RC-LOSS-10")
class SevenIsANumber(Requestor):
    """An rnr_retry of 7 means seven."""

    __slots__ = ()

    def _on_not_ready(self, psn: int, delay_ns: int, now: int) -> None:
        super()._on_not_ready(psn, delay_ns, now)
        if self._config.rnr_retry == 7:
            self._rnr_retries += 1
            if self._rnr_retries > 7:
                self._fail(WorkStatus.RNR_RETRY_EXCEEDED, "seven times")


@rc_mutant("RC-LOSS-11")
class RnrNaksAreRetries(Requestor):
    """An RNR NAK counts against retry_count."""

    __slots__ = ()

    def _on_not_ready(self, psn: int, delay_ns: int, now: int) -> None:
        if self._try_again("the receiver is not ready"):
            super()._on_not_ready(psn, delay_ns, now)


@rc_mutant("RC-LOSS-12")
class TheTimeoutRunsWhileAReceiverHasTime(Requestor):
    """The local ACK timeout goes on while a receiver was given time."""

    __slots__ = ()

    def _on_not_ready(self, psn: int, delay_ns: int, now: int) -> None:
        due = self._timer_at
        super()._on_not_ready(psn, delay_ns, now)
        if due is not None and due < now + delay_ns:
            self._wait_until = None
            self._timer_at = due


# ---------------------------------------------------------------------- refusals


@rc_mutant("RC-ERR-08")
class RefusalsAreNotHeard(_EachAnswer):
    """A NAK that should end the QP is left to the timeout."""

    __slots__ = ()

    def on_answer(self, layers: Layers, now: int) -> None:
        if not 0x60 < self._read(layers)[1] < 0x64:
            super().on_answer(layers, now)


@rc_mutant("RC-ERR-08")
def a_refused_write_is_only_flushed(endpoint: RcEndpoint, qp: RcQueuePair) -> None:
    """The write that a NAK refuses completes flushed like the others: nobody learns which it was."""
    qp._requestor._fail = lambda status, why: qp._fail(WorkStatus.FLUSHED, why)


@rc_mutant("RC-ERR-09")
class ARefusalTakesAllAlong(_EachAnswer):
    """A NAK that ends a QP does not acknowledge what came before it."""

    __slots__ = ()

    def on_answer(self, layers: Layers, now: int) -> None:
        if 0x60 < self._read(layers)[1] < 0x64:
            self._fail(WorkStatus.REMOTE_ACCESS_ERROR, "the peer refused something")
        else:
            super().on_answer(layers, now)
