# SPDX-License-Identifier: BSD-2-Clause
"""What a client does when the other end is not the receiver that made its ticket, or is of another release."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import ssl
import struct
import threading

import pytest
from patience import PATIENCE_S

from mrc.errors import PeerError
from mrc.net.exchange import ExchangeClient, ExchangeConfig, ExchangeServer, SessionRefused
from mrc.net.exchange.tls import make_identity
from mrc.net.ticket import Ticket

# It takes one connection: the client must not give that up for another.
PATIENT = ExchangeConfig(attempt_timeout_s=PATIENCE_S)


class RawServer:
    """A TLS server by hand that says `greeting` and keeps what its one client says."""

    def __init__(self, greeting: bytes) -> None:
        self.identity = make_identity()
        self.listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
        self.heard = b""
        self.thread = threading.Thread(target=self.serve, args=(greeting,))
        self.thread.start()

    @property
    def ticket(self) -> Ticket:
        return Ticket(("::1",), self.listener.getsockname()[1], self.identity.fingerprint, bytes(16))

    def serve(self, greeting: bytes) -> None:
        with contextlib.suppress(OSError):
            plain, _ = self.listener.accept()
            self.talk(self.identity.context.wrap_socket(plain, server_side=True), greeting)

    def talk(self, tls: ssl.SSLSocket, greeting: bytes) -> None:
        with tls:
            tls.sendall(struct.pack("!I", len(greeting)) + greeting)
            while part := tls.recv(10_000):
                self.heard += part

    def finish(self) -> bytes:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # nobody may have come
        self.thread.join(PATIENCE_S)
        self.listener.close()
        return self.heard


def test_a_version_mismatch_is_named_by_the_client_and_the_server_is_told() -> None:
    raw = RawServer(b'{"type":"greeting","protocol":"mrc-exchange","version":2,"features":[],"nonce":{"new":"form"}}')
    with (
        ExchangeClient(raw.ticket, config=PATIENT) as client,
        pytest.raises(SessionRefused, match=r"version 2 .* version 1: use the same mrc release at both ends"),
    ):
        client.request("open", {}, PATIENCE_S)
    assert json.loads(raw.finish()[4:])["reason"] == "version"


_GREETING = b'{"type":"greeting","protocol":"mrc-exchange","features":[],"nonce":"","version":'


@pytest.mark.parametrize(
    "greeting",
    [
        *(b"220 mail ready", b"{}", b'{"type":"greeting"}', b'{"type":"answer","id":1}'),
        *(_GREETING + version + b"}" for version in (b"-1", b"0", b"1e3", b"9" * 40, b"true", b"[" * 2000)),
    ],
)
def test_a_server_that_is_no_receiver_is_a_peer_error(greeting: bytes) -> None:
    raw = RawServer(greeting)
    with ExchangeClient(raw.ticket, config=PATIENT) as client, pytest.raises(PeerError):
        client.request("open", {}, 0.3)
    raw.finish()


def test_another_certificate_is_told_nothing() -> None:
    raw = RawServer(
        b'{"type":"greeting","protocol":"mrc-exchange","version":1,"features":[],"nonce":"' + b"00" * 32 + b'"}'
    )
    ticket = dataclasses.replace(raw.ticket, fingerprint=bytes(32))
    with (
        ExchangeClient(ticket, config=PATIENT) as client,
        pytest.raises(SessionRefused, match=r"\[::1\].*not the receiver that made the ticket.*take the ticket"),
    ):
        client.request("open", {"r_key": 1}, PATIENCE_S)
    assert raw.finish() == b""


def test_another_receivers_ticket_is_told_apart() -> None:
    with (
        ExchangeServer(["::1"], lambda session, kind, body: {}) as one,
        ExchangeServer(["::1"], lambda session, kind, body: {}) as other,
    ):
        mixed = dataclasses.replace(one.ticket, port=other.ticket.port)
        with ExchangeClient(mixed) as client, pytest.raises(SessionRefused, match="certificate"):
            client.request("open", {}, PATIENCE_S)
        assert other.counters["sessions"] == 0
