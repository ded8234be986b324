# SPDX-License-Identifier: BSD-2-Clause
"""One direction of a cable: the egress queue in front of it, what it does to packets, and what it counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from mrc.endpoint.traffic_class import CE, ECN_MASK
from mrc.errors import CallerError
from mrc.sim.clock import LAST, Clock
from mrc.wire.profile import WireProfile
from mrc.wire.rows import EXTENSION_AT

OUTER_BYTES = 40  # the outer IPv6 header
ETHERNET_FRAMING_BYTES = 38  # header and FCS 18, preamble, start delimiter and gap 20
LEAST_TRIMMED_BYTES = OUTER_BYTES + EXTENSION_AT
_NS_BITS = 8 * 1_000_000_000
# More bytes than any packet has, and more egresses than there are.
_LONGEST = 1 << 20
_CHANCES = ("loss", "duplicate", "reorder", "corrupt", "mark")


@dataclass(frozen=True, slots=True)
class LinkModel:
    """What one direction of a link is like. Chances are 0..1 per packet. Raises CallerError outside the ranges.

    `rate_bps` in bit/s; None: no serialisation and no queue. `delay_ns` is propagation. Queue sizes count whole IP
    packets that wait (not the one being sent), in bytes, the arriving packet included: above `ecn_at_bytes` it is
    marked CE, above `trim_at_bytes` it is trimmed, or dropped if its codepoint forbids that, above `queue_bytes` it is
    dropped; None: never. The priority queue (control and trimmed packets) has room for `queue_bytes` of its own.

    `trim_to_bytes`: what is kept of a trimmed packet, in bytes of the whole IP packet, at least 100; what is no longer
    passes uncut with the codepoint. None: through the BTH and `WireProfile.trim_keeps_after_bth` more. All lengths in a
    trimmed packet keep their old value, as switches of the field leave them.

    With chance `reorder` a packet takes up to `jitter_ns` more, so that later ones overtake it. A duplicated packet
    arrives twice, a corrupted one with a bit turned over; `mark` is the chance of CE whatever the queue.
    """

    rate_bps: int | None = None
    delay_ns: int = 1_000
    queue_bytes: int | None = None
    ecn_at_bytes: int | None = None
    trim_at_bytes: int | None = None
    trim_to_bytes: int | None = None
    framing_bytes: int = ETHERNET_FRAMING_BYTES
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    jitter_ns: int = 0
    corrupt: float = 0.0
    mark: float = 0.0

    def __post_init__(self) -> None:
        for name in _CHANCES:
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise CallerError(f"{name} is a chance from 0 to 1, got {getattr(self, name)}")
        if self.rate_bps is not None and self.rate_bps < 1:
            raise CallerError(f"rate_bps must be at least 1, or None for a link that never queues, got {self.rate_bps}")
        for name in ("delay_ns", "jitter_ns", "framing_bytes", "queue_bytes", "ecn_at_bytes", "trim_at_bytes"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise CallerError(f"{name} cannot be negative, got {value}")
        if self.trim_to_bytes is not None and self.trim_to_bytes < LEAST_TRIMMED_BYTES:
            raise CallerError(
                f"trim_to_bytes must be at least {LEAST_TRIMMED_BYTES}, the headers through the BTH, "
                f"got {self.trim_to_bytes}"
            )

    def serialisation_ns(self, size: int) -> int:
        """How long an IP packet of `size` bytes occupies the link, rounded down to whole ns, and 1 at least."""
        return 0 if self.rate_bps is None else max((size + self.framing_bytes) * _NS_BITS // self.rate_bps, 1)

    @property
    def plays_dice(self) -> bool:
        """Whether anything about it is random."""
        return any(getattr(self, name) for name in _CHANCES)


@dataclass(slots=True)
class LinkCounters:
    """One direction of one link. Packets and bytes (of whole IP packets) count what was put on the cable.

    `trimmed` were cut, what passed uncut is not counted; `dropped` found the queue full; `lost` vanished on the cable,
    or in the queue of a link that went down.
    """

    packets: int = 0
    bytes: int = 0
    marked: int = 0
    trimmed: int = 0
    dropped: int = 0
    lost: int = 0
    duplicated: int = 0
    corrupted: int = 0
    queue_high_water_bytes: int = 0

    def as_dict(self) -> dict[str, int]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


class SimPacket:
    """A packet under way. `data` runs from the inner IPv6 header on and is shared by all hops.

    `size` counts the outer header; `destination` (128 bit) and `traffic_class` are the outer header's; `epoch` is that
    of the link it is on.
    """

    __slots__ = ("data", "destination", "epoch", "priority", "size", "traffic_class")

    def __init__(self, data: bytes, size: int, destination: int, traffic_class: int, priority: bool) -> None:
        self.data = data
        self.size = size
        self.destination = destination
        self.traffic_class = traffic_class
        self.priority = priority
        self.epoch = 0

    def copy(self) -> SimPacket:
        return SimPacket(self.data, self.size, self.destination, self.traffic_class, self.priority)


@dataclass(frozen=True, slots=True)
class Codepoints:
    """What a switch knows of DSCP (wire.md section 12). `trimmed` is the one this egress writes."""

    trimmable: frozenset[int]
    priority: frozenset[int]
    trimmed: int
    trimmed_length: int

    @classmethod
    def of(cls, wire: WireProfile, *, last_hop: bool) -> Codepoints:
        return cls(
            frozenset((wire.dscp_trimmable, wire.dscp_trimmable_retx)),
            frozenset((wire.dscp_control, *wire.trimmed_dscps)),
            wire.dscp_trimmed_lasthop if last_hop else wire.dscp_trimmed,
            EXTENSION_AT + wire.trim_keeps_after_bth,
        )


class Egress:
    """The port of one node towards another: strict priority over a drop-tail data queue, then the cable.

    `lose_if(packet, number)` is asked for each packet put on the cable, numbered from 1, and loses those it wants.
    `on_room` is called when a packet has left the queue. Of packets that arrive in the same nanosecond those come first
    whose egresses have a `rank`: the longest, which began first, then in the order of ranks.
    """

    __slots__ = (
        "_arrive_event",
        "_clock",
        "_codepoints",
        "_data",
        "_data_bytes",
        "_delay_ns",
        "_deliver",
        "_dice",
        "_epoch",
        "_free_at",
        "_free_event",
        "_free_scheduled",
        "_loss",
        "_model",
        "_priority",
        "_priority_bytes",
        "_random",
        "_takes",
        "counters",
        "lose_if",
        "name",
        "on_room",
        "queues",
        "rank",
        "toward",
        "up",
        "waiting",
    )

    def __init__(
        self,
        name: str,
        toward: str,
        model: LinkModel,
        deliver: Callable[[SimPacket], None],
        clock: Clock,
        codepoints: Codepoints,
        random: np.random.Generator,
    ) -> None:
        self.name = name
        self.toward = toward
        self.up = True
        self.waiting = 0  # packets in the queues, the one being sent not among them
        self.counters = LinkCounters()
        self.lose_if: Callable[[SimPacket, int], bool] | None = None
        self.on_room: Callable[[], None] | None = None
        self.rank = LAST
        self._clock = clock
        self._codepoints = codepoints
        self._random = random
        self._deliver = deliver
        self._data: deque[SimPacket] = deque()
        self._priority: deque[SimPacket] = deque()
        self._data_bytes = 0
        self._priority_bytes = 0
        self._free_at = 0
        self._free_scheduled = False
        self._epoch = 0  # times the link went down: what was on it before is gone
        self._arrive_event = self._arrive
        self._free_event = self._free
        self.model = model

    @property
    def model(self) -> LinkModel:
        """What the link does to packets in this direction. Set it to change all of it; `set` changes some."""
        return self._model

    @model.setter
    def model(self, model: LinkModel) -> None:
        self._model = model
        # What is asked for each packet. `queues`: whether packets may wait here at all.
        self.queues = model.rate_bps is not None
        self._loss = model.loss
        self._dice = (replace(model, loss=0.0) if model.loss else model).plays_dice
        self._delay_ns = model.delay_ns
        self._takes: dict[int, int] = {}  # how long packets of each size occupy the link, ns

    def set(self, **changes: Any) -> None:
        """Change fields of the model from now on: `set(loss=0.2)`. What waits already stays where it is."""
        unknown = set(changes) - {field.name for field in fields(LinkModel)}
        if unknown:
            raise CallerError(f"a link has no {', '.join(sorted(unknown))}")
        self.model = replace(self._model, **changes)

    def lose_number(self, *numbers: int) -> None:
        """Lose the n-th packets put on the cable from now on, counted from 1."""
        before = self.counters.packets
        wanted = {before + number for number in numbers}
        self.lose_if = lambda packet, number: number in wanted

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait for the link, of data and control packets."""
        return self._data_bytes + self._priority_bytes

    # ------------------------------------------------------------------ into the queue

    def accept(self, packet: SimPacket) -> None:
        """A packet is to leave by this port: now, after those that wait, or not at all."""
        if not self.up:
            self.counters.lost += 1
            return
        clock = self._clock
        if not self.queues:
            self._launch(packet, clock.now)
            return
        if not self._free_scheduled and clock.now >= self._free_at:
            self._serialise(packet, clock.now)
            return
        model = self._model
        if not packet.priority:
            held = self._data_bytes + packet.size
            if model.trim_at_bytes is not None and held > model.trim_at_bytes:
                if packet.traffic_class >> 2 not in self._codepoints.trimmable:
                    self.counters.dropped += 1
                    return
                self._trim(packet)
            elif model.queue_bytes is not None and held > model.queue_bytes:
                self.counters.dropped += 1
                return
            else:
                if model.ecn_at_bytes is not None and held > model.ecn_at_bytes:
                    self._mark(packet)
                self._data.append(packet)
                self._data_bytes = held
        if packet.priority:
            held = self._priority_bytes + packet.size
            if model.queue_bytes is not None and held > model.queue_bytes:
                self.counters.dropped += 1
                return
            self._priority.append(packet)
            self._priority_bytes = held
        self.waiting += 1
        if self._data_bytes + self._priority_bytes > self.counters.queue_high_water_bytes:
            self.counters.queue_high_water_bytes = self._data_bytes + self._priority_bytes
        if not self._free_scheduled:
            self._free_scheduled = True
            clock.at(self._free_at, self._free_event, self._epoch)

    def _mark(self, packet: SimPacket) -> None:
        if packet.traffic_class & ECN_MASK:  # ECN-capable
            packet.traffic_class |= CE
            self.counters.marked += 1

    def _trim(self, packet: SimPacket) -> None:
        """Cut what is longer than is kept, rewrite the outermost DSCP, forward with priority."""
        wanted = self._model.trim_to_bytes
        kept = packet.data[: self._codepoints.trimmed_length if wanted is None else wanted - OUTER_BYTES]
        self.counters.trimmed += len(kept) < len(packet.data)
        packet.size -= len(packet.data) - len(kept)
        packet.data = kept
        packet.traffic_class = self._codepoints.trimmed << 2 | packet.traffic_class & ECN_MASK
        packet.priority = True

    # ------------------------------------------------------------------ onto the cable

    def _free(self, epoch: int) -> None:
        """The last bit of a packet is out while others wait."""
        if epoch != self._epoch:
            return
        if self._priority:
            packet = self._priority.popleft()
            self._priority_bytes -= packet.size
        else:
            packet = self._data.popleft()
            self._data_bytes -= packet.size
        self.waiting -= 1
        self._serialise(packet, self._clock.now)
        self._free_scheduled = self.waiting > 0
        if self._free_scheduled:
            self._clock.at(self._free_at, self._free_event, epoch)
        if self.on_room is not None:
            self.on_room()

    def _serialise(self, packet: SimPacket, now: int) -> None:
        size = packet.size
        takes = self._takes.get(size)
        if takes is None:
            takes = self._takes[size] = self._model.serialisation_ns(size)
        self._free_at = free_at = now + takes
        self._launch(packet, free_at)

    def _launch(self, packet: SimPacket, when: int) -> None:
        """The packet's last bit is on the cable at `when`."""
        counters = self.counters
        counters.packets += 1
        counters.bytes += packet.size
        if self.lose_if is not None and self.lose_if(packet, counters.packets):
            counters.lost += 1
            return
        packet.epoch = self._epoch
        rank = self.rank
        if rank != LAST:
            rank += (_LONGEST - packet.size) * _LONGEST
        if self._loss and self._random.random() < self._loss:
            counters.lost += 1
        elif self._dice:
            self._launch_with_dice(packet, when, rank)
        else:
            self._clock.at(when + self._delay_ns, self._arrive_event, packet, rank)

    def _launch_with_dice(self, packet: SimPacket, when: int, rank: int) -> None:
        model, counters, chance = self._model, self.counters, self._random.random
        if model.mark and chance() < model.mark:
            self._mark(packet)
        copies = [packet]
        if model.duplicate and chance() < model.duplicate:
            counters.duplicated += 1
            copies.append(packet.copy())
            copies[1].epoch = self._epoch
        for each in copies:
            if model.corrupt and chance() < model.corrupt:
                counters.corrupted += 1
                each.data = self._corrupted(each.data)
            late = 0
            if model.reorder and chance() < model.reorder:
                late = int(self._random.integers(model.jitter_ns + 1))
            self._clock.at(when + model.delay_ns + late, self._arrive_event, each, rank)

    def _corrupted(self, data: bytes) -> bytes:
        damaged = bytearray(data)
        damaged[int(self._random.integers(len(damaged)))] ^= 1 << int(self._random.integers(8))
        return bytes(damaged)

    def _arrive(self, packet: SimPacket) -> None:
        if packet.epoch == self._epoch:
            self._deliver(packet)
        else:
            self.counters.lost += 1

    # ------------------------------------------------------------------ down and up

    def set_up(self, up: bool) -> None:
        """Going down loses what waits and what is on the cable."""
        if up == self.up:
            return
        self.up = up
        if not up:
            self._epoch += 1
            self.counters.lost += self.waiting
            self._data.clear()
            self._priority.clear()
            self.waiting = 0
            self._data_bytes = self._priority_bytes = 0
            self._free_scheduled = False
            self._free_at = self._clock.now
