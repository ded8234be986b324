# SPDX-License-Identifier: BSD-2-Clause
"""A receiver that may have few threads (a pids cgroup, ulimit -u) goes on, and serves those who hold the ticket."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from patience import PATIENCE_S

from mrc.errors import PeerError
from mrc.net.exchange import ExchangeClient
from mrc.net.ticket import Ticket

# A user of its own for each test, since the limit counts all threads of a user.
FIRST_USER = 61_000
THREADS = 12
# Its own: the main one, those that accept and that close sessions. The rest is for connections.
FREE = THREADS - 3
SERVER = f"""
import os, resource, sys, threading, time
from mrc.net.exchange import ExchangeConfig, ExchangeServer
from mrc.net.exchange.tls import make_identity
from mrc.threads import end_with_any_thread
make_identity()  # what it imports may lie where this user cannot read
end_with_any_thread()

def handle(session, kind, body):
    if kind == "take every thread":
        try:
            while True:
                threading.Thread(target=time.sleep, args=({PATIENCE_S},), daemon=True).start()
        except RuntimeError:
            pass
    if kind == "take long":
        time.sleep(body["for_s"])
    return {{"kind": kind}}

config = ExchangeConfig(handshake_timeout_s={PATIENCE_S})
server = ExchangeServer(["127.0.0.1"], handle, config=config)
resource.setrlimit(resource.RLIMIT_NPROC, ({THREADS}, {THREADS}))
os.setgroups([]), os.setgid(int(sys.argv[1])), os.setuid(int(sys.argv[1]))
with server:
    print(server.ticket.text, flush=True)
    sys.stdin.read()
    print(sorted(server.counters.items()), flush=True)
"""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become users of its own making")


@pytest.fixture
def receiver(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    user = FIRST_USER + os.getpid() % 1000 * 4 + sum(map(ord, request.node.name)) % 4
    argv = [sys.executable, "-c", SERVER, str(user)]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ticket_of(process: subprocess.Popen[str]) -> Ticket:
    assert process.stdout is not None
    return Ticket.parse(process.stdout.readline().strip())


def silent(ticket: Ticket, count: int) -> list[socket.socket]:
    return [socket.create_connection((ticket.addresses[0], ticket.port), PATIENCE_S) for _ in range(count)]


def ask(ticket: Ticket, kind: str, within_s: float = PATIENCE_S) -> dict[str, object]:
    with ExchangeClient(ticket) as client:
        return client.request(kind, {}, within_s)


def ended(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate("", timeout=PATIENCE_S)
    assert (process.returncode, err) == (0, "")
    return out


def test_sixty_silent_connections_do_not_make_it_deaf(receiver: subprocess.Popen[str]) -> None:
    ticket = ticket_of(receiver)
    strangers = silent(ticket, 60)
    for number in range(3):
        assert ask(ticket, f"number {number}") == {"kind": f"number {number}"}
        strangers += silent(ticket, 20)
    for stranger in strangers:
        stranger.close()
    assert ask(ticket, "at last") == {"kind": "at last"}
    assert "'displaced_strangers', 0" not in ended(receiver)


def test_those_with_the_ticket_who_hold_all_threads_are_not_displaced(receiver: subprocess.Popen[str]) -> None:
    ticket = ticket_of(receiver)
    with contextlib.ExitStack() as stack:
        # Each is asked with the others there. The last has no second thread for notes while it works.
        clients = [stack.enter_context(ExchangeClient(ticket)) for _ in range(FREE)]
        for turn in range(2):
            for number, client in enumerate(clients):
                assert client.request(f"{turn} {number}", {}, PATIENCE_S) == {"kind": f"{turn} {number}"}
        # No thread is left for this one until another client goes.
        with pytest.raises(PeerError, match=r"no answer|did not|closed"):
            ask(ticket, "one more", within_s=2)
        for number, client in enumerate(clients):
            assert client.request(f"still {number}", {}, PATIENCE_S) == {"kind": f"still {number}"}
    assert ask(ticket, "one more") == {"kind": "one more"}
    assert "'displaced_strangers', 0" in ended(receiver)


def test_a_request_that_takes_long_is_answered_without_a_thread_for_its_notes(receiver: subprocess.Popen[str]) -> None:
    ticket = ticket_of(receiver)
    with ExchangeClient(ticket) as client:
        client.request("take every thread", {}, PATIENCE_S)
        answer = client.request("take long", {"for_s": 3}, PATIENCE_S)
        assert answer == {"kind": "take long"}
