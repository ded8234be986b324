# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Which new packets there is room for: NO_BITMAP, NO_PKT_BUFFER, NO_RESOURCE (wire.md section 7)."""

from __future__ import annotations

from mrc.endpoint.config import ResponderConfig
from mrc.wire.names import NackReason

_UNLIMITED = 1 << 62
_NOTHING = 0
_NO_BITMAP, _NO_PKT_BUFFER, _NO_RESOURCE = (
    int(NackReason.NO_BITMAP),
    int(NackReason.NO_PKT_BUFFER),
    int(NackReason.NO_RESOURCE),
)


class ResourceLimits:
    """The limits of a ResponderConfig. The packet that closes the hole is let through whatever they say."""

    _held: int
    _span: int
    _stashed: int

    __slots__ = tuple(__annotations__)

    def __init__(self, config: ResponderConfig) -> None:
        limits = (config.max_span, config.max_held_packets, config.max_stashed_immediates)
        self._span, self._held, self._stashed = (_UNLIMITED if limit is None else limit for limit in limits)

    def lacking(self, distance: int, held: int, stashed: int) -> int:
        """The NackReason of a new packet there is no room for, or 0. It is `distance` PSNs above epsn while `held`
        packets and `stashed` immediates wait above a hole; `stashed` is -1 for one without an immediate."""
        if distance == 0:
            return _NOTHING
        if distance + 1 > self._span:
            return _NO_BITMAP
        if held >= self._held:
            return _NO_PKT_BUFFER
        if stashed >= self._stashed:
            return _NO_RESOURCE
        return _NOTHING
