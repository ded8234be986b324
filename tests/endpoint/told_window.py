"""A congestion controller whose window the test sets, and which remembers what it was told."""

from __future__ import annotations

from dataclasses import dataclass

from mrc.endpoint.congestion import CongestionController, PacketSizes


@dataclass(frozen=True, slots=True)
class Told:
    """One call: `what` is "ack", "loss", "nack" or "rtt", `size` its bytes (or the RTT)."""

    what: str
    size: int
    trimmed: bool = False
    marked: bool = False
    rtt_ns: int | None = None
    penalty: int = 0
    restore: bool = False


class ToldWindow(CongestionController):
    __slots__ = ("_cwnd", "told")

    def __init__(self, cwnd: int) -> None:
        super().__init__()
        self._cwnd = cwnd
        self.told: list[Told] = []

    @property
    def cwnd(self) -> int:
        return self._cwnd

    def become(self, cwnd: int) -> None:
        self._cwnd = cwnd

    def of(self, what: str) -> list[Told]:
        return [told for told in self.told if told.what == what]

    def on_ack(
        self, now: int, acked_bytes: int, marked: bool, rtt_ns: int | None, penalty: int = 0, restore: bool = False
    ) -> None:
        self.told.append(
            Told("ack", acked_bytes, marked=marked, rtt_ns=rtt_ns, penalty=penalty, restore=restore),
        )

    def on_loss(self, now: int, lost_bytes: int) -> None:
        self.told.append(Told("loss", lost_bytes))

    def on_nack(self, now: int, nacked_bytes: int, trimmed: bool) -> None:
        self.told.append(Told("nack", nacked_bytes, trimmed=trimmed))

    def on_rtt(self, now: int, rtt_ns: int) -> None:
        self.told.append(Told("rtt", rtt_ns))


class ToldWindows:
    """Makes them; the QPs of one destination that are given this share one. `made` holds them in order."""

    def __init__(self, cwnd: int) -> None:
        self._cwnd = cwnd
        self.made: list[ToldWindow] = []

    def __call__(self, sizes: PacketSizes) -> ToldWindow:
        self.made.append(ToldWindow(self._cwnd))
        return self.made[-1]

    @property
    def only(self) -> ToldWindow:
        (window,) = self.made
        return window
