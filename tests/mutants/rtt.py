# SPDX-License-Identifier: BSD-2-Clause
"""Requestors that take round trips from acknowledgements that tell none, or not from those that do."""

from __future__ import annotations

from mrc.endpoint.requestor.acknowledgements import Acknowledgements, Sack
from mutants.mutant import mutant

_NO_SAMPLE = -1


@mutant("MRC-RTT-01")
class OnlyRetransmissionsMeasure(Acknowledgements):
    """Packets that were sent once give no sample."""

    def sample_rtt(self, sack: Sack, now: int) -> int:
        return super().sample_rtt(sack, now) if sack.rtx else _NO_SAMPLE


@mutant("MRC-RTT-01")
class TheLatestPsnMeasures(Acknowledgements):
    """The round trip is that of the packet of cack_psn, not of the one of ack_psn."""

    def sample_rtt(self, sack: Sack, now: int) -> int:
        trigger, sack.trigger = sack.trigger, max(sack.cack, sack.trigger)
        sample = super().sample_rtt(sack, now)
        sack.trigger = trigger
        return sample


@mutant("MRC-RTT-02")
class RetransmissionsNeverMeasure(Acknowledgements):
    """The SACK of a packet that was sent again gives no sample, with rtx or without."""

    def sample_rtt(self, sack: Sack, now: int) -> int:
        return _NO_SAMPLE if sack.rtx else super().sample_rtt(sack, now)


@mutant("MRC-RTT-02")
class RetransmissionsMeasureWithoutRtx(Acknowledgements):
    """The SACK of a packet that was sent again gives a sample without rtx too."""

    def sample_rtt(self, sack: Sack, now: int) -> int:
        sack.rtx = sack.rtx or self._sent.times_sent[sack.trigger & self._sent.mask] == 2
        return super().sample_rtt(sack, now)


@mutant("MRC-RTT-03")
class EveryRetransmissionMeasures(Acknowledgements):
    """The SACK of a packet gives a sample of its last transmission, however often it was sent, if it has rtx."""

    def sample_rtt(self, sack: Sack, now: int) -> int:
        times, slot = self._sent.times_sent, sack.trigger & self._sent.mask
        before, times[slot] = times[slot], min(times[slot], 2)
        sample = super().sample_rtt(sack, now)
        times[slot] = before
        return sample


@mutant("MRC-RTT-04")
class TheTimestampIsBelieved(Acknowledgements):
    """What a reflected timestamp is ahead of the one sent comes off the round trip, agreed on or not."""

    def sample_rtt(self, sack: Sack, now: int) -> int:
        agreed, self._service_time = self._service_time, True
        sample = super().sample_rtt(sack, now)
        self._service_time = agreed
        return sample


@mutant("MRC-RTT-04")
class WithoutATimestampNothingMeasures(Acknowledgements):
    """A SACK whose reflected timestamp is 0 gives no sample."""

    def sample_rtt(self, sack: Sack, now: int) -> int:
        return super().sample_rtt(sack, now) if sack.tx_timestamp else _NO_SAMPLE
