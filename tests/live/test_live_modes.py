# SPDX-License-Identifier: BSD-2-Clause
"""Transfers in every forwarding mode of the lab: the same commands, the spines the sender means, cuts and heals."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import programs
import pytest
from live_run import MIB, Transfers, dumpcap_of, sha256, stats_lines
from patience import MARKER_ETHERTYPE, CaptureMarker, Fence
from programs import MRC

from mrc.fabric import FORWARDING_MODES, Clos
from mrc.lab import Lab

pytestmark = pytest.mark.root

PLANES, SPINES = 2, 4
CHOSEN = ("srv6", "srv6-srh", "stev")  # where the sender names the spine
# Besides data: probes, and a few packets of the hosts' own such as listeners' reports.
BESIDES = 120
_ETH_P_IPV6 = 0x86DD
_IPV6_AUTOFLOWLABEL = 70


@pytest.fixture(scope="module")
def labs() -> Iterator[Callable[[str], Lab]]:
    """A lab of each mode, as the command line builds them, for all tests of the module."""
    made: dict[str, Lab] = {}

    def of(mode: str) -> Lab:
        if mode not in made:
            name = f"live-{os.getpid()}-mode-{mode}"
            programs.run([*MRC, "lab", "up", "--name", name, "--mode", mode], check=True, capture_output=True)
            made[mode] = Lab.open(name)
        return made[mode]

    yield of
    for lab in made.values():
        lab.down()


@pytest.fixture
def transfers_in(labs: Callable[[str], Lab], tmp_path: Path) -> Iterator[Callable[[str], Transfers]]:
    """Transfers in the lab of a mode. Programs are over after the test, and the fabric is whole."""
    made: list[Transfers] = []

    def of(mode: str) -> Transfers:
        made.append(Transfers(labs(mode), tmp_path))
        return made[-1]

    yield of
    for each in made:
        each.close()
        for plane in range(PLANES):
            each.lab.heal(f"plane:{plane}")
        assert not each.lab.processes()


def arrivals(lab: Lab, leaf: int = 0) -> dict[tuple[int, int], int]:
    """Packets each spine has got from one leaf so far, by the kernel's counters."""
    toward = {link.name: link.toward for link in lab.status().links}
    return {
        (plane, spine): toward[f"p{plane}l{leaf}-p{plane}s{spine}"][f"p{plane}s{spine}"].packets
        for plane in range(PLANES)
        for spine in range(SPINES)
    }


def by_spine(document: dict[str, Any], key: str) -> Counter[tuple[int, int]]:
    """A number of the sender's, summed over the paths of each spine."""
    counted: Counter[tuple[int, int]] = Counter()
    for path in document["paths"]:
        counted[path["plane"], path["spine"]] += path[key]
    return counted


def spines_of(lab: Lab, source_ports: list[int]) -> dict[int, set[int]]:
    """Which spine of plane 0 gets packets with these source ports from h0 to h1: sent by hand, and seen there."""

    def listener(interface: str) -> socket.socket:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_IPV6))
        opened.bind((interface, _ETH_P_IPV6))
        opened.setblocking(False)
        return opened

    def send() -> None:
        with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_UDP) as sender:
            sender.setsockopt(socket.IPPROTO_IPV6, _IPV6_AUTOFLOWLABEL, 0)
            for port in source_ports:
                sender.sendto(struct.pack("!HHHH", port, 4791, 8, 0), (lab.addresses("h1")[0], 0))

    listeners = {spine: lab.inside(f"p0s{spine}", lambda: listener("p0l0")) for spine in range(SPINES)}
    lab.inside("h0", send)
    with closing(Fence.of(lab)) as fence:
        fence.wait()
    found: dict[int, set[int]] = {}
    for spine, opened in listeners.items():
        found[spine] = set()
        with opened, suppress(BlockingIOError):
            while True:
                packet, (_, _, direction, *_) = opened.recvfrom(2048)
                if packet[6] == socket.IPPROTO_UDP and direction != socket.PACKET_OUTGOING:
                    found[spine].add(int.from_bytes(packet[40:42], "big"))
    return found


@pytest.mark.parametrize("mode", CHOSEN)
def test_each_spine_carries_what_the_sender_put_on_it(transfers_in: Callable[[str], Transfers], mode: str) -> None:
    """MRC-EV-06, MRC-EV-08."""
    transfers = transfers_in(mode)
    file = transfers.file("file", 16 * MIB)
    receiver = transfers.recv("--once", "--json")
    before = arrivals(transfers.lab)
    sent = transfers.send(receiver, [file], "--json").end().succeeded().document
    received = receiver.end().succeeded().document
    assert sent["sums_agree"] is received["sums_agree"] is True
    assert transfers.received() == {"file": sha256(file)}
    after, packets = arrivals(transfers.lab), by_spine(sent, "packets")
    assert set(packets) == set(after)
    assert sum(packets.values()) >= 16 * MIB // 4096
    for way, count in packets.items():
        # Probes go on for as long as it takes.
        assert 0 <= after[way] - before[way] - count <= BESIDES * max(1.0, sent["seconds"]), (way, count)


def test_under_ecmp_the_evs_reach_every_spine(transfers_in: Callable[[str], Transfers]) -> None:
    transfers = transfers_in("ecmp")
    file = transfers.file("file", 16 * MIB)
    receiver = transfers.recv("--once")
    before = arrivals(transfers.lab)
    sent = transfers.send(receiver, [file], "--json").end().succeeded().document
    receiver.end().succeeded()
    assert transfers.received() == {"file": sha256(file)}
    spread = {way: count - before[way] for way, count in arrivals(transfers.lab).items()}
    data = sum(path["packets"] for path in sent["paths"])
    assert 0 <= sum(spread.values()) - data <= BESIDES * len(spread) * max(1.0, sent["seconds"])
    # 50 active EVs a plane over four spines: 12.5 each, with a standard deviation of 3.1. None has fewer than one in
    # five times 10^5 keys of the hash, nor more than 31 of them.
    for way, count in spread.items():
        assert data / 2 / 50 / 2 < count < data / 2 * 31 / 50, (way, spread)
    # The network chooses, and the sender does not claim to know.
    assert {path["spine"] for path in sent["paths"]} == {-1}
    assert len(sent["paths"]) == 128


@pytest.mark.parametrize("mode", FORWARDING_MODES)
def test_a_dead_spine_is_routed_around_and_taken_again_when_healed(
    transfers_in: Callable[[str], Transfers], mode: str
) -> None:
    transfers = transfers_in(mode)
    # More where it was over before all of that had happened.
    transfers.in_time(partial(a_dead_spine_is_routed_around, transfers, mode), 32, 96, 384)


def a_dead_spine_is_routed_around(transfers: Transfers, mode: str, mib: int) -> None:
    lab = transfers.lab
    lab.heal("p0s1")
    transfers.forget()
    file, stats = transfers.file("file", mib * MIB), transfers.scratch / f"stats of {mib} MiB"
    receiver = transfers.recv("--once", "--json")
    sender = transfers.send(receiver, [file], "--json", "--stats", stats, "--mtu", "1024")
    transfers.when_acked(stats, 0.1, sender)
    cut_at_ns = lab.cut("p0s1")
    before = [line for line in stats_lines(stats) if line["monotonic_ns"] < cut_at_ns][-1]
    # Thousands of packets later it has noticed.
    noticed = transfers.when_acked(stats, before["bytes_acked"] / before["bytes_total"] + 0.1, sender)
    transfers.when_acked(stats, noticed["bytes_acked"] / noticed["bytes_total"] + 0.1, sender)
    healed_at_ns = lab.heal("p0s1")
    sent = sender.end().succeeded().document
    receiver.end().succeeded()
    assert transfers.received() == {"file": sha256(file)}
    last = [line for line in stats_lines(stats) if line["monotonic_ns"] < healed_at_ns][-1]
    pairs = zip(noticed["packets_per_path"], last["packets_per_path"], strict=True)
    used = {path["ev"] for path, (was, now) in zip(sent["paths"], pairs, strict=True) if now > was}
    in_plane_0 = [path for path in sent["paths"] if path["plane"] == 0]
    if mode in CHOSEN:
        (dead,) = (path for path in in_plane_0 if path["spine"] == 1)
        assert used
        assert dead["ev"] not in used
        assert dead["lost"] > 0
        # Probes found it alive again.
        assert dead["last_use_ns"] > healed_at_ns
    else:
        hashed = spines_of(lab, [path["ev"] for path in in_plane_0])
        assert sum(map(len, hashed.values())) == len(in_plane_0)
        assert {path["ev"] for path in in_plane_0 if path["lost"]} & hashed[1]
        assert not used & hashed[1]
        assert all(used & evs for spine, evs in hashed.items() if spine != 1)


def test_a_narrow_link_has_room_for_the_routing_header(tmp_path: Path) -> None:
    """64 bytes more than the packet: on links of 1500 bytes nobody has to name a path MTU."""
    with Lab.up(f"live-{os.getpid()}-narrow", Clos(spines=2, mtu=1500, mode="srv6-srh")) as lab:
        transfers = Transfers(lab, tmp_path)
        file = transfers.file("file", MIB)
        receiver = transfers.recv("--once")
        sent = transfers.send(receiver, [file], "--json", "-v").end().succeeded().document
        receiver.end().succeeded()
        assert sum(path["packets"] for path in sent["paths"]) >= MIB // 1024
        assert transfers.received() == {"file": sha256(file)}
        transfers.close()


def captured(transfers: Transfers, tshark: str, node: str, interface: str) -> tuple[Path, Counter[tuple[int, int]]]:
    """What an interface saw of a small transfer, and how many packets at least went over each spine: those that the
    sender put on its paths, but for what a busy machine dropped, which was sent again."""
    file = transfers.scratch / "capture.pcap"
    running = transfers.start(
        node, [dumpcap_of(tshark), "-q", "-i", interface, "-w", file, "-f", f"ip6 or ether proto {MARKER_ETHERTYPE}"]
    )
    with closing(CaptureMarker(partial(transfers.lab.inside, node), interface)) as marker:
        marker.wait(file)
        receiver = transfers.recv("--once")
        sent = transfers.send(receiver, [transfers.file("file", 2 * MIB)], "--json").end().succeeded().document
        receiver.end().succeeded()
        marker.wait(file)
    running.stop(signal.SIGINT)
    resent = sent["retransmitted_packets"]
    return file, Counter({spine: max(count - resent, 1) for spine, count in by_spine(sent, "packets").items()})


def tshark_rows(tshark: str, file: Path, only: str, *fields: str) -> list[list[str]]:
    argv = [tshark, "-r", str(file), "-Y", only, "-T", "fields", *(word for field in fields for word in ("-e", field))]
    read = subprocess.run(argv, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in read.stdout.splitlines()]


@pytest.mark.tshark
def test_the_routing_header_on_the_wire(
    transfers_in: Callable[[str], Transfers], need_program: Callable[[str], str]
) -> None:
    """Field by field, as tshark and as our own dissection read it, at a spine's input. MRC-SRV6-11, MRC-SRV6-12."""
    tshark = need_program("tshark")
    file, packets = captured(transfers_in("srv6-srh"), tshark, "p0s1", "p0l0")
    fields = (
        "ipv6.dst",
        "ipv6.nxt",
        "ipv6.routing.nxt",
        "ipv6.routing.len",
        "ipv6.routing.type",
        "ipv6.routing.segleft",
        "ipv6.routing.srh.last_entry",
        "ipv6.routing.srh.flags",
        "ipv6.routing.srh.tag",
        "ipv6.routing.srh.addr",
        "udp.dstport",
    )
    rows = tshark_rows(tshark, file, "udp && ipv6.dst == fd4d:5243::2", *fields)
    assert len(rows) >= packets[0, 1]
    # By hand from wire.md section 11: leaf 0's uSID is gone, spine 1 and leaf 1 are left, h1's is in the header.
    expected = ["5f00:0:2001:1001::,fd4d:5243::2", "43,17", "41", "2", "4", "1", "0", "0x00", "0000", "5f00:0:4001::"]
    assert {tuple(row) for row in rows} == {(*expected, "4791")}
    dissected = programs.run([*MRC, "dissect", str(file), "--json"], capture_output=True, text=True, check=True)
    headers = Counter()
    for packet in json.loads(dissected.stdout):
        if [layer["layer"] for layer in packet["layers"]][1:5] != ["ipv6", "srh", "ipv6", "udp"]:
            continue
        assert packet["icrc_ok"] is True
        assert packet["malformed"] is None
        headers[json.dumps(packet["layers"][2]["fields"], sort_keys=True)] += 1
    fixed = {"nh": 41, "len": 2, "type": 4, "segleft": 1, "lastentry": 0, "flags": 0, "tag": 0}
    towards_h1 = {**fixed, "segments": ["5f00:0:4001::"]}
    back = {**towards_h1, "segments": ["5f00:0:4000::"], "segleft": 1}
    found = [json.loads(text) for text in headers]
    assert towards_h1 in found
    assert all(header in (towards_h1, back, {**back, "segleft": 0}) for header in found)
    assert headers[json.dumps(towards_h1, sort_keys=True)] == len(rows)


@pytest.mark.tshark
def test_the_first_field_of_the_ev_on_the_wire(
    transfers_in: Callable[[str], Transfers], need_program: Callable[[str], str]
) -> None:
    """At spine 3's input all MRC packets from leaf 0 have an EV whose first 8 bits are 3. MRC-EV-01, MRC-EV-06."""
    tshark = need_program("tshark")
    file, packets = captured(transfers_in("stev"), tshark, "p1s3", "p1l0")
    rows = tshark_rows(
        tshark, file, "udp.dstport == 4791 && ipv6.src == fd4d:5243:1::1", "ipv6.flow", "udp.srcport", "ipv6.dst"
    )
    assert len(rows) >= packets[1, 3]
    # The high half of the EV, 0x0300, in the flow label, the low half, plane 1, in the source port.
    assert {(int(flow, 0), int(port), to) for flow, port, to in rows} == {(0x0300, 1, "fd4d:5243:1::2")}


def test_a_fabric_file_of_another_mode_is_told_apart(transfers_in: Callable[[str], Transfers]) -> None:
    """Both ends must read the EV alike; who says otherwise hears it in one line."""
    transfers = transfers_in("stev")
    receiver = transfers.recv("--once", "--mode", "udp")
    refused = transfers.send(receiver, [transfers.file("file", 1000)]).end().failed()
    assert "one end runs in stev mode, the other in udp" in refused.one_line


def test_status_says_the_mode(labs: Callable[[str], Lab]) -> None:
    name = labs("stev").name
    told = programs.run([*MRC, "lab", "status", "--name", name, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout)["mode"] == "stev"
    shown = programs.run([*MRC, "lab", "status", "--name", name], capture_output=True, text=True, check=True)
    assert "stev mode" in " ".join(shown.stdout.split())
