# SPDX-License-Identifier: BSD-2-Clause
"""NSCCs with other numbers than those that follow from line rate and base RTT, or with numbers from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from mrc.endpoint.congestion import Configured, EwmaDelay, Nscc, NsccConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp import QueuePair
from mutants.mutant import mutant

MSS = 1024
BITS = 8 * 1_000_000_000


def nscc_config(qp: QueuePair) -> NsccConfig | None:
    """What NSCC is configured with, before the QP is up; None: it has another controller."""
    factory: Any = qp._controller_factory
    return factory.config if isinstance(factory, Configured) and isinstance(factory.config, NsccConfig) else None


def with_config(qp: QueuePair, **changes: Any) -> None:
    """Configure NSCC otherwise, before the QP is up."""
    config = nscc_config(qp)
    if config is not None:
        qp._controller_factory = Configured(Nscc, replace(config, **changes))


def bdp(config: NsccConfig) -> int:
    """Line rate x base RTT in bytes, 0 where that is not configured."""
    return config.line_rate_bps * (config.base_rtt or 0) // BITS


def _scaled(qp: QueuePair, **factors: float) -> None:
    """Multiply parameters that follow from line rate and base RTT."""
    controller = qp.controller
    if isinstance(controller, Nscc) and controller.parameters is not None:
        parameters = controller.parameters
        changes: Any = {name: getattr(parameters, name) * factor for name, factor in factors.items()}
        controller.use(replace(parameters, **changes))


# ------------------------------------------------------------------ decreases


@mutant("MRC-CC-30", "MRC-CC-06", at_creation=True)
def gamma_is_a_half(endpoint: Endpoint, qp: QueuePair) -> None:
    """Gamma is 0.5."""
    with_config(qp, gamma=0.5)


@mutant("MRC-CC-30", at_creation=True)
def decreases_may_quarter(endpoint: Endpoint, qp: QueuePair) -> None:
    """Max_md_jump is 0.25."""
    with_config(qp, max_md_jump=0.25)


@mutant("MRC-CC-07", at_creation=True)
def the_latest_delay_is_the_average(endpoint: Endpoint, qp: QueuePair) -> None:
    """A single delay above target is enough for a decrease."""
    with_config(qp, delay_average=partial(EwmaDelay, 1.0))


# ------------------------------------------------------------------ increases


@mutant("MRC-CC-31", "MRC-CC-05")
def fi_is_half(endpoint: Endpoint, qp: QueuePair) -> None:
    """Fi is 2.5 mss a."""
    _scaled(qp, fi=0.5)


@mutant("MRC-CC-31")
def eta_is_half(endpoint: Endpoint, qp: QueuePair) -> None:
    """Eta is 0.075 mss a."""
    _scaled(qp, eta=0.5)


@mutant("MRC-CC-31", "MRC-CC-13")
def fi_scale_is_half(endpoint: Endpoint, qp: QueuePair) -> None:
    """Fi_scale is 0.125 a."""
    _scaled(qp, fi_scale=0.5)


@mutant("MRC-CC-31", "MRC-CC-04")
def alpha_is_half(endpoint: Endpoint, qp: QueuePair) -> None:
    """Alpha is 2 a b mss / target."""
    _scaled(qp, alpha=0.5)


@mutant("MRC-CC-31")
def alpha_knows_no_b(endpoint: Endpoint, qp: QueuePair) -> None:
    """Alpha is 4 a mss / target, whatever the target."""
    controller = qp.controller
    if isinstance(controller, Nscc) and controller.parameters is not None:
        _scaled(qp, alpha=12_000 / controller.parameters.target)


@mutant("MRC-CC-33", "MRC-CC-10", at_creation=True)
def increases_wait_for_four_packets(endpoint: Endpoint, qp: QueuePair) -> None:
    """Adjust_bytes_threshold is 4 mtu."""
    with_config(qp, adjust_bytes_threshold=4_480)


@mutant("MRC-CC-33", "MRC-CC-10", at_creation=True)
def increases_wait_for_time_alone(endpoint: Endpoint, qp: QueuePair) -> None:
    """Increases take effect after a period and not before, whatever was acknowledged."""
    with_config(qp, adjust_bytes_threshold=1 << 40)


@mutant("MRC-CC-33", at_creation=True)
def the_period_is_two_base_rtts(endpoint: Endpoint, qp: QueuePair) -> None:
    """Adjust_period_threshold is 2 base_rtt."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None:
        with_config(qp, adjust_period_threshold=2 * config.base_rtt)


@mutant("MRC-CC-33", "MRC-CC-10", at_creation=True)
def the_period_is_half_a_base_rtt(endpoint: Endpoint, qp: QueuePair) -> None:
    """Adjust_period_threshold is half a base_rtt."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None:
        with_config(qp, adjust_period_threshold=config.base_rtt // 2)


# ------------------------------------------------------------------ target, delays, windows


@mutant("MRC-CC-28", at_creation=True)
def target_knows_no_trimming(endpoint: Endpoint, qp: QueuePair) -> None:
    """Target_delay is 1.0 base_rtt with trimming too."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None:
        with_config(qp, target_delay=config.base_rtt)


@mutant("MRC-CC-28", at_creation=True)
def target_is_half_with_trimming(endpoint: Endpoint, qp: QueuePair) -> None:
    """Target_delay is 0.5 base_rtt with trimming."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None and config.trimming:
        with_config(qp, target_delay=config.base_rtt // 2)


@mutant("MRC-CC-28", at_creation=True)
def target_is_less_without_trimming(endpoint: Endpoint, qp: QueuePair) -> None:
    """Target_delay is 0.75 base_rtt without trimming too."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None:
        with_config(qp, target_delay=config.base_rtt * 3 // 4)


@mutant("MRC-CC-27", at_creation=True)
def only_less_than_a_microsecond_is_no_delay(endpoint: Endpoint, qp: QueuePair) -> None:
    """A delay is about 0 below 1 us, however long the path."""
    with_config(qp, zero_delay=1_000)


@mutant("MRC-CC-27", at_creation=True)
def only_less_than_an_eighth_is_no_delay(endpoint: Endpoint, qp: QueuePair) -> None:
    """A delay is about 0 below base_rtt / 8, however short the path."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None:
        with_config(qp, zero_delay=config.base_rtt // 8)


@mutant("MRC-CC-27", at_creation=True)
def less_than_a_quarter_is_no_delay(endpoint: Endpoint, qp: QueuePair) -> None:
    """A delay is about 0 below base_rtt / 4."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None:
        with_config(qp, zero_delay=max(1_000, config.base_rtt // 4))


@mutant("MRC-CC-27", at_creation=True)
def less_than_one_and_a_half_microseconds_is_no_delay(endpoint: Endpoint, qp: QueuePair) -> None:
    """A delay is about 0 below 1.5 us, however short the path."""
    with_config(qp, zero_delay=1_500)


@mutant("MRC-CC-29", at_creation=True)
def the_window_is_one_bdp(endpoint: Endpoint, qp: QueuePair) -> None:
    """Max_cwnd is 1 BDP."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None and config.max_cwnd is None:
        with_config(qp, max_cwnd=max(1, bdp(config)))


@mutant("MRC-CC-29", at_creation=True)
def the_first_window_is_one_bdp(endpoint: Endpoint, qp: QueuePair) -> None:
    """The initial cwnd is 1 BDP."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None and config.initial_cwnd is None:
        with_config(qp, initial_cwnd=max(1, bdp(config)))


@mutant("MRC-CC-29", "MRC-CC-12", at_creation=True)
def the_window_may_be_twice_as_large(endpoint: Endpoint, qp: QueuePair) -> None:
    """Max_cwnd is twice of what it should be; the initial cwnd is right."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None:
        right = config.max_cwnd or 3 * bdp(config) // 2
        with_config(qp, max_cwnd=max(1, 2 * right), initial_cwnd=config.initial_cwnd or max(1, right))


@mutant("MRC-CC-24", at_creation=True)
def max_cwnd_has_no_least(endpoint: Endpoint, qp: QueuePair) -> None:
    """Max_cwnd is at least one packet."""
    with_config(qp, max_cwnd_least_packets=1)


# ------------------------------------------------------------------ quick adapt and penalty


@mutant("MRC-CC-32", at_creation=True)
def a_quarter_is_too_little(endpoint: Endpoint, qp: QueuePair) -> None:
    """Qa_gate is 2."""
    with_config(qp, qa_gate=2)


@mutant("MRC-CC-32", at_creation=True)
def a_sixteenth_is_too_little(endpoint: Endpoint, qp: QueuePair) -> None:
    """Qa_gate is 4."""
    with_config(qp, qa_gate=4)


@mutant("MRC-CC-32", at_creation=True)
def three_targets_are_too_long(endpoint: Endpoint, qp: QueuePair) -> None:
    """Qa_threshold is 3 x target without trimming."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None and not config.trimming:
        with_config(qp, qa_threshold=3 * config.base_rtt)


@mutant("MRC-CC-32", "MRC-CC-14", at_creation=True)
def no_delay_is_too_long(endpoint: Endpoint, qp: QueuePair) -> None:
    """Qa_threshold is off without trimming too."""
    with_config(qp, qa_threshold=0)


@mutant("MRC-CC-32", at_creation=True)
def a_delay_is_too_long_with_trimming(endpoint: Endpoint, qp: QueuePair) -> None:
    """Qa_threshold is 4 x target with trimming too."""
    config = nscc_config(qp)
    if config is not None and config.base_rtt is not None and config.trimming:
        with_config(qp, qa_threshold=3 * config.base_rtt)


@mutant("MRC-CC-14", "MRC-CC-17", "MRC-CC-18", at_creation=True)
def no_quick_adapt(endpoint: Endpoint, qp: QueuePair) -> None:
    """There is no quick adapt."""
    with_config(qp, quick_adapt=False)


@mutant("MRC-CC-25", at_creation=True)
def pauses_are_judged(endpoint: Endpoint, qp: QueuePair) -> None:
    """Quick adapt judges intervals in which the application had little to send."""
    with_config(qp, quick_adapt_when_limited_only=False)


@mutant("MRC-CC-26", at_creation=True)
def penalties_cut_any_window(endpoint: Endpoint, qp: QueuePair) -> None:
    """A penalty cuts a window that was not full."""
    with_config(qp, penalty_when_limited_only=False)


@mutant("MRC-CC-26", at_creation=True)
def any_window_is_restored(endpoint: Endpoint, qp: QueuePair) -> None:
    """A restored window is what it was, whatever max_cwnd has become."""
    with_config(qp, clamp_restored_cwnd=False)


# ------------------------------------------------------------------ base RTT


@mutant("MRC-CC-22")
class MaxCwndStays(Nscc):
    """A lower base_rtt changes nothing but the delays."""

    def _move_base_rtt(self, base_rtt: int) -> None:
        if self.parameters is None:
            super()._move_base_rtt(base_rtt)
        self._base_rtt = base_rtt


@mutant("MRC-CC-22")
class EverythingFollowsBaseRtt(Nscc):
    """With a lower base_rtt target, fi and all else are worked out anew."""

    def _move_base_rtt(self, base_rtt: int) -> None:
        self._samples_to_derive_from = 2
        super()._move_base_rtt(base_rtt)


@mutant("MRC-CC-23", at_creation=True)
def base_rtt_is_never_forgotten(endpoint: Endpoint, qp: QueuePair) -> None:
    """Base_rtt is the minimum of all time."""
    with_config(qp, base_rtt_window_s=None)


@mutant("MRC-CC-23", at_creation=True)
def base_rtt_is_forgotten_in_a_second(endpoint: Endpoint, qp: QueuePair) -> None:
    """Base_rtt is the minimum over the last second."""
    with_config(qp, base_rtt_window_s=1.0)


@mutant("MRC-CC-34", at_creation=True)
def base_rtt_is_not_measured(endpoint: Endpoint, qp: QueuePair) -> None:
    """No EV probe leaves when a QP comes up."""
    qp._node = replace(qp._node, on_ready=lambda ready: None)


@mutant("MRC-CC-34", at_creation=True)
def the_line_rate_is_what_it_is(endpoint: Endpoint, qp: QueuePair) -> None:
    """The line rate is 10 Gbit/s, whatever is configured."""
    with_config(qp, line_rate_bps=10_000_000_000)


@mutant("MRC-CC-34", at_creation=True)
def a_configured_base_rtt_is_not_used(endpoint: Endpoint, qp: QueuePair) -> None:
    """The base RTT is measured, even where it is configured."""
    with_config(qp, base_rtt=None)
