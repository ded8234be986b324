# SPDX-License-Identifier: BSD-2-Clause
"""A congestion controller whose window the test sets, and which records the calls it gets."""

from __future__ import annotations

from dataclasses import dataclass

from mrc.endpoint.congestion import CongestionController, PacketSizes


@dataclass(frozen=True, slots=True)
class Call:
    """One call: `what` is "ack", "loss", "nack" or "rtt", `size` its bytes (or the RTT)."""

    what: str
    size: int
    trimmed: bool = False
    marked: bool = False
    rtt_ns: int | None = None
    penalty: int = 0
    restore: bool = False


class RecordingWindow(CongestionController):
    __slots__ = ("_cwnd", "calls")

    def __init__(self, cwnd: int) -> None:
        super().__init__()
        self._cwnd = cwnd
        self.calls: list[Call] = []

    @property
    def cwnd(self) -> int:
        return self._cwnd

    def become(self, cwnd: int) -> None:
        self._cwnd = cwnd

    def of(self, what: str) -> list[Call]:
        return [call for call in self.calls if call.what == what]

    def on_ack(
        self, now: int, acked_bytes: int, marked: bool, rtt_ns: int | None, penalty: int = 0, restore: bool = False
    ) -> None:
        self.calls.append(
            Call("ack", acked_bytes, marked=marked, rtt_ns=rtt_ns, penalty=penalty, restore=restore),
        )

    def on_loss(self, now: int, lost_bytes: int) -> None:
        self.calls.append(Call("loss", lost_bytes))

    def on_nack(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        self.calls.append(Call("nack", nacked_bytes, trimmed=trimmed))

    def on_rtt(self, now: int, rtt_ns: int) -> None:
        self.calls.append(Call("rtt", rtt_ns))


class RecordingWindows:
    """Makes them; the QPs of one destination that are given this share one. `made` holds them in order."""

    def __init__(self, cwnd: int) -> None:
        self._cwnd = cwnd
        self.made: list[RecordingWindow] = []

    def __call__(self, sizes: PacketSizes) -> RecordingWindow:
        self.made.append(RecordingWindow(self._cwnd))
        return self.made[-1]

    @property
    def only(self) -> RecordingWindow:
        (window,) = self.made
        return window
