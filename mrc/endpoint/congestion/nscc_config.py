# SPDX-License-Identifier: BSD-2-Clause
"""NSCC's parameters: what is configured, and what follows from line rate and base RTT (nscc.md, Defaults)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from mrc.endpoint.congestion.base import PacketSizes
from mrc.endpoint.congestion.config import ControllerConfig, setting
from mrc.endpoint.congestion.estimates import DelayAverage, EwmaDelay
from mrc.records import record

NANOSECONDS = 1_000_000_000
# The network the specification's constants were chosen for: 100 Gbit/s and 12 us, so a BDP of 150,000 bytes.
REFERENCE_BDP_BYTES = 150_000
REFERENCE_RTT_US = 12
BITS = 8
_MOST = 1 << 62


@record(frozen=True, slots=True)
class NsccParameters:
    """What one controller works with, as long as it lives. Delays and the period in the unit of its time (ns).

    `alpha` is bytes per unit of time; `fi` and `eta` are bytes, `fi_scale` a ratio. `qa_threshold` None: off.
    """

    target: int
    alpha: float
    fi: float
    fi_scale: float
    eta: float
    qa_threshold: int | None
    adjust_bytes: int
    adjust_period: int


@record(frozen=True, slots=True)
class NsccConfig(ControllerConfig):
    """NSCC's configuration: what the network is, the window at the start, the specification's parameters, our own.

    Names of `mrc_ctl_cc_nscc_cfg` where there is one; None means the default of nscc.md's table. Times are integers in
    the unit of the `now` that the caller passes: nanoseconds, unless `ticks_per_second` says otherwise. Windows and
    thresholds are bytes of nominal packet size. Raises CallerError for a value out of range.
    """

    section: ClassVar[str] = "nscc"

    # What the network is.
    # The default is a little more than a path of veth pairs carries on two cores (4.4 to 9 Gbit/s), so that no window
    # derived from it is too small; too high costs a longer queue.
    line_rate_bps: int = setting(
        10_000_000_000, "the line rate", unit="bits a second", low=1_000_000, high=10_000_000_000_000
    )
    # The window is 1.5 BDP of it, so that it can grow to what the network carries.
    measure_line_rate: bool = setting(
        False,
        "once data was acknowledged for 10 ms, take the highest rate of delivery of the last 10 s, at most "
        "line_rate_bps",
    )
    base_rtt: int | None = setting(
        None,
        "the RTT without queues, a sample that comes with the first one. None: measured; what follows from it keeps "
        "the value it has after `base_rtt_samples` valid samples, all but max_cwnd",
        unit="ns",
        low=1,
        high=_MOST,
    )
    base_rtt_samples: int = setting(16, "valid samples that base_rtt is derived from", low=1, high=1 << 20)
    trimming: bool = setting(False, "whether switches trim and the peer answers with trim NACKs")
    ticks_per_second: int = setting(
        NANOSECONDS, "the unit of time", low=1_000_000, high=1_000_000_000_000, in_profile=False
    )

    # The window at the start.
    initial_cwnd: int | None = setting(
        None,
        "None: max_cwnd with a configured base_rtt, otherwise `unmeasured_cwnd_packets` full packets",
        unit="bytes",
        low=1,
        high=_MOST,
    )
    unmeasured_cwnd_packets: int = setting(
        128,
        "also the derived max_cwnd as long as the base RTT is not known, at most what follows from least_base_rtt",
        unit="full packets",
        low=1,
        high=1 << 20,
    )

    # The specification's parameters. a = BDP / 150,000 bytes.
    target_delay: int | None = setting(
        None, "None: 0.75 base_rtt with trimming, 1.0 without", unit="ns", low=1, high=_MOST
    )
    max_cwnd: int | None = setting(None, "None: 1.5 BDP, and it follows base_rtt", unit="bytes", low=1, high=_MOST)
    gamma: float = setting(0.8, "weight of a multiplicative decrease", low=0, high=1)
    max_md_jump: float = setting(0.5, "the least factor of a multiplicative decrease", low=0, high=1)
    fi: float | None = setting(None, "None: 5 mss a", unit="bytes", low=0, high=_MOST)
    fi_scale: float | None = setting(None, "None: 0.25 a", low=0, high=_MOST)
    eta: float | None = setting(None, "None: 0.15 mss a", unit="bytes", low=0, high=_MOST)
    quick_adapt: bool = setting(True, "False turns it off")
    qa_gate: int = setting(3, "quick adapt acts when less than max_cwnd >> qa_gate got through", low=0, high=63)
    qa_threshold: int | None = setting(
        None,
        "delay that alone is reason for quick adapt; 0: none is. None: 4 x target without trimming, 0 with it",
        unit="ns",
        low=0,
        high=_MOST,
    )
    adjust_bytes_threshold: int | None = setting(None, "None: 8 mtu", unit="bytes", low=0, high=_MOST)
    adjust_period_threshold: int | None = setting(None, "None: 1 base_rtt", unit="ns", low=0, high=_MOST)

    # What user space needs beyond it. Each can be set to what hardware does.
    base_rtt_window_s: float | None = setting(
        10.0, "base_rtt is the minimum of this long; None: of all time", unit="s", low=0.001, high=1_000_000_000
    )
    max_cwnd_least_packets: int = setting(
        2, "max_cwnd is at least this many full packets", unit="full packets", low=1, high=1 << 20
    )
    least_base_rtt: int | None = setting(
        None,
        "what is derived takes base_rtt for at least this, all but `zero_delay`: processes wake no sooner. None: any",
        unit="ns",
        low=1,
        high=_MOST,
    )
    ack_gap_bytes: int = setting(
        0,
        "a max_cwnd that is derived is this much larger: what the peer lets arrive before it sends a SACK",
        unit="bytes",
        low=0,
        high=_MOST,
    )
    quick_adapt_when_limited_only: bool = setting(True, "judge only intervals in which the window was the limit")
    penalty_when_limited_only: bool = setting(True, "apply the receiver's penalty only while the window is the limit")
    clamp_restored_cwnd: bool = setting(True, "a restored window is at most max_cwnd")
    zero_delay: int | None = setting(
        None,
        "a delay below it counts as none. None: 1 us or base_rtt / 8, whichever is more",
        unit="ns",
        low=0,
        high=_MOST,
    )
    delay_average: Callable[[], DelayAverage] = setting(
        EwmaDelay, "makes the part that averages the delay", in_profile=False
    )

    # Where the consortium's pseudocode differs (nscc.md, Consortium pseudocode; MRC-CC-35 to MRC-CC-41). False is what
    # that page has first. True has it as the consortium.
    resource_nack_keeps_cwnd: bool = setting(False, "a NACK that is not of a trimmed packet leaves cwnd alone")
    trim_feeds_base_rtt: bool = setting(
        False, "a trim feeds base_rtt, as configured or else as measured, to the delay average"
    )
    penalty_without_sample: bool = setting(
        False, "the receiver's penalty applies to an acknowledgement without a valid RTT sample too"
    )
    restore_on_request_only: bool = setting(
        False, "each penalty saves the window; only restore_cwnd with a penalty of 0 restores it"
    )
    fulfil_at_period: bool = setting(False, "a fulfil comes when exactly one period has passed, not only after more")
    last_adjust_starts_now: bool = setting(
        False, "the first period begins when the first acknowledged packet left, not at time 0"
    )
    alpha_uses_mtu: bool = setting(False, "alpha follows from the nominal size of a full packet, not from its payload")

    def with_line_rate(self, line_rate_bps: int) -> NsccConfig:
        """This configuration with a known line rate. A measured rate never exceeds it. Raises CallerError."""
        return replace(self, line_rate_bps=line_rate_bps)

    def max_cwnd_for(self, sizes: PacketSizes, base_rtt: int | None, line_rate_bps: int | None = None) -> int:
        """The largest window in bytes at this base RTT (None: not known yet) and line rate (None: as configured)."""
        if self.max_cwnd is not None:
            most = self.max_cwnd
        elif base_rtt is None:
            most = self.unmeasured_cwnd_for(sizes)
        else:
            rate = self.line_rate_bps if line_rate_bps is None else line_rate_bps
            most = 3 * rate * self._counted(base_rtt) // (2 * BITS * self.ticks_per_second) + self.ack_gap_bytes
        return max(most, self.max_cwnd_least_packets * sizes.mtu)

    def unmeasured_cwnd_for(self, sizes: PacketSizes) -> int:
        """The window in bytes before the base RTT is known, at most that of `least_base_rtt`.

        A larger first burst fills the queue, and the first RTT samples would include that queue.
        """
        most = self.unmeasured_cwnd_packets * sizes.mtu
        least = self.least_base_rtt
        return most if least is None else min(most, self.max_cwnd_for(sizes, least))

    def initial_cwnd_for(self, sizes: PacketSizes) -> int:
        """The window in bytes to start with."""
        most = self.max_cwnd_for(sizes, self.base_rtt)
        if self.initial_cwnd is not None:
            return min(max(self.initial_cwnd, sizes.mtu), most)
        return most if self.base_rtt is not None else min(self.unmeasured_cwnd_for(sizes), most)

    def parameters_for(self, sizes: PacketSizes, base_rtt: int, line_rate_bps: int | None = None) -> NsccParameters:
        """What is configured, completed by what follows from line rate (None: as configured) and base RTT."""
        rate = self.line_rate_bps if line_rate_bps is None else line_rate_bps
        base_rtt = self._counted(base_rtt)
        a = rate * base_rtt / (BITS * self.ticks_per_second) / REFERENCE_BDP_BYTES
        target = self.target_delay
        if target is None:
            target = max(base_rtt * 3 // 4, 1) if self.trimming else base_rtt
        b = target / (REFERENCE_RTT_US * self._microsecond)
        qa_threshold = self.qa_threshold
        if qa_threshold is None:
            qa_threshold = 0 if self.trimming else 4 * target
        return NsccParameters(
            target=target,
            alpha=4 * a * b * (sizes.mtu if self.alpha_uses_mtu else sizes.mss) / target,
            fi=5 * sizes.mss * a if self.fi is None else self.fi,
            fi_scale=0.25 * a if self.fi_scale is None else self.fi_scale,
            eta=0.15 * sizes.mss * a if self.eta is None else self.eta,
            qa_threshold=qa_threshold or None,
            adjust_bytes=8 * sizes.mtu if self.adjust_bytes_threshold is None else self.adjust_bytes_threshold,
            adjust_period=base_rtt if self.adjust_period_threshold is None else self.adjust_period_threshold,
        )

    def _counted(self, base_rtt: int) -> int:
        """The base RTT that all of these are derived from."""
        return max(base_rtt, self.least_base_rtt or 0)

    def zero_delay_at(self, base_rtt: int) -> int:
        """Delays below this count as none."""
        if self.zero_delay is not None:
            return self.zero_delay
        return max(self._microsecond, base_rtt // 8)

    @property
    def base_rtt_window(self) -> int | None:
        """`base_rtt_window_s` in units of time."""
        return None if self.base_rtt_window_s is None else int(self.base_rtt_window_s * self.ticks_per_second)

    @property
    def _microsecond(self) -> int:
        return self.ticks_per_second // 1_000_000
