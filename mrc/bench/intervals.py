# SPDX-License-Identifier: BSD-2-Clause
"""What was measured interval by interval, as iperf3 shows it."""

from __future__ import annotations

import time
from collections.abc import Callable

from mrc.records import record
from mrc.report.units import size_text


@record(frozen=True, slots=True)
class Interval:
    """Seconds from the start, bits of payload in each direction, packets sent again. None: not in this direction."""

    begin_s: float
    end_s: float
    forward_bits: int | None
    reverse_bits: int | None
    retransmitted_packets: int | None

    def to_json(self) -> dict[str, object]:
        seconds = self.end_s - self.begin_s
        found: dict[str, object] = {"begin_s": round(self.begin_s, 4), "end_s": round(self.end_s, 4)}
        for name, bits in (("", self.forward_bits), ("reverse_", self.reverse_bits)):
            if bits is not None:
                found |= {f"{name}bytes": bits // 8, f"{name}goodput_gbps": round(bits / seconds / 1e9, 6)}
        if self.retransmitted_packets is not None:
            found["retransmitted_packets"] = self.retransmitted_packets
        return found


class Intervals:
    """Cuts a measurement into intervals of `period_s`. Look once a turn of the loop; `on_interval` hears of each."""

    def __init__(
        self,
        period_s: float,
        forward_bits: Callable[[], int] | None,
        reverse_bits: Callable[[], int] | None,
        retransmitted: Callable[[], int] | None,
        on_interval: Callable[[Interval], None],
    ) -> None:
        self._period_ns = int(period_s * 1e9)
        self._of = (forward_bits, reverse_bits, retransmitted)
        self._on_interval = on_interval
        self._began = self._last = time.monotonic_ns()
        self._due = self._began + self._period_ns
        self._before = [None if each is None else each() for each in self._of]

    def look(self, *, last: bool = False) -> None:
        """Report an interval that is over, or with `last` what is left of one."""
        now = time.monotonic_ns()
        if now < self._due and not last:
            return
        values = [None if each is None else each() for each in self._of]
        changes = [
            None if now_ is None or then is None else now_ - then
            for now_, then in zip(values, self._before, strict=True)
        ]
        if any(changes) or not last:
            begin, end = (self._last - self._began) / 1e9, (now - self._began) / 1e9
            self._on_interval(Interval(begin, end, changes[0], changes[1], changes[2]))
        self._last, self._before = now, values
        self._due = max(self._due + self._period_ns, now)


def interval_text(found: Interval) -> str:
    """Write one line: `0.00-1.00 s   112.3 MiB   0.94 Gbit/s   0 retransmitted`; with two directions, both named."""
    seconds = found.end_s - found.begin_s
    words = [f"{found.begin_s:7.2f}-{found.end_s:.2f} s".ljust(20)]
    both = found.forward_bits is not None and found.reverse_bits is not None
    for name, bits in (("to server", found.forward_bits), ("from server", found.reverse_bits)):
        if bits is not None:
            named = f"{name} " if both or name == "from server" else ""
            words.append(f"{named}{size_text(bits / 8):>10}  {bits / seconds / 1e9:6.2f} Gbit/s")
    if found.retransmitted_packets is not None:
        words.append(f"{found.retransmitted_packets} retransmitted")
    return "   ".join(words)
