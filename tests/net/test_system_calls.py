# SPDX-License-Identifier: BSD-2-Clause
"""Batches sent and received over sockets that refuse, that are none, and that keep the sender waiting.

Unix sockets take the messages too: what a port sends arrives there as it was handed over.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from patience import PATIENCE_S

from mrc.errors import SystemRefused
from mrc.net.mmsg import BatchReceiver, BatchSender
from mrc.net.ports import UDP_IPV6, Framing
from mrc.wire.transmit_batch import TransmitBatch

UDP_AT = 40
LONGEST_QUEUE = int(Path("/proc/sys/net/unix/max_dgram_qlen").read_text())


class HasFileno(Protocol):
    def fileno(self) -> int: ...


@dataclass
class _Port:
    port: int
    sender: HasFileno
    local_address: bytes = bytes(16)
    framing: Framing = UDP_IPV6

    @property
    def receiver(self) -> HasFileno:
        return self.sender


@dataclass
class Sink:
    sock: socket.socket
    address: bytes

    def rows(self) -> list[int]:
        """The rows of a batch that have arrived."""
        found = []
        while True:
            try:
                found.append(int.from_bytes(self.sock.recv(100)[:4], "big"))
            except BlockingIOError:
                return found


@pytest.fixture
def sink() -> Iterator[Sink]:
    """A socket with a name as long as an IPv6 address with its port."""
    name = b"\0" + os.urandom(12).hex().encode() + b"x"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name)
        sock.setblocking(False)
        yield Sink(sock, struct.pack("=H26s", socket.AF_UNIX, name))


@pytest.fixture
def unix() -> Iterator[Callable[[], socket.socket]]:
    made: list[socket.socket] = []

    def make() -> socket.socket:
        made.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        # A sender that is never let go on is a failure in the end.
        made[-1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(PATIENCE_S), 0))
        return made[-1]

    yield make
    for sock in made:
        sock.close()


def batch_of(ports: list[int], address: bytes) -> TransmitBatch:
    """A packet for each of these ports: its row in 4 bytes, 16 more, a trailer."""
    batch = TransmitBatch(len(ports))
    for row, port in enumerate(ports):
        batch.headers[row, UDP_AT : UDP_AT + 4] = np.frombuffer(row.to_bytes(4, "big"), np.uint8)
        batch.header_length[row], batch.trailer_length[row], batch.port[row] = UDP_AT + 20, 4, port
        batch.destination[row] = np.frombuffer(address, np.uint8)
    batch.count = len(ports)
    return batch


def sent(sender: BatchSender) -> int:
    """Send all. How many the system did not take."""
    refused = sender.send()
    sender.check()
    return refused


def sender_of(batch: TransmitBatch, *ports: Any) -> BatchSender:
    return BatchSender(ports, batch)


def test_ports_take_turns_a_stretch_of_32_packets_at_a_time(sink: Sink, unix: Callable[[], socket.socket]) -> None:
    """On each port in the batch's order."""
    assert LONGEST_QUEUE >= 10
    ports = [row % 2 for row in range(40)]
    sender = sender_of(batch_of(ports, sink.address), _Port(0, unix()), _Port(1, unix()))
    arrived: list[int] = []
    with calling(lambda: arrived.extend(sink.rows())):
        assert sent(sender) == 0
    arrived += sink.rows()
    assert arrived == [*range(0, 32, 2), *range(1, 32, 2), *range(32, 40, 2), *range(33, 40, 2)]


@pytest.mark.parametrize("refused", [[0], [2], [4], [1, 2], [0, 1, 2, 3, 4]])
def test_what_the_system_refuses_for_now_is_lost_and_the_rest_is_sent(
    refused: list[int], sink: Sink, unix: Callable[[], socket.socket]
) -> None:
    batch = batch_of([0] * 5, sink.address)
    nobody = struct.pack("=H26s", socket.AF_UNIX, b"\0" + os.urandom(25))
    for row in refused:
        batch.destination[row] = np.frombuffer(nobody, np.uint8)  # ECONNREFUSED
    sender = sender_of(batch, _Port(0, unix()))
    for _ in range(2):
        assert sent(sender) == len(refused)
        assert sink.rows() == [row for row in range(5) if row not in refused]
    assert sender.too_long == set()


def test_the_ports_that_refuse_a_packet_for_its_length_are_named(sink: Sink, unix: Callable[[], socket.socket]) -> None:
    batch = batch_of([0, 1, 1], sink.address)
    content = np.zeros(1 << 16, np.uint8)
    batch.payload_address[1], batch.payload_length[1] = content.ctypes.data, len(content)
    narrow = unix()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 13)
    sender = sender_of(batch, _Port(0, unix()), _Port(1, narrow))
    assert sent(sender) == 1
    assert sender.too_long == {1}
    assert sink.rows() == [0, 2]


def test_a_full_queue_loses_what_a_socket_that_does_not_wait_sends(
    sink: Sink, unix: Callable[[], socket.socket]
) -> None:
    count = LONGEST_QUEUE + 40
    sock = unix()
    sock.setblocking(False)
    sender = sender_of(batch_of([0] * count, sink.address), _Port(0, sock))
    refused = sent(sender)
    assert 0 < refused == count - len(sink.rows())


def test_what_will_not_pass_is_raised(sink: Sink) -> None:
    with open(os.devnull, "rb") as no_socket:
        with pytest.raises(SystemRefused, match="sending failed: Socket operation on non-socket"):
            sent(sender_of(batch_of([0], sink.address), _Port(0, no_socket)))
        # A port that the node does not have.
        with pytest.raises(SystemRefused, match="sending failed: Bad file descriptor"):
            sent(sender_of(batch_of([1], sink.address), _Port(0, no_socket), _Port(2, no_socket)))
        ports: Any = [_Port(0, no_socket)]
        receiver = BatchReceiver(ports, 4, 256)
        assert receiver.receive() == 0
        with pytest.raises(SystemRefused, match="receiving failed: Socket operation on non-socket"):
            receiver.check()


@contextmanager
def calling(action: Callable[[], None]) -> Iterator[None]:
    """A signal's handler does this again and again."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: action())
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_handlers_of_signals_run_while_the_system_keeps_us_waiting(
    sink: Sink, unix: Callable[[], socket.socket]
) -> None:
    """Here they make the room that the sender waits for."""
    count = 2 * LONGEST_QUEUE + 40
    sender = sender_of(batch_of([0] * count, sink.address), _Port(0, unix()))
    arrived: list[int] = []
    with calling(lambda: arrived.extend(sink.rows())):
        assert sent(sender) == 0
    assert [*arrived, *sink.rows()] == list(range(count))


def test_what_a_handler_raises_ends_the_waiting(sink: Sink, unix: Callable[[], socket.socket]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    count = LONGEST_QUEUE + 40
    sender = sender_of(batch_of([0] * count, sink.address), _Port(0, unix()))
    with pytest.raises(KeyboardInterrupt), calling(interrupt):
        sent(sender)
    arrived = sink.rows()
    assert arrived == list(range(len(arrived)))
    assert len(arrived) < count


def test_an_error_that_waits_in_a_socket_is_no_packet() -> None:
    """An answer to what another socket sent: "port unreachable"."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock, socket.socket(socket.AF_INET6) as closed:
        closed.bind(("::1", 0))
        sock.connect(closed.getsockname())
        ports: Any = [_Port(7, sock)]
        receiver = BatchReceiver(ports, 4, 256)
        assert receiver.receive() == 0
        sock.send(b"nobody has this port")
        assert receiver.receive() == 0
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as peer:
            sock.connect(("::1", 9))
            peer.bind(("::1", 0))
            sock.connect(peer.getsockname())
            peer.sendto(b"hello", sock.getsockname())
            assert receiver.receive() == 1
        batch = receiver.batch
        assert (batch.count, batch.port.tolist(), batch.length.tolist()) == (1, [7], [UDP_AT + 5])
        assert bytes(batch.view(0, UDP_AT, UDP_AT + 5)) == b"hello"


def test_a_busy_port_leaves_the_others_their_share() -> None:
    with (
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as busy,
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as idle,
    ):
        ports: Any = [_Port(0, busy), _Port(1, idle)]
        receiver = BatchReceiver(ports, 8, 256)
        for sock, count in ((busy, 9), (idle, 2)):
            sock.bind(("::1", 0))
            for number in range(count):
                with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as peer:
                    peer.sendto(bytes([number]), sock.getsockname())
        taken = []
        for _ in range(4):
            if receiver.receive():
                batch = receiver.batch
                heads = [batch.view(row, UDP_AT, UDP_AT + 1)[0] for row in range(batch.count)]
                taken.append((list(zip(batch.port.tolist(), heads, strict=True)), receiver.more))
        assert taken == [
            ([(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)], True),
            ([(0, 4), (0, 5), (0, 6), (0, 7)], True),
            ([(0, 8)], False),
        ]
