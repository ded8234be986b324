# SPDX-License-Identifier: BSD-2-Clause
"""An interface that is deleted and made again, under its name and with its addresses, in the midst of a transfer."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import programs
import pytest
from live_hosts import IPV4, IPV6, Hosts, bound, ip
from live_run import MIB, Running, eventually, missing
from patience import PATIENCE_S
from programs import MRC

from mrc.lab import Lab

pytestmark = pytest.mark.root

PART = 16 * MIB  # of a stream: sent when it is full, written out when the next one comes


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        missing("root and the program ip")
    hosts = Hosts(f"mrcagain{os.getpid()}", mtu=9000)
    hosts.scratch = tmp_path
    try:
        hosts.build()
        yield hosts
    finally:
        hosts.close()
        hosts.demolish()


def feed(sender: subprocess.Popen[bytes], content: bytes) -> None:
    assert sender.stdin is not None
    sender.stdin.write(content)
    sender.stdin.flush()


@pytest.mark.parametrize("both", [False, True], ids=["one", "both"])
@pytest.mark.parametrize("addresses", [IPV4, IPV6], ids=["IPv4", "IPv6"])
def test_between_ordinary_hosts_it_carries_packets_again(
    hosts: Hosts, addresses: dict[str, Sequence[str]], both: bool
) -> None:
    """The kernel ties sockets to an interface's index, and a new interface has another."""
    content = [os.urandom(PART) for _ in range(2)]
    out = hosts.scratch / "out"
    with out.open("wb") as target:
        receive = [*MRC, "recv", "-", *bound(addresses["b"])]
        receiver = hosts.inside("b", lambda: programs.start(receive, stdout=target, stderr=subprocess.PIPE))
    hosts._running.append(Running(receiver))
    assert receiver.stderr is not None
    ticket = receiver.stderr.readline().decode().strip()
    send = [*MRC, "send", "-", ticket, "--json", *bound(addresses["a"])]
    sender = hosts.inside(
        "a", lambda: programs.start(send, **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE))
    )
    hosts._running.append(Running(sender))
    feed(sender, content[0] + content[1])
    eventually(partial(holds, out, PART))
    indices = {plane: index_of(hosts, plane) for plane in range(2)}
    for plane in range(1 + both):
        # Both ends go: two processes have to notice.
        ip("-n", hosts.names["a"], "link", "del", f"e{plane}")
    time.sleep(0.3)
    for plane in range(1 + both):
        hosts.lay(plane)
        assert index_of(hosts, plane) != indices[plane]
    hosts.carry()
    # Once probes have been answered it is known that it works again: then each cable carries a good share of a part.
    by = time.monotonic() + PATIENCE_S
    sent: Counter[int] = Counter()
    while min(sent[0], sent[1]) <= PART // 8:
        assert time.monotonic() < by, sent
        more, before = out.stat().st_size + PART, counted(hosts)
        content.append(os.urandom(PART))
        feed(sender, content[-1])
        eventually(partial(holds, out, more))
        sent = counted(hosts) - before
    _, said = sender.communicate(timeout=PATIENCE_S)
    assert sender.returncode == 0, said
    assert receiver.wait(PATIENCE_S) == 0
    assert out.read_bytes() == b"".join(content)


def holds(file: Path, size: int) -> bool:
    return file.stat().st_size >= size


def index_of(hosts: Hosts, plane: int) -> int:
    argv = ["ip", "-n", hosts.names["a"], "-o", "link", "show", f"e{plane}"]
    return int(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.partition(":")[0])


def counted(hosts: Hosts) -> Counter[int]:
    """The bytes that a has sent on each cable, by the kernel."""
    argv = ["ip", "netns", "exec", hosts.names["a"], "cat", "/proc/net/dev"]
    lines = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
    found = {line.split(":")[0].strip(): int(line.split(":")[1].split()[8]) for line in lines[2:]}
    return Counter({plane: found[f"e{plane}"] for plane in range(2)})


@pytest.mark.parametrize("ports", [["p0"], ["p0", "p1"]], ids=["one", "both"])
def test_heal_puts_a_port_back_that_was_deleted(lab: Lab, tmp_path: Path, ports: list[str]) -> None:
    content = [os.urandom(PART) for _ in range(3)]
    out = tmp_path / "out"
    with out.open("wb") as target:
        receiver = lab.popen("h1", [*MRC, "recv", "-"], start=programs.start, stdout=target, stderr=subprocess.PIPE)
    assert receiver.stderr is not None
    ticket = receiver.stderr.readline().decode().strip()
    sender = lab.popen(
        "h0", [*MRC, "send", "-", ticket, "--json"], start=programs.start, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        feed(sender, content[0] + content[1])
        eventually(lambda: out.stat().st_size >= PART)
        for port in ports:
            subprocess.run(["ip", "-n", f"{lab.name}-h0", "link", "del", port], check=True)
        assert {each.where for each in lab.differences()} == {f"h0-{port}l0" for port in ports}
        lab.heal(*(f"h0-{port}l0" for port in ports))
        assert lab.differences() == ()
        feed(sender, content[2])
        _, said = sender.communicate(timeout=PATIENCE_S)
        assert sender.returncode == 0, said
        assert receiver.wait(PATIENCE_S) == 0
    finally:
        for each in (sender, receiver):
            each.kill()
            each.communicate()
    assert out.read_bytes() == b"".join(content)


def test_heal_gives_a_port_back_what_the_lab_had_there() -> None:
    """Impairments of the description, and the program of a fast fabric."""
    from mrc.fabric import Clos, Description, Impairment

    shape = Clos(planes=1, spines=1)
    for fast in (False, True):
        wanted = {("h0-p0l0", "p0l0"): Impairment(rate_bps=10**8), ("h0-p0l0", "h0"): Impairment(loss=0.5)}
        with Lab.up(f"again-{os.getpid()}", Description(shape, wanted), fast=fast) as lab:
            assert lab.differences() == ()
            subprocess.run(["ip", "-n", f"{lab.name}-h0", "link", "del", "p0"], check=True)
            lab.heal("h0-p0l0")
            assert lab.differences() == ()
