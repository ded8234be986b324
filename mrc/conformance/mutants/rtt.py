"""Requestors that take round trips from acknowledgements that tell none, or not from those that do."""

from __future__ import annotations

from dataclasses import replace

from mrc.conformance.mutants.mutant import mutant
from mrc.endpoint.acknowledgements import Acknowledgements, RttSamples
from mrc.endpoint.sack_reading import Sack


@mutant("MRC-RTT-01")
class OnlyRetransmissionsMeasure(Acknowledgements):
    """Packets that were sent once give no sample."""

    __slots__ = ()

    def sample_rtt(self, sacks: list[Sack], now: int) -> RttSamples:
        return super().sample_rtt([sack for sack in sacks if sack.rtx], now)


@mutant("MRC-RTT-01")
class TheLatestPsnMeasures(Acknowledgements):
    """The round trip is that of the packet of cack_psn, not of the one of ack_psn."""

    __slots__ = ()

    def sample_rtt(self, sacks: list[Sack], now: int) -> RttSamples:
        return super().sample_rtt([replace(sack, trigger=max(sack.cack, sack.trigger)) for sack in sacks], now)


@mutant("MRC-RTT-02")
class RetransmissionsNeverMeasure(Acknowledgements):
    """The SACK of a packet that was sent again gives no sample, with rtx or without."""

    __slots__ = ()

    def sample_rtt(self, sacks: list[Sack], now: int) -> RttSamples:
        return super().sample_rtt([sack for sack in sacks if not sack.rtx], now)


@mutant("MRC-RTT-02")
class RetransmissionsMeasureWithoutRtx(Acknowledgements):
    """The SACK of a packet that was sent again gives a sample without rtx too."""

    __slots__ = ()

    def sample_rtt(self, sacks: list[Sack], now: int) -> RttSamples:
        sent = self._sent
        again = [int(sent.times_sent[sack.trigger & sent.mask]) == 2 for sack in sacks]
        return super().sample_rtt(
            [replace(sack, rtx=sack.rtx or twice) for sack, twice in zip(sacks, again, strict=True)], now
        )


@mutant("MRC-RTT-03")
class EveryRetransmissionMeasures(Acknowledgements):
    """The SACK of a packet gives a sample of its last transmission, however often it was sent, if it has rtx."""

    __slots__ = ()

    def sample_rtt(self, sacks: list[Sack], now: int) -> RttSamples:
        sent = self._sent
        times = sent.times_sent.copy()
        for sack in sacks:
            slot = sack.trigger & sent.mask
            sent.times_sent[slot] = min(int(times[slot]), 2)
        found = super().sample_rtt(sacks, now)
        sent.times_sent[:] = times
        return found


@mutant("MRC-RTT-04")
class TheTimestampIsBelieved(Acknowledgements):
    """What a reflected timestamp is ahead of the one sent comes off the round trip, agreed on or not."""

    __slots__ = ()

    def sample_rtt(self, sacks: list[Sack], now: int) -> RttSamples:
        agreed, self._service_time = self._service_time, True
        found = super().sample_rtt(sacks, now)
        self._service_time = agreed
        return found


@mutant("MRC-RTT-04")
class WithoutATimestampNothingMeasures(Acknowledgements):
    """A SACK whose reflected timestamp is 0 gives no sample."""

    __slots__ = ()

    def sample_rtt(self, sacks: list[Sack], now: int) -> RttSamples:
        return super().sample_rtt([sack for sack in sacks if sack.tx_timestamp], now)
