# SPDX-License-Identifier: BSD-2-Clause
"""What tshark and the kernel see of a transfer at a leaf and at a spine: IPv6 in IPv6, one uSID less at each hop."""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial

import pytest
from live_run import MIB, Running, Transfers, dumpcap_of
from patience import MARKER_ETHERTYPE, CaptureMarker

pytestmark = [pytest.mark.root, pytest.mark.tshark]

FIELDS = ("ipv6.dst", "ipv6.src", "ipv6.nxt", "udp.dstport", "udp.length")
# A full packet of path MTU 4096: the file is a multiple of it. All others are shorter.
DATA_BYTES = 4096
# By hand from wire.md section 11: plane 0, spine 1, leaf 0 to host 1 on leaf 1, and the way back to host 0.
HOPS = {
    ("p0l0", "h0"): {"5f00:0:1000:2001:1001:4001::"},
    ("p0s1", "p0l0"): {"5f00:0:2001:1001:4001::"},
    ("p0l1", "p0s1"): {"5f00:0:1001:4001::"},
    ("h1", "p0"): {"5f00:0:4001::"},
}
BACK = {
    ("p0l0", "h0"): "5f00:0:4000::",
    ("p0s1", "p0l0"): "5f00:0:1000:4000::",
    ("p0l1", "p0s1"): "5f00:0:2001:1000:4000::",
}


def capture(transfers: Transfers, tshark: str, node: str, interface: str, *options: str) -> Running:
    """A dumpcap that has begun to capture."""
    file = transfers.scratch / f"{node}-{interface}.pcap"
    wanted = f"ip6 proto 41 or ether proto {MARKER_ETHERTYPE}"
    running = transfers.start(node, [dumpcap_of(tshark), "-q", "-i", interface, "-w", file, "-f", wanted, *options])
    with closing(CaptureMarker(partial(transfers.lab.inside, node), interface)) as marker:
        marker.wait(file)
    return running


def stop(transfers: Transfers, captures: dict[tuple[str, str], Running]) -> None:
    """End the captures once they have all that has come by."""
    for (node, interface), running in captures.items():
        with closing(CaptureMarker(partial(transfers.lab.inside, node), interface)) as marker:
            marker.wait(transfers.scratch / f"{node}-{interface}.pcap")
        running.stop(signal.SIGINT)


def rows(transfers: Transfers, tshark: str, node: str, interface: str) -> list[list[str]]:
    """(outer and inner destination, sources, next headers, UDP port, UDP length) of each packet, as tshark reads it."""
    file = transfers.scratch / f"{node}-{interface}.pcap"
    argv = [
        tshark,
        "-r",
        str(file),
        "-Y",
        "ipv6",
        "-T",
        "fields",
        *(word for field in FIELDS for word in ("-e", field)),
    ]
    read = subprocess.run(argv, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in read.stdout.splitlines()]


def test_destinations_shrink_by_one_usid_a_hop(transfers: Transfers, need_program: Callable[[str], str]) -> None:
    """MRC-SRV6-01, MRC-SRV6-03, MRC-SRV6-04, MRC-WIRE-03."""
    tshark = need_program("tshark")
    # Headers alone: a capture that is kept waiting has room for all of them.
    captures = {hop: capture(transfers, tshark, *hop, "-s", "160") for hop in HOPS}
    receiver = transfers.recv("--once", "--json")
    file = transfers.file("file", 4 * MIB)
    sent = transfers.send(receiver, [file], "--json").end().succeeded().document
    receiver.end().succeeded()
    stop(transfers, captures)
    packets = {path["ev"]: path["packets"] for path in sent["paths"] if path["plane"] == 0}
    assert packets[1] > 0
    for (node, interface), expected in HOPS.items():
        seen = rows(transfers, tshark, node, interface)
        assert all(port == "4791" for _, _, _, port, _ in seen)
        # IPv6 in IPv6, then UDP.
        assert {next_headers for _, _, next_headers, _, _ in seen} == {"41,17"}
        outer = Counter(destinations.split(",")[0] for destinations, *_ in seen)
        inner = {destinations.split(",")[1] for destinations, *_ in seen}
        # Answers take two paths of a plane for some milliseconds: this spine's, or not. Hosts' ports see all.
        here = outer[BACK[node, interface]] if (node, interface) in BACK else len(seen) - outer[next(iter(expected))]
        assert inner == {"fd4d:5243::2"} | ({"fd4d:5243::1"} if here else set())
        assert here or "s1" in node + interface
        (towards,) = expected
        # Data, not probes: as many of those as a transfer takes time for. At a host's own port all four spines' packets
        # look alike.
        full = [destinations for destinations, *_, length in seen if int(length) > DATA_BYTES]
        data = sum(destinations.startswith(f"{towards},") for destinations in full)
        put = sum(packets.values()) if node == "h1" else packets[1]
        # What a busy machine drops before this hop is sent again.
        assert put - sent["retransmitted_packets"] <= data <= put
        if node.startswith("p0s"):
            assert set(outer) <= {towards, BACK[node, interface]}


def test_the_projects_own_dissection_finds_every_icrc_right(
    transfers: Transfers, need_program: Callable[[str], str]
) -> None:
    running = capture(transfers, need_program("tshark"), "p0s1", "p0l0")
    receiver = transfers.recv("--once")
    sent = transfers.send(receiver, [transfers.file("file", MIB)], "--json").end().succeeded().document
    receiver.end().succeeded()
    stop(transfers, {("p0s1", "p0l0"): running})
    from scapy.layers.l2 import Ether
    from scapy.utils import PcapNgReader

    from mrc.layers import BTH, ICRC, bind_to_udp
    from mrc.layers.icrc import check_icrc

    bind_to_udp()

    opcodes: Counter[int] = Counter()
    with PcapNgReader(str(transfers.scratch / "p0s1-p0l0.pcap")) as reader:
        for record in reader:
            packet = Ether(bytes(record))
            if packet.type == MARKER_ETHERTYPE:
                continue
            assert packet.haslayer(BTH), packet.summary()
            assert packet.haslayer(ICRC)
            assert check_icrc(packet) is True
            opcodes[packet[BTH].opcode] += 1
    # Writes one way: those that the sender has put on this path, and that is some. SACKs and ACKs the other; EV probes
    # that measure base RTT.
    (on_it,) = (path["packets"] for path in sent["paths"] if path["ev"] == 1)
    writes = sum(count for opcode, count in opcodes.items() if 0xC6 <= opcode <= 0xCA)
    # What a busy machine drops before this hop is sent again.
    assert max(on_it - sent["retransmitted_packets"], 1) <= writes <= on_it
    assert set(opcodes) <= {0xC6, 0xC7, 0xC8, 0xCA, 0xD1, 0xD8, 0xD9, 0xDC, 0xDE}
