# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
# cython: overflowcheck=False
# The numbers that chance is drawn from wrap at 2**64, in a build with checks too.
"""The egress queue before each direction of a shard's cables: columns of numbers, no object for any of them.

Strict priority over a drop-tail data queue, then the cable, as in mrc.sim.link: the same packets at the same times. The
packets of a queue, and those of the whole fabric, are lists through the rows of PacketPool.
"""

from __future__ import annotations

from mrc.endpoint.traffic_class import CE, ECN_MASK
from mrc.sim.cluster.columns import numbers
from mrc.sim.cluster.crossings import Crossings
from mrc.sim.cluster.directions import (
    BETWEEN,
    BYTES,
    CERTAIN,
    CUT,
    DATA_BYTES,
    DATA_FIRST,
    DOWN,
    DROPPED,
    FATES,
    FLAGS,
    FREE_AT,
    FREE_TOLD,
    FROM_HOST,
    IDLE,
    LARGEST,
    LOSSY,
    LOST,
    MARKED,
    NO_PORT,
    PACKETS,
    PRIORITY_BYTES,
    PRIORITY_FIRST,
    ROW_OF_WORDS,
    TIMES_DOWN,
    WAITING,
    Directions,
)
from mrc.sim.cluster.event_wheel import FREE, ROW, EventWheel
from mrc.sim.cluster.packet_pool import (
    CLASS,
    EPOCH,
    LINK,
    MARKS,
    NEXT,
    PRIORITY,
    SIZE,
    TO,
    TRIMMED,
    WAY,
    WIDTH,
    PacketPool,
)
from mrc.sim.cluster.setup import Topology
from mrc.sim.cluster.sharding import Sharding
from mrc.wire.compiled import i32s, i64s, u8s, unsigned, with_gil

# What became of a packet that left the fabric, and where it is counted by way.
SENT, LOST_WAY, CUT_WAY, LAST_SENT = range(4)
BY_WAY = 4

_HALF, _LOW_BITS = 1 << 31, (1 << 32) - 1
_NONE = -1
_NS_BITS = 8_000_000_000
_MASK: unsigned = (1 << 64) - 1
_GAMMA: unsigned = 0x9E3779B97F4A7C15
_FIRST_MIX: unsigned = 0xBF58476D1CE4E5B9
_SECOND_MIX: unsigned = 0x94D049BB133111EB


class Egresses:
    """The directions of a shard, whose numbers are `shard` and `sharding`'s. What is known of direction d lies from
    d * ROW on in `cells`, from d * ROW_OF_WORDS on in `words` and from d * FATES on in `fates`
    (mrc.sim.cluster.directions). `lost_between` has, by direction, packets that another shard put on a cable and that
    were lost on it when it went down.

    `by_way` counts by plane * uplinks + uplink. `lost`, `dropped`, `cut` and `marked` are totals. Packets for another
    shard go to `crossings`. `overlaps` counts packets that began before the one ahead of them was out: none may.
    """

    def __init__(
        self,
        topology: Topology,
        directions: Directions,
        sharding: Sharding,
        shard: int,
        pool: PacketPool,
        wheel: EventWheel,
    ) -> None:
        self._pool = pool
        self._wheel = wheel
        self._hosts_per_shard = sharding.hosts_per_shard
        self._shard = shard
        self._first_between = sharding.first_between
        self._alone = sharding.count == 1
        self.crossings = Crossings(sharding.count)
        self._host_directions: int = directions.of_hosts
        self._uplinks = topology.uplinks
        self._seed: unsigned = directions.seed
        self.words: i64s = directions.words
        self.cells: i32s = directions.cells
        wheel.know(self.cells)
        self.waits_at_host: u8s = directions.waits_at_host
        self._loss: i64s = directions.loss
        self._rate: i64s = directions.rate
        self._delay: i64s = directions.delay
        self._framing: i64s = directions.framing
        self._queue: i64s = directions.queue
        self._trim_at: i64s = directions.trim_at
        self._cut_to: i64s = directions.cut_to
        self._ecn_low: i64s = directions.ecn_low
        self._ecn_high: i64s = directions.ecn_high
        self._trimmed_class: i64s = directions.trimmed_class
        self._is_trimmable: u8s = directions.is_trimmable
        self._is_priority: u8s = directions.is_priority
        self.fates: i32s = directions.fates
        self.lost_between: dict[int, int] = {}
        self.by_way: i64s = numbers(BY_WAY * topology.planes * topology.uplinks)
        for way in range(topology.planes * topology.uplinks):
            self.by_way[way * BY_WAY + LAST_SENT] = -1
        self.lost = self.dropped = self.cut = self.marked = self.overlaps = 0

    # ------------------------------------------------------------------ what is known

    def kind(self, direction: int) -> int:
        """FROM_HOST, TO_HOST or BETWEEN."""
        return direction & 1 if direction < self._host_directions else BETWEEN

    def is_priority(self, traffic_class: int) -> bool:
        """Whether packets of this class wait in the priority queue."""
        return self._is_priority[traffic_class >> 2] != 0

    # ------------------------------------------------------------------ into the queue

    def accept(self, direction: int, packet: int, now: int) -> None:
        """A packet is to leave by this direction: now, after those that wait, or not at all."""
        at, about = direction * ROW, packet * WIDTH
        self._pool.cells[about + LINK] = direction
        flags = self.cells[at + FLAGS]
        if flags & DOWN:
            self._lose(direction, packet)
            return
        if not flags & FREE_TOLD and now >= self.words[direction * ROW_OF_WORDS + FREE_AT]:
            self._serialise(direction, packet, now)
            return
        kind = self.kind(direction)
        if not self._pool.cells[about + MARKS] & PRIORITY:
            held = self.cells[at + DATA_BYTES] + self._pool.cells[about + SIZE]
            if held > self._trim_at[kind]:
                if not self._is_trimmable[self._pool.cells[about + CLASS] >> 2]:
                    self._drop(direction, packet)
                    return
                self._trim(direction, packet, kind)
            elif held > self._queue[kind]:
                self._drop(direction, packet)
                return
            else:
                if held > self._ecn_low[kind]:
                    self._mark(direction, packet, kind, held)
                self._append(at + DATA_FIRST, packet)
                self.cells[at + DATA_BYTES] = held
        if self._pool.cells[about + MARKS] & PRIORITY:
            held = self.cells[at + PRIORITY_BYTES] + self._pool.cells[about + SIZE]
            if held > self._queue[kind]:
                self._drop(direction, packet)
                return
            self._append(at + PRIORITY_FIRST, packet)
            self.cells[at + PRIORITY_BYTES] = held
        self.cells[at + WAITING] += 1
        if kind == FROM_HOST:
            self.waits_at_host[direction >> 1] += 1
        held = self.cells[at + DATA_BYTES] + self.cells[at + PRIORITY_BYTES]
        if held > self.cells[at + LARGEST]:
            self.cells[at + LARGEST] = held
        if not flags & FREE_TOLD:
            self.cells[at + FLAGS] = flags | FREE_TOLD
            self._wheel.add(self.words[direction * ROW_OF_WORDS + FREE_AT], 4 * direction + FREE)

    def _append(self, first: int, packet: int) -> None:
        """Put a packet behind the others of a queue whose first and last packet are noted from `first` on, each as one
        more than its number: 0 is none."""
        self._pool.cells[packet * WIDTH + NEXT] = _NONE
        if self.cells[first]:
            self._pool.cells[(self.cells[first + 1] - 1) * WIDTH + NEXT] = packet
        else:
            self.cells[first] = packet + 1
        self.cells[first + 1] = packet + 1

    def _take_first(self, first: int) -> int:
        packet = self.cells[first] - 1
        self.cells[first] = self._pool.cells[packet * WIDTH + NEXT] + 1
        return packet

    def _mark(self, direction: int, packet: int, kind: int, held: int) -> None:
        """Set CE, always above the higher threshold, by chance between the two. Only ECN-capable packets have it."""
        at = packet * WIDTH + CLASS
        if not self._pool.cells[at] & ECN_MASK:
            return
        low, high = self._ecn_low[kind], self._ecn_high[kind]
        # By how many have come, not by when: what happens later is no other for that.
        number = self.cells[direction * ROW + PACKETS] + self.cells[direction * ROW + WAITING]
        if held <= high and self._draw(direction, 2 * number + 1) * (high - low) >= (held - low) * CERTAIN:
            return
        self._pool.cells[at] |= CE
        self.fates[direction * FATES + MARKED] += 1
        self.marked += 1

    def _trim(self, direction: int, packet: int, kind: int) -> None:
        """Cut what is longer than is kept, rewrite the outermost DSCP, forward with priority."""
        at = packet * WIDTH
        if self._pool.cells[at + SIZE] > self._cut_to[kind]:
            self._pool.cells[at + SIZE] = self._cut_to[kind]
            if not self._pool.cells[at + MARKS] & TRIMMED:
                self.cut += 1
                self.by_way[self._place_of_way(packet) + CUT_WAY] += 1
            self._pool.cells[at + MARKS] |= TRIMMED
            self.fates[direction * FATES + CUT] += 1
        self._pool.cells[at + CLASS] = self._trimmed_class[kind] | self._pool.cells[at + CLASS] & ECN_MASK
        self._pool.cells[at + MARKS] |= PRIORITY

    def _place_of_way(self, packet: int) -> int:
        way = self._pool.cells[packet * WIDTH + WAY]
        return ((way >> 16) * self._uplinks + (way & 0xFFFF)) * BY_WAY

    def _drop(self, direction: int, packet: int) -> None:
        self.fates[direction * FATES + DROPPED] += 1
        self.dropped += 1
        self._pool.give(packet)

    def _lose(self, direction: int, packet: int) -> None:
        self.fates[direction * FATES + LOST] += 1
        self._take_off(packet)

    def _take_off(self, packet: int) -> None:
        """A packet is lost."""
        self.lost += 1
        self.by_way[self._place_of_way(packet) + LOST_WAY] += 1
        self._pool.give(packet)

    # ------------------------------------------------------------------ onto the cable

    def free(self, direction: int, now: int) -> bool:
        """The last bit of a packet is out. Returns whether another one begins."""
        at = direction * ROW
        self.cells[at + FLAGS] &= ~FREE_TOLD
        if not self.cells[at + WAITING]:
            # It went down meanwhile, and what waited is lost.
            return False
        self.cells[at + WAITING] -= 1
        if self.kind(direction) == FROM_HOST:
            self.waits_at_host[direction >> 1] -= 1
        if self.cells[at + PRIORITY_FIRST]:
            packet = self._take_first(at + PRIORITY_FIRST)
            self.cells[at + PRIORITY_BYTES] -= self._pool.cells[packet * WIDTH + SIZE]
        else:
            packet = self._take_first(at + DATA_FIRST)
            self.cells[at + DATA_BYTES] -= self._pool.cells[packet * WIDTH + SIZE]
        self._serialise(direction, packet, now)
        if self.cells[at + WAITING]:
            self.cells[at + FLAGS] |= FREE_TOLD
            self._wheel.add(self.words[direction * ROW_OF_WORDS + FREE_AT], 4 * direction + FREE)
        return True

    def _serialise(self, direction: int, packet: int, now: int) -> None:
        """Put a packet on the cable: its last bit is out when the rate allows, and a delay later at the other end."""
        at, kind = direction * ROW, self.kind(direction)
        size = self._pool.cells[packet * WIDTH + SIZE]
        # No packet takes no time, at whatever rate.
        free_at = now + max((size + self._framing[kind]) * _NS_BITS // self._rate[kind], 1)
        if now < self.words[direction * ROW_OF_WORDS + FREE_AT]:
            self.overlaps += 1
        self._note_idle(direction, now)
        self.words[direction * ROW_OF_WORDS + FREE_AT] = free_at
        self.words[direction * ROW_OF_WORDS + BYTES] += size
        self.cells[at + PACKETS] += 1
        if self.cells[at + FLAGS] & LOSSY and self._vanishes(direction):
            self._lose(direction, packet)
            return
        self._pool.cells[packet * WIDTH + EPOCH] = self.cells[at + TIMES_DOWN]
        if self._is_between(direction):
            shard = self._shard
            if not self._alone:
                shard = self._pool.cells[packet * WIDTH + TO] // self._hosts_per_shard
            if shard != self._shard:
                self.crossings.put(shard, self._pool, packet, free_at + self._delay[kind])
            else:
                self._wheel.add_first(free_at + self._delay[kind], packet)
            return
        self._wheel.add(free_at + self._delay[kind], 4 * packet)

    def _note_idle(self, direction: int, now: int) -> None:
        """A direction was idle from when it was free until now; it stops at once where it was not free yet."""
        idle = self.cells[direction * ROW + IDLE] + now - self.words[direction * ROW_OF_WORDS + FREE_AT]
        self.cells[direction * ROW + IDLE] = (idle + _HALF & _LOW_BITS) - _HALF

    def _vanishes(self, direction: int) -> bool:
        """Whether the packet that was put on this direction last is lost on it."""
        return self._draw(direction, 2 * self.cells[direction * ROW + PACKETS]) < self._loss[direction]

    def arrive(self, packet: int) -> bool:
        """A packet comes to the end of its direction. Returns whether it is still there."""
        at = packet * WIDTH
        direction = self._pool.cells[at + LINK]
        if self._pool.cells[at + EPOCH] == self.cells[direction * ROW + TIMES_DOWN]:
            return True
        if self._is_between(direction):
            self._count_between(direction)
            self._take_off(packet)
        else:
            self._lose(direction, packet)
        return False

    def _is_between(self, direction: int) -> bool:
        """Whether packets on this direction may be for another shard than the one they are from."""
        return direction >= self._first_between and not direction & 1

    def _count_between(self, direction: int) -> with_gil[None]:
        self.lost_between[direction] = self.lost_between.get(direction, 0) + 1

    def _draw(self, direction: unsigned, number: unsigned) -> int:
        """A number below 2**32 that follows from the seed, the direction and `number` alone: the order in which they
        are drawn does not matter (SplitMix64)."""
        mixed: unsigned = self._seed + direction * _FIRST_MIX & _MASK
        mixed = (mixed ^ mixed >> 29) + number * _GAMMA & _MASK
        mixed = (mixed ^ mixed >> 30) * _FIRST_MIX & _MASK
        mixed = (mixed ^ mixed >> 27) * _SECOND_MIX & _MASK
        return (mixed ^ mixed >> 31) >> 32

    # ------------------------------------------------------------------ down and up

    def set_up(self, direction: int, up: bool, now: int) -> bool:
        """Going down loses what waits and what is on the cable. Returns whether that is news."""
        at = direction * ROW
        if up == (self.cells[at + FLAGS] & DOWN == 0):
            return False
        if self.kind(direction) == FROM_HOST:
            self.waits_at_host[direction >> 1] = 0 if up else NO_PORT
        if up:
            self.cells[at + FLAGS] &= ~DOWN
            return True
        self.cells[at + FLAGS] |= DOWN
        self.cells[at + TIMES_DOWN] += 1
        while self.cells[at + PRIORITY_FIRST]:
            self._lose(direction, self._take_first(at + PRIORITY_FIRST))
        while self.cells[at + DATA_FIRST]:
            self._lose(direction, self._take_first(at + DATA_FIRST))
        self.cells[at + DATA_BYTES] = self.cells[at + PRIORITY_BYTES] = self.cells[at + WAITING] = 0
        self._note_idle(direction, now)
        self.words[direction * ROW_OF_WORDS + FREE_AT] = now
        return True
