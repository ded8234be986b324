# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab impair` and `mrc lab status` where links are impaired: numbers with units, tables, the live view."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import programs
import pytest
from bpf_frames import TRIMMABLE
from bpf_traffic import Traffic
from click.testing import CliRunner, Result
from patience import PATIENCE_S
from programs import MRC

from mrc.cli.lab import lab as lab_command
from mrc.fabric import Clos
from mrc.lab import Lab

pytestmark = pytest.mark.root

LINK, TOWARD = "p0l0-p0s0", "p0s0"


@pytest.fixture(scope="module")
def lab(lab_name: Callable[[str], str], need_root: None) -> Iterator[Lab]:
    with Lab.up(lab_name("status"), Clos(planes=1, leaves=2, spines=1)) as built:
        yield built


@pytest.fixture(autouse=True)
def _cleared(lab: Lab) -> Iterator[None]:
    yield
    for link in lab.topology.links:
        lab.clear(link.name)


def invoke(lab: Lab, command: str, *argv: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(lab_command, [command, "--name", lab.name, *argv])


def way(lab: Lab, link: str = LINK, toward: str = TOWARD) -> dict[str, Any]:
    result = invoke(lab, "status", "--json")
    assert result.exit_code == 0, result.output
    links = {each["name"]: each for each in json.loads(result.stdout)["links"]}
    found = links[link]["toward"][toward]
    assert isinstance(found, dict)
    return found


def overload(lab: Lab, count: int = 300) -> None:
    traffic = Traffic(lab)
    inner = traffic.packet(bytes(4096))
    for _ in range(count):
        traffic.send(inner, TRIMMABLE)
    assert len(traffic.arrived()) == count
    traffic.close()


def test_every_figure_of_a_direction(lab: Lab) -> None:
    one_way = ("impair", LINK, "--toward", TOWARD)
    invoke(lab, *one_way, "--rate", "20mbit", "--queue", "100KB", "--ecn-at", "20KB", "--trim-at", "50KB")
    invoke(lab, *one_way, "--trim-to", "128", "--trim-dscp", "48", "--trim-dscp-lasthop", "50")
    overload(lab)
    done = invoke(lab, *one_way, "--loss", "0.0001%", "--duplicate", "0.0002%", "--corrupt", "0.0003%")
    assert done.exit_code == 0, done.output
    assert done.stdout == (
        "p0l0-p0s0 toward p0s0: loses 0.0001%; 20 Mbit/s (queue 100 kB, marks above 20 kB, trims above 50 kB to "
        "128 B with codepoint 48); "
        "duplicates 0.0002%; corrupts 0.0003%\n"
    )
    found = way(lab)
    settings = {
        "loss_percent": 0.0001,
        "rate_bps": 20_000_000,
        "queue_bytes": 100_000,
        "queue_limit_bytes": 100_000,
        "ecn_at_bytes": 20_000,
        "trim_at_bytes": 50_000,
        "trim_to_bytes": 128,
        "trim_dscp": 48,
        "trim_dscp_lasthop": 50,
        "duplicate_percent": 0.0002,
        "corrupt_percent": 0.0003,
    }
    assert {key: found[key] for key in settings} == settings
    assert found["packets"] >= 60
    assert found["bytes"] > 60 * 122
    assert found["marked_packets"] > 0
    assert found["trimmed_packets"] > 0
    assert 50_000 < found["queue_high_water_bytes"] < 100_000
    assert found["queue_waiting_bytes"] == found["queue_dropped_packets"] == found["dropped_packets"] == 0
    # The other direction is not impaired, and says so.
    other = way(lab, LINK, "p0l0")
    assert not any(other[key] for key in [*settings, "marked_packets", "trimmed_packets", "queue_high_water_bytes"])


def test_a_queue_of_unsaid_length(lab: Lab) -> None:
    expected = {"1gbit": 625_000, "8mbit": 65_536}
    for rate, limit in expected.items():
        assert invoke(lab, "impair", LINK, "--rate", rate).exit_code == 0
        assert (way(lab)["queue_bytes"], way(lab)["queue_limit_bytes"]) == (0, limit)


def test_off_takes_one_thing_away(lab: Lab) -> None:
    invoke(lab, "impair", LINK, "--rate", "20mbit", "--loss", "1%", "--corrupt", "1%")
    assert invoke(lab, "impair", LINK, "--corrupt", "off").exit_code == 0
    assert (way(lab)["rate_bps"], way(lab)["loss_percent"], way(lab)["corrupt_percent"]) == (20_000_000, 1.0, 0.0)
    assert invoke(lab, "impair", LINK, "--rate", "off", "--loss", "0%").exit_code == 0
    assert (way(lab)["rate_bps"], way(lab)["loss_percent"]) == (0, 0.0)


def test_that_nothing_is_marked_toward_a_host_is_said(lab: Lab) -> None:
    done = invoke(lab, "impair", "h0-p0l0", "--rate", "20mbit", "--ecn-at", "20KB")
    assert done.exit_code == 0
    assert "toward h0 nothing is marked" in done.stderr
    assert "marks above" in done.stdout.splitlines()[1]
    assert "marks above" not in done.stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("argv", "status", "says"),
    [
        (["--ecn-at", "20KB"], 2, "--ecn-at needs a --rate"),
        (["--rate", "1kbit"], 2, "not from 100kbit to 1tbit"),
        (["--rate", "1gbit", "--ecn-at", "300KB", "--trim-at", "200KB"], 2, "--ecn-at must be below --trim-at"),
        (["--toward", "p0l1", "--loss", "1%"], 1, "is no end of"),
    ],
)
def test_what_makes_no_sense_fails_with_one_error(lab: Lab, argv: list[str], status: int, says: str) -> None:
    done = invoke(lab, "impair", LINK, *argv)
    assert (done.exit_code, done.stdout) == (status, "")
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert says in error


def test_the_table_shows_what_is_impaired_and_only_that(lab: Lab) -> None:
    assert "impaired at the sending end" not in invoke(lab, "status").stdout
    invoke(lab, "impair", LINK, "--toward", TOWARD, "--rate", "20mbit", "--trim-at", "50KB")
    overload(lab, 20)
    shown = invoke(lab, "status").stdout
    heading = next(line for line in shown.splitlines() if "trimmed" in line)
    assert [word for word in ("rate", "waits", "most", "limit", "full", "trimmed") if word not in heading] == []
    assert "marked" not in heading
    assert "corrupted" not in heading
    (row,) = (line for line in shown.splitlines() if "20 Mbit/s" in line)
    assert [word for word in (LINK, TOWARD, "100 kB") if word not in row] == []


def watched(argv: list[str]) -> tuple[subprocess.Popen[bytes], int]:
    """A program on a terminal of its own, and the other end of that."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "150", "LINES": "40", "TERM": "xterm"}
    process = programs.start(argv, stdout=theirs, stderr=subprocess.PIPE, env=environment)
    os.close(theirs)
    return process, ours


def read_until(descriptor: int, pattern: str, within_s: float = PATIENCE_S) -> str:
    text, by = "", time.monotonic() + within_s
    while not re.search(pattern, text):
        assert select.select([descriptor], [], [], max(by - time.monotonic(), 0))[0], f"never came: {pattern}: {text}"
        text += os.read(descriptor, 1 << 16).decode(errors="replace")
    return text


@contextmanager
def sending(traffic: Traffic) -> Iterator[None]:
    """At 20 Mbit/s meanwhile."""
    over = threading.Event()

    def send() -> None:
        while not over.is_set():
            traffic.paced(traffic.packet(bytes(4096)), 0, 20_000_000, 0.5)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_watching_shows_rates_again_and_again_until_interrupted(lab: Lab) -> None:
    lab.impair(LINK, toward=TOWARD, rate_bps=20_000_000, queue_bytes=200_000)
    process, terminal = watched([*MRC, "lab", "status", "--name", lab.name, "--watch"])
    traffic = Traffic(lab)
    try:
        read_until(terminal, "Gbit/s")
        with sending(traffic):
            # Two hundredths of a Gbit/s, give or take where the second began.
            read_until(terminal, r"p0s0 +│ +0\.0(0[3-9]|1\d|2\d)\d* ")
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # it is over, and nothing has the terminal any more
            while select.select([terminal], [], [], PATIENCE_S)[0]:
                os.read(terminal, 1 << 16)
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        traffic.close()
        os.close(terminal)
    assert (process.returncode, said) == (130, b"")


def test_watching_into_a_file_gives_one_table_after_another(lab: Lab) -> None:
    argv = [*MRC, "lab", "status", "--name", lab.name, "--watch"]
    process = programs.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    try:
        text = read_until(process.stdout.fileno(), r"(?s)Gbit/s.*Gbit/s")
        process.send_signal(signal.SIGTERM)
        rest, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, said) == (143, b"")
    assert "\x1b" not in text + rest.decode()
