# SPDX-License-Identifier: BSD-2-Clause
"""Every tunable of the endpoint, with its unit in its name (behaviour.md; all defaults marked C there)."""

from __future__ import annotations

from dataclasses import field
from enum import IntFlag

from mrc.errors import CallerError
from mrc.records import record
from mrc.wire.profile import WireProfile

__all__ = [
    "Capability",
    "EndpointConfig",
    "LossConfig",
    "PathConfig",
    "PeerNodeConfig",
    "QpConfig",
    "ReceivingConfig",
    "ResponderConfig",
    "TraceConfig",
]

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000

PATH_MTUS = (256, 512, 1024, 2048, 4096)
MPR_UNIT = 128  # PSNs
EXPONENTIAL_RETRIES_FOREVER = 25
MAX_TIMEOUT_RETRIES = 1 << 62  # in effect no limit
MOST_WAIT_FOR_RECEIVE_NS = 3600 * SECOND
MAX_IMMEDIATES = 1 << 15  # half the range of RQMSN


class Capability(IntFlag):
    """What an end can do beyond the minimum (api.md, Application). In use where both ends can."""

    TRIM_NACK = 1  # answers trimmed packets with a NACK
    DYNAMIC_MPR = 2  # advertises its window in every SACK, and follows the peer's
    SVC_TIME = 4  # takes the time a packet was held off the timestamp it reflects


NO_CAPABILITIES = Capability(0)


@record(frozen=True, slots=True)
class LossConfig:
    """How losses are distinguished from reordering, and when timers fire (behaviour.md, Requestor)."""

    reorder_guard_packets: int = 3
    # The guard in time starts at srtt / reorder_guard_divisor. When a retransmission proves spurious it doubles, or
    # grows to how late the packet was if that is more; at most reorder_guard_max_rtts round trips.
    reorder_guard_divisor: int = 4
    reorder_guard_max_rtts: int = 2
    path_timer_min_ns: int = 1 * MILLISECOND
    path_timer_initial_ns: int = 10 * MILLISECOND
    # A tail probe follows srtt + 4 rttvar after the last transmission, but no sooner than this.
    tail_probe_min_ns: int = 0

    def __post_init__(self) -> None:
        if self.reorder_guard_packets < 1 or self.reorder_guard_divisor < 1 or self.reorder_guard_max_rtts < 1:
            raise CallerError("the reorder guard's packets, divisor and max_rtts must each be at least 1")
        if not 0 < self.path_timer_min_ns <= self.path_timer_initial_ns:
            raise CallerError("path_timer_min_ns must be positive and at most path_timer_initial_ns")
        if not 0 <= self.tail_probe_min_ns <= SECOND:
            raise CallerError(f"tail_probe_min_ns must be 0..{SECOND}, got {self.tail_probe_min_ns}")


@record(frozen=True, slots=True)
class PathConfig:
    """How path health is kept (behaviour.md, Paths)."""

    # How many EVs carry data at once; the rest of the profile is the reserve. None: all of them.
    active_count: int | None = None
    # Fewest usable EVs; one that would go bad below it goes to SKIP instead. None: a quarter of the profile,
    # rounded up, at least 1.
    ev_min_active: int | None = None
    # Alternatives: 1, in two sources, and 5 (behaviour.md, EV states).
    probes_to_restore: int = 3
    # How long after it went bad an EV gets its first probe, in path timers.
    first_probe_path_timers: float = 1.0
    probe_interval_ns: int = 10 * MILLISECOND
    probe_interval_max_ns: int = 250 * MILLISECOND
    # The least time in SKIP, counted from when the rotation first passes the EV; not where no other is usable. 0: once
    # round. Alternative: one RTT, in one source (behaviour.md, EV states).
    skip_at_least_ns: int = 0

    def __post_init__(self) -> None:
        for name, least in (("active_count", 1), ("ev_min_active", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise CallerError(f"{name} must be at least {least}, got {value}")
        if self.first_probe_path_timers < 0:
            raise CallerError(f"first_probe_path_timers cannot be negative, got {self.first_probe_path_timers}")
        if not 0 <= self.skip_at_least_ns <= SECOND:
            raise CallerError(f"skip_at_least_ns must be 0..{SECOND}, got {self.skip_at_least_ns}")
        if self.probes_to_restore < 1:
            raise CallerError(f"probes_to_restore must be at least 1, got {self.probes_to_restore}")
        if not 0 < self.probe_interval_ns <= self.probe_interval_max_ns:
            raise CallerError("probe_interval_ns must be positive and at most probe_interval_max_ns")


@record(frozen=True, slots=True)
class ResponderConfig:
    """What the responder keeps for packets above a hole, and when it has no more (behaviour.md, Responder; all C).

    None: no limit of its own below the window. Beyond `max_span` PSNs above cack_psn there is no bitmap left
    (NO_BITMAP); beyond `max_held_packets` above a hole no packet buffer (NO_PKT_BUFFER); beyond
    `max_stashed_immediates` early immediates no other resource (NO_RESOURCE).
    """

    max_span: int | None = None
    max_held_packets: int | None = None
    max_stashed_immediates: int | None = None
    # Answer a PSN beyond the window with NACK PSN_OOR_WINDOW. Alternative: say nothing, as one text has it.
    nack_out_of_window: bool = True
    # Answers to what brings nothing new, of each kind: SACKs for duplicates, SACKs for probes, PSN_OOR_WINDOW, trimmed.
    # So many at once, and so many a second after that; beyond them nothing is said, for the peer's packets are easily
    # copied.
    answers_burst: int = 4096
    answers_per_second: int = 5000
    # How long a write with immediate that is due and finds no receive waits for one, ns: it is acknowledged once it has
    # completed one, and so the peer's credit comes back with `post_recv` (MRC-IMM-07). Less than a silent peer is given
    # up after. Alternative: 0, it ends the QP at once, as behaviour.md may be read; MRC has no RNR.
    wait_for_receive_ns: int = 4 * SECOND
    # How long a transport ACK may wait for a later one to take its place, ns, when a SACK says as much at once. At 0
    # each received batch that moves the left edge is answered by an ACK.
    ack_after_sack_ns: int = 0

    def __post_init__(self) -> None:
        for name in ("max_span", "max_held_packets", "max_stashed_immediates"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise CallerError(f"{name} cannot be negative, got {value}")
        for name in ("answers_burst", "answers_per_second"):
            if not 1 <= getattr(self, name) <= 1_000_000_000:
                raise CallerError(f"{name} must be 1..1000000000, got {getattr(self, name)}")
        if not 0 <= self.wait_for_receive_ns <= MOST_WAIT_FOR_RECEIVE_NS:
            raise CallerError(
                f"wait_for_receive_ns must be 0..{MOST_WAIT_FOR_RECEIVE_NS}, got {self.wait_for_receive_ns}"
            )
        if not 0 <= self.ack_after_sack_ns <= SECOND:
            raise CallerError(f"ack_after_sack_ns must be 0..{SECOND}, got {self.ack_after_sack_ns}")


@record(frozen=True, slots=True)
class QpConfig:
    """One QP's parameters, local side. Names and ranges as in api.md.

    `path_mtu` in bytes. `mpr_dest` and `max_wimm_dest` are what our responder grants the peer, as sent to it:
    how far past our cack_psn it may send, in units of 128 PSNs, and how many writes with immediate it may have
    unacknowledged. `mpr` and `max_wimm` are the same for our requestor: what the peer granted, or less. `max_mpr` is
    the most our requestor follows where the peer's MPR is dynamic. `timeout` t gives a local ACK timeout of
    1.024 us x 2^t. `timeout_retries`: how many of a PSN's retries local ACK timeouts in a row may draw, None: all. So a
    peer that is gone is given up sooner than one behind a switch that trims and trims.

    Where the sources disagree about what an end does there are four switches. `sack_beyond_threshold`: the bytes since
    the last SACK have to exceed the threshold, not reach it (MRC-SACK-29). `follow_shrinking_mpr`: off, an edge once
    told stays (MRC-MPR-07). `fail_on_unknown_nack`: a NACK whose reason is none of the seven ends the QP; off, its PSN
    is sent again (MRC-NACK-24). `retry_budget_per_qp`: all PSNs draw on one budget, whole again when cack_psn moves
    (MRC-RETRY-10).

    `traffic_class` is the QP's own: its DSCP is that of data, retransmissions and probes, which stay ECT(0). None: the
    codepoints of the endpoint's wire profile.

    >>> QpConfig(path_mtu=1024, timeout=10).local_ack_timeout_ns
    1048576
    """

    path_mtu: int = 4096
    mpr_dest: int = 8
    mpr: int = 8
    max_mpr: int = 64
    max_wimm_dest: int = 32
    max_wimm: int = 32
    capabilities: Capability = Capability.TRIM_NACK | Capability.SVC_TIME
    timeout: int = 14
    linear_retries: int = 7
    exponential_retries: int = 7
    timeout_retries: int | None = None
    # Alternatives: 1 KB in one source, 4096 in another (behaviour.md, SACK triggers).
    sack_threshold_bytes: int = 16 * 1024
    timestamps: bool = True
    loss: LossConfig = field(default_factory=LossConfig)
    paths: PathConfig = field(default_factory=PathConfig)
    responder: ResponderConfig = field(default_factory=ResponderConfig)
    # Alternative: True, in one source of two (behaviour.md, SACK triggers).
    sack_beyond_threshold: bool = False
    # Alternative: False, the right edge never retreats (behaviour.md, Dynamic MPR).
    follow_shrinking_mpr: bool = True
    # Alternative: True. Three texts know an eighth reason, and none gives its value (wire.md section 7).
    fail_on_unknown_nack: bool = False
    # Alternative: True, in two sources (behaviour.md, Retry budget).
    retry_budget_per_qp: bool = False
    # The byte that data of this QP is sent with, in place of the endpoint's codepoints (wire.md section 12).
    traffic_class: int | None = None

    def __post_init__(self) -> None:
        if self.path_mtu not in PATH_MTUS:
            raise CallerError(f"path_mtu must be one of {PATH_MTUS} bytes, got {self.path_mtu}")
        for name, low, high in (
            ("mpr", 1, 255),
            ("mpr_dest", 1, 255),
            ("max_mpr", 1, 255),
            ("max_wimm", 0, MAX_IMMEDIATES),
            ("max_wimm_dest", 0, MAX_IMMEDIATES),
            ("timeout", 1, 24),
            ("linear_retries", 0, 7),
            ("exponential_retries", 0, EXPONENTIAL_RETRIES_FOREVER),
            ("sack_threshold_bytes", 1, 1 << 24),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise CallerError(f"{name} must be {low}..{high}, got {value}")
        if self.traffic_class is not None and not 0 <= self.traffic_class <= 255:
            raise CallerError(f"traffic_class must be 0..255, got {self.traffic_class}")
        if self.timeout_retries is not None and self.timeout_retries < 0:
            raise CallerError(f"timeout_retries cannot be negative, got {self.timeout_retries}")
        if self.timeout_retries is not None and self.timeout_retries > MAX_TIMEOUT_RETRIES:
            raise CallerError(f"timeout_retries must be at most 2^62, got {self.timeout_retries}")

    @property
    def receive_window(self) -> int:
        """PSNs from epsn on that our responder accepts."""
        return self.mpr_dest * MPR_UNIT

    @property
    def send_window(self) -> int:
        """PSNs past cack_psn that our requestor may use, until the peer's MPR says otherwise."""
        return self.mpr * MPR_UNIT

    @property
    def local_ack_timeout_ns(self) -> int:
        """The local ACK timeout, ns: 1.024 us x 2^timeout."""
        return 1024 << self.timeout

    @property
    def gives_up_after_ns(self) -> int | None:
        """How long a peer may be silent, ns: the intervals of all timeouts that a PSN survives, and the last. None: for
        ever. Time that this endpoint itself stood still does not count.

        Round trips longer than the timeout make intervals longer, but not their sum, unless that is less than 32
        timeouts: then they take up to 32.

        >>> QpConfig().gives_up_after_ns  # 4.4 s
        4395630592
        """
        if self.exponential_retries == EXPONENTIAL_RETRIES_FOREVER and self.timeout_retries is None:
            return None
        retries = self.linear_retries + self.exponential_retries
        if self.exponential_retries == EXPONENTIAL_RETRIES_FOREVER:
            retries = MAX_TIMEOUT_RETRIES
        if self.timeout_retries is not None:
            retries = min(retries, self.timeout_retries)
        linear = min(retries, self.linear_retries) + 1
        doubled = max(retries - self.linear_retries, 0)
        most = min(doubled, EXPONENTIAL_RETRIES_FOREVER)
        intervals = linear + (2 << most) - 2 + (doubled - most << EXPONENTIAL_RETRIES_FOREVER)
        return self.local_ack_timeout_ns * intervals


@record(frozen=True, slots=True)
class PeerNodeConfig:
    """What is kept and done per peer node (behaviour.md, Paths; all C)."""

    # Control packets take the EVs of each plane that were confirmed last, this many.
    reverse_evs_per_plane: int = 2
    # How long a QP goes on with the reverse EVs it chose while none of them is lost.
    reverse_refresh_ns: int = 5 * MILLISECOND
    # While requests arrive and nothing of ours is acknowledged: an EV probe a round trip, at most one per this.
    reverse_probe_interval_ns: int = 10 * MILLISECOND
    # An EV probe without an answer for this long has failed.
    ev_probe_timeout_ns: int = 100 * MILLISECOND
    # EV probes at QP start, for controllers that know no base RTT.
    base_rtt_probes: int = 3
    # A PORT_STATUS_UPDATE is repeated until answered: first after this, then at twice the distance each time.
    port_update_interval_ns: int = 10 * MILLISECOND
    port_update_interval_max_ns: int = 1 * SECOND
    # The id of the first endpoint request, 16 bits. Endpoints that share an address are given each other's answers:
    # they had better begin apart.
    first_request_id: int = 0

    def __post_init__(self) -> None:
        for name in (
            "reverse_evs_per_plane",
            "reverse_refresh_ns",
            "reverse_probe_interval_ns",
            "ev_probe_timeout_ns",
            "base_rtt_probes",
            "port_update_interval_ns",
        ):
            if getattr(self, name) < 1:
                raise CallerError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.port_update_interval_max_ns < self.port_update_interval_ns:
            raise CallerError("port_update_interval_max_ns must be at least port_update_interval_ns")
        if not 0 <= self.first_request_id < 1 << 16:
            raise CallerError(f"first_request_id must be 0..65535, got {self.first_request_id}")


@record(frozen=True, slots=True)
class TraceConfig:
    """How much is traced, where there is a tracer (mrc.endpoint.tracing)."""

    # Counts and congestion state are recorded at most once per this and once a round trip.
    interval_ns: int = 1 * MILLISECOND
    # Completions that each QP records in a second of the endpoint's clock. 0: none.
    work_per_second: int = 1000

    def __post_init__(self) -> None:
        if self.interval_ns < 1:
            raise CallerError(f"interval_ns must be at least 1, got {self.interval_ns}")
        if self.work_per_second < 0:
            raise CallerError(f"work_per_second cannot be negative, got {self.work_per_second}")


@record(frozen=True, slots=True)
class ReceivingConfig:
    """How much a node lets its peers have on their way to it, all together (behaviour.md, Responder; all C)."""

    # Full packets that the peers of all QPs with dynamic MPR may send ahead. None: no bound of its own.
    most_packets: int | None = None
    # More packets than these waiting unread in the receive buffers raise the receiver penalty; at twice as many it is
    # at its most.
    backlog_packets: int = 512
    # A QP that received nothing for so long has no share.
    active_ns: int = 1 * SECOND

    def __post_init__(self) -> None:
        if self.most_packets is not None and self.most_packets < MPR_UNIT:
            raise CallerError(f"most_packets must be at least {MPR_UNIT}, got {self.most_packets}")
        for name in ("backlog_packets", "active_ns"):
            if getattr(self, name) < 1:
                raise CallerError(f"{name} must be at least 1, got {getattr(self, name)}")


@record(frozen=True, slots=True)
class EndpointConfig:
    """What all QPs of one endpoint share."""

    wire: WireProfile = field(default_factory=WireProfile)
    peer_nodes: PeerNodeConfig = field(default_factory=PeerNodeConfig)
    receiving: ReceivingConfig = field(default_factory=ReceivingConfig)
    trace: TraceConfig = field(default_factory=TraceConfig)
    # EV state changes that wait to be read; later ones are dropped and counted.
    ev_event_limit: int = 1024
    transmit_batch: int = 256
    # Packets one QP may put into a batch before the next QP has its turn.
    fair_share: int = 128
    seed: int = 0
