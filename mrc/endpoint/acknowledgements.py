"""What SACKs and ACKs say about what was sent: arrivals, round trips, retransmissions that were not needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mrc.endpoint.congestion import CongestionController
from mrc.endpoint.counters import Counters
from mrc.endpoint.loss import LossDetector
from mrc.endpoint.paths import PathSet
from mrc.endpoint.rtt import RttEstimator
from mrc.endpoint.sack_reading import Sack
from mrc.endpoint.sent import PsnState, SentPackets, Slots
from mrc.endpoint.tracing import QpTrace
from mrc.wire.rows import TIMESTAMP_UNIT_NS

I64 = npt.NDArray[np.int64]

_ACKED, _LOST, _OUTSTANDING = int(PsnState.ACKED), int(PsnState.LOST), int(PsnState.OUTSTANDING)
NO_PSNS: I64 = np.zeros(0, np.int64)
_NONE = -1


@dataclass(slots=True)
class RttSamples:
    """The latest valid sample, ns, of the SACKs without a mark and of those with m=1. None: there was none."""

    unmarked: int | None = None
    marked: int | None = None


class Acknowledgements:
    """Applies acknowledgements to the record of what was sent. `service_time`: reflected timestamps are moved by it."""

    __slots__ = ("_controller", "_counters", "_loss", "_paths", "_rtt", "_sent", "_service_time", "_trace")

    def __init__(
        self,
        *,
        sent: SentPackets,
        rtt: RttEstimator,
        loss: LossDetector,
        paths: PathSet,
        controller: CongestionController,
        counters: Counters,
        service_time: bool,
        trace: QpTrace | None = None,
    ) -> None:
        self._sent = sent
        self._trace = trace
        self._rtt = rtt
        self._loss = loss
        self._paths = paths
        self._controller = controller
        self._counters = counters
        self._service_time = service_time

    def apply(self, sacks: list[Sack], now: int) -> int:
        """Take everything these SACKs report as arrived. Returns the bytes newly acknowledged."""
        sent = self._sent
        # Below una a PSN's slot may be another's by now.
        cack = sent.una - 1
        for sack in sacks:
            if sack.cack > cack:
                cack = sack.cack
        first = cack + 1
        reported = 0
        for sack in sacks:
            distance = sack.base - first
            reported |= sack.bitmap << distance if distance >= 0 else sack.bitmap >> -distance
            # A bitmap may begin too low or too high to hold the packet that triggered it.
            if sack.trigger >= first:
                reported |= 1 << (sack.trigger - first)
        return self.acknowledge(cack, self._not_known(reported, first), now)

    def _not_known(self, reported: int, first: int) -> I64:
        """PSNs of the bits of `reported`, counted from `first` on, that were not known to have arrived."""
        if not reported:
            return NO_PSNS
        packed = np.frombuffer(reported.to_bytes((reported.bit_length() + 7) // 8, "little"), np.uint8)
        psns = np.flatnonzero(np.unpackbits(packed, bitorder="little")) + first
        return np.asarray(psns[self._sent.state[psns & self._sent.mask] != _ACKED])

    def acknowledge(self, cack: int, above: I64, now: int) -> int:
        """Take everything up to `cack` and these PSNs above it as arrived. Returns the bytes newly acknowledged."""
        sent = self._sent
        count = cack + 1 - sent.una
        if count == 1 and not len(above):
            slot = sent.una & sent.mask
            if sent.state[slot] == _OUTSTANDING and sent.times_sent[slot] == 1:
                return self._acknowledge_one_sent_once(slot)
        elif count > 0 and not len(above):
            slots = sent.slots_of(sent.una, count)
            if bool((sent.state[slots] == _OUTSTANDING).all()) and bool((sent.times_sent[slots] == 1).all()):
                return self._acknowledge_sent_once(slots, count)
        fresh = above
        if count > 0:
            fresh = np.concatenate((np.arange(sent.una, cack + 1, dtype=np.int64), above))
            fresh = fresh[sent.state[fresh & sent.mask] != _ACKED]
            sent.una = cack + 1
        return self._acknowledge_mixed(fresh, now) if len(fresh) else 0

    def _acknowledge_sent_once(self, slots: Slots, count: int) -> int:
        """The next `count` PSNs arrived, each outstanding since it was sent for the first time."""
        sent = self._sent
        transmissions = sent.transmission[slots]
        size = sent.settle_outstanding(transmissions)
        self._controller.on_removed(size)
        self._loss.latest_acked = max(self._loss.latest_acked, int(transmissions.max()))
        sent.state[slots] = _ACKED
        sent.una += count
        return size

    def _acknowledge_one_sent_once(self, slot: int) -> int:
        """The same for one PSN, in plain numbers."""
        sent = self._sent
        transmission = int(sent.transmission[slot])
        size = sent.settle_one_outstanding(transmission)
        self._controller.on_removed(size)
        self._loss.latest_acked = max(self._loss.latest_acked, transmission)
        sent.state[slot] = _ACKED
        sent.una += 1
        return size

    def _acknowledge_mixed(self, fresh: I64, now: int) -> int:
        """These PSNs arrived, some perhaps after they were taken for lost."""
        sent = self._sent
        slots = fresh & sent.mask
        transmissions = sent.transmission[slots]
        acked_bytes = int(sent.log_size[transmissions & sent.log_mask].sum())
        self._controller.on_removed(sent.settle(transmissions))
        times_sent = sent.times_sent[slots]
        # Which of its transmissions arrived is certain only for a PSN sent once.
        certain = transmissions[times_sent == 1]
        if len(certain):
            self._loss.latest_acked = max(self._loss.latest_acked, int(certain.max()))
        lost = sent.state[slots] == _LOST
        sent.state[slots] = _ACKED
        if lost.any() or len(certain) < len(fresh):
            self._false_alarms(fresh[lost], fresh[(times_sent > 1) & ~lost], now)
        return acked_bytes

    def _false_alarms(self, not_resent: I64, resent: I64, now: int) -> None:
        """Acknowledged although taken for lost: before it was sent again, or so soon after that only an earlier
        transmission can have arrived."""
        sent = self._sent
        entries = sent.transmission[resent & sent.mask] & sent.log_mask
        # With a margin: the shortest round trip may not have been seen yet.
        too_soon = now - sent.log_sent_at[entries] < self._rtt.minimum * 3 // 4
        spurious = resent[too_soon]
        for psn in not_resent.tolist():
            self._undo_loss(psn, now)
        for psn in spurious.tolist():
            self._counters.spurious_retransmissions += self._undo_loss(psn, now)

    def _undo_loss(self, psn: int, now: int, ev_index: int = _NONE) -> bool:
        """This PSN arrived after all, on that EV if it is known. False when nothing was blamed for losing it, or not
        any more."""
        sent = self._sent
        slot = psn & sent.mask
        blamed = int(sent.blamed[slot])
        if blamed == _NONE:
            return False
        sent.blamed[slot] = _NONE
        entry = blamed & sent.log_mask
        if sent.log_psn[entry] == psn:
            took = now - int(sent.log_sent_at[entry])
            if ev_index == _NONE:
                ev_index = int(sent.log_ev[entry])
            elif sent.by_timer[slot]:
                # The SACK names the original, so its round trip is known: the timers are too short.
                self._rtt.late(took, now)
            self._loss.on_spurious(now, took)
        if self._trace is not None:
            self._trace.spurious_loss(psn, ev_index, sent_again=bool(sent.transmission[slot] != blamed))
        if ev_index != _NONE:
            self._paths.on_spurious(ev_index, psn)
        return True

    def sample_rtt(self, sacks: list[Sack], now: int) -> RttSamples:
        """RTT from the send-time record of each triggering packet, where it is unambiguous and the news fresh: a SACK
        that the network held or doubled tells its own age."""
        sent, found = self._sent, RttSamples()
        latest, lowest, count = 0, 0, 0
        for sack in sacks:
            slot = sack.trigger & sent.mask
            if sack.probe_id >= 0 or sent.psn[slot] != sack.trigger:
                continue
            times = int(sent.times_sent[slot])
            if sack.news and times == 1 + sack.rtx:
                transmission = int(sent.transmission[slot])
                sent_at = int(sent.log_sent_at[transmission & sent.log_mask])
                latest = now - sent_at
                if self._service_time:
                    latest -= _held(sack.tx_timestamp, sent_at, latest)
                lowest = latest if not count else min(lowest, latest)
                count += 1
                if sack.mark == 1:
                    found.marked = latest
                else:
                    found.unmarked = latest
                self._loss.latest_acked = max(self._loss.latest_acked, transmission)
        if count:
            self._rtt.sample(lowest, latest, now)
            self._counters.rtt_samples += count
        for sack in sacks:
            if sack.probe_id < 0 and not sack.rtx:
                self._original_arrived(sack, now)
        return found

    def _original_arrived(self, sack: Sack, now: int) -> None:
        """The packet that triggered this SACK was an original: if it was sent again meanwhile, that was needless."""
        sent, psn = self._sent, sack.trigger
        slot = psn & sent.mask
        if sent.times_sent[slot] > 1 and sent.psn[slot] == psn:
            self._counters.spurious_retransmissions += self._undo_loss(psn, now, self._paths.index(sack.entropy))


def _held(reflected: int, sent_at: int, sample: int) -> int:
    """How long the peer held a packet, ns: what its reflected timestamp is ahead of the one sent.

    Taken only where it is less than the round trip it is part of; timestamps wrap after 8.4 ms.
    """
    held = ((reflected - sent_at // TIMESTAMP_UNIT_NS) & 0xFFFF) * TIMESTAMP_UNIT_NS
    return held if reflected and held < sample else 0
