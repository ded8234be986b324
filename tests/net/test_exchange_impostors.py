"""What a client does when the other end is not the receiver that made its ticket, or is of another release."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import struct
import threading

import pytest

from mrc.errors import PeerError
from mrc.net.exchange import ExchangeClient, ExchangeServer, SessionRefused
from mrc.net.exchange.tls import make_identity
from mrc.net.ticket import Ticket


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
        plain, _ = self.listener.accept()
        tls = self.identity.context.wrap_socket(plain, server_side=True)
        with tls, contextlib.suppress(OSError):
            tls.sendall(struct.pack("!I", len(greeting)) + greeting)
            while part := tls.recv(10_000):
                self.heard += part

    def finish(self) -> bytes:
        self.thread.join(5)
        self.listener.close()
        return self.heard


def test_a_version_mismatch_is_named_by_the_client_and_the_server_is_told() -> None:
    raw = RawServer(b'{"type":"greeting","protocol":"mrc-exchange","version":2,"features":[],"nonce":{"new":"form"}}')
    with (
        ExchangeClient(raw.ticket) as client,
        pytest.raises(SessionRefused, match=r"version 2 .* version 1: use the same mrc release at both ends"),
    ):
        client.request("open", {}, 5)
    assert json.loads(raw.finish()[4:])["reason"] == "version"


@pytest.mark.parametrize("greeting", [b"220 mail ready", b"{}", b'{"type":"greeting"}', b'{"type":"answer","id":1}'])
def test_a_server_that_is_no_receiver_is_a_peer_error(greeting: bytes) -> None:
    raw = RawServer(greeting)
    with ExchangeClient(raw.ticket) as client, pytest.raises(PeerError):
        client.request("open", {}, 0.3)
    raw.finish()


def test_another_certificate_is_told_nothing() -> None:
    raw = RawServer(
        b'{"type":"greeting","protocol":"mrc-exchange","version":1,"features":[],"nonce":"' + b"00" * 32 + b'"}'
    )
    ticket = dataclasses.replace(raw.ticket, fingerprint=bytes(32))
    with (
        ExchangeClient(ticket) as client,
        pytest.raises(SessionRefused, match=r"\[::1\].*not the receiver that made the ticket.*take the ticket"),
    ):
        client.request("open", {"r_key": 1}, 5)
    assert raw.finish() == b""


def test_another_receivers_ticket_is_told_apart() -> None:
    with (
        ExchangeServer(["::1"], lambda session, kind, body: {}) as one,
        ExchangeServer(["::1"], lambda session, kind, body: {}) as other,
    ):
        mixed = dataclasses.replace(one.ticket, port=other.ticket.port)
        with ExchangeClient(mixed) as client, pytest.raises(SessionRefused, match="certificate"):
            client.request("open", {}, 5)
        assert other.counters["sessions"] == 0
