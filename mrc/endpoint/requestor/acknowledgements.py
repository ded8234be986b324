# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What SACKs and ACKs say about what was sent: arrivals, round trips, retransmissions that were not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.config import Capability
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.requestor.sack_reading import Sack
from mrc.endpoint.requestor.sending_parts import SendingParts
from mrc.endpoint.requestor.sent import PsnState
from mrc.wire.compiled import readonly, unsigned, with_gil
from mrc.wire.rows import TIMESTAMP_UNIT_NS

if TYPE_CHECKING:
    from mrc.endpoint.congestion.base import CongestionController
    from mrc.endpoint.congestion.estimates import RttEstimator
    from mrc.endpoint.counters import Counters
    from mrc.endpoint.paths.path_set import PathSet
    from mrc.endpoint.requestor.loss import LossDetector
    from mrc.endpoint.requestor.sent import SentPackets
    from mrc.endpoint.tracing import QpTrace

_ACKED, _LOST = int(PsnState.ACKED), int(PsnState.LOST)
_UNIT, _STAMP_MASK = TIMESTAMP_UNIT_NS, 0xFFFF
_WORD = 64
_NONE = -1


class Acknowledgements:
    """Applies acknowledgements to the record of what was sent. `service_time`: reflected timestamps are moved by it."""

    _sent: SentPackets
    _rtt: RttEstimator
    _loss: LossDetector
    _counters: Counters
    _controller: CongestionController
    _paths: PathSet
    _trace: readonly[QpTrace | None]
    _service_time: bool
    _arrived: int
    _removed: int
    _sampled: int

    __slots__ = tuple(__annotations__)

    def __init__(self, qp: QpParts, sending: SendingParts) -> None:
        self._sent = sending.sent
        self._trace = qp.trace
        self._rtt = sending.rtt
        self._loss = sending.loss
        self._paths = qp.paths
        self._controller = sending.controller
        self._counters = qp.counters
        self._service_time = Capability.SVC_TIME in qp.agreed and qp.config.timestamps
        # Of the acknowledgement at hand: packets newly arrived, and the bytes of those that were in the network.
        self._arrived = self._removed = 0
        # The latest transmission whose round trip was sampled.
        self._sampled = _NONE

    # ------------------------------------------------------------------ arrivals

    def apply(self, sack: Sack, now: int) -> int:
        """Take everything this SACK reports as arrived. Returns the bytes newly acknowledged."""
        self._arrived = self._removed = 0
        acked = self._up_to(sack.cack, now)
        # Below una a PSN's slot may be another's by now.
        bits: unsigned = sack.bitmap
        una, psn = self._sent.una, sack.base
        if psn < una:
            bits = bits >> (una - psn) if una - psn < _WORD else 0
            psn = una
        while bits:
            if bits & 1 and self._is_news(psn):
                acked += self._acknowledge_psn(psn, now)
            bits >>= 1
            psn += 1
        # A bitmap may begin too low or too high to hold the packet that triggered it.
        if sack.trigger >= una and self._is_news(sack.trigger):
            acked += self._acknowledge_psn(sack.trigger, now)
        self._report_removed()
        return acked

    def acknowledge(self, cack: int, now: int) -> int:
        """Take everything up to `cack` as arrived. Returns the bytes newly acknowledged."""
        self._arrived = self._removed = 0
        acked = self._up_to(cack, now)
        self._report_removed()
        return acked

    def _report_removed(self) -> None:
        if self._arrived:
            self._controller.on_removed(self._removed)

    def _up_to(self, cack: int, now: int) -> int:
        acked, psn = 0, self._sent.una
        while psn <= cack:
            if self._sent.state[psn & self._sent.mask] != _ACKED:
                acked += self._acknowledge_psn(psn, now)
            psn += 1
        self._sent.una = psn
        return acked

    def _is_news(self, psn: int) -> bool:
        """Whether a PSN that is reported was not known to have arrived."""
        return self._sent.state[psn & self._sent.mask] != _ACKED

    def _acknowledge_psn(self, psn: int, now: int) -> int:
        """This PSN arrived, perhaps after it was taken for lost. Returns its bytes."""
        slot = psn & self._sent.mask
        transmission = self._sent.transmission[slot]
        self._arrived += 1
        self._removed += self._sent.settle(transmission)
        was_lost = self._sent.state[slot] == _LOST
        self._sent.state[slot] = _ACKED
        # Which of its transmissions arrived is certain only for a PSN sent once.
        if self._sent.times_sent[slot] == 1:
            self._loss.latest_acked = max(self._loss.latest_acked, transmission)
        if was_lost or self._sent.times_sent[slot] > 1:
            self._false_alarm(psn, was_lost, now)
        return self._sent.log_size[transmission & self._sent.log_mask]

    # ------------------------------------------------------------------ losses that were none

    def _false_alarm(self, psn: int, was_lost: bool, now: int) -> None:
        """Acknowledged although taken for lost: before it was sent again, or perhaps so soon after that only an earlier
        transmission can have arrived."""
        if was_lost:
            self._undo_loss(psn, now, _NONE, sent_again=False)
            return
        transmission = self._sent.transmission[psn & self._sent.mask]
        sent_at = self._sent.log_sent_at[transmission & self._sent.log_mask]
        # With a margin: the shortest round trip may not have been seen yet.
        if now - sent_at < self._rtt.minimum * 3 // 4:
            self._undo_loss(psn, now, _NONE, sent_again=True)

    def _undo_loss(self, psn: int, now: int, ev_index: int, sent_again: bool) -> None:
        """This PSN arrived after all, on that EV if it is known (else -1), if anything is blamed for losing it still.
        `sent_again`: what arrived is an earlier transmission than the last, which was needless."""
        slot = psn & self._sent.mask
        blamed = self._sent.blamed[slot]
        if blamed == _NONE:
            return
        self._sent.blamed[slot] = _NONE
        if sent_again:
            self._counters.spurious_retransmissions += 1
        entry = blamed & self._sent.log_mask
        if self._sent.log_psn[entry] == psn:
            sent_at = self._sent.log_sent_at[entry]
            tells = self._loss.tells_a_round_trip(sent_at)
            if ev_index == _NONE:
                ev_index = self._sent.log_ev[entry]
            elif self._sent.by_timer[slot] and tells:
                # The SACK names the original, so its round trip is known: the timers are too short.
                self._rtt.late(now - sent_at, now)
            if tells:
                self._loss.on_spurious(now, now - sent_at)
        if self._trace is not None:
            self._trace_spurious(psn, ev_index, sent_again)
        if ev_index != _NONE:
            self._paths.on_spurious(ev_index, psn)

    def _trace_spurious(self, psn: int, ev_index: int, sent_again: bool) -> with_gil[None]:
        assert self._trace is not None
        self._trace.spurious_loss(psn, ev_index, sent_again)

    # ------------------------------------------------------------------ round trips

    def sample_rtt(self, sack: Sack, now: int) -> int:
        """The RTT by the send-time record of the triggering packet, where it is unambiguous and the news fresh (a SACK
        that the network held or doubled shows its own age), else -1."""
        slot = sack.trigger & self._sent.mask
        if sack.probe_id != _NONE or self._sent.psn[slot] != sack.trigger:
            return _NONE
        sample = _NONE
        transmission = self._sent.transmission[slot]
        fresh = sack.news or self._transport_ack_was_first(sack.trigger, transmission)
        if fresh and self._sent.times_sent[slot] == 1 + sack.rtx:
            self._sampled = transmission
            sent_at = self._sent.log_sent_at[transmission & self._sent.log_mask]
            self._loss.latest_acked = max(self._loss.latest_acked, transmission)
            if self._loss.tells_a_round_trip(sent_at):
                sample = now - sent_at
                if self._service_time:
                    sample -= _held(sack.tx_timestamp, sent_at, sample)
                self._rtt.sample(sample, now)
                self._counters.rtt_samples += 1
        if not sack.rtx and self._sent.times_sent[slot] > 1:
            self._original_arrived(sack, now)
        return sample

    def _transport_ack_was_first(self, psn: int, transmission: int) -> bool:
        """Whether this SACK and a transport ACK report the same arrival, the ACK came first, and nothing later has been
        acknowledged since. With a window of one packet, or messages of one, that may be so for each SACK."""
        return psn == self._sent.una - 1 and transmission > self._sampled and transmission >= self._loss.latest_acked

    def _original_arrived(self, sack: Sack, now: int) -> None:
        """The packet that triggered this SACK was an original, and was sent again meanwhile: that was needless."""
        self._undo_loss(sack.trigger, now, self._paths.index(sack.entropy), sent_again=True)


def _held(reflected: int, sent_at: int, sample: int) -> int:
    """How long the peer held a packet, ns: what its reflected timestamp is ahead of the one sent.

    Taken only where it is less than the round trip it is part of; timestamps wrap after 8.4 ms.
    """
    held = ((reflected - sent_at // _UNIT) & _STAMP_MASK) * _UNIT
    return held if reflected and held < sample else 0
