# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""How far past cack_psn the peer may send, and the window that SACKs advertise (behaviour.md, Dynamic MPR)."""

from __future__ import annotations

from mrc.endpoint.config import MPR_UNIT
from mrc.errors import CallerError
from mrc.wire.compiled import python

MAX_MPR = 255
_MPR_UNIT = MPR_UNIT


class ReceiveWindow:
    """The window of `units` x 128 PSNs from epsn on. Where MPR is dynamic it may change at any time.

    Every right edge ever advertised is honoured. After a cut the last edge stands still until epsn has come near
    enough; since the field counts whole units, it is rounded up by up to 127 PSNs meanwhile, which are honoured too.
    """

    _granted: int
    _honoured: int
    dynamic: bool
    units: int

    __slots__ = tuple(__annotations__)

    def __init__(self, units: int, first_psn: int, *, dynamic: bool) -> None:
        self.units = units
        self.dynamic = dynamic
        # First PSNs beyond the edge: the highest advertised on purpose, and the highest the rounding ever amounted to.
        self._granted = self._honoured = first_psn + units * _MPR_UNIT

    @property
    def largest_span(self) -> int:
        """The most PSNs there can be from epsn to the edge with this many units."""
        return (self.units + 1) * _MPR_UNIT

    def resize(self, units: int) -> python[None]:
        """Raises CallerError beyond 1..255 units, or when the peer does not follow a dynamic MPR."""
        if not self.dynamic:
            raise CallerError("the MPR is fixed: DYNAMIC_MPR is not agreed with this peer")
        if not 1 <= units <= MAX_MPR:
            raise CallerError(f"an MPR is 1..{MAX_MPR} units of {_MPR_UNIT} PSNs, got {units}")
        self.units = units

    def end(self, epsn: int) -> int:
        """The first PSN that is out of the window."""
        return max(epsn + self.units * _MPR_UNIT, self._honoured if self.dynamic else 0)

    def grant(self, epsn: int, most: int) -> int:
        """The mpr field of a SACK sent now: 0 when MPR is not dynamic, else at least 1. `most` units are granted, or
        what was granted before."""
        if not self.dynamic:
            return 0
        granted = min(self.units, most)
        intended = epsn + granted * _MPR_UNIT
        if intended >= self._granted:
            self._granted = intended
            units = granted
        else:
            units = -(-(self._granted - epsn) // _MPR_UNIT)
        self._honoured = max(self._honoured, epsn + units * _MPR_UNIT)
        return units
