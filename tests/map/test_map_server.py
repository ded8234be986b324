# SPDX-License-Identifier: BSD-2-Clause
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

DOCUMENT = {"fabric": "mrc", "faults": [], "suspicions": [], "agents": []}


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


def asked_as(server: MapServer, path: str, *hosts: str) -> tuple[int, bytes]:
    """Status and body of a request with these Host headers."""
    lines = [f"GET {path} HTTP/1.1", *(f"Host: {host}" for host in hosts), "Connection: close", "", ""]
    with socket.create_connection((server.host, server.port), 60) as reader:
        reader.sendall("\r\n".join(lines).encode("latin-1"))
        whole = b"".join(iter(lambda: reader.recv(1 << 16), b""))
    return int(whole.split()[1]), whole.partition(b"\r\n\r\n")[2]


OWN_NAMES = ["127.0.0.1", "127.0.0.1:8633", "localhost", "LOCALHOST:80", "[::1]:8633", "10.0.0.7", "[fd00::1]"]
OTHER_NAMES = [
    *("evil.example", "evil.example:8633", "127.0.0.1.evil.example", "localhost.evil.example", "1.2.3.4.nip.io"),
    *("", "127.0.0.1@evil.example", "evil.example/127.0.0.1", "127.0.0.1, evil.example", "[::1", "[::1]x", "0x7f.1"),
]


@pytest.mark.parametrize("path", ["/", "/map.json", "/metrics"])
def test_a_name_that_somebody_else_gave_this_host_is_refused(server: MapServer, path: str) -> None:
    """DNS rebinding: a page of evil.example, whose name leads here now, would read the map of its visitor's network."""
    for host in [*OWN_NAMES, socket.gethostname(), f"{socket.gethostname()}:8633"]:
        status, body = asked_as(server, path, host)
        assert status in (200, 404)
        assert body
    for host in OTHER_NAMES:
        status, body = asked_as(server, path, host)
        assert status == 421
        assert b"mrc_map" not in body
        assert b'"faults"' not in body
    assert asked_as(server, path, "localhost", "evil.example")[0] == 421
    assert asked_as(server, path)[0] == 200  # HTTP/1.0 knows no Host: no browser speaks it


def test_the_page_is_served_over_ipv6_too() -> None:
    made = MapServer("::1", 0, lambda: (dict(DOCUMENT), 0))
    try:
        assert asked_as(made, "/", "[::1]")[0] == 200
    finally:
        made.close()


def test_without_prometheus_client_the_metrics_say_what_to_install(
    server: MapServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrc.report.prometheus.find_spec", lambda name: None)
    status, body = asked_as(server, "/metrics", "localhost")
    assert (status, b"softmrc[metrics]" in body) == (501, True)
    assert asked_as(server, "/map.json", "localhost")[0] == 200
