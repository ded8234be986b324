"""sendmmsg and recvmmsg on whole batches: one system call for many packets.

The kernel's structures are numpy arrays laid out as on 64-bit Linux, filled by column:

    struct mmsghdr  64 bytes: name, namelen, iov, iovlen, control, controllen, flags, len
    struct iovec    16 bytes: base, len
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mrc.errors import SystemRefused
from mrc.net.outer import OuterHeaders
from mrc.net.ports import UDP_IPV4, UDP_IPV6, Port
from mrc.wire.ipv4 import IPV4_AT, IPV4_HEADER, shape_rows
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import COMMON, HEADER_ROOM, UDP_AT
from mrc.wire.transmit_batch import TransmitBatch

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]

_MMSGHDR = np.dtype(
    {
        "names": ["name", "namelen", "iov", "iovlen", "control", "controllen", "flags", "len"],
        "formats": ["u8", "u4", "u8", "u8", "u8", "u8", "i4", "u4"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56],
        "itemsize": 64,
    }
)
_IOVEC = np.dtype([("base", "u8"), ("len", "u8")])
_IOVECS = 3  # header, payload in the application's memory, trailer
_THREE_IOVECS = struct.Struct("=6Q")
# So few packets cost less one by one than arrays of them do.
_FEW = 4
_CONTROL_ROOM = 64
_MAX_PORTS = 16
_STRETCH = 32  # packets
_SOCKADDR = 28  # sockaddr_in6; a sockaddr_in is padded to it
_CMSG = 24  # a control message of one 32-bit number: length(8) level(4) type(4) number(4) padding(4)
_CMSG_NUMBER = struct.Struct("=Qii8x")
_NUMBER = struct.Struct("=I")
_CMSG_KIND, _CMSG_DATA = 8, 16  # both multiples of 4
_MSG_DONTWAIT = 0x40
_IP_PROTOCOL_UDP = 17

_libc = ctypes.CDLL(None, use_errno=True)
_sendmmsg, _recvmmsg = _libc.sendmmsg, _libc.recvmmsg
_sendmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
_recvmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p]

# The port or the way beyond it is down, or a queue overflowed: to the transport such a packet is lost.
_LOST_ON_THE_WAY = frozenset(
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


def _address(array: npt.NDArray[np.generic]) -> int:
    return int(array.__array_interface__["data"][0])


class BatchSender:
    """Sends the packets of a TransmitBatch, each out of its port's socket.

    A message per row of the batch: where its parts lie never changes, only how long they are and where payload is.
    """

    __slots__ = (
        "_batch",
        "_class_numbers",
        "_classes",
        "_few_headers",
        "_few_trailer_ends",
        "_flat_iovecs",
        "_iovecs",
        "_iovecs_at",
        "_iovecs_step",
        "_kind_of_port",
        "_kinds",
        "_message_base",
        "_messages",
        "_mixed",
        "_ordered",
        "_ordered_base",
        "_outer",
        "_send_from",
        "_sockets",
        "_stretches",
        "_trailer_ends",
        "too_long",
    )

    def __init__(self, ports: Sequence[Port], batch: TransmitBatch) -> None:
        """`batch` is the one that is sent, filled anew each time."""
        self._batch = batch
        capacity = batch.capacity
        rows = np.arange(capacity, dtype=np.uint64)
        self._sockets = {port.port: port.sender.fileno() for port in ports}
        # The ports that refused a packet for its length; the owner empties it.
        self.too_long: set[int] = set()
        # Where in its row what is handed to the kernel begins, and what goes before: the same for all ports of a node.
        framing = ports[0].framing
        self._send_from = framing.send_from
        self._outer = OuterHeaders(ports, batch, srh=framing.srh) if framing.outer else None
        kinds = {port.port: (port.framing.class_level, port.framing.class_type) for port in ports}
        self._mixed = len(set(kinds.values())) > 1
        self._kind_of_port = np.zeros((_MAX_PORTS, 2), np.int32)
        for number, kind in kinds.items():
            self._kind_of_port[number] = kind
        first = int(framing.outer)  # the part before the others
        parts = np.zeros((capacity, first + _IOVECS), _IOVEC)
        self._iovecs = parts[:, first:]
        self._flat_iovecs = parts.view(np.uint8).reshape(-1).data
        self._iovecs_at, self._iovecs_step = first * _IOVEC.itemsize, parts.shape[1] * _IOVEC.itemsize
        self._iovecs["base"][:, 0] = _address(batch.headers) + self._send_from + rows * HEADER_ROOM
        self._trailer_ends = _address(batch.trailers) + (rows + 1) * np.uint64(batch.trailers.itemsize * 8)
        self._few_headers: list[int] = self._iovecs["base"][:_FEW, 0].tolist()
        self._few_trailer_ends: list[int] = self._trailer_ends[:_FEW].tolist()
        self._classes: U8 = np.zeros((capacity, _CONTROL_ROOM), np.uint8)
        message = _CMSG_NUMBER.pack(_CMSG_DATA + 4, *kinds[ports[0].port])
        self._classes[:, :_CMSG] = np.frombuffer(message, np.uint8)
        self._class_numbers = self._classes.view(np.int32)[:, _CMSG_DATA // 4]
        self._kinds = self._classes.view(np.int32)[:, _CMSG_KIND // 4 : _CMSG_DATA // 4]
        self._messages = np.zeros(capacity, _MMSGHDR)
        destinations = batch.destination
        if self._outer is not None:
            destinations, outer = self._outer.destinations, self._outer.rows
            parts["base"][:, 0] = _address(outer) + rows * np.uint64(outer.shape[1])
            parts["len"][:, 0] = outer.shape[1]
        else:
            self._messages["control"] = _address(self._classes) + rows * _CONTROL_ROOM
            self._messages["controllen"] = _CMSG
        self._messages["name"] = _address(destinations) + rows * _SOCKADDR
        self._messages["namelen"] = _SOCKADDR
        self._messages["iov"] = _address(parts) + rows * self._iovecs_step
        self._messages["iovlen"] = parts.shape[1]
        self._message_base = _address(self._messages)
        self._ordered = np.zeros(capacity, _MMSGHDR)
        self._ordered_base = _address(self._ordered)
        self._stretches = np.arange(capacity) // _STRETCH * _MAX_PORTS

    def send(self) -> int:
        """Send every packet of the batch through the socket of its port, in the batch's order on each port.

        Returns how many the system did not take: the port is down, or its MTU too small. To the transport those are
        lost.
        Raises SystemRefused when the system refuses for a reason that will not pass.
        """
        batch, count = self._batch, self._batch.count
        if not count:
            return 0
        if count <= _FEW and not self._mixed:
            return sum(self._send_one(row) for row in range(count))
        iovecs, trailer = self._iovecs[:count], batch.trailer_length[:count]
        bases, lengths = iovecs["base"], iovecs["len"]
        lengths[:, 0] = batch.header_length[:count] - self._send_from
        bases[:, 1] = batch.payload_address[:count]
        lengths[:, 1] = batch.payload_length[:count]
        bases[:, 2] = self._trailer_ends[:count] - trailer.view(np.uint64)
        lengths[:, 2] = trailer
        if self._outer is not None:
            self._outer.fill(count)
        else:
            self._class_numbers[:count] = batch.traffic_class[:count]
        ports = batch.port[:count]
        if self._mixed:
            self._kinds[:count] = self._kind_of_port[ports]
        first = int(ports[0])
        if count == 1 or bool((ports == first).all()):
            return self._send_run(first, self._message_base, count)
        # One port after the other, but only a stretch at a time: a port that always came last would look slow, and
        # what it carries lost, to a peer that counts in the order of transmission.
        runs = self._stretches[:count] + ports
        order = np.argsort(runs, kind="stable")
        ordered = self._ordered
        ordered[:count] = self._messages[order]
        base = self._ordered_base
        refused = 0
        runs = runs[order]
        starts = [0, *(np.flatnonzero(runs[1:] != runs[:-1]) + 1).tolist(), count]
        for start, stop in itertools.pairwise(starts):
            port = int(runs[start]) % _MAX_PORTS
            refused += self._send_run(port, base + start * _MMSGHDR.itemsize, stop - start)
        return refused

    def _send_one(self, row: int) -> int:
        """Send one packet, its message filled in plain numbers."""
        batch = self._batch
        trailer, headers, ends = int(batch.trailer_length[row]), self._few_headers[row], self._few_trailer_ends[row]
        _THREE_IOVECS.pack_into(
            self._flat_iovecs,
            row * self._iovecs_step + self._iovecs_at,
            headers,
            int(batch.header_length[row]) - self._send_from,
            int(batch.payload_address[row]),
            int(batch.payload_length[row]),
            ends - trailer,
            trailer,
        )
        if self._outer is not None:
            self._outer.fill_one(row)
        else:
            self._class_numbers[row] = batch.traffic_class[row]
        return self._send_run(int(batch.port[row]), self._message_base + row * _MMSGHDR.itemsize, 1)

    def _send_run(self, port: int, first: int, count: int) -> int:
        fd = self._sockets[port]
        refused = done = 0
        while done < count:
            sent = _sendmmsg(fd, first + done * _MMSGHDR.itemsize, count - done, 0)
            if sent > 0:
                done += sent
                continue
            error = ctypes.get_errno()
            if error == errno.EINTR:
                continue
            if error == errno.EMSGSIZE:
                self.too_long.add(port)
            if error not in _LOST_ON_THE_WAY:
                raise SystemRefused(error, f"sending failed: {os.strerror(error)}")
            refused += 1
            done += 1
        return refused


class BatchReceiver:
    """Receives from several ports into one batch: up to `rows` packets of up to `room` bytes, in its own memory."""

    __slots__ = (
        "_base",
        "_bases",
        "_control",
        "_control_lengths",
        "_data",
        "_fields",
        "_flat_control",
        "_iovecs",
        "_ipv4",
        "_last",
        "_length",
        "_lengths",
        "_messages",
        "_mixed",
        "_name_lengths",
        "_named",
        "_names",
        "_number",
        "_port",
        "_ports",
        "_room",
        "_rows",
        "_traffic_class",
        "more",
    )

    def __init__(self, ports: Sequence[Port], rows: int, room: int) -> None:
        self._ports = [(port, port.receiver.fileno()) for port in ports]
        self._rows = rows
        self._room = room
        # What comes before a row ends up in the last bytes of the one before it, which no packet is long enough for.
        before = max(0, *(-port.framing.receive_at for port in ports))
        self._data: U8 = np.zeros(before + rows * room, np.uint8)[before:].reshape(rows, room)
        self._fields = np.ndarray((rows,), COMMON, self._data, 0, (room,))
        self._port = np.zeros(rows, np.int64)
        self._length = np.zeros(rows, np.int64)
        self._traffic_class = np.zeros(rows, np.int64)
        self._messages = np.zeros(rows, _MMSGHDR)
        self._iovecs = np.zeros(rows, _IOVEC)
        self._control: U8 = np.zeros((rows, _CONTROL_ROOM), np.uint8)
        self._flat_control = self._control.reshape(-1).data
        self._names: U8 = np.zeros((rows, _SOCKADDR), np.uint8)
        framings = {port.framing for port in ports}
        self._ipv4: U8 | None = np.zeros((rows, IPV4_HEADER), np.uint8) if UDP_IPV4 in framings else None
        # Over IPv6 the sender's address comes beside the packet, otherwise inside it.
        self._named = UDP_IPV6 in framings
        self._mixed = len(framings) > 1
        self._bases = _address(self._data) + np.arange(rows) * room
        self._aim(0, rows, ports[0].framing.receive_at)
        self._messages["iov"] = _address(self._iovecs) + np.arange(rows) * _IOVEC.itemsize
        self._messages["iovlen"] = 1
        self._messages["control"] = _address(self._control) + np.arange(rows) * _CONTROL_ROOM
        if self._named:
            self._messages["name"] = _address(self._names) + np.arange(rows) * _SOCKADDR
        self._lengths, self._control_lengths = self._messages["len"], self._messages["controllen"]
        self._name_lengths = self._messages["namelen"]
        self._last = rows  # packets in the last batch, whose lengths have to be set again
        self._base = _address(self._messages)
        self._number = self._control[:, _CMSG_DATA : _CMSG_DATA + 4]
        # Whether the last call may have left packets behind: a port filled its share of the rows.
        self.more = False

    def receive(self) -> ReceivedBatch | None:
        """What has arrived, or None. The batch is valid until the next call.

        Raises SystemRefused when a socket is broken.
        """
        # The kernel has written over those of the last batch only.
        self._control_lengths[: self._last] = _CONTROL_ROOM
        if self._named:
            self._name_lengths[: self._last] = _SOCKADDR
        start, left = 0, len(self._ports)
        self.more = False
        for port, fd in self._ports:
            # A busy port leaves the others their share of the rows.
            most = (self._rows - start) // left
            if self._mixed:
                self._aim(start, start + most, port.framing.receive_at)
            count = self._receive_from(fd, start, most)
            if count:
                self.more |= count == most
                self._take(port, start, start + count)
            start += count
            left -= 1
        self._last = start
        if not start:
            return None
        return ReceivedBatch(self._data, start, self._length, self._port, self._traffic_class, self._ipv4)

    def _aim(self, start: int, stop: int, offset: int) -> None:
        """Let packets begin at this byte of rows `start` to `stop`."""
        self._iovecs["base"][start:stop] = self._bases[start:stop] + offset
        self._iovecs["len"][start:stop] = self._room - max(0, offset)

    def _take(self, port: Port, start: int, stop: int) -> None:
        """Note what came with the packets in these rows, and complete their IP headers where the kernel kept them."""
        framing = port.framing
        if stop - start == 1 and framing not in (UDP_IPV4, UDP_IPV6) and self._ipv4 is None:
            # In plain numbers: a third of what arrays of one take.
            self._port[start] = port.port
            self._length[start] = int(self._lengths[start]) + framing.receive_at
            (self._traffic_class[start],) = _NUMBER.unpack_from(self._flat_control, start * _CONTROL_ROOM + _CMSG_DATA)
            return
        self._port[start:stop] = port.port
        self._length[start:stop] = self._lengths[start:stop]
        self._length[start:stop] += framing.receive_at
        if framing is UDP_IPV6:
            self._complete_ipv6(port.local_address, start, stop)
        elif framing is UDP_IPV4:
            self._complete_ipv4(start, stop)
        else:
            self._traffic_class[start:stop] = self._number[start:stop].view(np.uint32)[:, 0]
            if self._ipv4 is not None:
                self._ipv4[start:stop] = 0

    def _complete_ipv6(self, local_address: bytes, start: int, stop: int) -> None:
        # Traffic class and flow label come as the header's first word; nothing comes when both are 0.
        told = self._control_lengths[start:stop] != 0
        words = self._number[start:stop].view(">u4")[:, 0] * told
        fields = self._fields[start:stop]
        fields["ip_word"] = words | np.uint32(6 << 28)
        fields["ip_plen"] = self._length[start:stop] - UDP_AT
        fields["ip_nh"] = _IP_PROTOCOL_UDP
        self._data[start:stop, 8:24] = self._names[start:stop, 8:24]
        self._data[start:stop, 24:40] = np.frombuffer(local_address, np.uint8)
        self._traffic_class[start:stop] = words >> 20 & 0xFF
        if self._ipv4 is not None:
            self._ipv4[start:stop] = 0

    def _complete_ipv4(self, start: int, stop: int) -> None:
        headers = self._data[start:stop, IPV4_AT:UDP_AT].copy()
        shape_rows(self._data[start:stop], headers)
        self._traffic_class[start:stop] = headers[:, 1]
        if self._ipv4 is not None:
            self._ipv4[start:stop] = headers

    def _receive_from(self, fd: int, start: int, most: int) -> int:
        count = _recvmmsg(fd, self._base + start * _MMSGHDR.itemsize, most, _MSG_DONTWAIT, None)
        if count > 0:
            return int(count)
        error = ctypes.get_errno()
        if count == 0 or error == errno.EINTR or error in _LOST_ON_THE_WAY:
            return 0
        raise SystemRefused(error, f"receiving failed: {os.strerror(error)}")
