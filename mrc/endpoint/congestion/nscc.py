"""NSCC, network-signalled congestion control (nscc.md): two signals move a window, ECN and queueing delay.

Names are those of the specification's pseudocode. Windows and counts are bytes of nominal packet size, `inc` is bytes
squared, times are integers in the unit of the caller's `now` (NsccConfig.ticks_per_second).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mrc.endpoint.congestion.base import PENALTY_UNKNOWN, CongestionController, PacketSizes, register
from mrc.endpoint.congestion.delivery_rate import DeliveryRate
from mrc.endpoint.congestion.nscc_config import NsccConfig, NsccParameters
from mrc.endpoint.congestion.window_limit import WindowLimit
from mrc.endpoint.congestion.windowed_minimum import WindowedMinimum

PENALTY_SHIFT = 7
_LEAST_LINE_RATE = 1_000_000  # bits a second; below it a window is its least anyway


class Nscc(CongestionController):
    """The window towards one destination, for all QPs that share it.

    `base_rtt` and `parameters` are None until a round trip is known; up to then the window is the initial one, and only
    losses and NACKs move it, downward.
    """

    __slots__ = (
        "_achieved",
        "_adjusting",
        "_average",
        "_config",
        "_cwnd",
        "_delivery",
        "_fi_count",
        "_ignored",
        "_inc",
        "_increasing",
        "_last_adjust",
        "_last_decrease",
        "_least_rtt",
        "_limit",
        "_line_rate",
        "_max_cwnd",
        "_mtu",
        "_penalised",
        "_qa_end",
        "_received",
        "_samples_to_derive_from",
        "_saved_cwnd",
        "_sending",
        "_sizes",
        "_to_ignore",
        "_trigger_qa",
        "_zero_delay",
        "base_rtt",
        "parameters",
    )

    def __init__(self, sizes: PacketSizes, config: NsccConfig | None = None) -> None:
        super().__init__()
        self._config = config = config or NsccConfig()
        self._sizes = sizes
        self._mtu = sizes.mtu
        self._average = config.delay_average()
        self._limit = WindowLimit()

        self._least_rtt = WindowedMinimum(config.base_rtt_window, config.base_rtt)
        self.base_rtt: int | None = None
        self.parameters: NsccParameters | None = None
        self._zero_delay = 0
        self._samples_to_derive_from = config.base_rtt_samples
        self._sending = False
        second = config.ticks_per_second
        self._line_rate = config.line_rate_bps
        self._delivery = DeliveryRate(second // 100, 10 * second, second) if config.measure_line_rate else None
        self._cwnd = config.initial_cwnd_for(sizes)
        self._max_cwnd = config.max_cwnd_for(sizes, None)
        if config.base_rtt is not None:
            self._move_base_rtt(config.base_rtt)
            self._samples_to_derive_from = 0

        self._inc = 0
        self._received = 0
        self._last_adjust = 0
        self._adjusting = not config.last_adjust_starts_now
        self._last_decrease = 0
        self._increasing = False
        self._fi_count = 0
        self._saved_cwnd: int | None = None
        self._penalised = False

        self._achieved = 0
        self._ignored = 0
        self._to_ignore = 0
        self._qa_end = 0
        self._trigger_qa = False

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

    # ------------------------------------------------------------------ events

    def on_sent(self, sent_bytes: int) -> None:
        self._sending = True
        self._limit.on_sending(self.inflight)
        super().on_sent(sent_bytes)

    def on_removed(self, removed_bytes: int) -> None:
        self._limit.on_removing(self.inflight, self._cwnd)
        super().on_removed(removed_bytes)

    def on_ack(
        self, now: int, acked_bytes: int, marked: bool, rtt_ns: int | None, penalty: int = 0, restore: bool = False
    ) -> None:
        self._limit.on_answer(now, self.inflight, self._cwnd)
        self._ignored += acked_bytes
        self._received += acked_bytes
        self._achieved += acked_bytes
        if self._delivery is not None and self._delivery.on_ack(now, acked_bytes):
            self._follow_delivery(self._delivery.bps)
        if not self._adjusting:
            self._last_adjust, self._adjusting = now - (rtt_ns or 0), True
        before_sample = self._config.penalty_without_sample
        held_by_receiver = before_sample and self._apply_receiver_penalty(acked_bytes, penalty, restore)
        delay = self._queueing_delay(now, marked, rtt_ns)
        parameters = self.parameters
        if delay is None or parameters is None:
            return
        if not before_sample:
            held_by_receiver = self._apply_receiver_penalty(acked_bytes, penalty, restore)
        if self._quick_adapt(now, loss=False, marked=marked, delay=delay):
            return
        congested = delay >= parameters.target
        if marked:
            if congested:
                self._multiplicative_decrease(now, parameters.target)
        elif not held_by_receiver:
            if congested:
                self._inc += int(parameters.fi * acked_bytes)
            else:
                self._fast_increase(acked_bytes, delay, parameters)
                if not self._increasing:
                    self._inc += int(parameters.alpha * acked_bytes * (parameters.target - delay))
        self._fulfil(now, parameters)

    def on_loss(self, now: int, lost_bytes: int) -> None:
        self._limit.on_timer_removed()
        self._cwnd = max(self._cwnd - lost_bytes, self._mtu)
        self._ignored += lost_bytes

    def on_nack(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        self._limit.on_answer(now, self.inflight, self._cwnd)
        if trimmed:
            self._ignored += nacked_bytes
            self._trigger_qa = True
            self._average_trim()
        elif self._config.resource_nack_keeps_cwnd:
            return
        if not self._quick_adapt(now, loss=True, marked=True, delay=0):
            self._cwnd = max(self._cwnd - nacked_bytes, self._mtu)

    @property
    def wants_base_rtt(self) -> bool:
        return self.base_rtt is None

    def on_rtt(self, now: int, rtt_ns: int) -> None:
        if rtt_ns > 0:
            self._take_rtt(now, rtt_ns)
            if not self._sending and self._config.initial_cwnd is None:
                # Probes measured it before the first packet: the window begins as with one that was configured. Where
                # the line rate is a guess and a busy peer answers probes late, it begins no larger than without them.
                most = self._config.unmeasured_cwnd_packets * self._mtu if self._delivery else self._max_cwnd
                self._cwnd = min(self._max_cwnd, most)

    # ------------------------------------------------------------------ round trips

    def _queueing_delay(self, now: int, marked: bool, rtt: int | None) -> int | None:
        if rtt is None or rtt <= 0:
            return self._average.without_sample()
        base_rtt, parameters = self._take_rtt(now, rtt)
        delay = rtt - base_rtt
        self._average.on_delay(delay, marked=marked, target=parameters.target, base_rtt=base_rtt)
        return delay

    def _average_trim(self) -> None:
        base_rtt, parameters = self._config.base_rtt or self.base_rtt, self.parameters
        if self._config.trim_feeds_base_rtt and base_rtt is not None and parameters is not None:
            self._average.on_delay(base_rtt, marked=True, target=parameters.target, base_rtt=base_rtt)
        else:
            self._average.on_trimmed()

    def _take_rtt(self, now: int, rtt: int) -> tuple[int, NsccParameters]:
        base_rtt, parameters = self._least_rtt.update(now, rtt), self.parameters
        if base_rtt != self.base_rtt or parameters is None:
            parameters = self._move_base_rtt(base_rtt)
        if self._samples_to_derive_from:
            self._samples_to_derive_from -= 1
        return base_rtt, parameters

    def _move_base_rtt(self, base_rtt: int) -> NsccParameters:
        """Only max_cwnd follows base_rtt for ever; everything else keeps the value it had after the start."""
        self.base_rtt = base_rtt
        self._max_cwnd = self._config.max_cwnd_for(self._sizes, base_rtt, self._line_rate)
        self._cwnd = min(self._cwnd, self._max_cwnd)
        self._zero_delay = self._config.zero_delay_at(base_rtt)
        if self.parameters is None or self._samples_to_derive_from:
            self.parameters = self._config.parameters_for(self._sizes, base_rtt, self._line_rate)
        return self.parameters

    def _follow_delivery(self, bps: int) -> None:
        """The network was seen to deliver so many bits a second: that, twice, is the line rate."""
        rate = min(self._config.line_rate_bps, max(2 * bps, _LEAST_LINE_RATE))
        if self.base_rtt is None or abs(rate - self._line_rate) * 8 <= self._line_rate:
            return
        self._line_rate = rate
        self.parameters = self._config.parameters_for(self._sizes, self.base_rtt, rate)
        self._max_cwnd = self._config.max_cwnd_for(self._sizes, self.base_rtt, rate)
        self._cwnd = min(self._cwnd, self._max_cwnd)

    # ------------------------------------------------------------------ the window

    def _fast_increase(self, acked_bytes: int, delay: int, parameters: NsccParameters) -> None:
        """The path is idle: take what there is."""
        if delay >= self._zero_delay:
            self._fi_count = 0
            self._increasing = False
            return
        self._fi_count += acked_bytes
        if self._fi_count > self._cwnd or self._increasing:
            self._cwnd = min(int(self._cwnd + acked_bytes * parameters.fi_scale), self._max_cwnd)
            self._increasing = True

    def _multiplicative_decrease(self, now: int, target: int) -> None:
        self._increasing = False
        self._fi_count = 0
        average = self._average.value
        if average > target and self.base_rtt is not None and now - self._last_decrease > self.base_rtt:
            factor = max(1 - self._config.gamma * (average - target) / average, self._config.max_md_jump)
            self._cwnd = max(int(self._cwnd * factor), self._mtu)
            self._last_decrease = now

    def _fulfil(self, now: int, parameters: NsccParameters) -> None:
        """Let the increases that have gathered take effect."""
        elapsed = now - self._last_adjust
        least = parameters.adjust_period + (0 if self._config.fulfil_at_period else 1)
        if elapsed < least and self._received <= parameters.adjust_bytes:
            return
        self._cwnd += self._inc // self._cwnd
        if elapsed >= parameters.adjust_period:
            self._cwnd = int(self._cwnd + parameters.eta)
            self._last_adjust = now
        self._cwnd = min(self._cwnd, self._max_cwnd)
        self._inc = self._received = 0

    def _quick_adapt(self, now: int, *, loss: bool, marked: bool, delay: int) -> bool:
        """Once per base_rtt + target: if far too little got through, jump down to what did. True: that was all."""
        parameters = self.parameters
        if not self._config.quick_adapt or parameters is None or self.base_rtt is None:
            return False
        handled = False
        if self._ignored < self._to_ignore and marked:
            handled = True
        elif now >= self._qa_end:
            if self._qa_end and self._too_little_got_through(parameters, loss, delay):
                self._cwnd = max(self._achieved, self._mtu)
                self._to_ignore = self.inflight
                self._ignored = 0
                self._trigger_qa = False
                handled = True
            self._achieved = 0
            self._qa_end = now + self.base_rtt + parameters.target
            self._limit.begin_interval()
        if handled:
            self._inc = self._received = 0
        return handled

    def _too_little_got_through(self, parameters: NsccParameters, loss: bool, delay: int) -> bool:
        if self._config.quick_adapt_when_limited_only and not self._limit.interval_limited:
            return False
        too_long = parameters.qa_threshold is not None and delay > parameters.qa_threshold
        return (self._trigger_qa or loss or too_long) and self._achieved < self._max_cwnd >> self._config.qa_gate

    def _apply_receiver_penalty(self, acked_bytes: int, penalty: int, restore: bool) -> bool:
        """True while the receiver asks for less: then nothing is added to the window."""
        if penalty == PENALTY_UNKNOWN:
            return False
        on_request = self._config.restore_on_request_only
        if not penalty:
            self._penalised = False
            if restore or not on_request:
                self._restore_cwnd()
            return False
        if self._limit.turn_limited or not self._config.penalty_when_limited_only:
            saves = not self._penalised if on_request else restore and self._saved_cwnd is None
            if saves:
                self._saved_cwnd = self._cwnd
            self._penalised = True
            reduced = min(self._cwnd, self.inflight) - (penalty * acked_bytes >> PENALTY_SHIFT)
            self._cwnd = max(self._mtu, reduced)
        return True

    def _restore_cwnd(self) -> None:
        if self._saved_cwnd is None:
            return
        self._cwnd = self._saved_cwnd
        if self._config.clamp_restored_cwnd:
            self._cwnd = min(self._cwnd, self._max_cwnd)
        self._saved_cwnd = None


@dataclass(frozen=True, slots=True)
class NsccFactory:
    """Makes controllers of one configuration. Factories of equal configurations are equal, and so share controllers
    where those are shared by destination."""

    config: NsccConfig = field(default_factory=NsccConfig)

    def __call__(self, sizes: PacketSizes) -> Nscc:
        return Nscc(sizes, self.config)


register("nscc", NsccFactory())
register("uet-1.0-nscc", NsccFactory())  # its name in the control API
