# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What a node can hold of what its peers send, shared among the QPs that receive (behaviour.md, Responder; all C).

Two signals of the protocol bound it. The window of a dynamic MPR keeps all peers together below what the receive
buffers hold, so none overflows. The receiver penalty shrinks their congestion windows while packets wait unread, so
none waits long: a processor that is shared has no ECN mark to give.
"""

from __future__ import annotations

from mrc.endpoint.config import MPR_UNIT, ReceivingConfig
from mrc.endpoint.parts.tables import Table
from mrc.endpoint.responder.receive_window import MAX_MPR

MAX_PENALTY = 127
_MAX_MPR, _MAX_PENALTY = MAX_MPR, MAX_PENALTY
_MPR_UNIT, _UNBOUNDED = MPR_UNIT, -1
# What follows the QPN in a row of those that receive: when the last request came, ns.
_LAST = 1
_COLUMNS = 2


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
