# SPDX-License-Identifier: BSD-2-Clause
"""`mrc send` and `mrc recv` as processes in a lab, from outside: what they print, how they end, what they leave."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import programs
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from patience import PATIENCE_S, eventually
from programs import MRC

from mrc.fabric import Clos, Description, Impairment, Shape
from mrc.lab import Lab
from mrc.net.ticket import Ticket

T = TypeVar("T")
MIB = 1 << 20
# Bytes of a line of statistics.
MOST_OF_A_LINE = 1 << 15
# Keys of --json that must keep their meaning.
REPORT_KEYS = {
    "bytes",
    "seconds",
    "goodput_gbps",
    "sums_agree",
    "retransmitted_packets",
    "spurious_retransmissions",
    "duplicates_received",
    "paths",
    "failovers",
    "files",
}
PATH_KEYS = {"ev", "plane", "spine", "packets", "lost", "state"}
FILE_KEYS = {"name", "bytes", "sums_agree"}


def missing(what: str) -> None:
    """Skip, or fail where everything is supposed to be installed."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"needs {what}")
    pytest.skip(f"needs {what}")


def slowed(rate_bps: int, shape: Shape | None = None) -> Description:
    """A fabric in which h0 sends so much a plane: what goes on for long takes little of a processor."""
    slow = {(f"h0-p{plane}l0", f"p{plane}l0"): Impairment(rate_bps=rate_bps) for plane in range(2)}
    return Description(shape or Clos(), slow)


def dumpcap_of(tshark: str) -> Path:
    """The program that captures for tshark, which dissects nothing."""
    return Path(tshark).with_name("dumpcap")


@dataclass(frozen=True)
class Ended:
    """A program that is over: its exit status, what it wrote, and how long it took to end."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout, after the ticket where there is one."""
        text = self.out
        if text.startswith("mrc1:"):
            text = text.partition("\n")[2]
        document = json.loads(text)
        assert isinstance(document, dict)
        return document

    @property
    def one_line(self) -> str:
        """The one line on stderr of a program that failed."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].strip(), self.err
        return lines[0]

    def succeeded(self) -> Ended:
        assert self.code == 0, self.err
        self.no_traceback()
        return self

    def failed(self) -> Ended:
        """Exit status 1 and one line that says why."""
        assert self.code == 1, (self.code, self.out, self.err)
        assert self.one_line
        return self.no_traceback()

    def interrupted(self, number: int = signal.SIGTERM) -> Ended:
        """Exit status 128 + the signal's number."""
        assert self.code == 128 + number, (self.code, self.out, self.err)
        return self.no_traceback()

    def no_traceback(self) -> Ended:
        assert "Traceback" not in self.err, self.err
        return self


class Running:
    """A program in the lab. Whatever a test does, it is over when the fixture that made it is."""

    def __init__(self, process: subprocess.Popen[str], ticket: str = "") -> None:
        self.process = process
        self.ticket = ticket

    def end(self, timeout_s: float = PATIENCE_S) -> Ended:
        """Wait for its own end."""
        began = time.monotonic()
        out, err = self.process.communicate(timeout=timeout_s)
        return Ended(
            self.process.returncode, self.ticket + ("\n" if self.ticket else "") + out, err, time.monotonic() - began
        )

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = PATIENCE_S) -> Ended:
        self.process.send_signal(number)
        return self.end(timeout_s)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def in_time(running: list[Running], act: Callable[[int], T], *amounts: int) -> T:
    """`act(amount)`, which starts what goes on for so much; again with more where it was over before all was done.

    The amounts are seconds, or bytes, or what else `act` takes. What it starts is added to `running`.
    """
    for each in amounts:
        started = len(running)
        try:
            return act(each)
        except Exception:
            going_on = all(one.process.poll() is None for one in running[started:])
            if going_on or each == amounts[-1]:
                raise
            for one in running[started:]:
                one.kill()
    raise ValueError("no amount was given")


def when_acked(stats: Path, share: float, running: Running, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
    """Wait until the sender's statistics say that so much has been acknowledged; the line that does."""

    def line() -> dict[str, Any] | None:
        last = last_stats_line(stats)
        if last is not None and last["bytes_acked"] >= share * last["bytes_total"] > 0:
            return last
        assert running.process.poll() is None, running.process.communicate()
        return None

    found: dict[str, Any] = eventually(line, timeout_s)
    return found


class Transfers:
    """Starts senders on h0 and receivers on h1, or on any other node."""

    def __init__(self, lab: Lab, scratch: Path) -> None:
        self.lab = lab
        self.scratch = scratch
        self.directory = scratch / "in"
        self.directory.mkdir()
        self._running: list[Running] = []

    def start(
        self,
        node: str,
        argv: Sequence[str | Path],
        *,
        start: Callable[..., subprocess.Popen[Any]] = programs.start,
        **options: Any,
    ) -> Running:
        words = [str(word) for word in argv]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = self.lab.popen(node, words, start=start, **streams, **options)
        running = Running(process)
        self._running.append(running)
        return running

    def recv(
        self,
        *options: str | Path,
        node: str = "h1",
        prefix: Sequence[str] = (),
        directory: Path | None = None,
        limits: Mapping[int, int] | None = None,
    ) -> Running:
        """A receiver that has printed its ticket."""
        argv = [*prefix, *MRC, "recv", "--dir", directory or self.directory, *options]
        running = self.start(node, argv, **({"limits": limits} if limits else {}))
        assert running.process.stdout is not None
        running.ticket = running.process.stdout.readline().strip()
        assert running.ticket.startswith("mrc1:"), running.process.communicate()
        return running

    def send(self, receiver: Running, files: Sequence[str | Path], *options: str | Path, node: str = "h0") -> Running:
        return self.start(node, [*MRC, "send", *files, receiver.ticket, *options])

    def file(self, name: str, size: int) -> Path:
        """A file of reproducible random bytes."""
        path = self.scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(drawn(f"{name} {size}", size))
        return path

    def connected(self, node: str, *, or_trying: bool = False) -> None:
        """Wait until a program on this node has a connection to another's, or at least tries to get one."""
        # ESTABLISHED, SYN_SENT
        states = ("01", "02") if or_trying else ("01",)

        def look() -> bool:
            with open("/proc/thread-self/net/tcp6") as sockets:
                return any(line.split()[3] in states for line in list(sockets)[1:])

        eventually(lambda: self.lab.inside(node, look))

    def in_time(self, act: Callable[[int], T], *amounts: int) -> T:
        """`in_time` of what is started here."""
        return in_time(self._running, act, *amounts)

    def forget(self) -> None:
        """Take away what was received: a file that is there already would not be sent again."""
        for path in self.directory.iterdir():
            path.unlink()

    def received(self) -> dict[str, str]:
        """Name to SHA-256 of everything in the receiver's directory, hidden files too."""
        return sums(self.directory)

    def whole(self) -> list[str]:
        """Names in the receiver's directory, but for what is kept of transfers that broke."""
        return [name for name in os.listdir(self.directory) if not name.endswith(".mrc-part")]

    def when_acked(self, stats: Path, share: float, running: Running, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """`when_acked`."""
        return when_acked(stats, share, running, timeout_s)

    def close(self) -> None:
        for running in self._running:
            running.kill()


def stats_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines written so far by `mrc send --stats`."""
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def last_stats_line(path: Path) -> dict[str, Any] | None:
    """The last whole line written so far by `mrc send --stats`."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 2 * MOST_OF_A_LINE))
        text = file.read()
    line = text[: text.rfind(b"\n") + 1].rstrip(b"\n").rpartition(b"\n")[2]
    return json.loads(line) if line else None


def sums(directory: Path) -> dict[str, str]:
    return {name: sha256(directory / name) for name in sorted(os.listdir(directory))}


def drawn(seed: str, size: int) -> bytes:
    """Reproducible bytes that look random."""
    key = hashlib.sha256(seed.encode()).digest()
    return Cipher(AES(key), CTR(bytes(16))).encryptor().update(bytes(size))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def ticket_of(running: Running) -> Ticket:
    return Ticket.parse(running.ticket)
