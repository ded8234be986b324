# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""NSCC, network-signalled congestion control (nscc.md): two signals move a window, ECN and queueing delay.

Names are those of the specification's pseudocode. Windows and counts are bytes of nominal packet size, `inc` is bytes
squared, times are integers in the unit of the caller's `now` (NsccConfig.ticks_per_second).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mrc.endpoint.congestion.base import NO_SAMPLE, PENALTY_UNKNOWN, CongestionController, PacketSizes
from mrc.endpoint.congestion.estimates import DeliveryRate, EwmaDelay, WindowedMinimum, WindowLimit
from mrc.endpoint.congestion.nscc_config import NANOSECONDS, NsccConfig, NsccParameters
from mrc.endpoint.congestion.registry import Configured, register
from mrc.wire.compiled import may_raise, python, readonly, with_gil

if TYPE_CHECKING:
    from mrc.endpoint.congestion.estimates import DelayAverage

PENALTY_SHIFT = 7
_LEAST_LINE_RATE = 1_000_000  # bits a second; below it a window is its least anyway
_NONE = -1
# What is counted ends here: sums of two still fit 64 bits.
_MOST = 1 << 61


def _whole(value: float) -> int:
    """A number of 0 or more, rounded down to whole units, at most _MOST."""
    return _MOST if value >= _MOST else int(value)


def _bounded(value: int | None) -> may_raise[int]:
    """A configured number as far as it can be counted; _NONE where there is none."""
    return _NONE if value is None else min(value, _MOST)


class Nscc(CongestionController):
    """The window towards one destination, for all QPs that share it.

    `base_rtt` and `parameters` are None until a round trip is known; up to then the window is the initial one, and only
    losses and NACKs move it, downward.
    """

    _config: NsccConfig
    _gamma: float
    _max_md_jump: float

    def __init__(self, sizes: PacketSizes, config: NsccConfig | None = None) -> None:
        super().__init__()
        self._config = config = config or NsccConfig()
        self._sizes = sizes
        self._mtu = sizes.mtu
        self._average: DelayAverage = config.delay_average()
        # The same where it is the usual one, which takes samples without further words.
        self._ewma: EwmaDelay | None = self._average if type(self._average) is EwmaDelay else None
        self._limit = WindowLimit()
        self._take_switches(config)

        self._least_rtt = WindowedMinimum(config.base_rtt_window, config.base_rtt)
        self._configured_base_rtt = _bounded(config.base_rtt)
        self._base_rtt = self._derived_from = _NONE
        self.parameters: readonly[NsccParameters | None] = None
        self._target = self._qa_threshold = _NONE
        self._adjust_bytes = self._adjust_period = 0
        self._alpha = self._fi = self._fi_scale = self._eta = 0.0
        self._zero_delay = 0
        self._samples_to_derive_from: int = config.base_rtt_samples
        self._sending = False
        second = config.ticks_per_second
        self._line_rate: int = config.line_rate_bps
        self._configured_rate: int = config.line_rate_bps
        self._delivery: DeliveryRate | None = (
            DeliveryRate(second // 100, 10 * second, second) if config.measure_line_rate else None
        )
        self._cwnd = _bounded(config.initial_cwnd_for(sizes))
        self._max_cwnd = _bounded(config.max_cwnd_for(sizes, None))
        if config.base_rtt is not None:
            self._move_base_rtt(config.base_rtt)
            self._samples_to_derive_from = 0

        self._inc = 0
        self._received = 0
        self._last_adjust = 0
        self._adjusting = not config.last_adjust_starts_now
        # Long ago, whatever the clock says.
        self._last_decrease = -_MOST
        self._increasing = False
        self._fi_count = 0
        self._saved_cwnd = _NONE
        self._penalised = False

        self._achieved = 0
        self._ignored = 0
        self._to_ignore = 0
        self._qa_end = 0
        self._trigger_qa = False

    def _take_switches(self, config: NsccConfig) -> python[None]:
        """What each acknowledgement asks of the configuration."""
        self._gamma, self._max_md_jump = float(config.gamma), float(config.max_md_jump)
        self._quick_adapt_on, self._qa_gate = config.quick_adapt, config.qa_gate
        self._qa_when_limited_only = config.quick_adapt_when_limited_only
        self._penalises_when_limited_only = config.penalty_when_limited_only
        self._penalty_before_sample = config.penalty_without_sample
        self._restores_on_request = config.restore_on_request_only
        self._clamps_restored = config.clamp_restored_cwnd
        self._resource_nack_keeps_cwnd = config.resource_nack_keeps_cwnd
        self._trim_feeds_base_rtt = config.trim_feeds_base_rtt
        # A fulfil comes when more than so much of a period has passed.
        self._fulfils_after = 0 if config.fulfil_at_period else 1

    @property
    def cwnd(self) -> int:
        return self._cwnd

    @property
    def max_cwnd(self) -> int:
        """The most `cwnd` may be, bytes."""
        return self._max_cwnd

    @property
    def inc(self) -> int:
        """Increase that waits to be fulfilled, bytes squared."""
        return self._inc

    @property
    def avg_delay(self) -> int:
        """The averaged queueing delay."""
        return self._average.value

    @property
    def base_rtt(self) -> int | None:
        """The RTT without queues; None as long as none was measured or configured."""
        return None if self._base_rtt == _NONE else self._base_rtt

    @property
    def wants_base_rtt(self) -> bool:
        return self._base_rtt == _NONE

    def shown(self) -> python[Mapping[str, int | float | None]]:
        second = self._config.ticks_per_second
        delays = {"base_rtt_ns": self.base_rtt, "avg_delay_ns": self.avg_delay}
        return {
            "max_cwnd_bytes": self._max_cwnd,
            **{name: None if delay is None else delay * NANOSECONDS // second for name, delay in delays.items()},
        }

    # ------------------------------------------------------------------ events, for callers in Python

    def on_ack(
        self, now: int, acked_bytes: int, marked: bool, rtt_ns: int | None, penalty: int = 0, restore: bool = False
    ) -> python[None]:
        self.acknowledged(now, acked_bytes, marked, NO_SAMPLE if rtt_ns is None else rtt_ns, penalty, restore)

    def on_loss(self, now: int, lost_bytes: int) -> python[None]:
        self.lost(now, lost_bytes)

    def on_nack(self, now: int, nacked_bytes: int, trimmed: bool) -> python[None]:
        self.nacked(now, nacked_bytes, trimmed)

    def on_rtt(self, now: int, rtt_ns: int) -> python[None]:
        if rtt_ns > 0:
            self._take_rtt(now, rtt_ns)
            if not self._sending and self._config.initial_cwnd is None:
                # Probes measured it before the first packet: the window begins as with one that was configured. Where
                # the line rate is measured and a busy peer answers probes late, it begins no larger than without them.
                most = self._config.unmeasured_cwnd_for(self._sizes) if self._delivery else self._max_cwnd
                self._cwnd = min(self._max_cwnd, most)

    # ------------------------------------------------------------------ events

    def room(self) -> int:
        return self._cwnd - self.inflight

    def on_sent(self, sent_bytes: int) -> None:
        self._sending = True
        self._limit.on_sending(self.inflight)
        if self._delivery is not None and not self.inflight:
            self._delivery.on_empty()
        self.inflight += sent_bytes

    def on_removed(self, removed_bytes: int) -> None:
        self._limit.on_removing(self.inflight, self._cwnd)
        self.inflight -= removed_bytes

    def acknowledged(self, now: int, acked_bytes: int, marked: bool, rtt_ns: int, penalty: int, restore: bool) -> None:
        self._limit.on_answer(now, self.inflight, self._cwnd)
        self._ignored += acked_bytes
        self._received += acked_bytes
        self._achieved += acked_bytes
        if self._delivery is not None and self._delivery.on_ack(now, acked_bytes):
            self._follow_delivery(self._delivery.bps)
        rtt = max(rtt_ns, 0)
        if not self._adjusting:
            self._last_adjust, self._adjusting = now - rtt, True
        held_by_receiver = self._penalty_before_sample and self._apply_receiver_penalty(acked_bytes, penalty, restore)
        delay = self._queueing_delay(now, marked, rtt)
        if delay == _NONE or self._target == _NONE:
            return
        if not self._penalty_before_sample:
            held_by_receiver = self._apply_receiver_penalty(acked_bytes, penalty, restore)
        if self._quick_adapt(now, False, marked, delay):
            return
        congested = delay >= self._target
        if marked:
            if congested:
                self._multiplicative_decrease(now)
        elif not held_by_receiver:
            if congested:
                self._increase(self._fi * acked_bytes)
            else:
                self._fast_increase(acked_bytes, delay)
                if not self._increasing:
                    self._increase(self._alpha * acked_bytes * (self._target - delay))
        self._fulfil(now)

    def _increase(self, by: float) -> None:
        """This much waits to be fulfilled, bytes squared."""
        self._inc = min(self._inc + _whole(by), _MOST)

    def lost(self, now: int, lost_bytes: int) -> None:
        self._limit.on_timer_removed()
        self._cwnd = max(self._cwnd - lost_bytes, self._mtu)
        self._ignored += lost_bytes

    def nacked(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        self._limit.on_answer(now, self.inflight, self._cwnd)
        if trimmed:
            self._ignored += nacked_bytes
            self._trigger_qa = True
            self._average_trim()
        elif self._resource_nack_keeps_cwnd:
            return
        if not self._quick_adapt(now, True, True, 0):
            self._cwnd = max(self._cwnd - nacked_bytes, self._mtu)

    # ------------------------------------------------------------------ round trips

    def _queueing_delay(self, now: int, marked: bool, rtt: int) -> int:
        """What this sample (0 or less: there is none) says of the delay, or _NONE."""
        if rtt <= 0:
            return _NONE if self._ewma is not None else self._delay_without_sample()
        self._take_rtt(now, rtt)
        if self._base_rtt == _NONE:
            # The first one came while Python was away: as long as it is, there is none.
            return _NONE
        delay = max(rtt - self._base_rtt, 0)
        if self._ewma is not None:
            self._ewma.update(delay)
        else:
            self._average_otherwise(delay, marked)
        return delay

    def _delay_without_sample(self) -> with_gil[int]:
        delay = self._average.without_sample()
        return _NONE if delay is None else max(delay, 0)

    def _average_otherwise(self, delay: int, marked: bool) -> with_gil[None]:
        """With a part that is not the usual one."""
        self._average.on_delay(delay, marked=marked, target=self._target, base_rtt=self._base_rtt)

    def _average_trim(self) -> None:
        base_rtt = self._base_rtt if self._configured_base_rtt == _NONE else self._configured_base_rtt
        feeds = self._trim_feeds_base_rtt and base_rtt != _NONE and self._target != _NONE
        if self._ewma is None:
            self._average_trim_otherwise(base_rtt, feeds)
        elif feeds:
            self._ewma.update(base_rtt)

    def _average_trim_otherwise(self, base_rtt: int, feeds: bool) -> with_gil[None]:
        if feeds:
            self._average.on_delay(base_rtt, marked=True, target=self._target, base_rtt=base_rtt)
        else:
            self._average.on_trimmed()

    def _take_rtt(self, now: int, rtt: int) -> None:
        base_rtt = self._least_rtt.update(now, rtt)
        if base_rtt != self._base_rtt or self._target == _NONE:
            if self.away.up:
                # It stays what it was: a sample that comes while Python is there moves it.
                self.away.waits = True
            else:
                self._move_base_rtt(base_rtt)
        if self._samples_to_derive_from and self._base_rtt != _NONE:
            self._samples_to_derive_from -= 1

    def _move_base_rtt(self, base_rtt: int) -> with_gil[None]:
        """Only max_cwnd follows base_rtt for ever; everything else keeps the value it had after the start."""
        self._base_rtt = _bounded(base_rtt)
        self._max_cwnd = _bounded(self._config.max_cwnd_for(self._sizes, base_rtt, self._line_rate))
        self._cwnd = min(self._cwnd, self._max_cwnd)
        self._zero_delay = _bounded(self._config.zero_delay_at(base_rtt))
        if self.parameters is None or self._samples_to_derive_from or self._derived_from_a_queue(base_rtt):
            self.use(self._config.parameters_for(self._sizes, base_rtt, self._line_rate))
            self._derived_from = self._base_rtt

    def _derived_from_a_queue(self, base_rtt: int) -> bool:
        """Whether the round trip that all was derived from was long. Where the line rate is a guess, the first packets
        fill the queues, and a target of as much would keep them full."""
        return self._delivery is not None and base_rtt < self._derived_from // 2

    def use(self, parameters: NsccParameters) -> python[None]:
        """Work with these from now on."""
        self.parameters = parameters
        self._target = _bounded(parameters.target)
        self._alpha, self._fi = float(parameters.alpha), float(parameters.fi)
        self._fi_scale, self._eta = float(parameters.fi_scale), float(parameters.eta)
        self._qa_threshold = _bounded(parameters.qa_threshold)
        self._adjust_bytes = _bounded(parameters.adjust_bytes)
        self._adjust_period = _bounded(parameters.adjust_period)

    def _follow_delivery(self, bps: int) -> None:
        """The network was seen to deliver so many bits a second. A window of 1.5 BDP lets that grow."""
        rate = min(self._configured_rate, max(bps, _LEAST_LINE_RATE))
        if self._base_rtt != _NONE and max(rate - self._line_rate, self._line_rate - rate) * 8 > self._line_rate:
            if self.away.up:
                self.away.waits = True
            else:
                self._move_line_rate(rate)

    def _move_line_rate(self, rate: int) -> with_gil[None]:
        self._line_rate = rate
        self.use(self._config.parameters_for(self._sizes, self._base_rtt, rate))
        self._derived_from = self._base_rtt
        self._max_cwnd = _bounded(self._config.max_cwnd_for(self._sizes, self._base_rtt, rate))
        self._cwnd = min(self._cwnd, self._max_cwnd)

    # ------------------------------------------------------------------ the window

    def _fast_increase(self, acked_bytes: int, delay: int) -> None:
        """The path is idle: take what there is."""
        if delay >= self._zero_delay:
            self._fi_count = 0
            self._increasing = False
            return
        self._fi_count += acked_bytes
        if self._fi_count > self._cwnd or self._increasing:
            self._cwnd = min(_whole(self._cwnd + acked_bytes * self._fi_scale), self._max_cwnd)
            self._increasing = True

    def _multiplicative_decrease(self, now: int) -> None:
        self._increasing = False
        self._fi_count = 0
        average = self._average.value
        if average > self._target and now - self._last_decrease > self._base_rtt:
            factor: float = max(1 - self._gamma * (average - self._target) / average, self._max_md_jump)
            self._cwnd = max(_whole(self._cwnd * factor), self._mtu)
            self._last_decrease = now

    def _fulfil(self, now: int) -> None:
        """Let the increases that have gathered take effect."""
        elapsed = now - self._last_adjust
        if elapsed < self._adjust_period + self._fulfils_after and self._received <= self._adjust_bytes:
            return
        self._cwnd += self._inc // self._cwnd
        if elapsed >= self._adjust_period:
            self._cwnd = _whole(self._cwnd + self._eta)
            self._last_adjust = now
        self._cwnd = min(self._cwnd, self._max_cwnd)
        self._inc = self._received = 0

    def _quick_adapt(self, now: int, loss: bool, marked: bool, delay: int) -> bool:
        """Once per base_rtt + target: if far too little got through, jump down to what did. True: that was all."""
        if not self._quick_adapt_on or self._target == _NONE:
            return False
        handled = False
        if self._ignored < self._to_ignore and marked:
            handled = True
        elif now >= self._qa_end:
            if self._qa_end and self._too_little_got_through(loss, delay):
                self._cwnd = max(self._achieved, self._mtu)
                self._to_ignore = self.inflight
                self._ignored = 0
                self._trigger_qa = False
                handled = True
            self._achieved = 0
            self._qa_end = now + self._base_rtt + self._target
            self._limit.begin_interval()
        if handled:
            self._inc = self._received = 0
        return handled

    def _too_little_got_through(self, loss: bool, delay: int) -> bool:
        if self._qa_when_limited_only and not self._limit.interval_limited:
            return False
        too_long = self._qa_threshold != _NONE and delay > self._qa_threshold
        return (self._trigger_qa or loss or too_long) and self._achieved < self._max_cwnd >> self._qa_gate

    def _apply_receiver_penalty(self, acked_bytes: int, penalty: int, restore: bool) -> bool:
        """True while the receiver asks for less: then nothing is added to the window."""
        if penalty == PENALTY_UNKNOWN:
            return False
        if not penalty:
            self._penalised = False
            if restore or not self._restores_on_request:
                self._restore_cwnd()
            return False
        if self._limit.turn_limited or not self._penalises_when_limited_only:
            if self._saves_cwnd(restore):
                self._saved_cwnd = self._cwnd
            self._penalised = True
            reduced = min(self._cwnd, self.inflight) - (penalty * acked_bytes >> PENALTY_SHIFT)
            self._cwnd = max(self._mtu, reduced)
        return True

    def _saves_cwnd(self, restore: bool) -> bool:
        """Whether the window is to be as it is now after the penalty that takes effect."""
        return not self._penalised if self._restores_on_request else restore and self._saved_cwnd == _NONE

    def _restore_cwnd(self) -> None:
        if self._saved_cwnd == _NONE:
            return
        self._cwnd = self._saved_cwnd
        if self._clamps_restored:
            self._cwnd = min(self._cwnd, self._max_cwnd)
        self._saved_cwnd = _NONE


NSCC = Configured(Nscc, NsccConfig())
register("uet-1.0-nscc", NSCC)  # its name in the control API
register("nscc", NSCC)
