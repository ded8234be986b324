# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What SACKs and ACKs say about what was sent: arrivals, round trips, retransmissions that were not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.config import Capability
from mrc.endpoint.congestion.base import PENALTY_UNKNOWN
from mrc.endpoint.counters import Counters
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.requestor.sending_parts import SendingParts
from mrc.endpoint.requestor.sent import PsnState, SentPackets, unbounded
from mrc.wire import octets
from mrc.wire.compiled import public, readonly, unsigned, with_gil
from mrc.wire.psn import PSN_MASK
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import PSN_FLAGS_AT, RTX, SETH_M_SHIFT, SETH_PR, TIMESTAMP_UNIT_NS, fields_at

if TYPE_CHECKING:
    from mrc.endpoint.tracing import QpTrace

_ACKED, _LOST = int(PsnState.ACKED), int(PsnState.LOST)
# Where in a packet (mrc.wire.fields.SACK); flags of the BTH's last word in their byte, signed numbers of 16 bits.
_RTX, _SIGN = RTX >> 24, 1 << 15
_SETH_AT, _OFFSET_AT, _ENTROPY_AT, _CACK_AT = fields_at("seth", "type ack_psn_offset entropy reserved3")
_CC_TYPE_AT, _MPR_AT, _SACK_OFFSET_AT, _BITMAP_AT = fields_at("seth", "cc_type mpr sack_offset bitmap")
_TIMESTAMP_AT, _CC_AT = fields_at("cc_state", "tx_timestamp restore_cwnd")
_CC_TYPE_SHIFT = 4
_PENALTY_MASK, _RESTORE_SHIFT = 0x7F, 7
_WORD = 64
# A cack_psn so far behind what is acknowledged comes from no path, however slow: as far as ack_psn_offset reaches. Half
# of all PSNs are old, and a forger who guesses one must not decide which paths are bad.
OLDEST_PSNS = 1 << 16
_NONE = -1
_STAMP_MASK = 0xFFFF


class Sack:
    """One SACK that is about what was really sent; PSNs are unbounded.

    `trigger` is the PSN of the packet that triggered it (cack_psn where `probe_id`, else -1, is set); bit i of `bitmap`
    is PSN `base` + i. `news`: the triggering packet was not known to have arrived. Where its cc_type is not 0 the bytes
    of CC_STATE mean nothing here: `tx_timestamp` is 0, `penalty` PENALTY_UNKNOWN (MRC-SACK-28).
    """

    def __init__(self) -> None:
        """Nothing read yet."""
        self.cack: public[int] = 0
        self.base: public[int] = 0
        self.bitmap: public[unsigned] = 0
        self.trigger: public[int] = 0
        self.mark: public[int] = 0
        self.entropy: public[int] = 0
        self.tx_timestamp: public[int] = 0
        self.mpr: public[int] = 0
        self.penalty: public[int] = 0
        self.probe_id: public[int] = _NONE
        self.rtx: public[bool] = False
        self.news: public[bool] = False
        self.restore: public[bool] = False

    def read(self, batch: ReceivedBatch, row: int, sent: SentPackets, counters: Counters) -> bool:
        """Become the SACK in this row. False for one about what was never sent, or acknowledged long ago: it is counted
        and to be dropped."""
        at = batch.row(row)
        self.cack = unbounded(octets.u32(batch.flat, at + _CACK_AT) & PSN_MASK, sent.una - 1)
        self.base = self.cack + _signed(octets.u16(batch.flat, at + _SACK_OFFSET_AT))
        self.bitmap = octets.u64(batch.flat, at + _BITMAP_AT)
        seth = octets.u16(batch.flat, at + _SETH_AT)
        offset = octets.u16(batch.flat, at + _OFFSET_AT)
        probe = seth & SETH_PR
        self.trigger = self.cack if probe else self.cack + _signed(offset)
        if self.cack >= sent.next_psn or self.trigger >= sent.next_psn or self._beyond(sent.next_psn):
            counters.ack_for_unsent_psn += 1
            return False
        if self.cack < sent.una - OLDEST_PSNS:
            counters.ack_too_old += 1
            return False
        if self.cack < sent.first_psn - 1:
            counters.ack_before_first_psn += 1
            return False
        self.mark = seth >> SETH_M_SHIFT & 3
        self.probe_id = offset if probe else _NONE
        self.rtx = (batch.flat[at + PSN_FLAGS_AT] & _RTX) != 0
        self.news = not probe and self.trigger >= sent.una and sent.state[self.trigger & sent.mask] != _ACKED
        self.entropy = octets.u32(batch.flat, at + _ENTROPY_AT)
        self.mpr = batch.flat[at + _MPR_AT]
        if batch.flat[at + _CC_TYPE_AT] >> _CC_TYPE_SHIFT:
            self.tx_timestamp, self.penalty, self.restore = 0, PENALTY_UNKNOWN, False
        else:
            self.tx_timestamp = octets.u16(batch.flat, at + _TIMESTAMP_AT)
            self.penalty = batch.flat[at + _CC_AT] & _PENALTY_MASK
            self.restore = batch.flat[at + _CC_AT] >> _RESTORE_SHIFT != 0
        return True

    def _beyond(self, next_psn: int) -> bool:
        """Whether it reports PSNs from `next_psn` on, or where its bitmap is empty begins beyond it."""
        room = next_psn - self.base
        return room < 0 or (room < _WORD and self.bitmap >> room != 0)


def _signed(value: int) -> int:
    """16 bits as a signed number."""
    return (value ^ _SIGN) - _SIGN


class Acknowledgements:
    """Applies acknowledgements to the record of what was sent. `service_time`: reflected timestamps are moved by it."""

    def __init__(self, qp: QpParts, sending: SendingParts) -> None:
        self._sent = sending.sent
        self._trace: readonly[QpTrace | None] = qp.trace
        self._rtt = sending.rtt
        self._loss = sending.loss
        self._paths = qp.paths
        self._controller = sending.controller
        self._counters = qp.counters
        self._service_time: bool = Capability.SVC_TIME in qp.agreed and qp.config.timestamps
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
        if psn > self._sent.una:
            self._sent.una, self._sent.una_since = psn, self._sent.next_transmission
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
    held = ((reflected - sent_at // TIMESTAMP_UNIT_NS) & _STAMP_MASK) * TIMESTAMP_UNIT_NS
    return held if reflected and held < sample else 0
