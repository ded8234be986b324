# SPDX-License-Identifier: BSD-2-Clause
"""Strangers at the port of a rank's control: thousands of frames without a key, and the rank goes on."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from patience import PATIENCE_S, eventually
from test_collectives_control import Listener, child, name

from mrc.collectives.control.tcp import TcpControl
from mrc.net.exchange.messages import LENGTH
from mrc.net.exchange.tls import client_context

FRAMES = 5_000
# A connection for each of these at most; the others go over those that are open.
TLS_CONNECTIONS = 150


def drawn(random: random.Random) -> bytes:
    """A frame as a stranger might send it: nonsense, JSON that is deep or long or none, hellos and notes, cut short."""
    deep, text = random.choice([31, 33, 1000, 60_000]), "x" * random.choice([0, 10, 4000])
    content = random.choice(
        [
            b"[" * deep,
            b'{"type":' * deep,
            b"\xff" * random.randrange(50),
            random.randbytes(random.randrange(200)),
            b'{"type": NaN}',
            b"1" + b"0" * 5000,
            json.dumps({"type": random.choice(["hello", "note", "heard", "leaves", text, None]), "number": 0}).encode(),
            json.dumps({"type": "hello", "session": "0" * 32, "proof": "0" * 64, "plane": 0, "contact": {}}).encode(),
            json.dumps({"type": "note", "number": 0, "to": "world", "note": {"rank": 0, "bye": 0}}).encode(),
        ]
    )
    length = random.choice([len(content), len(content), 0, 1, 1 << 20, (1 << 32) - 1, random.randrange(1 << 32)])
    return LENGTH.pack(length) + content[: random.choice([len(content), random.randrange(len(content) + 1)])]


class Stranger:
    """Sends frames to a port, with TLS or without, and takes a new connection when the old one is refused."""

    def __init__(self, port: int, *, tls: bool) -> None:
        self._port = port
        self._context: ssl.SSLContext | None = client_context() if tls else None
        self._sock: socket.socket | None = None
        self.connections = 0

    def send(self, frame: bytes) -> None:
        try:
            if self._sock is None:
                self.connections += 1
                self._sock = socket.create_connection(("::1", self._port), PATIENCE_S)
                if self._context is not None:
                    self._sock = self._context.wrap_socket(self._sock)
            self._sock.sendall(frame)
        except OSError:
            self.close()

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def flood(port: int, frames: int, seed: int) -> int:
    """Send so many. Returns over how many connections."""
    source = random.Random(seed)
    strangers = [Stranger(port, tls=False) for _ in range(4)]
    encrypted = [Stranger(port, tls=True)]
    for _ in range(frames):
        among = encrypted if source.random() < 0.3 and encrypted[0].connections < TLS_CONNECTIONS else strangers
        stranger = source.choice(among)
        stranger.send(drawn(source))
        if source.random() < 0.1:
            stranger.close()
    for each in (*strangers, *encrypted):
        each.close()
    return sum(each.connections for each in (*strangers, *encrypted))


def test_thousands_of_frames_without_a_key() -> None:
    made, listeners = [TcpControl(["::1"]) for _ in range(2)], [Listener(), Listener()]
    for control, listener, other in zip(made, listeners, reversed(made), strict=True):
        control.listen("world", listener)
        control.meet(other.contact)
    made[0].say(name(made[1]), "world", {"said": 0})
    eventually(lambda: listeners[1].notes)
    port = made[1].contact["port"]
    flood(port, FRAMES // 10, 1)
    eventually(lambda: not made[1]._strangers)
    gc.collect()  # what earlier tests of this process left open
    before = resident(), descriptors()
    assert flood(port, FRAMES, 2) > FRAMES // 10
    eventually(lambda: not made[1]._strangers)
    eventually(lambda: descriptors() <= before[1])  # those that waited to be accepted end too
    assert resident() - before[0] < 8 << 20
    made[0].say(name(made[1]), "world", {"said": 1})
    eventually(lambda: len(listeners[1].notes) == 2)
    assert [note["said"] for _, note in listeners[1].notes] == [0, 1]
    for listener in listeners:
        assert not listener.ended
        assert not listener.failures
    for control in made:
        control.close()


def silent(port: int, held: contextlib.ExitStack) -> None:
    """Three hundred connections that say nothing."""
    for _ in range(300):
        held.enter_context(socket.create_connection(("::1", port), PATIENCE_S))


def brackets(port: int, _: contextlib.ExitStack) -> None:
    for _ in range(50):
        with contextlib.suppress(OSError), socket.create_connection(("::1", port), PATIENCE_S) as sock:
            sock.sendall(b"[" * 60_000)


def encrypted_brackets(port: int, _: contextlib.ExitStack) -> None:
    for _ in range(20):
        tls = client_context().wrap_socket(socket.create_connection(("::1", port), PATIENCE_S))
        with contextlib.suppress(OSError), tls:
            tls.sendall(LENGTH.pack(60_000) + b"[" * 60_000)


@pytest.mark.parametrize("attack", [brackets, encrypted_brackets, silent])
def test_a_dead_rank_is_reported_after_strangers_came(attack: Callable[[int, contextlib.ExitStack], None]) -> None:
    """They also cannot keep a rank out by holding all connections."""
    control, listener = TcpControl(["::1"]), Listener()
    control.listen("world", listener)
    with contextlib.ExitStack() as held:
        attack(control.contact["port"], held)
        with child(control) as process:
            attack(control.contact["port"], held)
            assert not listener.ended
            process.kill()
            eventually(lambda: listener.ended)
    assert not listener.failures
    control.close()
