# SPDX-License-Identifier: BSD-2-Clause
"""A host: an endpoint, one port per plane, and a NIC that pulls packets as its ports have room for them."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from functools import cache
from typing import Protocol

from mrc.sim.clock import Clock
from mrc.sim.fault import SimulationFault
from mrc.sim.link import OUTER_BYTES, Egress, SimPacket
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import HEADER_ROOM
from mrc.wire.transmit_batch import TransmitBatch

# The NIC pulls while its emptiest port has fewer than the first of these packets waiting, and none has the second: the
# endpoint chooses EV and port when a packet is pulled and takes that for its time of departure, so few may wait.
REFILL_BELOW = 2
MOST_WAITING = 4
PULL = 2  # packets at a time
_PULL_UNQUEUED = 64
# Where the address of a sockaddr_in6 is.
_ADDRESS = slice(8, 24)

Observer = Callable[[int, str, bytes], None]


class Agent(Protocol):
    """What a host runs: the four entries of mrc.endpoint.endpoint.Endpoint."""

    def receive(self, batch: ReceivedBatch, now: int) -> None: ...
    def transmit(self, batch: TransmitBatch, now: int) -> int: ...
    def next_deadline(self) -> int | None: ...
    def on_timer(self, now: int) -> None: ...


class _Pulled:
    """Packets that were pulled, and their columns as bytes and numbers: most batches are of one packet."""

    __slots__ = ("batch", "classes", "destinations", "ports")

    def __init__(self, capacity: int) -> None:
        self.batch = TransmitBatch(capacity)
        self.ports, self.classes = self.batch.port.data, self.batch.traffic_class.data
        self.destinations = [row.data[_ADDRESS] for row in self.batch.destination]


class HostPort:
    """Where a leaf's cable ends: takes what is addressed to this host's uSID in this plane."""

    __slots__ = ("_address", "_host", "_number", "misrouted")

    def __init__(self, host: SimHost, number: int, address: int) -> None:
        self._host = host
        self._number = number
        self._address = address
        self.misrouted = 0

    def receive(self, packet: SimPacket) -> None:
        if packet.destination == self._address:
            self._host.receive(packet, self._number)
        else:
            self.misrouted += 1


class SimHost:
    """`ports` by plane number. Packets that arrive within `coalesce_ns` of the first make one batch."""

    __slots__ = (
        "_batches",
        "_clock",
        "_coalesce_ns",
        "_inbox",
        "_observers",
        "_priority_dscps",
        "_timer_at",
        "agent",
        "name",
        "on_progress",
        "ports",
        "taps",
    )

    def __init__(
        self,
        name: str,
        agent: Agent,
        clock: Clock,
        observers: list[Observer],
        priority_dscps: frozenset[int],
        coalesce_ns: int,
    ) -> None:
        self.name = name
        self.agent = agent
        self.ports: dict[int, Egress] = {}
        # Called with each packet on a cable of this host, and whether the host sent it.
        self.taps: list[Callable[[SimPacket, bool], None]] = []
        # Called whenever the agent took packets or ran a timer, before it is asked for packets.
        self.on_progress: Callable[[], None] | None = None
        self._clock = clock
        self._observers = observers
        self._priority_dscps = priority_dscps
        self._coalesce_ns = coalesce_ns
        self._inbox: list[tuple[SimPacket, int]] = []
        self._timer_at: int | None = None
        self._batches = _Pulled(PULL), _Pulled(_PULL_UNQUEUED)

    # ------------------------------------------------------------------ packets in

    def receive(self, packet: SimPacket, port: int) -> None:
        for tap in self.taps:
            tap(packet, False)
        if not self._inbox:
            self._clock.at(self._clock.now + self._coalesce_ns, self._deliver)
        self._inbox.append((packet, port))

    def _deliver(self, _: object) -> None:
        batch = received_batch(self._inbox)
        self._inbox = []
        self.agent.receive(batch, self._clock.now)
        self.pump()

    # ------------------------------------------------------------------ packets out

    def pump(self) -> None:
        """Something may have changed at the endpoint: pull what it wants to send, set its timer."""
        clock = self._clock
        clock.touched = True
        if self.on_progress is not None:
            self.on_progress()
        self._pull()
        deadline = self.agent.next_deadline()
        if deadline is not None and (self._timer_at is None or deadline < self._timer_at):
            self._timer_at = deadline
            clock.at(deadline, self._on_timer, deadline)

    def _pull(self) -> None:
        agent, now = self.agent, self._clock.now
        few, many = self._batches
        pulled = many
        for port in self.ports.values():
            if port.queues:
                pulled = few
                break
        batch = pulled.batch
        while self._has_room() and agent.transmit(batch, now):
            self._launch(pulled, now)
            batch.clear()
        batch.clear()

    def _has_room(self) -> bool:
        any_up = room = False
        for port in self.ports.values():
            if port.up:
                any_up = True
                waiting = port.waiting
                if waiting >= MOST_WAITING:
                    return False
                if waiting < REFILL_BELOW:
                    room = True
        return room or not any_up

    def _launch(self, pulled: _Pulled, now: int) -> None:
        batch = pulled.batch
        for row in range(batch.count):
            data, traffic_class = batch.packet(row), pulled.classes[row]
            for observer in self._observers:
                observer(now, self.name, data)
            destination = int.from_bytes(pulled.destinations[row], "big")
            priority = traffic_class >> 2 in self._priority_dscps
            packet = SimPacket(data, len(data) + OUTER_BYTES, destination, traffic_class, priority)
            egress = self.ports[pulled.ports[row]]
            if self.taps and egress.up:
                for tap in self.taps:
                    tap(packet, True)
            egress.accept(packet)

    # ------------------------------------------------------------------ time

    def _on_timer(self, when: int) -> None:
        if when != self._timer_at:
            return
        self._timer_at = None
        now = self._clock.now
        self.agent.on_timer(now)
        due = self.agent.next_deadline()
        if due is not None and due <= now:
            # It would run for ever, and time would stand still.
            raise SimulationFault(f"a timer of {self.name} is due at {due} ns, when it has just run at {now} ns")
        self.pump()


@cache
def _alone(number: int) -> array[int]:
    """A column of one packet. Nobody writes to it."""
    return array("q", (number,))


def received_batch(arrivals: list[tuple[SimPacket, int]]) -> ReceivedBatch:
    """One batch of these packets and the ports they came in on. A long packet alone is not copied."""
    if len(arrivals) == 1:
        ((packet, port),) = arrivals
        data, length = packet.data, len(packet.data)
        if length < HEADER_ROOM:
            data = data.ljust(HEADER_ROOM, b"\0")
        return ReceivedBatch(data, len(data), 1, _alone(length), _alone(port), _alone(packet.traffic_class))
    lengths = array("q", [len(packet.data) for packet, _ in arrivals])
    room = max(HEADER_ROOM, max(lengths))
    data = b"".join([packet.data.ljust(room, b"\0") for packet, _ in arrivals])
    ports = array("q", [port for _, port in arrivals])
    classes = array("q", [packet.traffic_class for packet, _ in arrivals])
    return ReceivedBatch(data, room, len(arrivals), lengths, ports, classes)
