# SPDX-License-Identifier: BSD-2-Clause
"""The control between processes: who is let in, messages, processes that leave, and processes that end."""

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

from mrc.collectives.control.channel import SECRET_BYTES, Channel, Dialled, Dialling
from mrc.collectives.control.listening import Contact, Note
from mrc.collectives.control.tcp import TcpControl
from mrc.errors import PeerError
from mrc.net.exchange.messages import LENGTH
from mrc.net.exchange.tls import Identity, WrongCertificate, make_identity

SECRET = b"s" * SECRET_BYTES
HERE: Contact = {"process": "dialling"}
# A process that says what it hears, until it is killed. With "forks" it has a child that lives on.
CHILD = """
import json, os, sys, time
from mrc.collectives.control.tcp import TcpControl

class Listener:
    def hear(self, process, note):
        print(json.dumps(note), flush=True)
    def gone(self, process, why):
        pass
    def broken(self, why):
        pass
    def keeps(self, inner):
        return False

control = TcpControl(["::1"])
print(json.dumps(control.contact), flush=True)
control.listen("world", Listener())
control.meet(json.loads(sys.stdin.readline()))
if "forks" in sys.argv and not os.fork():
    os.close(0), os.close(1)
    time.sleep(600)
sys.stdin.readline()
control.close()
"""


@pytest.fixture(scope="module")
def identity() -> Identity:
    return make_identity()


def carry(one: Channel, other: Channel, step: int = 1 << 20) -> None:
    """Hand each end what the other sends, `step` bytes at a time, until neither has more."""
    moved = True
    while moved:
        moved = False
        for source, target in ((one, other), (other, one)):
            data = source.take_outgoing()
            moved = moved or bool(data)
            for start in range(0, len(data), step):
                target.receive(data[start : start + step])
                if not target.ready:
                    assert not list(target.messages())


def ends(identity: Identity, secret: bytes = SECRET) -> tuple[Dialling, Dialled]:
    dialling, dialled = Dialling(identity.fingerprint, secret, HERE, 3), Dialled(identity, SECRET)
    dialling.begin()
    return dialling, dialled


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_messages_come_whole_and_in_order(identity: Identity, step: int) -> None:
    dialling, dialled = ends(identity)
    carry(dialling, dialled, step)
    assert dialling.ready
    assert dialled.ready
    assert (dialled.contact, dialled.plane) == (HERE, 3)
    for source, target in ((dialling, dialled), (dialled, dialling)):
        for number in range(3):
            source.send({"type": "note", "number": number, "text": "x" * 30_000})
        data = source.take_outgoing()
        got = []
        for start in range(0, len(data), max(step, 100)):
            target.receive(data[start : start + max(step, 100)])
            got += [message["number"] for message in target.messages()]
        assert got == [0, 1, 2]


def test_who_does_not_know_the_secret_is_refused(identity: Identity) -> None:
    dialling, dialled = ends(identity, b"x" * SECRET_BYTES)
    with pytest.raises(PeerError, match="does not know the secret"):
        carry(dialling, dialled)
    assert not dialled.ready


def test_another_process_at_the_address_is_told_nothing(identity: Identity) -> None:
    dialling, dialled = Dialling(identity.fingerprint, SECRET, HERE, 0), Dialled(make_identity(), SECRET)
    dialling.begin()
    with pytest.raises(WrongCertificate):
        carry(dialling, dialled)
    dialled.receive(dialling.take_outgoing())
    assert not dialled.ready


@pytest.mark.parametrize(
    "first", [b"[" * 60_000, b"GET / HTTP/1.1\r\n\r\n" * 10, bytes(5000), b"\x16\x03\x01\xff\xff" * 999]
)
def test_what_is_no_tls_is_refused(identity: Identity, first: bytes) -> None:
    with pytest.raises(PeerError, match="no TLS"):
        Dialled(identity, SECRET).receive(first)


@pytest.mark.parametrize(
    "hello",
    [
        b"[" * 4000,
        b"\xff\xfe",
        b'{"type": NaN}',
        b'{"type": "hello", "session": 1e999}',
        b'{"type": "note", "number": 0, "to": "world", "note": {}}',
        b'{"type": "hello", "session": "00", "proof": "00", "plane": 0, "contact": {}}',
        None,
    ],
)
def test_strangers_with_tls_are_refused_before_anything_else_is_read(identity: Identity, hello: bytes | None) -> None:
    """None: longer than a hello may be."""
    dialling, dialled = ends(identity)
    for _ in range(4):
        dialled.receive(dialling.take_outgoing())
        with contextlib.suppress(PeerError):
            dialling.receive(dialled.take_outgoing())
    assert dialling.shaken
    content = b"[" * 60_000 if hello is None else hello
    dialling._tls.write(LENGTH.pack(len(content)) + content)
    dialled.receive(dialling.take_outgoing())
    with pytest.raises(PeerError):
        list(dialled.messages())
    assert not dialled.ready


class Listener:
    """What a group hears."""

    def __init__(self, subgroups: tuple[str, ...] = ()) -> None:
        self.notes: list[tuple[str, Note]] = []
        self.ended: list[tuple[str, str]] = []
        self.failures: list[str] = []
        self._subgroups = subgroups

    def hear(self, process: str, note: Note) -> None:
        self.notes.append((process, note))
        if note.get("said") == "break":
            raise ZeroDivisionError("what nobody foresaw")

    def gone(self, process: str, why: str) -> None:
        self.ended.append((process, why))

    def broken(self, why: str) -> None:
        self.failures.append(why)

    def keeps(self, inner: str) -> bool:
        return inner in self._subgroups


@contextmanager
def controls(count: int, *subgroups: str) -> Iterator[tuple[list[TcpControl], list[Listener]]]:
    made = [TcpControl(["::1", "::1"]) for _ in range(count)]
    contacts = [json.loads(json.dumps(control.contact)) for control in made]
    listeners = [Listener(subgroups) for _ in made]
    for rank, control in enumerate(made):
        control.listen("world", listeners[rank])
        for other in range(count):
            if other != rank:
                assert control.meet(contacts[other]) == contacts[other]["process"]
    yield made, listeners
    closing = [threading.Thread(target=control.close) for control in made]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(PATIENCE_S)


def name(control: TcpControl) -> str:
    return str(control.contact["process"])


def test_everybody_hears_everything_once_and_in_order() -> None:
    with controls(3) as (made, listeners):
        for number in range(20):
            for control in made:
                for other in made:
                    if other is not control:
                        control.say(name(other), "world", {"said": number})
        for rank, listener in enumerate(listeners):
            eventually(lambda listener=listener: len(listener.notes) >= 40)
            for other in range(3):
                heard = [note["said"] for source, note in listener.notes if source == name(made[other])]
                assert heard == (list(range(20)) if other != rank else [])


def test_what_was_heard_is_not_kept() -> None:
    """Whatever the number of messages, those that arrived cost nothing."""
    with controls(2) as (made, listeners):
        for number in range(3000):
            made[0].say(name(made[1]), "world", {"said": number})
        eventually(lambda: len(listeners[1].notes) == 3000)
        (peer,) = made[0]._peers.values()
        eventually(lambda: not peer.said)
        assert peer.first == 3000


def test_one_that_is_not_to_dial_does_when_the_other_does_not_know_of_it() -> None:
    """It read where the other is, which has not read where it is."""
    made = sorted((TcpControl(["::1"]) for _ in range(2)), key=name)
    listener = Listener()
    made[0].listen("world", listener)
    made[1].meet(made[0].contact)
    made[1].say(name(made[0]), "world", {"said": 1})
    eventually(lambda: listener.notes)
    for control in made:
        control.close()


def test_what_a_subgroup_is_sent_waits_for_it() -> None:
    """What is for one that is closed, or that never is made, does not."""
    with controls(2, "0-1.0") as (made, listeners):
        for inbox in ("world/0-1.0", "world/0-1.1", "elsewhere/0-1.0", "world"):
            made[0].say(name(made[1]), inbox, {"said": inbox})
        eventually(lambda: listeners[1].notes)
        late = Listener()
        made[1].listen("world/0-1.0", late)
        assert [note["said"] for _, note in late.notes] == ["world/0-1.0"]
        assert not made[1]._listeners._early


def test_a_process_that_leaves_is_not_gone() -> None:
    with controls(2) as (made, listeners):
        made[0].say(name(made[1]), "world", {"bye": 7})
        made[0].close()
        eventually(lambda: listeners[1].notes)
        assert listeners[1].notes[0][1]["bye"] == 7
    assert not listeners[1].ended


def test_a_control_that_fails_says_so_to_all_its_groups() -> None:
    """Its thread must not end without a word, for then no dead rank would ever be reported."""
    with controls(2) as (made, listeners):
        beside = Listener()
        made[1].listen("beside", beside)
        made[0].say(name(made[1]), "world", {"said": "break"})
        eventually(lambda: listeners[1].failures and beside.failures)
        assert beside.failures == ["this process's control failed: ZeroDivisionError: what nobody foresaw"]
        late = Listener()
        made[1].listen("late", late)
        assert late.failures == beside.failures


NO_THREAD = """
import os, resource
from mrc.collectives.control.tcp import TcpControl
from mrc.errors import SystemRefused
import mrc.net.exchange.tls
mrc.net.exchange.tls.make_identity()
before = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
os.setuid(65534)
try:
    TcpControl(["::1"])
except SystemRefused as error:
    print(error)
print(len(os.listdir("/proc/self/fd")) - before)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_where_no_thread_can_be_had_it_is_refused_and_nothing_stays_open() -> None:
    ended = subprocess.run([sys.executable, "-c", NO_THREAD], capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "the system allows this process no further thread: raise the limit (`ulimit -u`, the cgroup's pids.max)",
        "0",
    ]


def child(control: TcpControl, *how: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, *how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    contact: Any = json.loads(process.stdout.readline())
    process.stdin.write(json.dumps(control.contact) + "\n")
    process.stdin.flush()
    control.meet(contact)
    control.say(contact["process"], "world", {"said": 1})
    assert json.loads(process.stdout.readline())["said"] == 1
    return process


@pytest.mark.parametrize("how", [("SIGKILL",), ("SIGTERM",), ("SIGKILL", "forks")])
def test_a_process_that_ends_is_gone(how: tuple[str, ...]) -> None:
    """With a child of its own that lives on, too."""
    control, listener = TcpControl(["::1"]), Listener()
    control.listen("world", listener)
    with child(control, *how[1:]) as process:
        os.kill(process.pid, signal.Signals[how[0]])
        eventually(lambda: listener.ended)
        assert "nobody listens at its address any more" in listener.ended[0][1]
        if "forks" in how:
            os.killpg(process.pid, signal.SIGKILL)
    late = Listener()
    control.listen("late", late)
    assert late.ended == listener.ended
    control.close()


def test_a_process_that_is_stopped_is_not_gone() -> None:
    control, listener = TcpControl(["::1"]), Listener()
    control.listen("world", listener)
    with child(control) as process:
        (there,) = control._peers
        os.kill(process.pid, signal.SIGSTOP)
        control.say(there, "world", {"said": 2})
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["said"] == 2
        assert not listener.ended
        control.close()
        process.communicate("\n", timeout=PATIENCE_S)
        assert process.returncode == 0


class ByHand:
    """A process by hand: a socket that listens, and a connection from it."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.server = socket.create_server(("::1", 0), family=socket.AF_INET6)
        self.server.settimeout(PATIENCE_S)
        self.contact: Contact = {
            "process": "by hand",
            "addresses": ["::1"],
            "port": self.server.getsockname()[1],
            "fingerprint": identity.fingerprint.hex(),
            "secret": SECRET.hex(),
        }

    def dial(self, control: TcpControl, *notes: Note) -> socket.socket:
        contact = control.contact
        channel = Dialling(bytes.fromhex(contact["fingerprint"]), bytes.fromhex(contact["secret"]), self.contact, 0)
        sock = socket.create_connection(("::1", contact["port"]), PATIENCE_S)
        channel.begin()
        while not channel.ready:
            sock.sendall(channel.take_outgoing())
            channel.receive(sock.recv(1 << 16))
            assert not list(channel.messages())
        for number, note in enumerate(notes):
            channel.send({"type": "note", "number": number, "to": "world", "note": note})
        sock.sendall(channel.take_outgoing())
        return sock


@contextmanager
def by_hand(identity: Identity) -> Iterator[tuple[TcpControl, Listener, ByHand]]:
    control, listener, made = TcpControl(["::1"]), Listener(), ByHand(identity)
    control.listen("world", listener)
    yield control, listener, made
    control.close()
    made.server.close()


def test_a_process_whose_listening_socket_is_closed_last_is_gone(identity: Identity) -> None:
    """The kernel closes the sockets of a process that is killed in any order, and takes connections until the end."""
    with by_hand(identity) as (control, listener, made):
        with made.dial(control, {"said": 1}):
            eventually(lambda: listener.notes)
        # The connection to ask is made, and nobody says a word.
        assert select.select([made.server], [], [], PATIENCE_S)[0]
        assert not listener.ended
        made.server.close()
        eventually(lambda: listener.ended)
        assert listener.ended[0][0] == "by hand"


def test_a_process_that_says_a_word_lives(identity: Identity) -> None:
    with by_hand(identity) as (control, listener, made):
        with made.dial(control, {"said": 1}):
            eventually(lambda: listener.notes)
        asked, _ = made.server.accept()
        asked.settimeout(PATIENCE_S)
        channel = Dialled(identity, SECRET)
        while not channel.ready:
            channel.receive(asked.recv(1 << 16))
            assert not list(channel.messages())
            asked.sendall(channel.take_outgoing())
        peer = control._peers["by hand"]
        eventually(lambda: peer.doubted_since is None and any(each.ready for each in peer.connections))
        assert not listener.ended
        asked.close()


def test_another_process_at_its_address_means_that_it_is_gone(identity: Identity) -> None:
    """A port that was let go is given to others."""
    with by_hand(identity) as (control, listener, made):
        with made.dial(control, {"said": 1}):
            eventually(lambda: listener.notes)
        asked, _ = made.server.accept()
        other = Dialled(make_identity(), SECRET)
        other.receive(asked.recv(1 << 16))
        asked.sendall(other.take_outgoing())
        eventually(lambda: listener.ended)
        assert "another process listens at its address" in listener.ended[0][1]
        asked.close()
