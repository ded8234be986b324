# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The EVs towards one peer node as endpoint operations take them: which EV a packet gets, and how it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mrc.endpoint.parts.draws import Draws
from mrc.endpoint.parts.numbers import column
from mrc.endpoint.paths.port_set import PortSet
from mrc.endpoint.paths.reverse import ReverseEvs
from mrc.wire import octets
from mrc.wire.compiled import const_u8s, i64s, may_raise, public, python
from mrc.wire.frames import Frames
from mrc.wire.rows import EXTENSION_AT, HEADER_ROOM, fields_at
from mrc.wire.transmit_batch import TransmitBatch

ENDPOINT_QPN = 2
(_DQP_AT,) = fields_at("bth", "reserved")  # where in a packet: dqp_word
_ZEROS: const_u8s = memoryview(bytes(HEADER_ROOM))
_NONE = -1


class NodeEvs:
    """EVs are numbered as the peer node numbers them. `reverse` says what is known of them, `frames` are their ways.

    `service_time`: both ends take the time a packet was held off a reflected timestamp.
    """

    def __init__(self, reverse: ReverseEvs, ports_down: PortSet, draws: Draws) -> None:
        """`ports_down` are the endpoint's local ports that are down."""
        self.reverse = reverse
        self.frames = Frames()
        self.service_time: public[bool] = False
        self._ports_down = ports_down
        self._draws = draws
        self._turn = 0
        # The plane of each column, its local port and whether the peer said that its port there is down; its EVs are
        # those from _first[n] to _first[n + 1] of _members.
        self._planes = 0
        # The EVs found of one plane, and those of all of them: from _starts[n] to _starts[n + 1].
        self._found = 0
        self._divide(0, 0)

    def _divide(self, planes: int, evs: int) -> may_raise[None]:
        """Make the columns, parts of one: each memoryview takes half a kilobyte."""
        rest: i64s
        columns: i64s = column(5 * planes + 2 + 3 * evs)
        self._numbers, self._port = columns[:planes], columns[planes : 2 * planes]
        self._peer_down, self._first = columns[2 * planes : 3 * planes], columns[3 * planes : 4 * planes + 1]
        self._starts, rest = columns[4 * planes + 1 : 5 * planes + 2], columns[5 * planes + 2 :]
        self._members, self._allowed, self._chosen = rest[:evs], rest[evs : 2 * evs], rest[2 * evs :]

    def renew(self, port_of_plane: Mapping[int, int], ports: Sequence[int]) -> python[None]:
        """There are other EVs: the port of each by its number, and the port of each plane."""
        down = {self._numbers[place] for place in range(self._planes) if self._peer_down[place]}
        self._planes = len(port_of_plane)
        self._divide(self._planes, len(ports))
        count = 0
        for place, plane in enumerate(sorted(port_of_plane)):
            self._numbers[place], self._port[place] = plane, port_of_plane[plane]
            self._peer_down[place] = plane in down
            for number, port in enumerate(ports):
                if port == port_of_plane[plane]:
                    self._members[count] = number
                    count += 1
            self._first[place + 1] = count

    def set_peer_port(self, plane: int, up: bool) -> python[None]:
        """The peer's port on a plane went down or came back."""
        for place in range(self._planes):
            if self._numbers[place] == plane:
                self._peer_down[place] = not up

    # ------------------------------------------------------------------ which EV

    def random_ev(self) -> int:
        """A random EV that may be used and whose port is up at both ends, or -1."""
        self._gather(True, False)
        return self._draw(0, self._found) if self._found else _NONE

    def control_ev(self) -> int:
        """The EV the next control packet to this node takes; successive ones alternate planes.

        -1 when there is no plane whose port is up at this end and that has an EV which may be used. Where the peer said
        that every plane is down, one that is up here may be back there unannounced.
        """
        if not (self._find(True) or self._find(False)):
            return _NONE
        self._turn += 1
        return self._draw(self._turn % self._found, self._turn % self._found + 1)

    def _draw(self, first: int, end: int) -> int:
        """One of the EVs found of these planes, each as likely as any other."""
        return self._chosen[self._starts[first] + self._draws.below(self._starts[end] - self._starts[first])]

    def _find(self, minds_peer: bool) -> bool:
        """Find EVs for control packets: known good ones where there are any. False when there is none at all."""
        self._gather(minds_peer, True)
        if not self._found:
            # All of them have lost something.
            self._gather(minds_peer, False)
        return self._found > 0

    def _gather(self, minds_peer: bool, known_good: bool) -> None:
        """Find the EVs that may be used of each plane whose port is up, at the peer's end too if it `minds_peer`."""
        self._found = 0
        for place in range(self._planes):
            if not self._ports_down.holds(self._port[place]) and not (minds_peer and self._peer_down[place]):
                self._add_plane(place, known_good)

    def _add_plane(self, place: int, known_good: bool) -> None:
        at, count = self._starts[self._found], self._allow(place)
        if known_good:
            count = self.reverse.pick(self._allowed, count, self._chosen, at)
            for each in range(at, at + count):
                self._chosen[each] = self._allowed[self._chosen[each]]
        else:
            for each in range(count):
                self._chosen[at + each] = self._allowed[each]
        if count:
            self._found += 1
            self._starts[self._found] = at + count

    def _allow(self, place: int) -> int:
        """Note the EVs of a plane that may be used. Returns how many."""
        count = 0
        for each in range(self._first[place], self._first[place + 1]):
            if self.reverse.may_carry(self._members[each]):
                self._allowed[count] = self._members[each]
                count += 1
        return count

    # ------------------------------------------------------------------ packets

    def open(self, batch: TransmitBatch, number: int, traffic_class: int, length: int) -> int:
        """Append a packet to DQP 2 on this EV, with an extension header of `length` zeros. Returns where in `flat` its
        row begins."""
        at = batch.open_row(self.frames, number, traffic_class, EXTENSION_AT + length) * HEADER_ROOM
        octets.copy(batch.flat, at + EXTENSION_AT, _ZEROS, 0, length)
        octets.put32(batch.flat, at + _DQP_AT, ENDPOINT_QPN)
        return at
