# SPDX-License-Identifier: BSD-2-Clause
"""What is wrong with one direction of a link: how fast it is, what its queue marks, trims and drops, what it loses."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise

from mrc.errors import CallerError
from mrc.records import record

# The grain in which shares are drawn: one millionth of the packets.
SHARE_GRAIN = 1_000_000
LEAST_RATE_BPS = 100_000
MOST_RATE_BPS = 1_000_000_000_000
LEAST_QUEUE_BYTES = 16_384
MOST_QUEUE_BYTES = 256_000_000

# A queue of unsaid length holds what the link carries in so long, but never less than so much.
_CHOSEN_QUEUE_S = 0.005
_CHOSEN_QUEUE_BYTES = 65_536
_SHARES = ("loss", "duplicate", "corrupt", "reorder")
# In the order in which a queue that fills meets them.
_THRESHOLDS = ("ecn_at_bytes", "trim_at_bytes", "queue_bytes")
_CODEPOINTS = ("trim_dscp", "trim_dscp_lasthop")
# What is said of a queue goes with it.
_OF_QUEUES = (*_THRESHOLDS, "trim_to_bytes", *_CODEPOINTS)
# What IPv6 asks of a link, and the most that a device takes.
LEAST_MTU_BYTES, MOST_MTU_BYTES = 1280, 65_535
LEAST_TRIMMED_BYTES, MOST_TRIMMED_BYTES = 64, 65_535
MOST_DSCP = 63
MOST_DELAY_NS = 10_000_000_000


@record(frozen=True, slots=True)
class Impairment:
    """One direction of a link. 0 is off, so `Impairment()` is a link with nothing wrong.

    `loss`, `duplicate`, `corrupt`: shares 0..1 of the packets, drawn in steps of a millionth.
    `rate_bps`: bits a second, 100,000 to 10^12. What comes faster waits in a queue of `queue_bytes`, 16,384 to
    256,000,000 (0: a length is chosen), and is dropped when that is full. `ecn_at_bytes`, `trim_at_bytes`: how much
    may wait before packets are marked congestion experienced, or trimmed; in this order below `queue_bytes`.
    `trim_to_bytes`: what is kept of a packet that is trimmed, 64 to 65,535 bytes of the frame (0: the headers through
    the BTH and the 8 bytes after it). `trim_dscp`, `trim_dscp_lasthop`: its codepoint, 1 to 63, the second where it is
    trimmed toward a host (0: those of `WireProfile`); what has one of them goes ahead of data. `mtu_bytes`: the largest
    IP packet that is sent this way, 1280 to 65,535 (0: the fabric's).
    `delay_ns`: how much later packets arrive, up to 10^10. `jitter_ns`: up to so much more, drawn for each packet; the
    order is kept. With `reorder` only that share of the packets takes up to `jitter_ns` more, and later ones overtake
    them.
    Raises CallerError outside these.
    """

    loss: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    rate_bps: int = 0
    queue_bytes: int = 0
    ecn_at_bytes: int = 0
    trim_at_bytes: int = 0
    trim_to_bytes: int = 0
    trim_dscp: int = 0
    trim_dscp_lasthop: int = 0
    mtu_bytes: int = 0
    delay_ns: int = 0
    jitter_ns: int = 0
    reorder: float = 0.0

    def __post_init__(self) -> None:
        for name in _SHARES:
            share = getattr(self, name)
            if not 0 <= share <= 1 or (share and round(share * SHARE_GRAIN) == 0):
                raise CallerError(f"{name} must be 0 (off) or a share from 0.000001 to 1, got {share}")
            # Rounded to what can be drawn, so that what a lab reports back equals what it was given.
            object.__setattr__(self, name, round(share * SHARE_GRAIN) / SHARE_GRAIN)
        for name, least, most in (
            ("rate_bps", LEAST_RATE_BPS, MOST_RATE_BPS),
            ("queue_bytes", LEAST_QUEUE_BYTES, MOST_QUEUE_BYTES),
            ("ecn_at_bytes", 1, MOST_QUEUE_BYTES),
            ("trim_at_bytes", 1, MOST_QUEUE_BYTES),
            ("trim_to_bytes", LEAST_TRIMMED_BYTES, MOST_TRIMMED_BYTES),
            ("mtu_bytes", LEAST_MTU_BYTES, MOST_MTU_BYTES),
            ("delay_ns", 1, MOST_DELAY_NS),
            ("jitter_ns", 1, MOST_DELAY_NS),
            *((name, 1, MOST_DSCP) for name in _CODEPOINTS),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or not (value == 0 or least <= value <= most):
                raise CallerError(f"{name} must be 0 (off) or a whole number from {least} to {most}, got {value}")
        said = [name for name in _THRESHOLDS if getattr(self, name)]
        for name, larger in pairwise(said):
            if getattr(self, name) >= getattr(self, larger):
                raise CallerError(
                    f"{name} must be below {larger}, which is {getattr(self, larger)}, got {getattr(self, name)}"
                )

    @property
    def is_off(self) -> bool:
        """Whether nothing is wrong with the direction."""
        return self == Impairment()

    @property
    def limit_bytes(self) -> int:
        """How much may wait: `queue_bytes`, or what is chosen where that is 0. 0 without a rate."""
        if self.queue_bytes or not self.rate_bps:
            return self.queue_bytes
        chosen = int(self.rate_bps / 8 * _CHOSEN_QUEUE_S)
        wanted = max(chosen, _CHOSEN_QUEUE_BYTES, 2 * self.ecn_at_bytes, 2 * self.trim_at_bytes)
        return min(wanted, MOST_QUEUE_BYTES)

    def changed(self, **changes: float | int | None) -> Impairment:
        """This with what is not None in place of what was. No rate is no queue: taking it away takes that, too.

        Taking the jitter away takes the reordering.

        Raises CallerError for a value out of range, and for a queue in front of a link without a rate.
        """
        said = {name: value for name, value in changes.items() if value is not None}
        unknown = said.keys() - {each.name for each in fields(self)}
        if unknown:
            raise CallerError(f"a link has no {', '.join(sorted(unknown))}")
        if said.get("jitter_ns") == 0:
            said = {"reorder": 0.0, **said}
        if said.get("rate_bps") == 0:
            said = {**dict.fromkeys(_OF_QUEUES, 0), **said}
        wanted = replace(self, **said)  # type: ignore[arg-type]
        if wanted.reorder and not wanted.jitter_ns:
            raise CallerError("reorder needs a jitter_ns: how much later the packets come that others overtake")
        without_rate = [name for name in _OF_QUEUES if getattr(wanted, name)]
        if without_rate and not wanted.rate_bps:
            raise CallerError(f"{without_rate[0]} needs a rate_bps: before a link that has none nothing waits")
        return wanted
