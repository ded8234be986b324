# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What a responder has received, and how far ahead of that its peer may send (behaviour.md, Responder, Dynamic MPR).

`ReceivedPsns` has one bit a PSN, in a ring. `ReceiveWindow` has what the SACKs of a QP grant its peer, `ReceiveBudget`
what a node can hold of what all its peers send (C). Two signals of the protocol bound that. The window of a dynamic
MPR keeps all peers together below what the receive buffers hold, so none overflows. The receiver penalty shrinks their
congestion windows while packets wait unread, so none waits long: a processor that is shared has no ECN mark to give.
"""

from __future__ import annotations

from mrc.endpoint.config import MPR_UNIT, ReceivingConfig
from mrc.endpoint.parts.numbers import Table
from mrc.errors import CallerError
from mrc.wire.compiled import public, python, u8s, unsigned

_BITS = 64
_LEAST_RING = 256
MAX_MPR = 255
MAX_PENALTY = 127
_UNBOUNDED = -1
# A row of a QP that receives: its QPN, then when its last request came, ns.
_LAST = 1
_COLUMNS = 2


class ReceivedPsns:
    """Arrival bits from `epsn` (the next PSN expected, cack_psn + 1) on. PSNs are unbounded here.

    `highest` is the highest PSN received (epsn - 1 when none is above), `held` how many lie above a hole,
    `completed` how many messages have wholly arrived. Every step costs what it touches, never what the window holds.
    """

    def __init__(self, span: int, first_psn: int) -> None:
        size = ring_size(span)
        self._mask = size - 1
        self._arrived: u8s = memoryview(bytearray(size))
        self._ends: u8s = memoryview(bytearray(size))
        self.epsn: public[int] = first_psn
        self.highest = first_psn - 1
        self.held = 0
        self.completed = 0

    @property
    def cack_psn(self) -> int:
        return self.epsn - 1

    def make_room(self, span: int) -> python[None]:
        """Be ready for PSNs up to epsn + span - 1. The ring never shrinks."""
        size = ring_size(span)
        if size <= self._mask + 1:
            return
        arrived, ends = memoryview(bytearray(size)), memoryview(bytearray(size))
        for psn in range(self.epsn, self.highest + 1):
            arrived[psn & size - 1] = self._arrived[psn & self._mask]
            ends[psn & size - 1] = self._ends[psn & self._mask]
        self._arrived, self._ends, self._mask = arrived, ends, size - 1

    def has(self, psn: int) -> bool:
        """Whether a PSN (epsn or above, inside the span) has arrived."""
        return self._arrived[psn & self._mask] != 0

    def edge_after(self, psn: int) -> int:
        """epsn as it will be once this new PSN has arrived."""
        return self.edge_from(psn + 1) if psn == self.epsn else self.epsn

    def edge_from(self, edge: int) -> int:
        """The first PSN from `edge` on that has not arrived."""
        while edge <= self.highest and self._arrived[edge & self._mask]:
            edge += 1
        return edge

    def add(self, psn: int, ends: bool, stop: int) -> bool:
        """Take this new PSN as arrived; `ends` says it is the last of its message. The left edge does not pass `stop`.
        True when it moved."""
        if psn > self.highest:
            self.highest = psn
        if psn != self.epsn or psn == stop:
            self._arrived[psn & self._mask] = 1
            self._ends[psn & self._mask] = ends
            self.held += 1
            return False
        self.completed += ends
        self._move_edge(psn + 1, stop)
        return True

    def go_on(self, stop: int) -> None:
        """What held the left edge back is gone: it moves up to `stop`."""
        self._move_edge(self.epsn, stop)

    def _move_edge(self, edge: int, stop: int) -> None:
        """The left edge moves to `edge` and over what arrived before, up to `stop`."""
        while edge < stop and edge <= self.highest and self._arrived[edge & self._mask]:
            self._arrived[edge & self._mask] = 0
            self.completed += self._ends[edge & self._mask]
            self.held -= 1
            edge += 1
        self.epsn = edge

    def bitmap(self, base: int) -> unsigned:
        """The 64-bit map of arrivals from `base` (epsn or above) on, least significant bit first."""
        found: unsigned = 0
        if not self.held:
            return found
        count = self.highest + 1 - base
        if count > _BITS:
            count = _BITS
        while count > 0:
            count -= 1
            found = found << 1 | self._arrived[base + count & self._mask]
        return found


def ring_size(span: int) -> python[int]:
    """Places of a ring that holds `span` PSNs."""
    return max(_LEAST_RING, 1 << (span - 1).bit_length())


class ReceiveWindow:
    """The window of `units` x 128 PSNs from epsn on. Where MPR is dynamic it may change at any time.

    Every right edge ever advertised is honoured. After a cut the last edge stands still until epsn has come near
    enough; since the field counts whole units, it is rounded up by up to 127 PSNs meanwhile, which are honoured too.
    """

    def __init__(self, units: int, first_psn: int, *, dynamic: bool) -> None:
        self.units = units
        self.dynamic = dynamic
        # First PSNs beyond the edge: the highest advertised on purpose, and the highest the rounding ever amounted to.
        self._granted = self._honoured = first_psn + units * MPR_UNIT

    @property
    def largest_span(self) -> int:
        """The most PSNs there can be from epsn to the edge with this many units."""
        return (self.units + 1) * MPR_UNIT

    def resize(self, units: int) -> python[None]:
        """Raises CallerError beyond 1..255 units, or when the peer does not follow a dynamic MPR."""
        if not self.dynamic:
            raise CallerError("the MPR is fixed: DYNAMIC_MPR is not agreed with this peer")
        if not 1 <= units <= MAX_MPR:
            raise CallerError(f"an MPR is 1..{MAX_MPR} units of {MPR_UNIT} PSNs, got {units}")
        self.units = units

    def end(self, epsn: int) -> int:
        """The first PSN that is out of the window."""
        return max(epsn + self.units * MPR_UNIT, self._honoured if self.dynamic else 0)

    def grant(self, epsn: int, most: int) -> int:
        """The mpr field of a SACK sent now: 0 when MPR is not dynamic, else at least 1. `most` units are granted, or
        what was granted before."""
        if not self.dynamic:
            return 0
        granted = min(self.units, most)
        intended = epsn + granted * MPR_UNIT
        if intended >= self._granted:
            self._granted = intended
            units = granted
        else:
            units = -(-(self._granted - epsn) // MPR_UNIT)
        self._honoured = max(self._honoured, epsn + units * MPR_UNIT)
        return units


class ReceiveBudget:
    """One endpoint's. `units`: the MPR that each QP which receives may be granted now, 1..255 units of 128 PSNs.

    `penalty`: the rcv_cwnd_pen of every SACK sent now, 0..127.
    """

    def __init__(self, config: ReceivingConfig) -> None:
        self._most: int = _UNBOUNDED if config.most_packets is None else config.most_packets
        self._active_ns = config.active_ns
        self._backlog = config.backlog_packets
        self._capacity = self._most
        # QPs that receive.
        self._receiving = Table(_COLUMNS)
        self._look_at = 0
        self.units = MAX_MPR
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
        self.penalty = 0 if over <= 0 else min(MAX_PENALTY, over * MAX_PENALTY // self._backlog + 1)

    def _share(self) -> None:
        self.units = self._units(self._receiving.count)

    def _units(self, qps: int) -> int:
        if self._capacity == _UNBOUNDED:
            return MAX_MPR
        return min(MAX_MPR, max(1, self._capacity // (MPR_UNIT * max(1, qps))))
