# SPDX-License-Identifier: BSD-2-Clause
"""A controller at work under traffic between processes, judged by the packets on the wires and by what arrives."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import programs
import pytest
from live_run import MIB, Running, Transfers, eventually, sha256
from patience import PATIENCE_S
from programs import MRC

from mrc.errors import SystemRefused
from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.net.control.client import ControlClient, endpoints

pytestmark = pytest.mark.root

# A stalled machine may keep a process waiting so long; docs/control.md has what a quiet one does.
AT_ONCE_NS = 60_000_000_000
ETH_P_ALL, SO_TIMESTAMPNS, SO_ATTACH_FILTER = 3, 35, 26
# wire.md section 11 behind an Ethernet header: the outer destination is a block of 32 bits, the leaf's uSID, and the
# spine's.
OUTER_NEXT_HEADER_AT, SPINE_AT = 20, 44
IPV6_IN_IPV6 = 41
FOUR = [f"p{plane}s{spine}" for plane in (0, 1) for spine in range(4)]
EIGHT = [f"p{plane}s{spine}" for plane in (0, 1) for spine in range(8)]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with Lab.up(f"live-{os.getpid()}-ctl", Clos(planes=2, spines=8)) as built:
        yield built


@pytest.fixture(autouse=True)
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Control sockets of these processes alone."""
    path = Path(tempfile.mkdtemp(prefix="mrc-live-", dir="/tmp"))
    monkeypatch.setenv("MRC_CONTROL_DIR", str(path))
    yield path
    shutil.rmtree(path)


class Tap:
    """Packets that leave a host by one port, picked by the kernel before they are copied: through one spine, or all."""

    def __init__(self, lab: Lab, host: str, plane: int, spine: int | None = None) -> None:
        if spine is None:
            test = (0x30, 0, 0, OUTER_NEXT_HEADER_AT), (0x15, 0, 1, IPV6_IN_IPV6)
        else:
            test = (0x28, 0, 0, SPINE_AT), (0x15, 0, 1, 0x2000 | plane << 8 | spine)
        program = b"".join(struct.pack("=HBBI", *each) for each in (*test, (0x06, 0, 0, 60), (0x06, 0, 0, 0)))

        # One that is opened for a protocol hears all interfaces at once, unfiltered, until it is bound.
        def listen() -> socket.socket:
            return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)

        self._socket = lab.inside(host, listen)
        self._program = ctypes.create_string_buffer(program)
        buffer = struct.pack("@HP", len(program) // 8, ctypes.addressof(self._program))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, buffer)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        lab.inside(host, lambda: self._socket.bind((f"p{plane}", ETH_P_ALL)))
        self._socket.setblocking(False)

    def times(self) -> list[int]:
        """When each packet left that has left since this was last asked, ns of the wall clock."""
        found: list[int] = []
        while True:
            try:
                _, control, _, address = self._socket.recvmsg(64, 256)
            except BlockingIOError:
                return found
            if address[2] == socket.PACKET_OUTGOING:
                ((_, _, stamp),) = control
                seconds, ns = struct.unpack("qq", stamp[:16])
                found.append(seconds * 1_000_000_000 + ns)

    def close(self) -> None:
        self._socket.close()


def client_of(name: str) -> ControlClient:
    """A connection to the endpoint of this host, once it is there."""
    found = eventually(lambda: [each for each in endpoints().found if each.host == name])
    return ControlClient(found[0].path)


def changed(client: ControlClient, do: str, *evs: str) -> None:
    results = client.request("ev_ops", batch=[{"do": do, "ev": ev} for ev in evs])
    assert [each["errno"] for each in results] == [None] * len(evs)


class Traffic:
    """`mrc bench write` from h0 to h1: the memory written to is compared at its end."""

    def __init__(self, transfers: Transfers, seconds: int) -> None:
        self.server = transfers.start("h1", [*MRC, "bench", "serve"])
        assert self.server.process.stdout is not None
        ticket = self.server.process.stdout.readline().strip()
        assert ticket.startswith("mrc1:")
        argv = [*MRC, "bench", "write", ticket, "--seconds", str(seconds), "--size", "256KiB", "--json"]
        self.writer: Running = transfers.start("h0", argv)
        self.here, self.there = client_of("h0"), client_of("h1")
        self.moves()

    def sent(self) -> int:
        try:
            return int(sum(qp["data_packets_sent"] for qp in self.here.request("status")["qps"]))
        except SystemRefused:
            # A writer that is done answers no more, and may take a while to end: whether it goes on is asked then.
            self.writer.process.wait(PATIENCE_S)
            raise

    def moves(self) -> None:
        """Data goes on."""
        before = self.sent()

        def look() -> bool:
            assert self.writer.process.poll() is None, "it is over"
            return self.sent() > before + 200

        eventually(look)

    def end(self) -> dict[str, Any]:
        """To the end, which is a good one."""
        document = self.writer.end().succeeded().document
        for client in (self.here, self.there):
            client.close()
        self.server.stop().interrupted()
        return document


def test_a_denied_ev_carries_nothing_until_it_is_allowed(transfers: Transfers, lab: Lab) -> None:
    """Nothing leaves by that spine after the call returned: data, answers, probes, at neither end. MRC-CTL-34."""
    transfers.in_time(partial(a_denied_ev_carries_nothing_until_it_is_allowed, transfers, lab), 2, 5, 20, 80)


def a_denied_ev_carries_nothing_until_it_is_allowed(transfers: Transfers, lab: Lab, seconds: int) -> None:
    taps = [Tap(lab, host, 0, 1) for host in ("h0", "h1")]
    traffic = Traffic(transfers, seconds)
    assert eventually(taps[0].times)
    for client in (traffic.here, traffic.there):
        changed(client, "deny", "p0s1")
    returned = time.time_ns()
    for _ in range(3):
        traffic.moves()
        time.sleep(0.2)
    for tap in taps:
        late = [at - returned for at in tap.times() if at > returned]
        assert late == []
    for client in (traffic.here, traffic.there):
        changed(client, "allow", "p0s1")
    allowed = time.time_ns()
    assert eventually(lambda: [at for at in taps[0].times() if at > allowed])
    assert traffic.end()["retransmitted_packets"] >= 0
    for tap in taps:
        tap.close()


def test_four_evs_a_plane_become_eight_without_a_lost_byte(transfers: Transfers, lab: Lab, tmp_path: Path) -> None:
    """A profile is loaded at the start, and another in its place under way. MRC-CTL-35, MRC-CTL-15."""
    transfers.in_time(partial(four_evs_a_plane_become_eight, transfers, lab, tmp_path), 64, 192, 768)


def four_evs_a_plane_become_eight(transfers: Transfers, lab: Lab, tmp_path: Path, mib: int) -> None:
    transfers.forget()
    profiles = tmp_path / "four.yaml"
    profiles.write_text(f"ev_profiles:\n  0: {{mode: explicit, min_active: 2, evs: [{', '.join(FOUR)}]}}\n")
    eighth = [Tap(lab, "h0", plane, 7) for plane in (0, 1)]
    file = transfers.file("file", mib * MIB)
    receiver = transfers.recv("--once")
    sender = transfers.send(receiver, [file], "--json", "--profiles", profiles)
    with client_of("h0") as client:
        eventually(lambda: any(qp["data_packets_sent"] > 1000 for qp in client.request("status")["qps"]))
        assert len(client.request("evs")) == 8
        assert [tap.times() for tap in eighth] == [[], []]
        client.request(
            "profile_load", profiles={"ev_profiles": {"0": {"mode": "explicit", "min_active": 2, "evs": EIGHT}}}
        )
        assert len(client.request("evs")) == 16
    ended = sender.end().succeeded().document
    receiver.end().succeeded()
    assert transfers.received() == {"file": sha256(file)}
    assert all(tap.times() for tap in eighth)
    packets = {(path["plane"], path["spine"]): path["packets"] for path in ended["paths"]}
    assert set(packets) == {(plane, spine) for plane in (0, 1) for spine in range(8)}
    assert all(packets.values())
    for tap in eighth:
        tap.close()


def test_a_port_set_down_empties_its_plane_at_both_ends(transfers: Transfers, lab: Lab) -> None:
    """And is used again once it is up. MRC-CTL-02."""
    transfers.in_time(partial(a_port_set_down_empties_its_plane_at_both_ends, transfers, lab), 2, 5, 20, 80)


def a_port_set_down_empties_its_plane_at_both_ends(transfers: Transfers, lab: Lab, seconds: int) -> None:
    taps = [Tap(lab, host, 1) for host in ("h0", "h1")]
    traffic = Traffic(transfers, seconds)
    assert all(eventually(tap.times) for tap in taps)
    assert traffic.here.request("port_set", plane=1, admin="down")["up"] is False
    returned = time.time_ns()
    for _ in range(3):
        traffic.moves()
        time.sleep(0.2)
    empty_after = [max((at - returned for at in tap.times()), default=0) for tap in taps]
    print(f"the last packet left h0 {empty_after[0] / 1e6:.3f} ms, h1 {empty_after[1] / 1e6:.3f} ms after the call")
    assert empty_after[0] <= 0
    assert empty_after[1] < AT_ONCE_NS
    traffic.here.request("port_set", plane=1, admin="up")
    assert all(eventually(tap.times) for tap in taps)
    traffic.end()
    for tap in taps:
        tap.close()


def test_events_that_nobody_reads_hold_nothing_up(transfers: Transfers) -> None:
    """What is read in the end and what is said to be missing are all there were. MRC-CTL-18, MRC-CTL-19."""
    transfers.in_time(partial(events_that_nobody_reads_hold_nothing_up, transfers), 2, 5, 20, 80)


def events_that_nobody_reads_hold_nothing_up(transfers: Transfers, seconds: int) -> None:
    traffic = Traffic(transfers, seconds)
    with client_of("h0") as lazy:
        lazy.request("subscribe", states=["denied"], limit=64)
        batch = [{"do": do, "ev": ev} for do in ("deny", "allow") for ev in ("p0s1", "p1s6")] * 250
        for _ in range(4):
            results = traffic.here.request("ev_ops", batch=batch)
            assert all(each["errno"] is None for each in results)
            traffic.moves()
        missing = 0
        kept = 0
        for event in lazy.events(10):
            if event["event"] == "dropped":
                missing = event["dropped"]
            elif event["event"] == "ev":
                kept += 1
            if kept + missing == 2000:
                break
        assert kept + missing == 2000
        assert missing > 0
    traffic.end()


def test_the_socket_is_there_as_long_as_the_endpoint(
    transfers: Transfers, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MRC-CTL-33; and `mrc ctl` from outside the namespace, with one line that says what to do when there is none."""
    receiver = transfers.recv()
    (path,) = directory.iterdir()
    assert path == directory / f"{receiver.process.pid}.sock"
    found = json.loads(run_ctl("list", "--json"))["endpoints"]
    assert [(each["pid"], each["program"], each["name"].rpartition("/")[2]) for each in found] == [
        (receiver.process.pid, "mrc recv", "h1")
    ]
    ports = json.loads(run_ctl("ports", "show", "--json"))["endpoints"][0]["ports"]
    assert [port["up"] for port in ports] == [True, True]
    receiver.stop()
    assert list(directory.iterdir()) == []
    monkeypatch.setenv("MRC_CONTROL", "off")
    receiver = transfers.recv()
    assert list(directory.iterdir()) == []
    receiver.stop()


def run_ctl(*argv: str) -> str:
    done = programs.run([*MRC, "ctl", *argv], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout
