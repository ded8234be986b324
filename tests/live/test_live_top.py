# SPDX-License-Identifier: BSD-2-Clause
"""`mrc top` beside a real transfer: what it prints, and its keys, through a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from pathlib import Path
from typing import Any

import programs
import pytest
from live_run import Running, Transfers, eventually
from patience import PATIENCE_S
from programs import MRC

from mrc.lab import Lab

pytestmark = pytest.mark.root


def look(*argv: str) -> dict[str, Any]:
    done = programs.run([*MRC, "top", "--json", *argv], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, dict)
    return document


@pytest.fixture(scope="module")
def lab(slow_lab: Lab) -> Lab:
    return slow_lab


@pytest.fixture
def bench(transfers: Transfers) -> Iterator[Callable[[], Running]]:
    """`mrc bench write` from h0 to h1 for ten minutes; the test ends it."""
    server = transfers.start("h1", [*MRC, "bench", "serve"])
    assert server.process.stdout is not None
    ticket = next(line.strip() for line in server.process.stdout if line.startswith("mrc1:"))
    yield lambda: transfers.start("h0", [*MRC, "bench", "write", ticket, "--seconds", "600s", "--size", "64KiB"])
    server.process.send_signal(signal.SIGTERM)
    server.process.communicate(timeout=PATIENCE_S)


def endpoint_of(running: Running, *argv: str) -> dict[str, Any] | None:
    """What `mrc top --json` says of this process, once it has EVs in use."""
    for each in look("--endpoint", str(running.process.pid), *argv)["endpoints"]:
        if each["paths"]:
            return dict(each)
    return None


def test_it_tells_goodput_planes_and_every_ev(bench: Callable[[], Running]) -> None:
    writer = bench()
    found = eventually(lambda: (one := endpoint_of(writer)) and one["sent_gbps"] and one)
    assert found["program"] == "mrc bench write"
    assert found["name"].endswith("/h0")
    assert [(plane["plane"], plane["up"], plane["evs"]) for plane in found["planes"]] == [(0, True, 4), (1, True, 4)]
    assert [path["ev"] for path in found["paths"]] == [plane << 24 | spine for plane in (0, 1) for spine in range(4)]
    assert sum(path["share"] for path in found["paths"]) == pytest.approx(1)
    assert found["qps"][0]["sent_gbps"] == found["sent_gbps"] > 0
    assert found["qps"][0]["srtt_us"] > 0
    writer.stop()


def test_for_people_it_prints_tables(bench: Callable[[], Running]) -> None:
    writer = bench()
    eventually(lambda: endpoint_of(writer))
    done = programs.run(
        [*MRC, "top", "--once", "--endpoint", str(writer.process.pid)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False, env={**os.environ, "COLUMNS": "120"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert f"pid {writer.process.pid}" in done.stdout
    assert "0x01000003" in done.stdout
    writer.stop()


def test_nothing_runs_is_said_in_one_line() -> None:
    done = programs.run(
        [*MRC, "top", "--once", "--endpoint", "nobody"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "no endpoint nobody runs here" in done.stderr
    assert len(done.stderr.splitlines()) == 1


class Terminal:
    """`mrc top` on a terminal of so many lines and columns, and everything it wrote there."""

    def __init__(self, argv: list[str], lines: int, columns: int) -> None:
        master, slave = pty.openpty()
        ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.master, self._slave = master, slave
        self.written = ""
        self.process = programs.start(
            [*MRC, "top", *argv], stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm-256color"}
        )

    def read(self, seconds: float = 0.1) -> str:
        """Everything written so far."""
        by = time.monotonic() + seconds
        while select.select([self.master], [], [], max(0.0, by - time.monotonic()))[0]:
            with suppress(OSError):
                self.written += os.read(self.master, 1 << 16).decode("utf-8", "replace")
        return self.written

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def attributes(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self._slave)


@contextmanager
def terminal(*argv: str, lines: int = 40, columns: int = 130) -> Iterator[Terminal]:
    made = Terminal([*argv], lines, columns)
    try:
        yield made
    finally:
        made.close()


def state(running: Running, ev: int) -> str:
    found = endpoint_of(running, "--interval", "100ms")
    assert found is not None
    return str({path["ev"]: path["state"] for path in found["paths"]}[ev])


def test_keys_choose_deny_and_allow_an_ev(bench: Callable[[], Running]) -> None:
    """Two steps down is the third EV of plane 0. The terminal is as it was when it is over."""
    writer = bench()
    eventually(lambda: endpoint_of(writer))
    with terminal("--endpoint", str(writer.process.pid), "--interval", "200ms") as top:
        eventually(lambda: "0x00000002" in top.read())
        top.type(b"j")
        top.type(b"\x1b[B")
        top.type(b"d")
        eventually(lambda: "denied: EV 0x00000002" in top.read())
        assert state(writer, 2) == "denied"
        top.type(b"a")
        eventually(lambda: "allowed: EV 0x00000002" in top.read())
        assert state(writer, 2) != "denied"
        top.type(b"q")
        eventually(lambda: top.process.poll() is not None or not top.read())
        assert top.process.returncode == 0
        assert top.attributes() == top.before
    writer.stop()


def last_picture(written: str) -> list[str]:
    """The lines of the last whole picture: each begins in the upper left corner."""
    return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).rstrip() for line in written.split("\x1b[H")[-2].splitlines()]


def test_on_60_by_20_everything_is_in_place(bench: Callable[[], Running]) -> None:
    """vi's G chooses the last EV, and the keys stand in the last line in use."""
    writer = bench()
    eventually(lambda: endpoint_of(writer))
    with terminal("--endpoint", str(writer.process.pid), "--interval", "200ms", lines=20, columns=60) as top:
        eventually(lambda: "0x00000000" in top.read())
        top.type(b"G")
        eventually(lambda: any(line.startswith(">") and "0x01000003" in line for line in last_picture(top.read())))
        lines = last_picture(top.written)
        assert len(lines) <= 20
        assert max(map(len, lines)) <= 60
        assert [line for line in lines if line][-1] == "j/k choose  d deny  a allow  tab next  p pause  q quit"
        top.type(b"q")
        eventually(lambda: top.process.poll() is not None or not top.read())
        assert top.process.returncode == 0
    writer.stop()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_gives_the_screen_back(number: signal.Signals) -> None:
    with terminal("--endpoint", "nobody") as top:
        eventually(lambda: "waiting for one" in top.read())
        top.process.send_signal(number)
        eventually(lambda: top.process.poll() is not None or not top.read())
        assert top.process.wait(PATIENCE_S) == 128 + number
        assert "Traceback" not in top.read()
        assert "\x1b[?1049l" in top.written  # the other screen is left
        assert top.attributes() == top.before


def test_an_endpoint_that_ends_is_said_and_left_out(bench: Callable[[], Running], tmp_path: Path) -> None:
    writer = bench()
    eventually(lambda: endpoint_of(writer))
    with terminal("--endpoint", str(writer.process.pid), "--interval", "200ms") as top:
        eventually(lambda: "0x00000002" in top.read())
        writer.kill()
        eventually(lambda: "waiting for one" in top.read())
        top.type(b"q")
        eventually(lambda: top.process.poll() is not None or not top.read())
        assert top.process.returncode == 0
