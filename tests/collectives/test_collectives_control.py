"""The control between processes: messages that are authenticated, ranks that leave, processes that end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from patience import PATIENCE_S, eventually

from mrc.collectives.control.listening import Note
from mrc.collectives.control.secured import SECRET_BYTES, Secured, pair_key
from mrc.collectives.control.tcp import TcpControl
from mrc.errors import PeerError

KEY = pair_key(b"a" * SECRET_BYTES, b"b" * SECRET_BYTES)
# A rank that says what it hears, until it is killed.
CHILD = """
import json, sys
from mrc.collectives.control.tcp import TcpControl

class Listener:
    def hear(self, rank, note):
        print(json.dumps(note), flush=True)
    def gone(self, rank, why):
        pass

control = TcpControl(1, ["::1"])
print(json.dumps(control.document()), flush=True)
control.meet({0: json.loads(sys.stdin.readline())})
control.listen("world", Listener())
sys.stdin.readline()
control.close()
"""


def pair() -> tuple[Secured, Secured]:
    """Both ends of a connection, each with the other's nonce."""
    dialer, acceptor = Secured(KEY, dials=True), Secured(KEY, dials=False)
    dialer.take(acceptor.nonce)
    acceptor.take(dialer.nonce)
    return dialer, acceptor


def test_messages_come_whole_and_in_order() -> None:
    dialer, acceptor = pair()
    sealed = b"".join(dialer.seal({"number": number}) for number in range(3))
    got = []
    for byte in sealed:
        acceptor.take(bytes([byte]))
        while (note := acceptor.open()) is not None:
            got.append(note["number"])
    assert got == [0, 1, 2]
    dialer.take(acceptor.seal({"back": 1}))
    assert dialer.open() == {"back": 1}


def test_forged_messages_are_refused() -> None:
    """Changed, repeated, sent back to their sender, of another connection, under another key."""
    dialer, acceptor = pair()
    sealed = dialer.seal({"number": 1})
    other_dialer, _ = pair()
    stranger = Secured(pair_key(b"x" * SECRET_BYTES, b"y" * SECRET_BYTES), dials=True)
    stranger.take(acceptor.nonce)
    for forged in (
        sealed[:-1] + bytes([sealed[-1] ^ 1]),
        other_dialer.seal({"number": 1}),
        stranger.seal({"number": 1}),
        acceptor.seal({"number": 1}),
        b"\xff" * 8,
    ):
        end = Secured(KEY, dials=False)
        end.nonce = acceptor.nonce
        end.take(dialer.nonce + forged)
        with pytest.raises(PeerError):
            end.open()
    acceptor.take(sealed)
    assert acceptor.open() == {"number": 1}
    acceptor.take(sealed)
    with pytest.raises(PeerError, match="wrong checksum"):
        acceptor.open()


class Listener:
    """What a group hears."""

    def __init__(self) -> None:
        self.notes: list[tuple[int, Note]] = []
        self.ended: list[tuple[int, str]] = []

    def hear(self, rank: int, note: Note) -> None:
        self.notes.append((rank, note))

    def gone(self, rank: int, why: str) -> None:
        self.ended.append((rank, why))


@contextmanager
def controls(count: int) -> Iterator[tuple[list[TcpControl], list[Listener]]]:
    made = [TcpControl(rank, ["::1", "::1"]) for rank in range(count)]
    documents = {rank: json.loads(json.dumps(control.document())) for rank, control in enumerate(made)}
    listeners = [Listener() for _ in made]
    for rank, control in enumerate(made):
        control.meet({other: documents[other] for other in range(count) if other != rank})
        control.listen("world", listeners[rank])
    yield made, listeners
    closing = [threading.Thread(target=control.close) for control in made]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(PATIENCE_S)


def test_everybody_hears_everything_once_and_in_order() -> None:
    with controls(3) as (made, listeners):
        for number in range(20):
            for rank, control in enumerate(made):
                for other in range(3):
                    if other != rank:
                        control.say(other, "world", {"said": number})
        for rank, listener in enumerate(listeners):
            eventually(lambda listener=listener: len(listener.notes) >= 40)
            for other in range(3):
                heard = [note["said"] for source, note in listener.notes if source == other]
                assert heard == (list(range(20)) if other != rank else [])


def test_what_a_subgroup_is_sent_waits_for_it() -> None:
    with controls(2) as (made, _):
        made[0].say(1, "world/0-1.0", {"said": 1})
        late = Listener()
        made[0].say(1, "world", {"said": 2})
        made[1].listen("world/0-1.0", late)
        eventually(lambda: late.notes)
        assert late.notes[0][1]["said"] == 1


def test_a_rank_that_leaves_is_not_gone() -> None:
    with controls(2) as (made, listeners):
        made[0].say(1, "world", {"bye": 7})
        made[0].close()
        eventually(lambda: listeners[1].notes)
        assert listeners[1].notes[0][1]["bye"] == 7
    assert not listeners[1].ended


def test_strangers_are_ignored() -> None:
    """They send nothing, or rubbish, or a hello under a wrong key: the ranks go on."""
    with controls(2) as (made, listeners):
        port = made[1].document()["port"]
        stranger = Secured(pair_key(b"x" * SECRET_BYTES, b"y" * SECRET_BYTES), dials=True)
        sockets = [socket.create_connection(("::1", port)) for _ in range(3)]
        sockets[1].sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
        stranger.take(sockets[2].recv(16, socket.MSG_WAITALL))
        sockets[2].sendall(stranger.nonce + stranger.seal({"rank": 0, "plane": 0}) + stranger.seal({"bye": 1}))
        made[0].say(1, "world", {"said": 1})
        eventually(lambda: listeners[1].notes)
        assert [note.get("said") for _, note in listeners[1].notes] == [1]
        for each in sockets:
            each.close()
    assert not listeners[1].ended


def child(control: TcpControl) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    document: Any = json.loads(process.stdout.readline())
    process.stdin.write(json.dumps(control.document()) + "\n")
    process.stdin.flush()
    control.meet({1: document})
    return process


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_ends_is_gone(how: signal.Signals) -> None:
    control, listener = TcpControl(0, ["::1"]), Listener()
    control.listen("world", listener)
    with child(control) as process:
        control.say(1, "world", {"said": 1})
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["said"] == 1
        os.kill(process.pid, how)
        eventually(lambda: listener.ended)
        rank, why = listener.ended[0]
        assert rank == 1
        assert "nobody listens at its address any more" in why
    late = Listener()
    control.listen("late", late)
    eventually(lambda: late.ended)
    control.close()


def test_a_process_that_is_stopped_is_not_gone() -> None:
    control, listener = TcpControl(0, ["::1"]), Listener()
    control.listen("world", listener)
    with child(control) as process:
        control.say(1, "world", {"said": 1})
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGSTOP)
        control.say(1, "world", {"said": 2})
        os.kill(process.pid, signal.SIGCONT)
        assert json.loads(process.stdout.readline())["said"] == 2
        assert not listener.ended
        control.close()
        process.communicate("\n", timeout=PATIENCE_S)
        assert process.returncode == 0


class Dialer:
    """Rank 0 as rank 1 sees it, by hand: a socket that listens, and a connection from it."""

    def __init__(self) -> None:
        self.secret = bytes(SECRET_BYTES)
        self.server = socket.create_server(("::1", 0), family=socket.AF_INET6)
        self.server.settimeout(PATIENCE_S)
        self.document = {
            "addresses": ["::1"],
            "port": self.server.getsockname()[1],
            "secret": self.secret.hex(),
        }

    def dial(self, control: TcpControl, *notes: Note) -> socket.socket:
        document = control.document()
        secured = Secured(pair_key(self.secret, bytes.fromhex(document["secret"])), dials=True)
        sock = socket.create_connection(("::1", document["port"]))
        secured.take(sock.recv(16, socket.MSG_WAITALL))
        sock.sendall(secured.nonce + b"".join(map(secured.seal, ({"rank": 0, "plane": 0}, *notes))))
        return sock


@contextmanager
def dialled() -> Iterator[tuple[TcpControl, Listener, Dialer]]:
    control, listener, dialer = TcpControl(1, ["::1"]), Listener(), Dialer()
    control.listen("world", listener)
    control.meet({0: dialer.document})
    yield control, listener, dialer
    control.close()
    dialer.server.close()


def test_a_process_whose_listening_socket_is_closed_last_is_gone() -> None:
    """The kernel closes the sockets of a process that is killed in any order, and takes connections until the end."""
    with dialled() as (control, listener, dialer):
        dialer.dial(control, {"number": 0, "group": "world", "said": 1}).close()
        eventually(lambda: listener.notes)
        # The connection to ask is made, and nobody says a word.
        assert select.select([dialer.server], [], [], PATIENCE_S)[0]
        assert not listener.ended
        dialer.server.close()
        eventually(lambda: listener.ended)
        assert listener.ended[0][0] == 0


def test_a_process_that_says_a_word_lives() -> None:
    with dialled() as (control, listener, dialer):
        dialer.dial(control, {"number": 0, "group": "world", "said": 1}).close()
        asked, _ = dialer.server.accept()
        asked.sendall(bytes(16))
        # It reads the first byte and closes, with the others unread.
        with contextlib.suppress(ConnectionResetError):
            assert asked.recv(1) == b""
        with dialer.dial(control, {"number": 0}, {"number": 1, "group": "world", "said": 2}):
            eventually(lambda: len(listener.notes) == 2)
        assert not listener.ended
