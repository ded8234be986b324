# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The peer nodes of one endpoint by their addresses, as code without the interpreter finds who sent a packet."""

from __future__ import annotations

from array import array

from mrc.endpoint.node import by_handle
from mrc.endpoint.node.operation_rates import OperationRates
from mrc.endpoint.node.peer_node import PeerNode
from mrc.endpoint.parts.numbers import Table
from mrc.wire import octets
from mrc.wire.compiled import any_int, const_u8s, may_raise, python, u8s
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import fields_at

(_SOURCE_AT,) = fields_at("ipv6", "src")
_ADDRESS, _HALF = 16, 8  # bytes of an address, and of its low half
_LOW_HALF: any_int = (1 << 64) - 1
_LEAST_ROOM = 16
_NONE = -1


class PeerTable:
    """Each address of a node, with the local port its packets come in on, has a place here. The places of addresses
    whose low halves hash alike are a chain, those of the node that was added first before the others."""

    def __init__(self, rates: OperationRates) -> None:
        self._rates = rates
        # The first place of a chain, by the hash.
        self._chains = Table(2)
        self._nodes: list[PeerNode | None] = []
        # An array: numbers of their own, freed one by one, would keep memory from the system.
        self._free: array[int] = array("q")
        self._addresses: u8s = memoryview(bytearray())
        self._ports = octets.words(0)
        self._handles = octets.words(0)
        self._rate_slots = octets.words(0)
        self._next = octets.words(0)

    def __dealloc__(self) -> None:
        octets.free_words(self._ports)
        octets.free_words(self._handles)
        octets.free_words(self._rate_slots)
        octets.free_words(self._next)

    def add(self, node: PeerNode) -> may_raise[None]:
        """There is another node."""
        handle: int = self.handle_of(node)
        for port, address in node.sources.items():
            place: int = self._new_place()
            self._nodes[place] = node
            self._handles[place] = handle
            self._ports[place] = port
            octets.put64(self._addresses, place * _ADDRESS, address >> 64)
            octets.put64(self._addresses, place * _ADDRESS + _HALF, address & _LOW_HALF)
            self._rate_slots[place] = self._rates.join(address & _LOW_HALF)
            self._link(place)

    def handle_of(self, node: PeerNode) -> python[int]:
        """The handle (`mrc.endpoint.node.by_handle`) of a node that is in here."""
        return by_handle.of_node(node.evs)

    def _new_place(self) -> python[int]:
        if not self._free:
            room = len(self._nodes)
            more = max(_LEAST_ROOM, room)
            self._free = array("q", range(room + more - 1, room - 1, -1))
            self._nodes += [None] * more
            self._addresses = memoryview(bytearray(self._addresses) + bytes(more * _ADDRESS))
            self._ports = octets.longer_words(self._ports, room, room + more)
            self._handles = octets.longer_words(self._handles, room, room + more)
            self._rate_slots = octets.longer_words(self._rate_slots, room, room + more)
            self._next = octets.longer_words(self._next, room, room + more)
        return self._free.pop()

    def _link(self, place: int) -> None:
        self._next[place] = _NONE
        key = self._hash(self._addresses, place * _ADDRESS)
        at = self._chains.find(key)
        if at == _NONE:
            at = self._chains.put(key)
            self._chains.cells[at + 1] = place
            return
        last = self._chains.cells[at + 1]
        while self._next[last] != _NONE:
            last = self._next[last]
        self._next[last] = place

    def remove(self, node: PeerNode) -> python[None]:
        """A node is gone: nobody has its handle any more."""
        for place in [place for place, each in enumerate(self._nodes) if each is node]:
            self._unlink(place)
            self._rates.leave(octets.u64(self._addresses, place * _ADDRESS + _HALF))
            self._nodes[place] = None
            self._free.append(place)
        by_handle.end_node(self.handle_of(node))

    def _unlink(self, place: int) -> None:
        at = self._chains.find(self._hash(self._addresses, place * _ADDRESS))
        each = self._chains.cells[at + 1]
        if each != place:
            while self._next[each] != place:
                each = self._next[each]
            self._next[each] = self._next[place]
        elif self._next[place] == _NONE:
            self._chains.remove(at)
        else:
            self._chains.cells[at + 1] = self._next[place]

    def _hash(self, view: const_u8s, at: int) -> int:
        """Of the low half of an address."""
        return octets.u32(view, at + _HALF) ^ octets.u32(view, at + _HALF + 4)

    # ------------------------------------------------------------------ who sent a packet

    def find(self, batch: ReceivedBatch, row: int) -> int:
        """The first place whose address has the low half of the packet's source address; -1 without any."""
        base = batch.row(row) + _SOURCE_AT
        at = self._chains.find(self._hash(batch.flat, base))
        place = self._chains.cells[at + 1] if at != _NONE else _NONE
        while place != _NONE and not octets.equal(
            batch.flat, base + _HALF, self._addresses, place * _ADDRESS + _HALF, _HALF
        ):
            place = self._next[place]
        return place

    def sender(self, batch: ReceivedBatch, row: int, place: int) -> int:
        """From `place` on in its chain the first that has the packet's source address and port; -1 without any."""
        base = batch.row(row) + _SOURCE_AT
        while place != _NONE and not (
            self._ports[place] == batch.ports[row]
            and octets.equal(batch.flat, base, self._addresses, place * _ADDRESS, _ADDRESS)
        ):
            place = self._next[place]
        return place

    def senders(self, batch: ReceivedBatch, row: int) -> python[list[PeerNode]]:
        """The nodes that may have sent a packet: they have its source address, and its port for that."""
        nodes = []
        place = self.sender(batch, row, self.find(batch, row))
        while place != _NONE:
            node = self._nodes[place]
            if node is not None:
                nodes.append(node)
            place = self.sender(batch, row, self._next[place])
        return nodes

    def rate_slot(self, place: int) -> int:
        """The slot in `OperationRates` of the address at this place."""
        return self._rate_slots[place]

    def handle(self, place: int) -> int:
        """The handle of the node at this place."""
        return self._handles[place]
