"""NSCC's parameters: what is configured, and what follows from line rate and base RTT (nscc.md, Defaults)."""

from __future__ import annotations

from collections.abc import Callable

from mrc.endpoint.congestion.base import PacketSizes
from mrc.endpoint.congestion.delay_average import DelayAverage, EwmaDelay
from mrc.errors import CallerError
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
class NsccConfig:
    """Names of `mrc_ctl_cc_nscc_cfg` where there is one; None means the default of nscc.md's table.

    Times are integers in the unit of the `now` that the caller passes: nanoseconds, unless `ticks_per_second` says
    otherwise. Windows and thresholds are bytes of nominal packet size. Raises CallerError for a value out of range.

    What the network is:
      line_rate_bps: bits per second. The default is a little more than a path of veth pairs carries on two cores (4.4
        to 9 Gbit/s), so that no window derived from it is too small; too high costs a longer queue.
      measure_line_rate: once data was acknowledged for 10 ms, take the highest rate of delivery of the last 10 s
        instead, at most line_rate_bps. The window is 1.5 BDP of it, so that it can grow to what the network carries.
      base_rtt: the RTT without queues; it counts as a sample that comes with the first one. None: measured; what
        follows from it keeps the value it has after `base_rtt_samples` valid samples, all but max_cwnd.
      trimming: whether switches trim and the peer answers with trim NACKs.

    The window at the start:
      initial_cwnd: None: max_cwnd with a configured base_rtt, otherwise `unmeasured_cwnd_packets` full packets.
      unmeasured_cwnd_packets: also the derived max_cwnd as long as the base RTT is not known.

    The specification's parameters:
      target_delay: None: 0.75 base_rtt with trimming, 1.0 without.
      max_cwnd: None: 1.5 BDP, and it follows base_rtt.
      gamma, max_md_jump: weight of a multiplicative decrease, and the least factor of one (0 to 1).
      fi, fi_scale, eta: None: 5 mss a, 0.25 a, 0.15 mss a, where a = BDP / 150,000 bytes.
      quick_adapt: False turns it off.
      qa_gate: quick adapt acts when less than max_cwnd >> qa_gate got through.
      qa_threshold: delay that alone is reason for it; 0: none is. None: 4 x target without trimming, 0 with it.
      adjust_bytes_threshold, adjust_period_threshold: None: 8 mtu, 1 base_rtt.

    What user space needs beyond it (each can be set to what hardware does):
      base_rtt_window_s: base_rtt is the minimum of so many seconds; None: of all time.
      max_cwnd_least_packets: max_cwnd is at least so many full packets.
      least_base_rtt: a max_cwnd that is derived takes base_rtt for at least this: processes wake no sooner. None: any.
      ack_gap_bytes: and it is this much larger: what the peer lets arrive before it sends a SACK.
      quick_adapt_when_limited_only: judge only intervals in which the window was the limit.
      penalty_when_limited_only: apply the receiver's penalty only while the window is the limit.
      clamp_restored_cwnd: a restored window is at most max_cwnd.
      zero_delay: a delay below it counts as none. None: 1 us or base_rtt / 8, whichever is more.
      delay_average: makes the part that averages the delay.

    Where the consortium's pseudocode differs (nscc.md, Consortium pseudocode; MRC-CC-35 to MRC-CC-41). False is what
    that page has first. True has it as the consortium:
      resource_nack_keeps_cwnd: a NACK that is not of a trimmed packet leaves cwnd alone.
      trim_feeds_base_rtt: a trim feeds base_rtt, as configured or else as measured, to the delay average.
      penalty_without_sample: the receiver's penalty applies to an acknowledgement without a valid RTT sample too.
      restore_on_request_only: each penalty saves the window; only restore_cwnd with a penalty of 0 restores it.
      fulfil_at_period: a fulfil comes when exactly one period has passed, not only after more.
      last_adjust_starts_now: the first period begins when the first acknowledged packet left, not at time 0.
      alpha_uses_mtu: alpha follows from the nominal size of a full packet, not from its payload.
    """

    line_rate_bps: int = 10_000_000_000
    measure_line_rate: bool = False
    base_rtt: int | None = None
    base_rtt_samples: int = 16
    trimming: bool = False
    ticks_per_second: int = NANOSECONDS

    initial_cwnd: int | None = None
    unmeasured_cwnd_packets: int = 128

    target_delay: int | None = None
    max_cwnd: int | None = None
    gamma: float = 0.8
    max_md_jump: float = 0.5
    fi: float | None = None
    fi_scale: float | None = None
    eta: float | None = None
    quick_adapt: bool = True
    qa_gate: int = 3
    qa_threshold: int | None = None
    adjust_bytes_threshold: int | None = None
    adjust_period_threshold: int | None = None

    base_rtt_window_s: float | None = 10.0
    max_cwnd_least_packets: int = 2
    least_base_rtt: int | None = None
    ack_gap_bytes: int = 0
    quick_adapt_when_limited_only: bool = True
    penalty_when_limited_only: bool = True
    clamp_restored_cwnd: bool = True
    zero_delay: int | None = None
    delay_average: Callable[[], DelayAverage] = EwmaDelay

    resource_nack_keeps_cwnd: bool = False
    trim_feeds_base_rtt: bool = False
    penalty_without_sample: bool = False
    restore_on_request_only: bool = False
    fulfil_at_period: bool = False
    last_adjust_starts_now: bool = False
    alpha_uses_mtu: bool = False

    def __post_init__(self) -> None:
        for name, low, high in (
            ("line_rate_bps", 1_000_000, 10_000_000_000_000),
            ("base_rtt", 1, _MOST),
            ("base_rtt_samples", 1, 1 << 20),
            ("ticks_per_second", 1_000_000, 1_000_000_000_000),
            ("initial_cwnd", 1, _MOST),
            ("unmeasured_cwnd_packets", 1, 1 << 20),
            ("target_delay", 1, _MOST),
            ("max_cwnd", 1, _MOST),
            ("gamma", 0, 1),
            ("max_md_jump", 0, 1),
            ("fi", 0, _MOST),
            ("fi_scale", 0, _MOST),
            ("eta", 0, _MOST),
            ("qa_gate", 0, 63),
            ("qa_threshold", 0, _MOST),
            ("adjust_bytes_threshold", 0, _MOST),
            ("adjust_period_threshold", 0, _MOST),
            ("base_rtt_window_s", 0.001, 1_000_000_000),
            ("max_cwnd_least_packets", 1, 1 << 20),
            ("least_base_rtt", 1, _MOST),
            ("ack_gap_bytes", 0, _MOST),
            ("zero_delay", 0, _MOST),
        ):
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise CallerError(f"{name} must be {low}..{high}, got {value}")

    def max_cwnd_for(self, sizes: PacketSizes, base_rtt: int | None, line_rate_bps: int | None = None) -> int:
        """The largest window in bytes at this base RTT (None: not known yet) and line rate (None: as configured)."""
        if self.max_cwnd is not None:
            most = self.max_cwnd
        elif base_rtt is None:
            most = self.unmeasured_cwnd_packets * sizes.mtu
        else:
            rtt = max(base_rtt, self.least_base_rtt or 0)
            rate = self.line_rate_bps if line_rate_bps is None else line_rate_bps
            most = 3 * rate * rtt // (2 * BITS * self.ticks_per_second) + self.ack_gap_bytes
        return max(most, self.max_cwnd_least_packets * sizes.mtu)

    def initial_cwnd_for(self, sizes: PacketSizes) -> int:
        """The window in bytes to start with."""
        most = self.max_cwnd_for(sizes, self.base_rtt)
        if self.initial_cwnd is not None:
            return min(max(self.initial_cwnd, sizes.mtu), most)
        return most if self.base_rtt is not None else min(self.unmeasured_cwnd_packets * sizes.mtu, most)

    def parameters_for(self, sizes: PacketSizes, base_rtt: int, line_rate_bps: int | None = None) -> NsccParameters:
        """What is configured, completed by what follows from line rate (None: as configured) and base RTT."""
        rate = self.line_rate_bps if line_rate_bps is None else line_rate_bps
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
