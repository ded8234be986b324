# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Whole batches sent and received: one system call for many packets (`mrc.net.system` has the kernel's structures)."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from mrc.errors import SystemRefused
from mrc.net import system
from mrc.net.outer import OuterHeaders
from mrc.net.ports import UDP_IPV4, UDP_IPV6, Port
from mrc.wire import octets
from mrc.wire.compiled import const_i64s, const_u8s, i64s, public, python, u8s, with_gil
from mrc.wire.ipv4 import IPV4_AT, IPV4_HEADER
from mrc.wire.memory import address_of
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import HEADER_ROOM, UDP_AT
from mrc.wire.transmit_batch import TransmitBatch

# 64-bit words of the kernel's structures, and which of them are what.
_WORD = 8
_MESSAGE = 8
_NAME, _NAME_LENGTH, _PARTS, _PART_COUNT, _CONTROL, _CONTROL_LENGTH, _LENGTH = 0, 1, 2, 3, 4, 5, 7
_PART = 2  # base, length
_PARTS_OF_A_ROW = 3  # header, payload in the application's memory, trailer
# A control message of one 32-bit number: its length; level and type; the number.
_CLASS = 3
_CLASS_KIND, _CLASS_NUMBER = 1, 2
_CLASS_LENGTH = 20
_TYPE_SHIFT = 32
# Bytes: room for control messages that come with a packet, and where the number of the only one is.
_CONTROL_ROOM = 64
_NUMBER_AT = 16
_SOCKADDR = 28  # sockaddr_in6; a sockaddr_in is padded to it
_ADDRESS_AT, _ADDRESS = 8, 16  # of a sockaddr_in6
_TRAILER_ROOM = 8  # bytes; a trailer ends there
_STRETCH = 32  # packets
# So few leave in the order of the batch, whatever their ports: what few packets say depends on their order.
_IN_ORDER = 4
# How packets come: whole, or their IP header kept by the kernel, or an IPv4 one in front of them.
_WHOLE, _WITHOUT_IPV6, _WITH_IPV4 = 0, 1, 2
_VERSION_WORD = 6 << 28
_IP_PROTOCOL_UDP = 17
_MAPPED = 0xFFFF

# The port or the way beyond it is down, or a queue overflowed: to the transport such a packet is lost.
_LOST_ON_THE_WAY: frozenset[int] = frozenset(
    {
        errno.ENETUNREACH,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENOBUFS,
        errno.ENXIO,
        errno.ENODEV,
        errno.EADDRNOTAVAIL,
        errno.ECONNREFUSED,
        errno.EHOSTDOWN,
        errno.EAGAIN,
        errno.EINVAL,
        errno.EACCES,
        errno.EPERM,  # a packet filter
        errno.ENOMEM,
        errno.EMSGSIZE,  # the port's MTU fell: `BatchSender.too_long`
    }
)
_NOTHING_ARRIVED: frozenset[int] = _LOST_ON_THE_WAY | {errno.EINTR}
_AGAIN = errno.EAGAIN


def _words(count: int) -> python[memoryview]:
    return memoryview(bytearray(count * _WORD)).cast("q")


class BatchSender:
    """Sends the packets of a TransmitBatch, each out of its port's socket."""

    _messages: i64s
    _parts: i64s
    _classes: i64s

    def __init__(self, ports: Sequence[Port], batch: TransmitBatch) -> None:
        """`batch` is the one that is sent, filled anew each time."""
        self._batch = batch
        # The ports that refused a packet for its length; the owner empties it.
        self.too_long: public[set[int]] = set()
        self.refused_length: public[bool] = False  # whether there are any
        self.error: public[int] = 0
        # By port number.
        self._port_numbers: int = max(port.port for port in ports) + 1
        self._fds: i64s = _words(self._port_numbers)
        self._kinds: i64s = _words(self._port_numbers)
        for number in range(self._port_numbers):
            self._fds[number] = -1
        for port in ports:
            self._fds[port.port] = port.sender.fileno()
            self._kinds[port.port] = port.framing.class_level | port.framing.class_type << _TYPE_SHIFT
        # Where in its row what is handed to the kernel begins, and what goes before: the same for all ports of a node.
        framing = ports[0].framing
        self._send_from: int = framing.send_from
        self._outer: OuterHeaders | None = OuterHeaders(ports, batch, srh=framing.srh) if framing.outer else None
        self._header_lengths: const_i64s = batch.header_lengths
        # Addresses are below 2**63.
        self._payload_addresses: const_i64s = memoryview(batch.payload_addresses).cast("B").cast("q")
        self._payload_lengths: const_i64s = batch.payload_lengths
        self._trailer_lengths: const_i64s = batch.trailer_lengths
        self._ports: const_i64s = batch.ports
        self._traffic_classes: const_i64s = batch.classes
        outer = self._outer
        self._destinations_at = address_of(batch.flat_destinations if outer is None else outer.flat_destinations)
        self._trailers_at = address_of(batch.flat_trailers)
        self._make_parts(batch)
        self._make_messages(batch.capacity)

    def _make_parts(self, batch: TransmitBatch) -> python[None]:
        """Where the parts of a row lie never changes, but for its payload and where its trailer begins."""
        outer = self._outer
        self._skipped = 0 if outer is None else _PART
        self._row_words = self._skipped + _PARTS_OF_A_ROW * _PART
        self._parts = _words(batch.capacity * self._row_words)
        self._parts_at = address_of(self._parts)
        headers = address_of(batch.flat) + self._send_from
        outer_at = 0 if outer is None else address_of(outer.flat)
        for row in range(batch.capacity):
            at = row * self._row_words
            if outer is not None:
                self._parts[at], self._parts[at + 1] = outer_at + row * outer.length, outer.length
            self._parts[at + self._skipped] = headers + row * HEADER_ROOM
        self._classes = _words(batch.capacity * _CLASS)
        self._classes_at = address_of(self._classes)
        for row in range(batch.capacity):
            self._classes[row * _CLASS] = _CLASS_LENGTH

    def _make_messages(self, capacity: int) -> python[None]:
        """A place for each message in the order of sending, whatever row will be in it."""
        self._messages = _words(capacity * _MESSAGE)
        self._messages_at = address_of(self._messages)
        for at in range(0, capacity * _MESSAGE, _MESSAGE):
            self._messages[at + _NAME_LENGTH] = _SOCKADDR
            self._messages[at + _PART_COUNT] = self._row_words // _PART
            if self._outer is None:
                self._messages[at + _CONTROL_LENGTH] = _CLASS * _WORD

    def send(self) -> int:
        """Send every packet of the batch through the socket of its port, in the batch's order on each port.

        Returns how many the system did not take: the port is down, or its MTU too small. To the transport those are
        lost. When the system refuses for a reason that will not pass, `error` says it and nothing more is sent.
        """
        # One port after the other, but only a stretch at a time: a port that always came last would look slow, and
        # what it carries lost, to a peer that counts in the order of transmission.
        count = self._batch.count
        stretch = 1 if count <= _IN_ORDER else _STRETCH
        refused = place = begun = start = 0
        running = -1
        while start < count and not self.error:
            stop = min(start + stretch, count)
            for port in range(self._port_numbers):
                for row in range(start, stop):
                    if self._ports[row] != port:
                        continue
                    if port != running:
                        refused += self._send_run(running, begun, place)
                        running, begun = port, place
                    self._put(place, row)
                    place += 1
            start = stop
        return refused + self._send_run(running, begun, place)

    def _put(self, place: int, row: int) -> None:
        """Make the message in this place that of this row."""
        at, trailer = row * self._row_words + self._skipped, self._trailer_lengths[row]
        self._parts[at + 1] = self._header_lengths[row] - self._send_from
        self._parts[at + 2] = self._payload_addresses[row]
        self._parts[at + 3] = self._payload_lengths[row]
        self._parts[at + 4] = self._trailers_at + (row + 1) * _TRAILER_ROOM - trailer
        self._parts[at + 5] = trailer
        message = place * _MESSAGE
        if self._outer is not None:
            self._outer.write(row)
        else:
            self._classes[row * _CLASS + _CLASS_KIND] = self._kinds[self._ports[row]]
            self._classes[row * _CLASS + _CLASS_NUMBER] = self._traffic_classes[row]
            self._messages[message + _CONTROL] = self._classes_at + row * _CLASS * _WORD
        self._messages[message + _NAME] = self._destinations_at + row * _SOCKADDR
        self._messages[message + _PARTS] = self._parts_at + row * self._row_words * _WORD

    def _send_run(self, port: int, place: int, stop: int) -> int:
        """Send the messages in these places out of one port. Returns how many the system did not take."""
        refused = 0
        while place < stop and not self.error:
            sent = system.send(self._fds[port], self._messages_at + place * _MESSAGE * _WORD, stop - place)
            if sent < 0:
                self._lose(port, -sent)
                refused += 1
                sent = 1
            place += sent
        return refused

    def _lose(self, port: int, error: int) -> with_gil[None]:
        """Note why the system did not take a packet."""
        if error == errno.EMSGSIZE:
            self.too_long.add(port)
            self.refused_length = True
        if error not in _LOST_ON_THE_WAY:
            self.error = error

    def check(self) -> python[None]:
        """Raises SystemRefused when the system refused for a reason that will not pass, or what the handler of a signal
        raised meanwhile."""
        if self.error:
            error, self.error = self.error, 0
            system.raise_signal()
            raise SystemRefused(error, f"sending failed: {os.strerror(error)}")


class BatchReceiver:
    """Receives from several ports into one batch: up to `rows` packets of up to `room` bytes, in its own memory."""

    _control: u8s
    _names: u8s
    _messages: i64s
    _parts: i64s
    _fds: i64s
    _numbers: i64s
    _receive_at: i64s
    _forms: i64s

    def __init__(self, ports: Sequence[Port], rows: int, room: int) -> None:
        self._rows = rows
        self._room = room
        self._port_count: int = len(ports)
        self._fds, self._numbers, self._receive_at, self._forms = (_words(len(ports)) for _ in range(4))
        self._addresses: const_u8s = memoryview(b"".join(port.local_address for port in ports))
        for index, port in enumerate(ports):
            self._fds[index] = port.receiver.fileno()
            self._numbers[index] = port.port
            self._receive_at[index] = port.framing.receive_at
            self._forms[index] = {UDP_IPV6: _WITHOUT_IPV6, UDP_IPV4: _WITH_IPV4}.get(port.framing, _WHOLE)
        framings = {port.framing for port in ports}
        self._mixed = len(framings) > 1
        # What comes before a row ends up in the last bytes of the one before it, which no packet is long enough for.
        before = max(0, *(-port.framing.receive_at for port in ports))
        data = memoryview(bytearray(before + rows * room))[before:]
        self._data_at = address_of(data)
        self._bytes: u8s = data
        self._over_ipv4 = UDP_IPV4 in framings
        ipv4 = memoryview(bytearray(rows * IPV4_HEADER if self._over_ipv4 else 0))
        self._ipv4: u8s = ipv4
        ports_of, lengths, classes = _words(rows), _words(rows), _words(rows)
        self._ports: i64s = ports_of
        self._lengths: i64s = lengths
        self._traffic_classes: i64s = classes
        # The same for every call: only how many packets are in it changes.
        self.batch = ReceivedBatch(data, room, rows, lengths, ports_of, classes, ipv4 if self._over_ipv4 else None)
        # Over IPv6 the sender's address comes beside the packet, otherwise inside it.
        self._name_room = _SOCKADDR if UDP_IPV6 in framings else 0
        self._make_messages()
        # Whether the last call may have left packets behind: a port filled its share of the rows.
        self.more = False
        self.error: public[int] = 0

    def _make_messages(self) -> python[None]:
        rows = self._rows
        self._messages, self._parts = _words(rows * _MESSAGE), _words(rows * _PART)
        self._messages_at = address_of(self._messages)
        self._control = memoryview(bytearray(rows * _CONTROL_ROOM))
        self._names = memoryview(bytearray(rows * _SOCKADDR))
        parts, control, names = address_of(self._parts), address_of(self._control), address_of(self._names)
        for row in range(rows):
            at = row * _MESSAGE
            self._messages[at + _NAME] = names + row * _SOCKADDR if self._name_room else 0
            self._messages[at + _NAME_LENGTH] = self._name_room
            self._messages[at + _PARTS] = parts + row * _PART * _WORD
            self._messages[at + _PART_COUNT] = 1
            self._messages[at + _CONTROL] = control + row * _CONTROL_ROOM
            self._messages[at + _CONTROL_LENGTH] = _CONTROL_ROOM
            self._aim(row, self._receive_at[0])

    def receive(self) -> int:
        """Take what has arrived into `batch`, where it is until the next call. Returns how many packets.

        When a socket is broken `error` says why.
        """
        start = 0
        self.more = False
        for index in range(self._port_count):
            # A busy port leaves the others their share of the rows.
            most = (self._rows - start) // (self._port_count - index)
            if self._mixed:
                for row in range(start, start + most):
                    self._aim(row, self._receive_at[index])
            count = system.receive(self._fds[index], self._messages_at + start * _MESSAGE * _WORD, most)
            if count < 0:
                self._note(-count)
            elif count > 0:
                if count == most:
                    self.more = True
                for row in range(start, start + count):
                    self._take(index, row)
                start += count
        self.batch.count = start
        return start

    def _note(self, error: int) -> None:
        """Nothing came, or the socket is broken."""
        if error != _AGAIN:
            self._fail(error)

    def _fail(self, error: int) -> with_gil[None]:
        if error not in _NOTHING_ARRIVED:
            self.error = error

    def check(self) -> python[None]:
        """Raises SystemRefused when a socket is broken."""
        if self.error:
            error, self.error = self.error, 0
            raise SystemRefused(error, f"receiving failed: {os.strerror(error)}")

    def _aim(self, row: int, offset: int) -> None:
        """Let a packet begin at this byte of its row."""
        self._parts[row * _PART] = self._data_at + row * self._room + offset
        self._parts[row * _PART + 1] = self._room - max(0, offset)

    def _take(self, index: int, row: int) -> None:
        """Note what came with a packet from this port, and complete its IP header where the kernel kept it."""
        message, form = row * _MESSAGE, self._forms[index]
        self._ports[row] = self._numbers[index]
        self._lengths[row] = self._messages[message + _LENGTH] + self._receive_at[index]
        if form == _WITH_IPV4:
            self._complete_ipv4(row)
        else:
            if form == _WITHOUT_IPV6:
                self._complete_ipv6(index, row)
            else:
                self._traffic_classes[row] = octets.le32(self._control, row * _CONTROL_ROOM + _NUMBER_AT)
            if self._over_ipv4:
                octets.put64(self._ipv4, row * IPV4_HEADER, 0)
                octets.put64(self._ipv4, row * IPV4_HEADER + 8, 0)
                octets.put32(self._ipv4, row * IPV4_HEADER + 16, 0)
        # The kernel has written over these.
        self._messages[message + _NAME_LENGTH] = self._name_room
        self._messages[message + _CONTROL_LENGTH] = _CONTROL_ROOM

    def _complete_ipv6(self, index: int, row: int) -> None:
        # Traffic class and flow label come as the header's first word; nothing comes when both are 0.
        has_control = self._messages[row * _MESSAGE + _CONTROL_LENGTH] != 0
        word = octets.u32(self._control, row * _CONTROL_ROOM + _NUMBER_AT) if has_control else 0
        at = row * self._room
        octets.put32(self._bytes, at, _VERSION_WORD | word)
        octets.put16(self._bytes, at + 4, self._lengths[row] - UDP_AT)
        self._bytes[at + 6] = _IP_PROTOCOL_UDP
        octets.copy(self._bytes, at + 8, self._names, row * _SOCKADDR + _ADDRESS_AT, _ADDRESS)
        octets.copy(self._bytes, at + 24, self._addresses, index * _ADDRESS, _ADDRESS)
        self._traffic_classes[row] = word >> 20 & 0xFF

    def _complete_ipv4(self, row: int) -> None:
        """As `mrc.wire.header_rows.shape_rows`."""
        at, header = row * self._room, row * IPV4_HEADER
        octets.copy(self._ipv4, header, self._bytes, at + IPV4_AT, IPV4_HEADER)
        tos = self._ipv4[header + 1]
        octets.put32(self._bytes, at, _VERSION_WORD | tos << 20)
        octets.put16(self._bytes, at + 4, octets.u16(self._ipv4, header + 2) - IPV4_HEADER)
        self._bytes[at + 6] = self._ipv4[header + 9]
        self._bytes[at + 7] = self._ipv4[header + 8]
        self._map(at + 8, header + 12)
        self._map(at + 24, header + 16)
        self._traffic_classes[row] = tos

    def _map(self, address: int, plain: int) -> None:
        """Write the IPv4-mapped address of a plain one in the headers received."""
        octets.put64(self._bytes, address, 0)
        octets.put32(self._bytes, address + 8, _MAPPED)
        octets.copy(self._bytes, address + 12, self._ipv4, plain, 4)
