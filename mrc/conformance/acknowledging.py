# SPDX-License-Identifier: BSD-2-Clause
"""A responder that answers by itself, for cases about what a requestor does over many packets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mrc.conformance.bench import Bench
from mrc.conformance.packets import Heard

_BITMAP = 64


def _never(packet: Heard) -> bool:
    return False


def _unmarked(packet: Heard) -> int:
    return 0


class Acknowledger:
    """From now on each WRITE of the target's that arrives is answered with a SACK, each PROBE too, `after` so long.

    `lose` says of a WRITE or a PROBE that it never arrived, `mark` which m its SACK has, `more` gives further fields of
    the SACK. A script goes on seeing all packets with `expect`. `arrived` are the PSNs that came, `cack` is
    cack_psn, `highest` the highest PSN.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        after: int,
        lose: Callable[[Heard], bool] = _never,
        mark: Callable[[Heard], int] = _unmarked,
        more: Callable[[Heard], dict[str, Any]] = lambda packet: {},
    ) -> None:
        self.arrived: set[int] = set()
        self.cack = self.highest = -1
        self.answering = True
        self._bench = bench
        self._after = after
        self._lose = lose
        self._mark = mark
        self._more = more
        bench.answer_after = after
        bench.answer_with(self._take)

    def _take(self, packet: Heard) -> None:
        if not self.answering or packet.kind not in ("WRITE", "PROBE") or self._lose(packet):
            return
        if packet.kind == "WRITE":
            self.arrived.add(packet.psn)
            self.highest = max(self.highest, packet.psn)
            while self.cack + 1 in self.arrived:
                self.cack += 1
        answer = self._sack(packet)
        self._bench.network.at(self._bench.now + self._after, partial(self._bench.send, answer))

    def _sack(self, packet: Heard) -> Any:
        """What is known when the packet arrives; a probe or a retransmission sees the oldest holes."""
        highest = self.highest
        base = self.cack + 1
        if packet.kind == "WRITE" and not packet.rtx and highest - base >= _BITMAP:
            base = highest - _BITMAP + 1
        above = [psn for psn in range(base, min(base + _BITMAP, highest + 1)) if psn in self.arrived]
        fields = {"m": self._mark(packet), **self._more(packet)}
        return self._bench.make.sack(self.cack, above, to=packet, sack_offset=base - self.cack, **fields)
