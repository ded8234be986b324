"""Every size and time of a group, with its unit in its name."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mrc.endpoint.config import (
    EXPONENTIAL_RETRIES_FOREVER,
    MILLISECOND,
    LossConfig,
    PathConfig,
    QpConfig,
    ResponderConfig,
)
from mrc.errors import CallerError
from mrc.records import record

# What an immediate has room for (mrc.collectives.messages).
MOST_PIECES_UNDER_WAY = 1 << 13
# Receives beyond those for data: what says that slots and pieces are free again.
SPARE_RECEIVES = 32


# QPs between processes that share a machine with much else, as those of a job do: timers far above what a stalled
# process delays, or what was only late is sent again, and retries that last. A window of 2,048 PSNs, several round
# trips of full batches. An acknowledgement waits for a later one where a SACK says as much.
JOB_TUNING = QpConfig(
    mpr=16,
    mpr_dest=16,
    max_mpr=16,
    timeout=17,
    linear_retries=7,
    exponential_retries=EXPONENTIAL_RETRIES_FOREVER,
    loss=LossConfig(
        path_timer_min_ns=20 * MILLISECOND,
        path_timer_initial_ns=20 * MILLISECOND,
        tail_probe_min_ns=2 * MILLISECOND,
    ),
    paths=PathConfig(first_probe_path_timers=0.0),
    responder=ResponderConfig(ack_after_sack_ns=4 * MILLISECOND),
)


@record(frozen=True, slots=True)
class GroupConfig:
    """How a group moves data. All ranks need the same sizes: what differs is refused when the group is made.

    Messages of up to `eager_bytes` go into slots that each rank keeps for each other one, `eager_slots` of them. What
    is longer goes straight into the peer's memory in pieces of `piece_bytes`, or, where it is to be reduced, into
    scratch memory of `window` pieces. At most `window` pieces are under way before the receiver has said that it took
    some.

    An all-reduce of up to `doubling_bytes` is done by recursive doubling, of up to `halving_bytes` by halving and
    doubling, of more by a ring. So a rank of N keeps 2 x (N - 1) x eager_slots x (eager_bytes + 64) + window x
    piece_bytes bytes of its own.

    `registrations` buffers stay registered after their operation. `tuning` has the parameters of every QP; those of
    the default wait for a fabric, or a stopped peer, for as long as it takes.

    `join_timeout_s` is how long a new group waits for all ranks.
    """

    eager_bytes: int = 16 * 1024
    eager_slots: int = 16
    piece_bytes: int = 512 * 1024
    window: int = 8
    doubling_bytes: int = 16 * 1024
    halving_bytes: int = 256 * 1024
    registrations: int = 256
    tuning: QpConfig = JOB_TUNING
    join_timeout_s: float = 300.0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("eager_bytes", 64, 1 << 20),
            ("eager_slots", 8, 256),
            ("piece_bytes", 4096, 1 << 26),
            ("window", 2, 256),
            ("doubling_bytes", 0, 1 << 20),
            ("halving_bytes", 0, 1 << 40),
            ("registrations", 0, 1 << 16),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise CallerError(f"{name} must be {low}..{high}, got {value!r}")
        for name in ("eager_bytes", "piece_bytes"):
            if getattr(self, name) % 64:
                raise CallerError(f"{name} must be a multiple of 64, got {getattr(self, name)}")
        if self.doubling_bytes > self.eager_bytes:
            raise CallerError(
                f"doubling_bytes ({self.doubling_bytes}) must be at most eager_bytes ({self.eager_bytes})"
            )
        if not self.join_timeout_s > 0:
            raise CallerError(f"join_timeout_s must be above 0, got {self.join_timeout_s}")

    @property
    def shared(self) -> dict[str, Any]:
        """What all ranks have to set alike."""
        names = ("eager_bytes", "eager_slots", "piece_bytes", "window", "doubling_bytes", "halving_bytes")
        return {name: value for name, value in asdict(self).items() if name in names}


DEFAULT_GROUP_CONFIG = GroupConfig()
