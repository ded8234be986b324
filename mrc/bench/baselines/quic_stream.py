# SPDX-License-Identifier: BSD-2-Clause
"""A bulk stream over QUIC with aioquic, as a program of its own:

    python -m mrc.bench.baselines.quic_stream serve ADDRESS CERTIFICATE
    python -m mrc.bench.baselines.quic_stream send ADDRESS PORT SECONDS DATAGRAM

The server prints its port. It reports what it received as JSON on the stream; the client prints that last. What
counts is what the server's application got, from the first byte to the last.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import time
from typing import Any

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamDataReceived

from mrc.untrusted import parse_json

ALPN = ["mrc-bench"]
# Flow control that never limits.
_CREDIT = 1 << 30
# What the application hands over at once, and has unconfirmed by the other application at most. More only makes the
# socket's buffer overflow; this, reno and the system's own buffers were the fastest of what was tried.
_CHUNK = 64 << 10
_AHEAD = 512 << 10
_CONFIRM_EVERY = 128 << 10


def _configuration(*, is_client: bool, datagram: int) -> QuicConfiguration:
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=ALPN,
        max_data=_CREDIT,
        max_stream_data=_CREDIT,
        max_datagram_size=datagram,
        verify_mode=ssl.CERT_NONE,
    )


class Receiving(QuicConnectionProtocol):
    """Counts a stream, confirms what it got every 128 KiB, and sends the figures at its end."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._got = self._confirmed = self._datagrams = 0
        self._began = 0.0
        self._began_cpu = 0.0

    def datagram_received(self, data: bytes | str, addr: Any) -> None:
        self._datagrams += 1
        super().datagram_received(data, addr)

    def quic_event_received(self, event: QuicEvent) -> None:
        if not isinstance(event, StreamDataReceived):
            return
        if not self._got:
            self._began, self._began_cpu, self._datagrams = time.monotonic(), time.process_time(), 0
        self._got += len(event.data)
        if event.end_stream:
            figures = {
                "bytes": self._got,
                "seconds": time.monotonic() - self._began,
                "datagrams": self._datagrams,
                "cpu_seconds": time.process_time() - self._began_cpu,
            }
            self._quic.send_stream_data(event.stream_id, json.dumps(figures).encode() + b"\n", end_stream=True)
        elif self._got - self._confirmed >= _CONFIRM_EVERY:
            self._confirmed = self._got
            self._quic.send_stream_data(event.stream_id, b"%d\n" % self._got)


class Sending(QuicConnectionProtocol):
    """Keeps a stream filled until its time is over."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.figures: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._chunk = bytes(_CHUNK)
        self._stream = -1
        self._sent = self._confirmed = 0
        self._until = 0.0
        self._unread = b""

    def begin(self, seconds: float) -> None:
        self._stream = self._quic.get_next_available_stream_id()
        self._until = time.monotonic() + seconds
        self._fill()
        self.transmit()

    def _fill(self) -> None:
        if time.monotonic() >= self._until:
            if self._until:
                self._until = 0.0
                self._quic.send_stream_data(self._stream, b"", end_stream=True)
            return
        while self._sent - self._confirmed < _AHEAD:
            self._quic.send_stream_data(self._stream, self._chunk)
            self._sent += _CHUNK

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, ConnectionTerminated) and not self.figures.done():
            self.figures.set_exception(ConnectionError(event.reason_phrase or "the connection ended"))
        elif isinstance(event, StreamDataReceived):
            *lines, self._unread = (self._unread + event.data).split(b"\n")
            for line in lines:
                message = parse_json(line, "what the receiver says")
                if isinstance(message, int):
                    self._confirmed = message
                elif not self.figures.done():
                    self.figures.set_result(message)
            if self._until:
                self._fill()


async def _serve(address: str, certificate: str) -> None:
    configuration = _configuration(is_client=False, datagram=1200)
    configuration.load_cert_chain(certificate)
    server = await serve(address, 0, configuration=configuration, create_protocol=Receiving)
    transport = server._transport
    print(transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.Event().wait()


async def _send(address: str, port: int, seconds: float, datagram: int) -> None:
    configuration = _configuration(is_client=True, datagram=datagram)
    async with connect(address, port, configuration=configuration, create_protocol=Sending) as protocol:
        assert isinstance(protocol, Sending)
        cpu = time.process_time()
        protocol.begin(seconds)
        figures = await asyncio.wait_for(protocol.figures, seconds + 30)
        print(json.dumps(figures | {"sender_cpu_seconds": time.process_time() - cpu}))


def main(arguments: list[str]) -> None:
    if arguments[0] == "serve":
        asyncio.run(_serve(arguments[1], arguments[2]))
    else:
        asyncio.run(_send(arguments[1], int(arguments[2]), float(arguments[3]), int(arguments[4])))


if __name__ == "__main__":
    main(sys.argv[1:])
