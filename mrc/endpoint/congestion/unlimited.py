# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""No congestion control: what a QP may send is bounded by the peer's MPR and by its paths, and by no window."""

from __future__ import annotations

from mrc.endpoint.congestion.base import CongestionController, PacketSizes
from mrc.endpoint.congestion.registry import NO_CONGESTION_CONTROL, register
from mrc.wire.compiled import python

# The window in bytes: more than can ever be in flight.
NO_WINDOW = 1 << 60


class Unlimited(CongestionController):
    """A window that never fills. It learns nothing and keeps count of the bytes in flight, as every controller."""

    def __init__(self, sizes: PacketSizes) -> None:
        super().__init__()

    @property
    def cwnd(self) -> int:
        return NO_WINDOW

    def room(self) -> int:
        return NO_WINDOW - self.inflight

    def acknowledged(self, now: int, acked_bytes: int, marked: bool, rtt_ns: int, penalty: int, restore: bool) -> None:
        """Nothing to learn."""

    def lost(self, now: int, lost_bytes: int) -> None:
        """Nothing to learn."""

    def nacked(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        """Nothing to learn."""

    def on_rtt(self, now: int, rtt_ns: int) -> python[None]:
        """Nothing to learn."""


register(NO_CONGESTION_CONTROL, Unlimited)
