# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""How far past cack_psn a peer may send: the window that the SACKs of a QP advertise (behaviour.md, Dynamic MPR), and
what a node can hold of what all its peers send (Responder; all C).

Two signals of the protocol bound that. The window of a dynamic MPR keeps all peers together below what the receive
buffers hold, so none overflows. The receiver penalty shrinks their congestion windows while packets wait unread, so
none waits long: a processor that is shared has no ECN mark to give.
"""

from __future__ import annotations

from mrc.endpoint.config import MPR_UNIT, ReceivingConfig
from mrc.endpoint.parts.tables import Table
from mrc.errors import CallerError
from mrc.wire.compiled import python

MAX_MPR = 255
_MPR_UNIT = MPR_UNIT
MAX_PENALTY = 127
_MAX_MPR, _MAX_PENALTY = MAX_MPR, MAX_PENALTY
_UNBOUNDED = -1
# A row of a QP that receives: its QPN, then when its last request came, ns.
_LAST = 1
_COLUMNS = 2


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


class ReceiveBudget:
    """One endpoint's. `units`: the MPR that each QP which receives may be granted now, 1..255 units of 128 PSNs.

    `penalty`: the rcv_cwnd_pen of every SACK sent now, 0..127.
    """

    _active_ns: int
    _backlog: int
    _capacity: int
    _look_at: int
    _most: int
    _receiving: Table
    penalty: int
    units: int

    __slots__ = tuple(__annotations__)

    def __init__(self, config: ReceivingConfig) -> None:
        self._most = _UNBOUNDED if config.most_packets is None else config.most_packets
        self._active_ns = config.active_ns
        self._backlog = config.backlog_packets
        self._capacity = self._most
        # QPs that receive.
        self._receiving = Table(_COLUMNS)
        self._look_at = 0
        self.units = _MAX_MPR
        self.penalty = 0
        self._share()

    def set_capacity(self, packets: int) -> None:
        """The receive buffers hold so many full packets, whichever port they come through."""
        self._capacity = packets if self._most == _UNBOUNDED else min(packets, self._most)
        self._share()

    def units_for(self, newcomers: int) -> int:
        """What each of so many QPs may be granted that are about to be connected, in units of 128 PSNs."""
        return self._units(self._receiving.count + newcomers)

    def on_requests(self, qpn: int, now: int) -> None:
        """This QP was connected, or requests of its peer arrived."""
        row = self._receiving.find(qpn)
        known = row >= 0
        if not known:
            row = self._receiving.put(qpn)
        self._receiving.cells[row + _LAST] = now
        if known and now < self._look_at:
            return
        self._look_at = now + self._active_ns // 8
        self._forget_idle(now)
        self._share()

    def _forget_idle(self, now: int) -> None:
        """QPs that have received nothing for a while have no share."""
        row = 0
        while row < self._receiving.size:
            if self._receiving.cells[row] >= 0 and now - self._receiving.cells[row + _LAST] > self._active_ns:
                # Another row may take its place.
                self._receiving.remove(row)
            else:
                row += _COLUMNS

    def forget(self, qpn: int) -> None:
        """This QP is gone."""
        row = self._receiving.find(qpn)
        if row >= 0:
            self._receiving.remove(row)
            self._share()

    def on_backlog(self, packets: int) -> None:
        """So many packets wait in the receive buffers while a batch is being taken."""
        over = packets - self._backlog
        self.penalty = 0 if over <= 0 else min(_MAX_PENALTY, over * _MAX_PENALTY // self._backlog + 1)

    def _share(self) -> None:
        self.units = self._units(self._receiving.count)

    def _units(self, qps: int) -> int:
        if self._capacity == _UNBOUNDED:
            return _MAX_MPR
        return min(_MAX_MPR, max(1, self._capacity // (_MPR_UNIT * max(1, qps))))
