"""What SACKs and ACKs say about what was sent: arrivals, round trips, retransmissions that were not needed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mrc.endpoint.congestion import CongestionController
from mrc.endpoint.counters import Counters
from mrc.endpoint.loss import LossDetector
from mrc.endpoint.paths import PathSet
from mrc.endpoint.requests import TIMESTAMP_UNIT_NS
from mrc.endpoint.rtt import RttEstimator
from mrc.endpoint.sent import PsnState, SentPackets
from mrc.wire.arrays import distinct
from mrc.wire.batch import PSN_BITS_MASK, RTX, SETH_M_SHIFT, SETH_PR, Fields
from mrc.wire.psn import unwrap_array

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ACKED, _LOST = int(PsnState.ACKED), int(PsnState.LOST)
NO_PSNS: I64 = np.zeros(0, np.int64)
_NONE = -1


@dataclass(frozen=True, slots=True)
class SacksRead:
    """SACKs that are about what was really sent, in order of arrival; PSNs are unbounded.

    `triggers` holds the triggering packets' PSNs (cack_psn where `probes` is set: there the field is a probe_id),
    `bases` and `maps` the bitmaps, `marks` their m; `news` where the triggering packet was not known to have arrived.
    """

    fields: Fields
    cacks: I64
    bases: I64
    maps: list[int]
    triggers: I64
    marks: I64
    probes: Bools
    rtx: Bools
    news: Bools


@dataclass(frozen=True, slots=True)
class RttSamples:
    """The latest valid sample, ns, of the SACKs without a mark and of those with m=1. None: there was none."""

    unmarked: int | None
    marked: int | None

    @classmethod
    def of(cls, samples: I64, marked: Bools) -> RttSamples:
        with_mark, without = samples[marked], samples[~marked]
        return cls(int(without[-1]) if len(without) else None, int(with_mark[-1]) if len(with_mark) else None)


class Acknowledgements:
    """Applies acknowledgements to the record of what was sent. `service_time`: reflected timestamps are moved by it."""

    __slots__ = ("_controller", "_counters", "_loss", "_paths", "_rtt", "_sent", "_service_time")

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
    ) -> None:
        self._sent = sent
        self._rtt = rtt
        self._loss = loss
        self._paths = paths
        self._controller = controller
        self._counters = counters
        self._service_time = service_time

    def read(self, fields: Fields) -> SacksRead | None:
        """Drop and count the SACKs that acknowledge what was never sent. None when no other is left."""
        sent = self._sent
        cacks = unwrap_array((fields["cack_word"] & PSN_BITS_MASK).astype(np.int64), sent.una - 1)
        bases = cacks + fields["sack_offset"]
        words = fields["seth_word"].astype(np.int64)
        probes = (words & SETH_PR) != 0
        triggers = cacks + np.where(probes, 0, fields["ack_psn_offset"])
        maps = fields["bitmap"].tolist()
        highest = bases + np.array([bitmap.bit_length() for bitmap in maps], np.int64) - 1
        honest = np.maximum(np.maximum(highest, cacks), triggers) < sent.next_psn
        if not honest.all():
            self._counters.ack_for_unsent_psn += int((~honest).sum())
            if not honest.any():
                return None
            fields, cacks, bases, words = fields[honest], cacks[honest], bases[honest], words[honest]
            probes, triggers = probes[honest], triggers[honest]
            maps = fields["bitmap"].tolist()
        rtx = (fields["psn_word"] & RTX) != 0
        news = (triggers >= sent.una) & (sent.state[triggers & sent.mask] != _ACKED) & ~probes
        return SacksRead(fields, cacks, bases, maps, triggers, words >> SETH_M_SHIFT & 3, probes, rtx, news)

    def apply(self, sacks: SacksRead, now: int) -> int:
        """Take everything these SACKs report as arrived. Returns the bytes newly acknowledged."""
        cack = int(sacks.cacks.max())
        above = self._reported_above(cack, sacks.bases.tolist(), sacks.maps)
        # A bitmap may begin too low or too high to hold the packet that triggered it.
        named = distinct(sacks.triggers[~sacks.probes & (sacks.triggers >= max(cack + 1, self._sent.una))])
        named = named[self._sent.state[named & self._sent.mask] != _ACKED]
        if len(named):
            above = distinct(np.concatenate((above, named)))
        return self.acknowledge(cack, above, now)

    def _reported_above(self, cack: int, bases: list[int], maps: list[int]) -> I64:
        """PSNs above `cack` and not below una that these bitmaps report and that were not known to have arrived."""
        sent = self._sent
        # Below una a PSN's slot may be another's by now.
        first = max(cack + 1, sent.una)
        union = 0
        for base, bitmap in zip(bases, maps, strict=True):
            distance = base - first
            union |= bitmap << distance if distance >= 0 else bitmap >> -distance
        if not union:
            return NO_PSNS
        packed = np.frombuffer(union.to_bytes((union.bit_length() + 7) // 8, "little"), np.uint8)
        psns = np.flatnonzero(np.unpackbits(packed, bitorder="little")) + first
        return np.asarray(psns[sent.state[psns & sent.mask] != _ACKED])

    def acknowledge(self, cack: int, above: I64, now: int) -> int:
        """Take everything up to `cack` and these PSNs above it as arrived. Returns the bytes newly acknowledged."""
        sent = self._sent
        covered = np.arange(sent.una, cack + 1, dtype=np.int64)
        fresh = np.concatenate((covered, above)) if len(above) else covered
        if len(covered):
            fresh = fresh[sent.state[fresh & sent.mask] != _ACKED]
            sent.una = cack + 1
        if not len(fresh):
            return 0
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
            ev_index = int(sent.log_ev[entry]) if ev_index == _NONE else ev_index
            self._loss.on_spurious(now, now - int(sent.log_sent_at[entry]))
        if ev_index != _NONE:
            self._paths.on_spurious(ev_index, psn)
        return True

    def sample_rtt(self, sacks: SacksRead, now: int) -> RttSamples:
        """RTT from the send-time record of each triggering packet, where it is unambiguous and the news fresh: a SACK
        that the network held or doubled tells its own age."""
        sent = self._sent
        triggers = sacks.triggers
        known = sent.known(triggers) & ~sacks.probes
        slots = triggers & sent.mask
        times = sent.times_sent[slots]
        valid = known & sacks.news & (((times == 1) & ~sacks.rtx) | ((times == 2) & sacks.rtx))
        transmissions = sent.transmission[slots[valid]]
        found = RttSamples(None, None)
        if len(transmissions):
            entries = transmissions & sent.log_mask
            samples = now - sent.log_sent_at[entries]
            if self._service_time:
                samples -= self._held(sacks.fields["tx_timestamp"][valid], sent.log_sent_at[entries], samples)
            self._rtt.sample(int(samples.min()), int(samples[-1]), now)
            found = RttSamples.of(samples, sacks.marks[valid] == 1)
            self._counters.rtt_samples += len(samples)
            self._loss.latest_acked = max(self._loss.latest_acked, int(transmissions.max()))
        late = known & (times > 1) & ~sacks.rtx
        if late.any():
            self._originals_arrived(triggers[late], sacks.fields["entropy"][late], now)
        return found

    @staticmethod
    def _held(reflected: npt.NDArray[np.uint16], sent_at: I64, samples: I64) -> I64:
        """How long the peer held these packets, ns: what a reflected timestamp is ahead of the one sent.

        Taken only where it is less than the round trip it is part of; timestamps wrap after 8.4 ms.
        """
        held = ((reflected - sent_at // TIMESTAMP_UNIT_NS) & 0xFFFF) * TIMESTAMP_UNIT_NS
        return np.where((held < samples) & (reflected != 0), held, 0)

    def _originals_arrived(self, psns: I64, entropies: npt.NDArray[np.uint32], now: int) -> None:
        """The original of each of these PSNs arrived although it was sent again."""
        for psn, ev in zip(psns.tolist(), entropies.tolist(), strict=True):
            self._counters.spurious_retransmissions += self._undo_loss(psn, now, self._paths.index(ev))
