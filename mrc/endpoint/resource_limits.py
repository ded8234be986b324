"""Which new packets there is room for: NO_BITMAP, NO_PKT_BUFFER, NO_RESOURCE (wire.md section 7)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mrc.endpoint.config import ResponderConfig
from mrc.endpoint.nacked import NackReason
from mrc.endpoint.received import ReceivedPsns

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_UNLIMITED = 1 << 62


class ResourceLimits:
    """The limits of a ResponderConfig. The packet that closes the hole is let through whatever they say."""

    __slots__ = ("_held", "_span", "_stashed", "none")

    def __init__(self, config: ResponderConfig) -> None:
        limits = (config.max_span, config.max_held_packets, config.max_stashed_immediates)
        self.none = all(limit is None for limit in limits)
        self._span, self._held, self._stashed = (_UNLIMITED if limit is None else limit for limit in limits)

    def refusals(
        self, psns: I64, candidates: I64, immediate: Bools, received: ReceivedPsns, stashed_psns: list[int]
    ) -> dict[int, NackReason]:
        """Position to reason of those among `candidates` (positions of packets that are in the window and have not
        arrived, a PSN perhaps twice) that there is no room for, taking one packet after the other."""
        numbers = psns[candidates]
        if (
            int(numbers.max()) - received.cack_psn <= self._span
            and received.held + len(numbers) <= self._held
            and len(stashed_psns) + int(immediate[candidates].sum()) <= self._stashed
        ):
            return {}
        epsn, held = received.epsn, received.held
        accepted: set[int] = set()
        stashed = set(stashed_psns)
        refused: dict[int, NackReason] = {}
        for position, psn, with_immediate in zip(
            candidates.tolist(), numbers.tolist(), immediate[candidates].tolist(), strict=True
        ):
            if psn < epsn or psn in accepted:
                continue
            if psn == epsn:
                accepted.add(psn)
                epsn += 1
                while epsn in accepted or received.has(epsn):
                    stashed.discard(epsn)
                    epsn += 1
                    held -= 1
                continue
            reason = self._lacking(psn - epsn + 1, held, len(stashed) if with_immediate else -1)
            if reason is not None:
                refused[position] = reason
                continue
            accepted.add(psn)
            held += 1
            if with_immediate:
                stashed.add(psn)
        return refused

    def _lacking(self, span: int, held: int, stashed: int) -> NackReason | None:
        if span > self._span:
            return NackReason.NO_BITMAP
        if held >= self._held:
            return NackReason.NO_PKT_BUFFER
        if stashed >= self._stashed:
            return NackReason.NO_RESOURCE
        return None
