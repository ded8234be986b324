# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""A window that stays as it is: enough where nothing queues for long but the receiving process."""

from __future__ import annotations

from typing import ClassVar

from mrc.endpoint.congestion.base import CongestionController, PacketSizes
from mrc.endpoint.congestion.config import ControllerConfig, setting
from mrc.endpoint.congestion.registry import Configured, register
from mrc.records import record
from mrc.wire.compiled import python


@record(frozen=True, slots=True)
class FixedWindowConfig(ControllerConfig):
    """What a fixed window is."""

    section: ClassVar[str] = "fixed"
    window_packets: int = setting(384, "the window", unit="full packets", low=1, high=1 << 20)


class FixedWindow(CongestionController):
    """The configured window, from the first on; signals do not move it."""

    def __init__(self, sizes: PacketSizes, config: FixedWindowConfig | None = None) -> None:
        super().__init__()
        self._cwnd: int = sizes.mtu * (config or FixedWindowConfig()).window_packets

    @property
    def cwnd(self) -> int:
        return self._cwnd

    def room(self) -> int:
        return self._cwnd - self.inflight

    def acknowledged(self, now: int, acked_bytes: int, marked: bool, rtt_ns: int, penalty: int, restore: bool) -> None:
        """Nothing to learn."""

    def lost(self, now: int, lost_bytes: int) -> None:
        """Random loss on a sprayed fabric says something about a path, nothing about the window."""

    def nacked(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        """A trimmed packet says nothing about the window either."""

    def on_rtt(self, now: int, rtt_ns: int) -> python[None]:
        """Nothing to learn."""


register("fixed", Configured(FixedWindow, FixedWindowConfig()))
