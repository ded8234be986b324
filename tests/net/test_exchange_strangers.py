# SPDX-License-Identifier: BSD-2-Clause
"""Whoever comes without the ticket, or with another release: what they get, and what they never get.

The other end here is written against the page in messages.py with nothing of the client's code, or is OpenSSL's
own program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import hmac
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from patience import PATIENCE_S

from mrc.errors import PeerError
from mrc.net.exchange import ExchangeClient, ExchangeConfig, ExchangeServer, SessionInfo, SessionRefused
from mrc.net.exchange import tls as tls_module
from mrc.net.exchange.channel import set_tcp_options
from mrc.net.exchange.messages import decode
from mrc.net.ticket import Ticket

PATIENT = ExchangeConfig(handshake_timeout_s=PATIENCE_S, message_timeout_s=PATIENCE_S, bad_secret_pause_s=0.05)


def eventually(holds: Callable[[], bool], within_s: float = PATIENCE_S) -> bool:
    by = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > by:
            return False
        time.sleep(0.005)
    return True


class RawClient:
    """TLS and frames by hand."""

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.tls = context.wrap_socket(socket.create_connection((ticket.addresses[0], ticket.port), PATIENCE_S))
        self.greeting = self.receive()

    def send(self, message: Any) -> None:
        content = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.tls.sendall(struct.pack("!I", len(content)) + content)

    def receive(self) -> dict[str, Any]:
        header = self.exactly(4)
        return json.loads(self.exactly(struct.unpack("!I", header)[0]))

    def exactly(self, count: int) -> bytes:
        content = b""
        while len(content) < count:
            part = self.tls.recv(count - len(content))
            if not part:
                raise EOFError
            content += part
        return content

    def ended(self) -> bool:
        try:
            return self.tls.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    def hello(self, token: bytes, attempt: int = 1, resume: bool = False, **changes: Any) -> dict[str, Any]:
        covered = b"mrc exchange hello\0" + self.ticket.fingerprint + bytes.fromhex(self.greeting["nonce"]) + token
        message = {
            "type": "hello",
            "version": 1,
            "features": [],
            "session": token.hex(),
            "attempt": attempt,
            "resume": resume,
            "proof": hmac.new(self.ticket.secret, covered, "sha256").hexdigest(),
        }
        self.send(message | changes)
        return self.receive()

    def request(self, request_id: int, kind: str = "open") -> dict[str, Any]:
        self.send({"type": "request", "id": request_id, "kind": kind, "body": {}})
        return self.receive()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.tls.close()


class Receiver:
    """A server and what its handler was called with."""

    def __init__(self, config: ExchangeConfig = PATIENT) -> None:
        self.calls: list[str] = []
        self.ended: list[SessionInfo] = []
        self.server = ExchangeServer(["::1"], self.handle, config=config, on_session_closed=self.ended.append)

    def handle(self, session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(kind)
        return {"r_key": 0x1234, "session": session.number}

    def count(self, name: str) -> int:
        return self.server.counters[name]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    with made.server:
        yield made
        # Whatever happened, the next client is served.
        with ExchangeClient(made.server.ticket) as client:
            assert client.request("after", {}, PATIENCE_S)["r_key"] == 0x1234


SESSION = bytes(range(16))


@pytest.mark.skipif(
    shutil.which("openssl") is None and os.environ.get("CI") != "true", reason="the openssl program is the oracle"
)
def test_openssl_sees_tls_1_3_and_the_certificate_of_the_ticket(receiver: Receiver) -> None:
    connect = ["openssl", "s_client", "-connect", f"[::1]:{receiver.server.ticket.port}"]
    shown = subprocess.run(
        [*connect, "-showcerts"], input=b"", capture_output=True, timeout=PATIENCE_S, check=False
    ).stdout
    assert b"New, TLSv1.3" in shown
    assert b"Server public key is 256 bit" in shown
    certificate = ssl.PEM_cert_to_DER_cert(
        shown[shown.index(b"-----BEGIN") : shown.index(b"-----END CERTIFICATE-----") + 25].decode()
    )
    assert hashlib.sha256(certificate).digest() == receiver.server.ticket.fingerprint
    older = subprocess.run([*connect, "-tls1_2"], input=b"", capture_output=True, timeout=PATIENCE_S, check=False)
    assert older.returncode != 0
    assert eventually(lambda: receiver.count("bad_handshakes") == 1)


def test_each_server_has_a_certificate_and_a_secret_of_its_own(receiver: Receiver) -> None:
    with Receiver().server as other:
        assert other.ticket.fingerprint != receiver.server.ticket.fingerprint
        assert other.ticket.secret != receiver.server.ticket.secret


def test_the_documented_exchange_by_hand(receiver: Receiver) -> None:
    with RawClient(receiver.server.ticket) as raw:
        assert {key: raw.greeting[key] for key in ("type", "protocol", "version", "features")} == {
            "type": "greeting",
            "protocol": "mrc-exchange",
            "version": 1,
            "features": [],
        }
        assert raw.hello(SESSION) == {"type": "welcome"}
        assert raw.request(1) == {"type": "answer", "id": 1, "body": {"r_key": 0x1234, "session": 1}}
        raw.send({"type": "ping"})
        assert raw.receive() == {"type": "pong"}
        raw.send({"type": "bye"})
        assert raw.receive() == {"type": "bye"}
        assert raw.ended()


def test_the_same_id_is_the_same_request_and_an_older_one_is_not_executed(receiver: Receiver) -> None:
    with RawClient(receiver.server.ticket) as raw:
        raw.hello(SESSION)
        first = raw.request(5)
        assert raw.request(5) == first
        assert raw.request(3)["type"] == "error"
    assert receiver.calls == ["open"]
    assert receiver.count("replayed_requests") == 1
    assert receiver.count("stale_requests") == 1


def test_a_session_is_resumed_by_its_newest_connection_only(receiver: Receiver) -> None:
    with RawClient(receiver.server.ticket) as old, RawClient(receiver.server.ticket) as new:
        old.hello(SESSION, attempt=1)
        first = old.request(1)
        assert new.hello(SESSION, attempt=2, resume=True) == {"type": "welcome"}
        assert old.ended()
        assert new.request(1) == first
        with RawClient(receiver.server.ticket) as late:
            assert late.hello(SESSION, attempt=1, resume=True)["reason"] == "session"
        assert new.request(2)["body"]["session"] == 1
    assert receiver.count("superseded_connections") == 1


def test_a_session_nobody_knows_is_not_resumed(receiver: Receiver) -> None:
    with RawClient(receiver.server.ticket) as raw:
        refused = raw.hello(SESSION, attempt=2, resume=True)
        assert (refused["type"], refused["reason"]) == ("refused", "session")
        assert raw.ended()


def test_a_session_whose_client_closes_without_a_word_ends_soon() -> None:
    """As when its process is killed: it does not wait out the time that is there for a client that comes back."""
    receiver = Receiver(ExchangeConfig(linger_s=10 * PATIENCE_S))
    with receiver.server:
        with RawClient(receiver.server.ticket) as raw:
            raw.hello(SESSION)
            raw.request(1)
        assert eventually(lambda: bool(receiver.ended))


def test_a_session_without_connections_lingers_and_then_ends() -> None:
    receiver = Receiver(ExchangeConfig(linger_s=2.0, ping_interval_s=0.5))
    with receiver.server:
        with RawClient(receiver.server.ticket) as raw:
            raw.hello(SESSION)
            raw.request(1)
            raw.send({"type": "away"})
            going = time.monotonic()
        assert eventually(lambda: bool(receiver.ended))
        assert time.monotonic() - going > 1.9
        assert receiver.ended[0].closed_because == "silence"
    assert len(receiver.ended) == 1


def test_a_wrong_secret_learns_nothing_and_is_counted(receiver: Receiver) -> None:
    ticket = dataclasses.replace(receiver.server.ticket, secret=bytes(16))
    with (
        ExchangeClient(ticket) as client,
        pytest.raises(SessionRefused, match=r"secret.*take the ticket that it prints"),
    ):
        client.request("open", {}, PATIENCE_S)
    assert receiver.count("bad_secrets") == 1
    with RawClient(ticket) as raw:
        began = time.monotonic()
        assert raw.hello(SESSION)["reason"] == "secret"
        assert time.monotonic() - began >= PATIENT.bad_secret_pause_s
        assert raw.ended()
    assert receiver.count("bad_secrets") == 2
    assert receiver.calls == []
    assert receiver.count("sessions") == 0


def test_a_proof_is_worth_nothing_on_another_connection(receiver: Receiver) -> None:
    with RawClient(receiver.server.ticket) as seen, RawClient(receiver.server.ticket) as raw:
        raw.greeting = seen.greeting
        assert raw.hello(SESSION)["reason"] == "secret"


@pytest.mark.parametrize(
    "first", [{"type": "request", "id": 1, "kind": "open", "body": {}}, {"type": "ping"}, {"type": "bye"}, {}, [], 7]
)
def test_nothing_is_accepted_before_the_proof(receiver: Receiver, first: Any) -> None:
    with RawClient(receiver.server.ticket) as raw:
        raw.send(first)
        assert raw.ended()
    assert eventually(lambda: receiver.count("bad_messages") == 1)
    assert receiver.calls == []


@pytest.mark.parametrize(
    "changes", [{"session": "zz"}, {"proof": 1}, {"attempt": True}, {"resume": 0}, {"features": [1]}]
)
def test_a_hello_out_of_form_ends_the_connection(receiver: Receiver, changes: dict[str, Any]) -> None:
    with RawClient(receiver.server.ticket) as raw, pytest.raises((EOFError, OSError)):
        raw.hello(SESSION, **changes)
    assert eventually(lambda: receiver.count("bad_messages") == 1)
    assert receiver.count("sessions") == 0


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.0\r\n\r\n", b"\0" * 64, b"\x16\x03\x01\x00\x05abcde", bytes(range(256))]
)
def test_garbage_instead_of_tls_is_closed_and_counted(receiver: Receiver, garbage: bytes) -> None:
    with socket.create_connection(("::1", receiver.server.ticket.port), PATIENCE_S) as plain:
        plain.sendall(garbage)
        with contextlib.suppress(ConnectionError):
            while plain.recv(100):
                pass
    assert eventually(lambda: receiver.count("bad_handshakes") == 1)
    assert receiver.count("timeouts") == 0


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack("!I", (1 << 20) + 1),
        struct.pack("!I", 0xFFFFFFFF),
        struct.pack("!I", 3) + b"{]}",
        struct.pack("!I", 2) + b"\xff\xff",
        struct.pack("!I", 0),
        struct.pack("!I", 200_000) + b"[" * 200_000,
    ],
)
def test_a_malformed_message_ends_its_connection_and_no_other(receiver: Receiver, frame: bytes) -> None:
    with RawClient(receiver.server.ticket) as raw, RawClient(receiver.server.ticket) as other:
        raw.hello(SESSION)
        other.hello(SESSION[::-1])
        # The server may close, and so reset the connection, before all of it is out.
        with contextlib.suppress(ConnectionError):
            raw.tls.sendall(frame)
        assert raw.ended()
        assert other.request(1)["type"] == "answer"
    assert eventually(lambda: receiver.count("bad_messages") == 1)


def test_thirty_two_levels_are_accepted_and_no_more(receiver: Receiver) -> None:
    def request(levels: int) -> bytes:
        lists = levels - 2
        return b'{"type":"request","id":1,"kind":"open","body":{"deep":%b}}' % (b"[" * lists + b"]" * lists)

    with RawClient(receiver.server.ticket) as raw:
        raw.hello(SESSION)
        raw.send(request(32))
        assert raw.receive()["type"] == "answer"
        raw.send(request(33))
        assert raw.ended()
    assert eventually(lambda: receiver.count("bad_messages") == 1)


def test_a_stranger_may_send_little(receiver: Receiver) -> None:
    with RawClient(receiver.server.ticket) as raw:
        raw.tls.sendall(struct.pack("!I", 4097))
        assert raw.ended()
    assert eventually(lambda: receiver.count("bad_messages") == 1)


@pytest.mark.parametrize("stage", ["tcp", "tls", "half a hello", "half a request"])
def test_a_slow_client_times_out_and_holds_up_nobody(stage: str) -> None:
    # The longer ones are for machines that are as slow as the client.
    assert any(slow_client_held_up_nobody(stage, timeout_s) for timeout_s in (0.3, 1.2, 5.0, 20.0))


def slow_client_held_up_nobody(stage: str, timeout_s: float) -> bool:
    """Whether another client was served before the time of the slow one was up; which comes in any case."""
    config = ExchangeConfig(handshake_timeout_s=timeout_s, message_timeout_s=timeout_s)
    receiver = Receiver(config)
    began = time.monotonic()
    with receiver.server, contextlib.ExitStack() as stack:
        try:
            stuck = stuck_at(stage, receiver.server.ticket, stack)
        except (EOFError, OSError):
            return False
        with ExchangeClient(receiver.server.ticket) as client:
            client.request("meanwhile", {}, PATIENCE_S)
            if receiver.count("timeouts"):
                return False
        with contextlib.suppress(ConnectionError):
            assert stuck.recv(1) == b""
        assert time.monotonic() - began > timeout_s * 0.8
        assert eventually(lambda: receiver.count("timeouts") == 1)
    return True


def stuck_at(stage: str, ticket: Ticket, stack: contextlib.ExitStack) -> socket.socket:
    """A connection to the receiver that will go no further than that."""
    if stage == "tcp":
        return stack.enter_context(socket.create_connection(("::1", ticket.port), PATIENCE_S))
    raw = stack.enter_context(RawClient(ticket))
    if stage == "half a request":
        raw.hello(SESSION)
    if stage != "tls":
        raw.tls.sendall(struct.pack("!I", 200) + b'{"type"')
    return raw.tls


def test_a_version_mismatch_is_named_by_the_server(receiver: Receiver) -> None:
    with RawClient(receiver.server.ticket) as raw:
        refused = raw.hello(SESSION, version=7, proof="whatever version 7 has")
        assert (refused["type"], refused["reason"]) == ("refused", "version")
        assert "version 1 " in refused["text"]
        assert "version 7:" in refused["text"]
    assert eventually(lambda: receiver.count("version_mismatches") == 1)


@pytest.mark.parametrize("version", [-1, 0, 10**6 + 1, 10**39, True, 1.5, "1", None, [1], "9" * 4000])
def test_a_version_that_no_release_has_is_not_repeated(receiver: Receiver, version: object) -> None:
    """What a stranger says of itself comes back in no message: the connection ends."""
    with RawClient(receiver.server.ticket) as raw, pytest.raises((EOFError, OSError)):
        raw.hello(SESSION, version=version)
    assert eventually(lambda: receiver.count("bad_messages") == 1)
    assert receiver.count("version_mismatches") == 0


def test_a_client_that_speaks_another_version_is_counted(receiver: Receiver) -> None:
    with RawClient(receiver.server.ticket) as raw:
        raw.send({"type": "refused", "reason": "version", "text": "version 2"})
        assert raw.ended()
    assert eventually(lambda: receiver.count("version_mismatches") == 1)


@settings(max_examples=draws(16), deadline=None)
@given(
    st.binary(max_size=200)
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_any_bytes_are_a_message_or_a_peer_error(content: bytes) -> None:  # fmt: skip
    try:
        message = decode(content)
    except PeerError:
        return
    assert message == json.loads(content)
    assert isinstance(message["type"], str)


def test_without_proc_the_key_file_is_gone_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memfd(*_: object) -> int:
        raise OSError

    monkeypatch.setattr(tls_module.os, "memfd_create", no_memfd)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = Receiver()
    with made.server:
        assert list(tmp_path.iterdir()) == []
        with ExchangeClient(made.server.ticket) as client:
            assert client.request("open", {}, PATIENCE_S)["r_key"] == 0x1234


def test_a_dead_path_ends_a_connection() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as plain:
        set_tcp_options(plain, ExchangeConfig())
        assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert plain.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert plain.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
