# SPDX-License-Identifier: BSD-2-Clause
"""Sizes and times of a group, each with its unit in its name."""

from __future__ import annotations

from typing import Any

from mrc.endpoint.config import (
    MILLISECOND,
    LossConfig,
    PathConfig,
    QpConfig,
    ResponderConfig,
)
from mrc.errors import CallerError
from mrc.records import record
from mrc.verbs import FOR_JOBS

# Receives beyond those for data: for credits.
SPARE_RECEIVES = 32


# For processes that share a machine with other work. Timers are far above the delays of a stalled process, or packets
# that are only late would be retransmitted. Retries never end. The window of 2,048 PSNs is several round trips of full
# batches. A transport ACK waits for a later one when a SACK carries the same news.
JOB_TUNING = QpConfig(
    mpr=16,
    mpr_dest=16,
    max_mpr=16,
    **FOR_JOBS,
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
    """Set how a group moves data. Sizes must be the same at all ranks: a group whose ranks differ is refused.

    Messages of up to `eager_bytes` go through slots; each rank keeps `eager_slots` of them for each other rank. Longer
    arrays go straight into the receiver's memory, in chunks of `chunk_bytes`; chunks to reduce go into its scratch
    memory of `window` chunks. At most `window` chunks of an operation are in flight to a rank without a credit. A rank
    of N keeps 2 x (N - 1) x eager_slots x (eager_bytes + 64) + window x chunk_bytes bytes of its own.

    An all-reduce of up to `doubling_bytes` uses recursive doubling, of up to `halving_bytes` halving and doubling, of
    more a ring.

    Chunks of four times the size and windows of twice as many moved 64 MiB no faster between two ranks, so the default
    is the setting with less memory (docs/performance.md, "Collectives"). The limits between algorithms are not
    measured.

    `registrations`: how many buffers stay registered after their operation. `tuning`: the parameters of every QP; the
    default waits without end for a fabric that is cut, or a process that is stopped. `join_timeout_s`: how long a new
    group waits for its ranks.
    """

    eager_bytes: int = 16 * 1024
    eager_slots: int = 16
    chunk_bytes: int = 512 * 1024
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
            ("chunk_bytes", 4096, 1 << 26),
            ("window", 2, 256),
            ("doubling_bytes", 0, 1 << 20),
            ("halving_bytes", 0, 1 << 40),
            ("registrations", 0, 1 << 16),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise CallerError(f"{name} must be {low}..{high}, got {value!r}")
        for name in ("eager_bytes", "chunk_bytes"):
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
        """The settings that must be the same at all ranks."""
        names = ("eager_bytes", "eager_slots", "chunk_bytes", "window", "doubling_bytes", "halving_bytes")
        return {name: getattr(self, name) for name in names}


# The settings of a group that is given none.
DEFAULT_GROUP_CONFIG = GroupConfig()
