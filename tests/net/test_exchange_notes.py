# SPDX-License-Identifier: BSD-2-Clause
"""A client whose request takes long is told so, and requests that take none cost no thread each."""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from patience import PATIENCE_S, eventually

from mrc.errors import SystemRefused
from mrc.net.exchange import ExchangeClient, ExchangeConfig, ExchangeServer, SessionInfo, connection
from mrc.net.exchange.channel import Channel
from mrc.net.exchange.tls import client_context
from mrc.threads import start_thread

NOTES = "mrc-exchange-working"
# No request of a test takes so long: nothing is due while it runs.
SLOW = ExchangeConfig(working_interval_s=PATIENCE_S, attempt_timeout_s=2 * PATIENCE_S, max_attempt_timeout_s=500)
# Notes are due at once, and no silence of a test is so long that a client gives up.
QUICK = ExchangeConfig(working_interval_s=0.02, attempt_timeout_s=PATIENCE_S, max_attempt_timeout_s=500)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("mrc-exchange")])


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that connections started."""
    names: list[str] = []

    def start(*arguments: Any, name: str) -> threading.Thread:
        names.append(name)
        return start_thread(*arguments, name=name)

    monkeypatch.setattr(connection, "start_thread", start)
    return names


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The requests that clients were told of."""
    seen: list[int] = []
    real = Channel.receive

    def receive(self: Channel, *arguments: Any, **options: Any) -> Any:
        message = real(self, *arguments, **options)
        if message["type"] == "working":
            seen.append(message["id"])
        return message

    monkeypatch.setattr(Channel, "receive", receive)
    return seen


def watched() -> bool:
    return any(thread.name == NOTES for thread in threading.enumerate())


def echo(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return body


def test_requests_that_follow_each_other_share_a_thread(started: list[str], noted: list[int]) -> None:
    with ExchangeServer(["::1"], echo, config=SLOW) as server, ExchangeClient(server.ticket, config=SLOW) as client:
        for number in range(100):
            assert client.request("open", {"n": number}, PATIENCE_S) == {"n": number}
    assert started.count(NOTES) == 1
    assert noted == []


def test_the_thread_ends_when_nothing_is_asked_and_the_next_long_request_is_told_of(
    started: list[str], noted: list[int]
) -> None:
    def until_told(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        if kind == "long":
            before = len(noted)
            eventually(lambda: len(noted) > before + 1)
        return {}

    with (
        ExchangeServer(["::1"], until_told, config=QUICK) as server,
        ExchangeClient(server.ticket, config=QUICK) as client,
    ):
        for _ in range(3):
            client.request("short", {}, PATIENCE_S)
            eventually(lambda: not watched())
            client.request("long", {}, PATIENCE_S)
        assert client.reconnects == 0
    # Each of the three pauses ended a thread.
    assert started.count(NOTES) >= 4
    # Only those that took long, twice each at least, and in order.
    assert sorted(set(noted)) == [2, 4, 6]
    assert noted == sorted(noted)


def test_each_long_request_in_a_row_is_told_of_by_its_own_number(noted: list[int]) -> None:
    def until_told(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        eventually(lambda: body["number"] in noted)
        return {}

    with (
        ExchangeServer(["::1"], until_told, config=QUICK) as server,
        ExchangeClient(server.ticket, config=QUICK) as client,
    ):
        for number in range(1, 20):
            client.request("long", {"number": number}, PATIENCE_S)
        assert client.reconnects == 0
    assert noted == sorted(noted)
    assert set(noted) == set(range(1, 20))


def test_without_a_thread_requests_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object, **__: object) -> None:
        raise SystemRefused(11, "no further thread")

    monkeypatch.setattr(connection, "start_thread", no_thread)
    with ExchangeServer(["::1"], echo, config=QUICK) as server, ExchangeClient(server.ticket, config=QUICK) as client:
        for number in range(3):
            assert client.request("open", {"n": number}, PATIENCE_S) == {"n": number}


def test_notes_to_a_client_that_left_a_slow_connection_do_not_make_it_one_that_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second note into a closed connection fails, and that was taken for the end of the client's process."""
    tried: list[int] = []
    let_go, connects_again = threading.Event(), threading.Event()
    ended: list[SessionInfo] = []
    send, connect = Channel.send, ExchangeClient._connect

    def sending(self: Channel, message: Any) -> None:
        if message["type"] == "working":
            tried.append(message["id"])
        send(self, message)

    def connecting(self: ExchangeClient, deadline: float, leaving: bool) -> Channel:
        if self._welcomed:
            # The other planes take their time.
            connects_again.wait(PATIENCE_S)
        return connect(self, deadline, leaving)

    def handle(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        assert let_go.wait(PATIENCE_S)
        return {"kind": kind}

    monkeypatch.setattr(Channel, "send", sending)
    monkeypatch.setattr(ExchangeClient, "_connect", connecting)
    # The client is too impatient for the first note.
    server_s = ExchangeConfig(working_interval_s=0.5, ended_linger_s=0.001, linger_s=3600)
    client_s = ExchangeConfig(working_interval_s=0.05, attempt_timeout_s=0.1)
    server = ExchangeServer(["::1"], handle, config=server_s, on_session_closed=ended.append)
    answers: list[object] = []
    with server, ExchangeClient(server.ticket, config=client_s) as client:
        asking = threading.Thread(target=lambda: answers.append(client.request("long", {}, PATIENCE_S)))
        asking.start()
        eventually(lambda: len(tried) >= 2)
        let_go.set()
        eventually(lambda: not server._connections)
        connects_again.set()
        asking.join()
        assert [each.closed_because for each in ended] == []
    assert answers == [{"kind": "long"}]


ASKS = """
import sys
from mrc.net.exchange import ExchangeClient
from mrc.net.ticket import Ticket
ExchangeClient(Ticket.parse(sys.argv[1])).request("long", {}, 600)
"""


def test_a_client_that_is_killed_is_gone_while_its_request_is_executed() -> None:
    begun, release, finished = threading.Event(), threading.Event(), threading.Event()
    ended: list[SessionInfo] = []

    def handle(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        begun.set()
        assert release.wait(PATIENCE_S)
        finished.set()
        return {}

    with ExchangeServer(["::1"], handle, config=SLOW, on_session_closed=ended.append) as server:
        client = subprocess.Popen([sys.executable, "-c", ASKS, server.ticket.text])
        try:
            eventually(lambda: begun.is_set() or client.poll() is not None)
        finally:
            client.kill()
            client.wait()
        assert begun.is_set()
        eventually(lambda: len(ended) == 1)
        assert not finished.is_set()
        release.set()
        eventually(lambda: not server._connections)
    # Once, not again when the request ended.
    assert [each.closed_because for each in ended] == ["silence"]


def test_a_connection_has_ended_only_when_all_that_came_was_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, wrapped(ours) as tls:
        channel = Channel(tls, PATIENCE_S)
        assert not channel.has_ended()
        theirs.sendall(b"a word")
        assert not channel.has_ended()
        theirs.close()
        assert not channel.has_ended()
        socket.socket.recv(tls, 6)
        assert channel.has_ended()
        # Nothing was taken out of it by looking.
        assert channel.has_ended()
        channel.close()
        assert not channel.has_ended()


def test_a_connection_that_was_reset_has_ended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        theirs, _ = listener.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with wrapped(ours) as tls:
            channel = Channel(tls, PATIENCE_S)
            theirs.close()
            eventually(channel.has_ended)


def wrapped(connection: socket.socket) -> ssl.SSLSocket:
    return client_context().wrap_socket(connection, do_handshake_on_connect=False)
