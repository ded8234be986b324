# SPDX-License-Identifier: BSD-2-Clause
"""2,000 drawn frames without a key at each port that a process of this product opens.

The process goes on, its memory and descriptors stay as they were, and an honest client is served afterwards.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import programs
import pytest
from loopback import Inside, needs_root, own_loopback
from patience import PATIENCE_S, eventually
from programs import MRC
from strangers_frames import datagram, message, stream_frame

from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.map.probe import UDP_PORT
from mrc.net.ticket import Ticket

pytestmark = needs_root
FRAMES = 2000
SERVER, STRANGER, HONEST = "fd00:99::1", "fd00:99::2", "fd00:99::3"
MOST_GROWTH = 2 << 20  # bytes of memory: caches, tables that double, pages the allocator keeps
MOST_WAITING = 1 << 15  # bytes at a socket, below which it has room for 100 frames more
FIRST = 500  # frames after which memory is looked at: what the first of a kind loads has been loaded


@dataclass
class Running:
    """A process, where strangers reach it, and what an honest client of it does."""

    process: subprocess.Popen[str]
    said: str
    directory: Path

    @property
    def ticket(self) -> Ticket:
        return Ticket.parse(self.said)


def run(*argv: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [*MRC, *map(str, argv)]
    return programs.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **options)


# ------------------------------------------------------------------ frames


def at_tcp(address: str, port: int, draw: random.Random, count: int) -> None:
    """A connection for each frame; who is refused or hung up on goes on with the next."""
    for _ in range(count):
        with contextlib.suppress(OSError), socket.create_connection((address, port), PATIENCE_S) as stranger:
            stranger.sendall(stream_frame(draw))
            if draw.random() < 0.05:
                stranger.settimeout(0.05)
                stranger.recv(4096)


def inside_tls(address: str, port: int, draw: random.Random, count: int) -> None:
    """The same from inside TLS, which needs no key: up to a hello that proves nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for _ in range(count):
        with (
            contextlib.suppress(OSError, ssl.SSLError),
            socket.create_connection((address, port), PATIENCE_S) as plain,
            context.wrap_socket(plain) as stranger,
        ):
            stranger.sendall(message(draw))


def at_exchange(address: str, port: int, draw: random.Random, count: int) -> None:
    at_tcp(address, port, draw, count - count // 20)
    inside_tls(address, port, draw, count // 20)


def at_unix(path: Path, draw: random.Random, count: int) -> None:
    """Lines and noise at a local socket, 50 a connection."""
    for _ in range(count // 50):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(PATIENCE_S)
            stranger.connect(str(path))
            for _ in range(50):
                stranger.sendall(stream_frame(draw) + draw.choice((b"\n", b"")))
            stranger.settimeout(0.02)
            stranger.recv(1 << 16)


def at_udp(address: str, port: int, draw: random.Random, count: int, *, read: bool) -> None:
    """`read`: whoever is there reads all the while, so that frames can wait until there is room at its socket."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as stranger:
        stranger.bind((STRANGER, 0))
        source_port = stranger.getsockname()[1]
        for number in range(count):
            with contextlib.suppress(OSError):
                stranger.sendto(datagram(draw, STRANGER, address, source_port), (address, port))
            if read and number % 100 == 0:
                # They are to be received, not dropped by a full socket.
                eventually(lambda: waiting_bytes(stranger) < MOST_WAITING)


def waiting_bytes(ours: socket.socket) -> int:
    """The most that waits here at any socket of datagrams but `ours`, which nobody reads."""
    inode, found = os.fstat(ours.fileno()).st_ino, [0]
    for table in ("udp6", "raw6"):
        with open(f"/proc/thread-self/net/{table}") as sockets:
            lines = [line.split() for line in list(sockets)[1:]]
        # Bytes sent and received, in hexadecimal, and the inode.
        found += [int(line[4].partition(":")[2], 16) for line in lines if int(line[9]) != inode]
    return max(found)


# ------------------------------------------------------------------ what is looked at


def footprint(pid: int) -> tuple[int, int, int]:
    """Memory in bytes, descriptors and threads of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    (memory,), (threads,) = re.findall(r"VmRSS:\s+(\d+)", status), re.findall(r"Threads:\s+(\d+)", status)
    return 1024 * int(memory), len(os.listdir(f"/proc/{pid}/fd")), int(threads)


def survives(process: subprocess.Popen[str], frames: Callable[[random.Random, int], None], seed: str) -> None:
    """The process is there after FRAMES frames, as large as after the first of them, with no more descriptors."""
    draw = random.Random(seed)
    _, descriptors, threads = footprint(process.pid)
    frames(draw, FIRST)
    memory = footprint(process.pid)[0]
    frames(draw, FRAMES - FIRST)

    def settled() -> bool:
        assert process.poll() is None, "the process has ended"
        _, descriptors_now, threads_now = footprint(process.pid)
        return descriptors_now <= descriptors + 2 and threads_now <= threads + 4

    eventually(settled)
    assert footprint(process.pid)[0] - memory < MOST_GROWTH


# ------------------------------------------------------------------ processes on a loopback of their own


@pytest.fixture(scope="module")
def inside() -> Iterator[Inside]:
    with own_loopback([SERVER, STRANGER, HONEST]) as found:
        yield found


@contextlib.contextmanager
def started(inside: Inside, directory: Path, *argv: str | Path) -> Iterator[Running]:
    """A serving process; the first line it prints is a ticket, or says where it listens."""
    held: list[subprocess.Popen[str]] = []
    sockets = directory / "ctl"
    sockets.mkdir(mode=0o700)

    def begin() -> None:
        held.append(
            programs.start(
                [*MRC, *map(str, argv)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=os.environ | {"MRC_CONTROL_DIR": str(sockets)},
            )
        )

    inside(begin)
    (process,) = held
    try:
        assert process.stdout is not None
        yield Running(process, process.stdout.readline().strip(), directory)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=PATIENCE_S)[0]
        assert "Traceback" not in said
        assert process.returncode == 130, said
    finally:
        process.kill()
        process.communicate()


def sends(inside: Inside, running: Running) -> None:
    """An honest sender's file arrives."""
    content = random.Random(1).randbytes(300_000)
    (running.directory / "file").write_bytes(content)
    found: list[subprocess.CompletedProcess[str]] = []
    argv = ("send", "--mode", "udp", "--bind", HONEST, running.directory / "file", running.said)
    inside(lambda: found.append(run(*argv)))
    assert found[0].returncode == 0, found[0].stderr
    assert (running.directory / "arrived" / "file").read_bytes() == content


def benches(inside: Inside, running: Running) -> None:
    found: list[subprocess.CompletedProcess[str]] = []
    argv = ("bench", "write", "--mode", "udp", "--bind", HONEST, "--seconds", "0.2", running.said)
    inside(lambda: found.append(run(*argv)))
    assert found[0].returncode == 0, found[0].stderr


def conforms(inside: Inside, running: Running) -> None:
    found: list[subprocess.CompletedProcess[str]] = []
    argv = ("conformance", "run", "--bind", HONEST, "--id", "MRC-SACK-04", "--target", running.said)
    inside(lambda: found.append(run(*argv)))
    assert found[0].returncode == 0, found[0].stdout + found[0].stderr


def is_listed(inside: Inside, running: Running) -> None:
    done = run("ctl", "list", env=os.environ | {"MRC_CONTROL_DIR": str(running.directory / "ctl")})
    assert done.returncode == 0
    assert str(running.process.pid) in done.stdout


def met_them_and_sends(inside: Inside, running: Running) -> None:
    """The frames came as far as the endpoint, which refused them by name; and a sender is served."""
    done = run("ctl", "metrics", env=os.environ | {"MRC_CONTROL_DIR": str(running.directory / "ctl")})
    refused = re.findall(
        r"mrc_(?:unknown_qp|unknown_peer|bad_source|too_short|bad_icrc|bad_length|bad_opcode|refused_by_kernel|\w*unknown\w*)"
        r"_total\{[^}]*\} ([0-9.e+]+)",
        done.stdout,
    )
    assert sum(map(float, refused)) > FRAMES / 2, done.stdout
    sends(inside, running)


def is_scraped(inside: Inside, running: Running) -> None:
    (url,) = re.findall(r"http://\S+", running.said)

    def scrape() -> None:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            assert b"mrc_endpoints" in answer.read()

    inside(scrape)


def exchange(running: Running, draw: random.Random, count: int) -> None:
    at_exchange(SERVER, running.ticket.port, draw, count)


def packets(running: Running, draw: random.Random, count: int) -> None:
    at_udp(SERVER, 4791, draw, count, read=True)


def control(running: Running, draw: random.Random, count: int) -> None:
    at_unix(running.directory / "ctl" / f"{running.process.pid}.sock", draw, count)


def pages(running: Running, draw: random.Random, count: int) -> None:
    at_tcp("127.0.0.1", int(re.findall(r":(\d+)/", running.said)[0]), draw, count)


@dataclass(frozen=True)
class Port:
    """A port: who opens it, how strangers come to it, and what an honest client of it does."""

    command: tuple[str, ...]
    frames: Callable[[Running, random.Random, int], None]
    honest: Callable[[Inside, Running], None]


_RECV = ("recv", "--mode", "udp", "--bind", SERVER, "--dir", "arrived")
_BENCH = ("bench", "serve", "--mode", "udp", "--bind", SERVER)
_CONFORMANCE = ("conformance", "serve", "--mode", "udp", "--bind", SERVER)
# A port that is opened anywhere belongs here: a row.
PORTS = {
    "exchange of recv": Port(_RECV, exchange, sends),
    "UDP 4791 of recv": Port(_RECV, packets, met_them_and_sends),
    "control socket of recv": Port(_RECV, control, is_listed),
    "exchange of bench serve": Port(_BENCH, exchange, benches),
    "exchange of conformance serve": Port(_CONFORMANCE, exchange, conforms),
    "exporter of metrics": Port(("ctl", "metrics", "--listen", "127.0.0.1:0"), pages, is_scraped),
}


@pytest.mark.parametrize("name", PORTS)
def test_strangers_at_a_port(inside: Inside, tmp_path: Path, name: str) -> None:
    port = PORTS[name]
    (tmp_path / "arrived").mkdir()
    command = [str(tmp_path / each) if each == "arrived" else each for each in port.command]
    with started(inside, tmp_path, *command) as running:
        inside(lambda: survives(running.process, lambda draw, count: port.frames(running, draw, count), name))
        port.honest(inside, running)


def test_strangers_at_a_sender(inside: Inside, tmp_path: Path) -> None:
    """UDP 4791 of `mrc send`, while it waits for the rest of its standard input."""
    (tmp_path / "arrived").mkdir()
    with started(inside, tmp_path, "recv", "--mode", "udp", "--bind", SERVER, "--dir", tmp_path / "arrived") as running:
        held: list[subprocess.Popen[str]] = []
        argv = [*MRC, "send", "--mode", "udp", "--bind", HONEST, "--name", "piped", "-", running.said]
        inside(lambda: held.append(programs.start(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)))
        (sender,) = held
        assert sender.stdin is not None
        try:
            sender.stdin.write("x" * 100_000)
            sender.stdin.flush()
            eventually(lambda: footprint(sender.pid)[1] > 8)
            inside(
                lambda: survives(sender, lambda draw, count: at_udp(HONEST, 4791, draw, count, read=False), "sender")
            )
            sender.stdin.write("y" * 100_000)
            said = sender.communicate(timeout=PATIENCE_S)[1]
            assert sender.returncode == 0, said
        finally:
            sender.kill()
            sender.communicate()
        assert (tmp_path / "arrived" / "piped").read_text() == "x" * 100_000 + "y" * 100_000


# ------------------------------------------------------------------ the map, in a lab


@pytest.fixture(scope="module")
def map_lab() -> Iterator[Lab]:
    with Lab.up(f"live-{os.getpid()}-strangers", Clos(planes=1, leaves=2, spines=2)) as built:
        yield built


def test_strangers_at_the_map(map_lab: Lab) -> None:
    """Its page, the socket of its collector, and the port of its agents' probes; both hosts report afterwards."""
    serve = programs.start(
        [*MRC, "map", "serve", "--name", map_lab.name, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    )
    agents: list[subprocess.Popen[str]] = []
    try:
        assert serve.stderr is not None
        port = int(re.findall(r"http://127\.0\.0\.1:(\d+)/", serve.stderr.readline())[0])
        for host in ("h0", "h1"):
            argv = [*MRC, "map", "agent"]
            agents.append(map_lab.popen(host, argv, start=programs.start, stderr=subprocess.PIPE, text=True))

        def reporting() -> bool:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/map.json", timeout=PATIENCE_S) as answer:
                found = json.loads(answer.read())["agents"]
            return sum(not each["silent"] and each["sent"] > 0 for each in found) == 2

        eventually(reporting)
        survives(serve, lambda draw, count: at_tcp("127.0.0.1", port, draw, count), "page")
        collector = Path("/run/mrc") / map_lab.name / "map.sock"
        assert collector.is_socket()
        survives(serve, lambda draw, count: at_unix(collector, draw, count), "collector")
        survives(agents[0], lambda draw, count: at_agent(map_lab, draw, count), "agent")
        eventually(reporting)
    finally:
        for each in (*agents, serve):
            each.terminate()
        said = [each.communicate(timeout=PATIENCE_S)[1] for each in (*agents, serve)]
    assert not any("Traceback" in each for each in said)


def at_agent(lab: Lab, draw: random.Random, count: int) -> None:
    """From the other host, to the port of probes at the first host's own address."""

    def send() -> None:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as stranger:
            for number in range(count):
                stranger.sendto(draw.randbytes(draw.randrange(1, 300)), (lab.addresses("h0")[0], UDP_PORT))
                if number % 100 == 0:
                    time.sleep(0.002)

    lab.inside("h1", send)
