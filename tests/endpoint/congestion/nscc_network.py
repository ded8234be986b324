# SPDX-License-Identifier: BSD-2-Clause
"""A network that makes NSCC's numbers round, and one window on it.

100 Gbit/s and 12 us: BDP 150,000 bytes, so a = 1. Packets of 5,000 bytes with 4,500 of payload. With trimming:
target 9,000 ns, alpha 4 x 0.75 x 4,500 / 9,000 = 1.5 bytes/ns, fi 22,500, fi_scale 0.25, eta 675, max_cwnd 225,000 (an
eighth: 28,125), adjust by 40,000 bytes or 12,000 ns. Without: target 12,000 ns, alpha 1.5 all the same.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

from mrc.endpoint.congestion import EwmaDelay, Nscc, NsccConfig, PacketSizes

MTU = 5_000
SIZES = PacketSizes(mtu=MTU, mss=4_500)
BASE_RTT = 12_000
TARGET = 9_000
MAX_CWND = 225_000
NETWORK = NsccConfig(line_rate_bps=100_000_000_000, base_rtt=BASE_RTT, trimming=True, initial_cwnd=100_000)
# The average is the latest delay.
NO_AVERAGING = partial(EwmaDelay, 1.0)
# Increases gather and never take effect.
NO_FULFIL = {"adjust_bytes_threshold": 1 << 40, "adjust_period_threshold": 1 << 40}


class Window:
    """A controller and a sender that knows what it has sent."""

    def __init__(self, **changes: Any) -> None:
        self.controller = Nscc(SIZES, dataclasses.replace(NETWORK, **changes))

    @property
    def cwnd(self) -> int:
        return self.controller.cwnd

    @property
    def inc(self) -> int:
        return self.controller.inc

    def fill(self) -> None:
        """Send whole packets while inflight < cwnd."""
        while self.controller.may_send:
            self.controller.sent(MTU)

    def ack(
        self, now: int, size: int, *, delay: int | None, marked: bool = False, penalty: int = 0, restore: bool = False
    ) -> None:
        """An acknowledgement whose sample is BASE_RTT + delay; None: without a valid sample."""
        rtt = None if delay is None else BASE_RTT + delay
        self.controller.removed(min(size, self.controller.inflight))
        self.controller.on_ack(now, size, marked, rtt, penalty, restore)

    def nack(self, now: int, size: int, *, trimmed: bool = True) -> None:
        self.controller.removed(min(size, self.controller.inflight))
        self.controller.on_nack(now, size, trimmed)

    def lose(self, now: int, size: int) -> None:
        self.controller.removed(min(size, self.controller.inflight))
        self.controller.on_loss(now, size)
