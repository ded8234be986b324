# SPDX-License-Identifier: BSD-2-Clause
"""The out-of-band exchange against strangers: guessed tickets, slow clients, and every place taken."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from patience import PATIENCE_S

from mrc.endpoint.endpoint import Endpoint
from mrc.net.exchange import ExchangeClient, ExchangeConfig, ExchangeServer, SessionInfo, SessionRefused
from mrc.net.ticket import SECRET_BYTES, Ticket

PLACES = 6
CONFIG = ExchangeConfig(
    max_connections=PLACES, handshake_timeout_s=PATIENCE_S, bad_secret_pause_s=0.05, round_pause_s=0.05
)
R_KEY = 0x5EC2E700


def eventually(holds: Callable[[], bool], within_s: float = PATIENCE_S) -> bool:
    by = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > by:
            return False
        time.sleep(0.01)
    return True


@pytest.fixture
def server() -> Iterator[ExchangeServer]:
    def handle(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"r_key": R_KEY}

    with ExchangeServer(["::1"], handle, config=CONFIG) as made:
        yield made


def tls_to(ticket: Ticket) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection((ticket.addresses[0], ticket.port), PATIENCE_S))


@pytest.mark.parametrize("stage", ["tcp", "tls"])
def test_strangers_on_every_place_lock_nobody_out(server: ExchangeServer, stage: str) -> None:
    """Those that have not shown the secret give way, the oldest first, long before their time is up."""
    with contextlib.ExitStack() as stack:
        for _ in range(3 * PLACES):
            if stage == "tls":
                stack.enter_context(tls_to(server.ticket))
            else:
                stack.enter_context(socket.create_connection(("::1", server.ticket.port), PATIENCE_S))
        with ExchangeClient(server.ticket) as client:
            assert client.request("hello", {}, PATIENCE_S) == {"r_key": R_KEY}
    assert server.counters["displaced_strangers"] > 0
    assert server.counters["timeouts"] == 0


def test_strangers_do_not_displace_those_who_hold_the_ticket(server: ExchangeServer) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(ExchangeClient(server.ticket)) for _ in range(PLACES - 1)]
        for client in clients:
            client.request("hello", {}, PATIENCE_S)
        for _ in range(4 * PLACES):
            stack.enter_context(socket.create_connection(("::1", server.ticket.port), PATIENCE_S))
        assert eventually(lambda: server.counters["connections"] >= 5 * PLACES - 1)
        for client in clients:
            client.request("again", {}, PATIENCE_S)
            assert client.reconnects == 0


def test_the_threads_strangers_cost_are_bounded(server: ExchangeServer) -> None:
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        for _ in range(20 * PLACES):
            stack.enter_context(socket.create_connection(("::1", server.ticket.port), PATIENCE_S))
            assert threading.active_count() <= before + 2 * PLACES
    assert eventually(lambda: threading.active_count() <= before + 1)


def test_guessed_secrets_are_refused_alike_and_tell_nothing(server: ExchangeServer) -> None:
    """One bit off or all of them: the same text, no sign of the R_Key, each a pause later."""
    right = server.ticket.secret
    guesses = [bytes(SECRET_BYTES), secrets.token_bytes(SECRET_BYTES), right[:-1] + bytes([right[-1] ^ 1])]
    texts = set()
    for guess in guesses:
        ticket = dataclasses.replace(server.ticket, secret=guess)
        with ExchangeClient(ticket) as client, pytest.raises(SessionRefused) as refused:
            client.request("hello", {}, PATIENCE_S)
        texts.add(str(refused.value).partition(": ")[2])
    assert len(texts) == 1
    assert str(R_KEY) not in texts.pop()
    assert server.counters["bad_secrets"] == len(guesses)
    assert server.counters["sessions"] == server.counters["requests"] == 0


@pytest.mark.parametrize("length", [4097, 1 << 20, 1 << 31, (1 << 32) - 1])
def test_a_stranger_that_announces_two_gigabytes_is_read_no_further(server: ExchangeServer, length: int) -> None:
    with tls_to(server.ticket) as stranger:
        stranger.sendall(struct.pack("!I", length))
        greeting = b""
        with contextlib.suppress(OSError):
            while part := stranger.recv(65536):
                greeting += part
    assert str(R_KEY).encode() not in greeting
    assert eventually(lambda: server.counters["bad_messages"] == 1)


def test_what_a_stranger_is_told_is_one_greeting(server: ExchangeServer) -> None:
    """Version, features and a nonce; nothing of sessions, addresses or memory."""
    with tls_to(server.ticket) as stranger:
        (length,) = struct.unpack("!I", stranger.recv(4))
        greeting = stranger.recv(length)
    assert length < 256
    assert server.ticket.secret.hex().encode() not in greeting
    assert set(json.loads(greeting)) == {"type", "protocol", "version", "features", "nonce"}


def test_a_ticket_does_not_show_its_secret_by_accident(server: ExchangeServer) -> None:
    assert server.ticket.secret.hex() not in repr(server.ticket)
    assert str(server.ticket.secret) not in repr(server.ticket)


def test_r_keys_come_from_where_the_owner_says() -> None:
    """A running node draws them from the system (mrc.net.node), so that one R_Key does not tell the next."""
    drawn = iter((0xAAAAAAAA, 0x55555555))
    memory = Endpoint(draw_rkey=lambda: next(drawn)).memory
    assert [memory.register(bytearray(8)).rkey for _ in range(2)] == [0xAAAAAAAA, 0x55555555]
