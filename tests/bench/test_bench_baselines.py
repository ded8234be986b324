# SPDX-License-Identifier: BSD-2-Clause
"""The baselines one by one, on loopback: what they say, and what is missing when they cannot run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE_S

from mrc.bench.baselines import make_baseline
from mrc.bench.baselines.iperf3 import Iperf3
from mrc.bench.compiler import PROGRAMS, compile_program
from mrc.bench.settings import Settings
from mrc.errors import CallerError, PeerError, SystemRefused
from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.lab.status import DirectionStatus

# What iperf3 3.12 said of a run over loopback, as far as it is read.
UDP_RUN: dict[str, Any] = {
    "end": {
        "sum_sent": {"seconds": 1.00781, "bytes": 279920640, "bits_per_second": 2222011212.4, "packets": 68340},
        "sum_received": {
            "seconds": 1.007966,
            "bytes": 103288832,
            "bits_per_second": 819780286.2398137,
            "lost_packets": 43123,
            "packets": 68340,
        },
        "cpu_utilization_percent": {"host_total": 31.8275640943301, "remote_total": 17.2630202572057},
    }
}


def test_what_counts_is_what_iperf3_received() -> None:
    figures = Iperf3("udp", 1.0, 4096, 0.0)._figures(UDP_RUN)
    assert figures["goodput_gbps"] == pytest.approx(0.81978, abs=1e-5)
    # 68,340 datagrams less 43,123 lost, in 1.007966 s.
    assert figures["kpps"] == pytest.approx((68340 - 43123) / 1.007966 / 1e3)
    # 31.83 % and 17.26 % of one CPU for 1.008 s.
    assert figures["cpu_seconds"] == pytest.approx(0.49481, abs=1e-4)
    assert figures["retransmitted_packets"] == 0


@pytest.mark.parametrize(("lost", "runs"), [(0, 1), (3, 4)])
def test_a_lost_greeting_of_iperf3_is_repeated(monkeypatch: pytest.MonkeyPatch, lost: int, runs: int) -> None:
    said = [PeerError("iperf3 failed: unable to read from stream socket: Resource temporarily unavailable")] * lost
    begun = []

    def run(self: Iperf3, lab: Lab) -> dict[str, Any]:
        begun.append(lab)
        if said:
            raise said.pop()
        return UDP_RUN

    monkeypatch.setattr(Iperf3, "_run", run)
    assert Iperf3("udp", 1.0, 4096, 0.01).run(Lab.__new__(Lab)) is UDP_RUN
    assert len(begun) == runs


@pytest.mark.parametrize("said", ["unable to read from stream socket: Resource temporarily unavailable", "no route"])
def test_an_iperf3_that_fails_in_earnest(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    """At the fourth lost greeting, and at once for any other reason."""
    begun = []

    def run(self: Iperf3, lab: Lab) -> dict[str, Any]:
        begun.append(lab)
        raise PeerError(f"iperf3 failed: {said}")

    monkeypatch.setattr(Iperf3, "_run", run)
    with pytest.raises(PeerError, match="failed"):
        Iperf3("udp", 1.0, 4096, 0.01).run(Lab.__new__(Lab))
    assert len(begun) == (1 if said == "no route" else 4)


def test_an_iperf3_nobody_knows() -> None:
    with pytest.raises(PeerError, match="form"):
        Iperf3("udp", 1.0, 4096, 0.0)._figures({"end": {}})


@pytest.mark.parametrize("name", ["udp", "tcp", "mptcp"])
def test_without_iperf3(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemRefused, match=rf"baseline {name} .*install the package iperf3"):
        make_baseline(name, Settings()).check()


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemRefused, match="install the packages gcc"):
        make_baseline("udp", Settings(size=2, latency=True)).check()


def test_a_program_that_cannot_be_compiled(tmp_path: Path, c_compiler: None) -> None:
    with pytest.raises(SystemRefused, match="it all could not be compiled"):
        compile_program("udp-pingpong.c", tmp_path / "no" / "such" / "folder", "it all")


@pytest.mark.parametrize(("name", "latency"), [("quic", False), ("tcp", True), ("aioquic", True)])
def test_baselines_there_are_not(name: str, latency: bool) -> None:
    with pytest.raises(CallerError):
        make_baseline(name, Settings(size=2, latency=latency))


@pytest.mark.parametrize("program", sorted(path.name for path in PROGRAMS.glob("*.c")))
def test_the_c_programs_have_no_warnings(tmp_path: Path, program: str, c_compiler: None) -> None:
    compile_program(program, tmp_path / "out", "it", "-Wextra", "-Werror", "-shared", "-fPIC")


def test_udp_pingpong(tmp_path: Path, c_compiler: None) -> None:
    program = tmp_path / "udp-pingpong"
    compile_program("udp-pingpong.c", program, "it")
    with subprocess.Popen([program, "serve", "::1"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            began = time.monotonic_ns()
            pinged = subprocess.run(
                [program, "ping", "::1", port, "2", "0.2"],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=True,
            )
            took = time.monotonic_ns() - began
        finally:
            server.kill()
    halves = [int(line) for line in pinged.stdout.splitlines()]
    assert halves
    # One after another: twice all of them fit into the time.
    assert 0 < 2 * sum(halves) < took
    assert min(halves) > 0


@pytest.mark.parametrize("arguments", [[], ["serve"], ["ping", "::1", "1", "1", "1"], ["serve", "nowhere"]])
def test_udp_pingpong_misused(tmp_path: Path, arguments: list[str], c_compiler: None) -> None:
    program = tmp_path / "udp-pingpong"
    compile_program("udp-pingpong.c", program, "it")
    assert subprocess.run([program, *arguments], capture_output=True, check=False).returncode == 2


@pytest.mark.parametrize("arguments", [[], ["send"], ["send", "packets", "0"], ["send", "packets", "1"], ["receive"]])
def test_bare_packets_misused(tmp_path: Path, arguments: list[str], c_compiler: None) -> None:
    """The file of packets is there, and empty."""
    (tmp_path / "packets").touch()
    program = tmp_path / "bare-packets"
    compile_program("bare-packets.c", program, "it")
    done = subprocess.run([program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr


@pytest.mark.root
def test_bare_packets_take_every_path_and_are_counted(tmp_path: Path, c_compiler: None) -> None:
    """2 planes x 2 spines: every spine carries its share, and what they carried is what is told."""
    bare = make_baseline("bare", Settings(seconds=0.3, mtu=1024))
    with Lab.up("bare", Clos(spines=2)) as lab:
        bare.check()
        bare.prepare(lab)
        before = {name: figures.packets for name, figures in _toward_spines(lab).items()}
        said = bare.run(lab)
        carried = {name: figures.packets - before[name] for name, figures in _toward_spines(lab).items()}
    arrived = sum(carried.values()) - said["lost_packets"]
    assert said["lost_packets"] >= 0
    assert said["goodput_gbps"] == pytest.approx(said["kpps"] * 1024 * 8 / 1e6)
    # Within the 0.3 s or not much longer, and multicast listener reports beside them.
    assert 0 < said["kpps"] * 1e3 * 0.25 < arrived
    least, most = min(carried.values()), max(carried.values())
    assert most - least <= 16


def _toward_spines(lab: Lab) -> dict[str, DirectionStatus]:
    links = {link.name: link for link in lab.topology.fabric_links()}
    return {
        each.name: each.toward[links[each.name].upper]
        for each in lab.status().links
        if each.name in links and links[each.name].lower.endswith("l0")
    }


def test_tcp_sockets_become_mptcp_sockets_and_others_stay(tmp_path: Path, c_compiler: None) -> None:
    library = tmp_path / "mptcp-socket.so"
    compile_program("mptcp-socket.c", library, "it", "-shared", "-fPIC", "-ldl")
    script = (
        "from socket import *\n"
        "for family, kind in (AF_INET, SOCK_STREAM), (AF_INET6, SOCK_STREAM), (AF_INET6, SOCK_DGRAM):\n"
        "    print(socket(family, kind).getsockopt(SOL_SOCKET, SO_PROTOCOL))\n"
    )
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    if "Protocol not" in done.stderr:
        pytest.skip("this kernel has no MPTCP")
    assert done.stdout.split() == ["262", "262", "17"]  # IPPROTO_MPTCP, IPPROTO_UDP


def test_a_preloaded_listener_is_everywhere_and_says_the_address_it_was_told(tmp_path: Path, c_compiler: None) -> None:
    """So that subflows reach it at other addresses; and it may set what gloo sets on a socket that it accepted."""
    library = tmp_path / "mptcp-socket.so"
    compile_program("mptcp-socket.c", library, "it", "-shared", "-fPIC", "-ldl")
    script = (
        "from socket import *\n"
        "listener = socket(AF_INET6, SOCK_STREAM)\n"
        "listener.bind(('::1', 0))\n"
        "listener.listen()\n"
        "address, port = listener.getsockname()[:2]\n"
        "local = [line.split()[1] for line in open('/proc/net/tcp6') if line.split()[1].endswith(f':{port:04X}')]\n"
        "client = create_connection((address, port))\n"
        "accepted, _ = listener.accept()\n"
        "accepted.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)\n"
        "client.sendall(b'through')\n"
        "plain = socket(AF_INET6, SOCK_DGRAM)\n"
        "plain.bind(('::1', 0))\n"
        "print(address, local[0].split(':')[0], accepted.recv(99), accepted.getsockname()[0], plain.getsockname()[0])\n"
    )
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    if "Protocol not" in done.stderr:
        pytest.skip("this kernel has no MPTCP")
    assert done.stdout.split() == ["::1", "0" * 32, "b'through'", "::1", "::1"], done.stderr


def test_a_stream_over_aioquic(tmp_path: Path) -> None:
    pytest.importorskip("aioquic")
    from mrc.net.exchange.tls import self_signed

    certificate = tmp_path / "certificate.pem"
    certificate.write_bytes(b"".join(self_signed()))
    program = [sys.executable, "-m", "mrc.bench.baselines.quic_stream"]
    with subprocess.Popen([*program, "serve", "::1", certificate], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            sent = subprocess.run(
                [*program, "send", "::1", port, "0.5", "4352"],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=True,
            )
        finally:
            server.kill()
    told = json.loads(sent.stdout)
    # Whole chunks of 64 KiB, at least the first 512 KiB, in datagrams of at most 4352 bytes.
    assert told["bytes"] >= 512 << 10
    assert told["bytes"] % (64 << 10) == 0
    assert told["datagrams"] >= told["bytes"] / 4352
    assert told["seconds"] > 0
    assert told["cpu_seconds"] > 0
    assert told["sender_cpu_seconds"] > 0
