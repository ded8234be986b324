"""The page of the map against readers that are none: what they say, and how many they are."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest

from mrc.map.server import MapServer

DOCUMENT = {"fabric": "mrc", "faults": []}


@pytest.fixture
def server() -> Iterator[MapServer]:
    made = MapServer("127.0.0.1", 0, lambda: (dict(DOCUMENT), 0))
    yield made
    made.close()


def page(server: MapServer) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=60) as answer:
        content: bytes = answer.read()
    return content


def test_readers_that_say_nothing_lock_nobody_out(server: MapServer) -> None:
    before = threading.active_count()
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 60))
        assert b"<html" in page(server)
        by = time.monotonic() + 60
        while threading.active_count() > before + 64 and time.monotonic() < by:
            time.sleep(0.01)
        assert threading.active_count() <= before + 64


@pytest.mark.parametrize(
    "said",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 100_000,
        b"POST / HTTP/1.0\r\nContent-Length: 99999999999\r\n\r\n",
        b"GET / HTTP/1.0\r\n" + b"a: b\r\n" * 1000 + b"\r\n",
        b"GET /%ff%00/../../etc/passwd HTTP/1.0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\xff" * 1000,
    ],
    ids=lambda said: said[:20].decode("latin-1"),
)
def test_what_is_no_request_changes_nothing(server: MapServer, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 60) as stranger, contextlib.suppress(OSError):
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        while part := stranger.recv(65536):
            assert b"200 OK" not in part
            assert b"root:" not in part
    assert b"<html" in page(server)
