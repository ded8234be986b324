# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Virtual time of a shard: events in their order, and what each does. It goes on without the interpreter.

A packet that comes to its host waits until all events before that have happened, as do those that come in the same
nanosecond; then the endpoint takes them as one batch. A host's NIC asks its endpoint for packets as its ports have room
for them, as in mrc.sim.host.
"""

from __future__ import annotations

from mrc.endpoint.parts import interpreter
from mrc.endpoint.parts.deadlines import FOREVER
from mrc.endpoint.parts.numbers import Heap
from mrc.sim.cluster import by_host
from mrc.sim.cluster.attendant import Attendant
from mrc.sim.cluster.columns import numbers
from mrc.sim.cluster.columns import octets as octet_column
from mrc.sim.cluster.directions import NO_PORT
from mrc.sim.cluster.egresses import BY_WAY, LAST_SENT, SENT, Egresses
from mrc.sim.cluster.event_wheel import ARRIVAL, FREE, HOST, EventWheel
from mrc.sim.cluster.host_columns import HostColumns
from mrc.sim.cluster.packet_pool import (
    CLASS,
    MARKS,
    NEXT,
    PRIORITY,
    ROOM,
    SIZE,
    TO,
    TRIMMED,
    WAY,
    WIDTH,
    PacketPool,
)
from mrc.sim.cluster.ways import Ways
from mrc.sim.fault import SimulationFault
from mrc.sim.host import MOST_WAITING, PULL, REFILL_BELOW
from mrc.sim.link import OUTER_BYTES
from mrc.wire import octets
from mrc.wire.compiled import i64s, may_raise, public, python, u8s, with_gil
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import HEADER_ROOM, fields_at
from mrc.wire.transmit_batch import TransmitBatch

# Packets that an endpoint takes at a time.
_MOST_RECEIVED = 64
_NONE = -1
(_DESTINATION_AT,) = fields_at("ipv6", "dst")
(_SPORT_AT,) = fields_at("udp", "sport")


def went_back(now: int, earlier: int) -> python[SimulationFault]:
    """What is wrong where something is to happen at an earlier time than it is."""
    return SimulationFault(f"time went back from {now} to {earlier} ns")


class Machine:
    """`now` is virtual time in ns, which never goes back: an event or a timer of the past ends the run with an error.
    `until`: it stops before the first event after that.

    `sent`, `delivered` and `delivered_cut` count packets; `hops` packets put on cables or taken from them, `events` all
    there was to do. `placed_bytes` of payload have arrived, each byte once. What Python has to do for a flow is done by
    `work`. What is known of each of its hosts is in HostColumns.
    """

    def __init__(
        self,
        hosts: range,
        planes: int,
        uplinks: int,
        columns: HostColumns,
        pool: PacketPool,
        wheel: EventWheel,
        egresses: Egresses,
        ways: Ways,
        work: Attendant,
    ) -> None:
        self._planes, self._uplinks = planes, uplinks
        self._pool, self._wheel, self._egresses, self._ways, self._work = pool, wheel, egresses, ways, work
        self.now = 0
        self.until: public[int] = 0
        self.events = self.hops = self.sent = self.delivered = self.delivered_cut = self.placed_bytes = 0
        self._hosts = hosts
        self._handles = columns.handles
        self._first_waiting = columns.first_waiting
        self._last_waiting = columns.last_waiting
        self._host_pending = columns.pending
        self._timer_at = columns.timer_at
        self._looks_at = columns.looks_at
        self._timers = Heap()  # times and hosts
        self.first_qp = columns.first_qp
        self.boundary = columns.boundary
        self.placed = columns.placed
        self._transmitted = TransmitBatch(PULL, headers_only=True)
        self._received_headers: u8s = octet_column(_MOST_RECEIVED * ROOM)
        self._lengths: i64s = numbers(_MOST_RECEIVED)
        self._ports: i64s = numbers(_MOST_RECEIVED)
        self._received_classes: i64s = numbers(_MOST_RECEIVED)
        self._received = ReceivedBatch(
            self._received_headers, ROOM, 0, self._lengths, self._ports, self._received_classes, headers_only=True
        )

    # ------------------------------------------------------------------ time

    def run(self, most: int) -> may_raise[None]:
        """Let events happen up to and including time `until`, but no more than about `most` of them."""
        state: int = interpreter.let_go()
        self._run(self.events + most)
        interpreter.take_back(state)

    def _run(self, last: int) -> None:
        while self.events < last:
            at = self._wheel.next_at()
            timer = self._timers.first()
            if min(at, timer) > self.until:
                break
            self.events += 1
            if min(at, timer) < self.now:
                self._went_back(min(at, timer))
                break
            if timer < at:
                self.now = timer
                self._wheel.advance(timer)
                self._on_timer()
                continue
            self.now = at
            event = self._wheel.take(at)
            kind = event & 3
            if kind == ARRIVAL:
                self._arrive(event >> 2)
            elif kind == FREE:
                if self._egresses.free(event >> 2, at) and self._egresses.kind(event >> 2) == 0:
                    self._pump(self._ways.host_of(event >> 2))
            else:
                self._deliver(event >> 2)

    def next_at(self) -> int:
        """When something happens next, ns; FOREVER where nothing does."""
        return min(self._wheel.next_at(), self._timers.first())

    def go_to(self, at: int) -> python[None]:
        """It is `at` now, which is not after `next_at`. Raises SimulationFault where it was later before."""
        if at < self.now:
            raise went_back(self.now, at)
        self.now = at
        self._wheel.advance(at)

    def _went_back(self, at: int) -> with_gil[None]:
        self._work.fail(went_back(self.now, at))

    # ------------------------------------------------------------------ packets

    def _arrive(self, packet: int) -> None:
        self.hops += 1
        if not self._egresses.arrive(packet):
            return
        direction = self._ways.next(packet)
        if direction != _NONE:
            self._egresses.accept(direction, packet, self.now)
            return
        host = self._pool.cells[packet * WIDTH + TO]
        self._pool.cells[packet * WIDTH + NEXT] = _NONE
        if self._first_waiting[host]:
            self._pool.cells[(self._last_waiting[host] - 1) * WIDTH + NEXT] = packet
        else:
            self._first_waiting[host] = packet + 1
        self._last_waiting[host] = packet + 1
        self.call(host)

    def call(self, host: int) -> None:
        """This host has something to do, at this time, after all that is to happen before."""
        if not self._host_pending[host]:
            self._host_pending[host] = 1
            self._wheel.add(self.now, 4 * host + HOST)

    def _deliver(self, host: int) -> None:
        """What has come to a host is taken in, then it may send."""
        self._host_pending[host] = 0
        while self._first_waiting[host]:
            self._take_in(host)
        self._pump(host)

    def _take_in(self, host: int) -> None:
        """Hand over as many of a host's packets as a batch has room for."""
        count, packet = 0, self._first_waiting[host] - 1
        while packet != _NONE and count < _MOST_RECEIVED:
            at = packet * WIDTH
            octets.copy(self._received_headers, count * ROOM, self._pool.headers, packet * ROOM, ROOM)
            self._lengths[count] = self._pool.cells[at + SIZE] - OUTER_BYTES
            self._ports[count] = self._pool.cells[at + WAY] >> 16
            self._received_classes[count] = self._pool.cells[at + CLASS]
            if self._pool.cells[at + MARKS] & TRIMMED:
                self.delivered_cut += 1
            else:
                self.delivered += 1
            count += 1
            after = self._pool.cells[at + NEXT]
            self._pool.give(packet)
            packet = after
        self._first_waiting[host] = packet + 1
        self._received.count = count
        by_host.receive(self._handles[host], self._received, self.now)
        if by_host.has_done(self._handles[host]):
            self._hand_over(host)
        place = 0
        while place < by_host.touched(self._handles[host]):
            self._look_at_arrived(host, by_host.touched_slot(self._handles[host], place))
            place += 1

    def _look_at_arrived(self, host: int, slot: int) -> None:
        """Count what has been placed; see whether a flow has arrived in whole."""
        qp = self.first_qp[host] + slot
        placed = by_host.bytes_placed(self._handles[host], slot)
        self.placed_bytes += placed - self.placed[qp]
        self.placed[qp] = placed
        if self.boundary[qp] == FOREVER:
            return
        epsn = by_host.epsn(self._handles[host], slot)
        if epsn >= self.boundary[qp]:
            self._report_arrived(qp, epsn)

    def _report_arrived(self, qp: int, epsn: int) -> with_gil[None]:
        self.boundary[qp] = self._work.on_arrived(qp, epsn, self.now)

    def _hand_over(self, host: int) -> with_gil[None]:
        self._work.hand_over(host, self.now)

    # ------------------------------------------------------------------ a host's NIC

    def _pump(self, host: int) -> None:
        """Something may have changed at an endpoint: pull what it wants to send, set its timer."""
        handle = self._handles[host]
        while self._has_room(host):
            operations = by_host.operations_wait(handle)
            count = by_host.transmit(handle, self._transmitted, self.now)
            if operations:
                self._look_after_later(host)
            if by_host.has_done(handle):
                self._hand_over(host)
            row = 0
            while row < count:
                self._launch(host, row)
                row += 1
            self._transmitted.count = 0
            if not count:
                break
        deadline = self._timer_at[host]
        if by_host.first_timer(handle) < deadline or self._looks_at[host] < deadline:
            # What is due already is due now.
            deadline = max(min(by_host.next_deadline(handle), self._looks_at[host]), self.now)
            if deadline < self._timer_at[host]:
                self._timer_at[host] = deadline
                self._timers.push(deadline, host)

    def _has_room(self, host: int) -> bool:
        least, most, cable = MOST_WAITING, 0, host * self._planes
        last = cable + self._planes
        while cable < last:
            waiting = self._egresses.waits_at_host[cable]
            if waiting != NO_PORT:
                if waiting < least:
                    least = waiting
                if waiting > most:
                    most = waiting
            cable += 1
        return most < MOST_WAITING and (least < REFILL_BELOW or least == MOST_WAITING)

    def _launch(self, host: int, row: int) -> None:
        """One packet of the batch leaves the endpoint: its EV's half in the UDP source port is the uplink."""
        batch_at, packet = row * HEADER_ROOM, self._pool.take()
        at = packet * WIDTH
        octets.copy(self._pool.headers, packet * ROOM, self._transmitted.flat, batch_at, ROOM)
        plane, traffic_class = self._transmitted.ports[row], self._transmitted.classes[row]
        uplink = octets.u16(self._transmitted.flat, batch_at + _SPORT_AT)
        self._pool.cells[at + SIZE] = (
            self._transmitted.header_lengths[row]
            + self._transmitted.payload_lengths[row]
            + self._transmitted.trailer_lengths[row]
            + OUTER_BYTES
        )
        self._pool.cells[at + WAY] = plane << 16 | uplink
        # The low half of the address of a host is its number, counted from 1.
        self._pool.cells[at + TO] = octets.u32(self._transmitted.flat, batch_at + _DESTINATION_AT + 12) - 1
        self._pool.cells[at + CLASS] = traffic_class
        self._pool.cells[at + MARKS] = PRIORITY if self._egresses.is_priority(traffic_class) else 0
        self.sent += 1
        way = (plane * self._uplinks + uplink) * BY_WAY
        self._egresses.by_way[way + SENT] += 1
        if self._transmitted.payload_lengths[row]:
            self._egresses.by_way[way + LAST_SENT] = self.now
        self._egresses.accept(self._ways.first(host, plane), packet, self.now)

    def _on_timer(self) -> None:
        """The first timer is due."""
        host, when = self._timers.value(), self._timers.first()
        self._timers.pop()
        if when != self._timer_at[host]:
            return
        self._timer_at[host] = FOREVER
        if self._looks_at[host] <= self.now:
            self._look_after(host)
        by_host.on_timer(self._handles[host], self.now)
        if by_host.has_done(self._handles[host]):
            self._hand_over(host)
        self._pump(host)

    def _look_after(self, host: int) -> with_gil[None]:
        self._looks_at[host] = self._work.look_after(host, self.now)

    def _look_after_later(self, host: int) -> with_gil[None]:
        self._looks_at[host] = self._work.looks_at(host)

    # ------------------------------------------------------------------ what there is

    def packets_in_hosts(self) -> python[int]:
        """Packets that have come to their host and wait to be taken in."""
        count = 0
        for host in self._hosts:
            packet = self._first_waiting[host] - 1
            while packet != _NONE:
                count += 1
                packet = self._pool.cells[packet * WIDTH + NEXT]
        return count
