# SPDX-License-Identifier: BSD-2-Clause
"""A real cut: two planes of veth links and a router between them whose kernel drops one plane's packets in silence."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from patience import PATIENCE_S, until_in_use

from mrc.net.exchange import ExchangeClient, ExchangeServer, SessionInfo

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        (os.geteuid() != 0 or shutil.which("ip") is None) and os.environ.get("CI") != "true",
        reason="needs root and the ip program",
    ),
]

T = TypeVar("T")
CLONE_NEWNET = 0x40000000


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def inside(namespace: str, call: Callable[[], T]) -> T:
    """`call()` in a thread of its own that is in `namespace`, as are the sockets and the threads it makes."""

    def run() -> T:
        with Path(f"/run/netns/{namespace}").open() as handle:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(handle.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        return call()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(run).result(10 * PATIENCE_S)


class TwoPlanes:
    """client - router - server, once per plane; the server is fd10:PLANE:b::2."""

    def __init__(self) -> None:
        self.client, self.router, self.server = (f"mrc-exchange-{os.getpid()}-{end}" for end in ("c", "r", "s"))

    def __enter__(self) -> TwoPlanes:
        try:
            for name in (self.client, self.router, self.server):
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
                # Duplicate address detection would hold back the first packets for up to two seconds.
                settings = [f"net.ipv6.conf.{which}.accept_dad=0" for which in ("all", "default")]
                ip("netns", "exec", name, "sysctl", "-qw", *settings)
            ip("netns", "exec", self.router, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
            for plane in (0, 1):
                for end, net, other in ((self.client, "a", "b"), (self.server, "b", "a")):
                    ip(
                        "link",
                        "add",
                        f"p{plane}",
                        "netns",
                        end,
                        "type",
                        "veth",
                        "peer",
                        f"{net}{plane}",
                        "netns",
                        self.router,
                    )
                    for name, link, last in ((end, f"p{plane}", 2), (self.router, f"{net}{plane}", 1)):
                        ip("-n", name, "addr", "add", f"fd10:{plane}:{net}::{last}/64", "dev", link, "nodad")
                        ip("-n", name, "link", "set", link, "up")
                    ip("-n", end, "route", "add", f"fd10:{plane}:{other}::/64", "via", f"fd10:{plane}:{net}::1")
            until_in_use({"p0", "p1"}, self.client)
            until_in_use({"p0", "p1"}, self.server)
            until_in_use({"a0", "a1", "b0", "b1"}, self.router)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        for name in (self.client, self.router, self.server):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def cut(self, plane: int) -> None:
        """Neither end sees a carrier go, an ICMP error or a reset."""
        for net in "ab":
            ip("-n", self.router, "route", "add", "blackhole", f"fd10:{plane}:{net}::2/128")


@pytest.fixture
def planes() -> Iterator[TwoPlanes]:
    with TwoPlanes() as made:
        yield made


def opened_over_the_first(server: ExchangeServer) -> ExchangeClient:
    """A client with a session over plane 0; one that was kept waiting may have taken the other."""
    while True:
        client = ExchangeClient(server.ticket)
        if client.request("open", {}, PATIENCE_S) == {"from": "fd10:0:a::2"}:
            return client
        client.close()


def test_a_plane_is_cut_during_a_request(planes: TwoPlanes) -> None:
    started, release = threading.Event(), threading.Event()
    calls: list[str] = []
    ended: list[SessionInfo] = []

    def handler(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        calls.append(kind)
        if kind == "verify":
            started.set()
            release.wait(PATIENCE_S)
        return {"from": session.peer_address}

    server = ExchangeServer([], handler, advertised=["fd10:0:b::2", "fd10:1:b::2"], on_session_closed=ended.append)
    inside(planes.server, server.start)

    def cut() -> None:
        started.wait(PATIENCE_S)
        planes.cut(0)
        while server.counters["replayed_requests"] == 0:
            time.sleep(0.01)
        release.set()

    def client() -> float:
        # Cold neighbours lose first packets; that is another matter than a cut.
        for address in server.ticket.addresses:
            socket.create_connection((address, server.ticket.port), PATIENCE_S).close()
        with opened_over_the_first(server) as exchange:
            calls[:] = ["open"]
            ended.clear()
            began = time.monotonic()
            threading.Thread(target=cut, daemon=True).start()
            # The peer address is read when the handler ends: by then the session had come over the other plane.
            assert exchange.request("verify", {}, PATIENCE_S) == {"from": "fd10:1:a::2"}
            took = time.monotonic() - began
            assert exchange.address == "fd10:1:b::2"
            assert exchange.request("next", {}, PATIENCE_S) == {"from": "fd10:1:a::2"}
        return took

    try:
        assert inside(planes.client, client) > 0.9
    finally:
        server.close()
    assert calls == ["open", "verify", "next"]
    assert [session.closed_because for session in ended] == ["client"]
    assert server.counters["superseded_connections"] >= 1


def test_the_first_plane_is_cut_before_the_first_connection(planes: TwoPlanes) -> None:
    server = ExchangeServer([], lambda session, kind, body: {}, advertised=["fd10:0:b::2", "fd10:1:b::2"])
    inside(planes.server, server.start)
    planes.cut(0)

    def client() -> float:
        began = time.monotonic()
        with ExchangeClient(server.ticket) as exchange:
            exchange.request("open", {}, PATIENCE_S)
            assert exchange.address == "fd10:1:b::2"
            return time.monotonic() - began

    try:
        # A TCP connect to silence alone takes minutes.
        assert inside(planes.client, client) < PATIENCE_S / 2
    finally:
        server.close()
