# SPDX-License-Identifier: BSD-2-Clause
"""`mrc send` and `mrc recv` between two ordinary hosts, with no fabric: UDP and STEV modes over cables and loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from live_hosts import IPV4, IPV6, MIXED, Hosts, bound, ip
from live_run import MIB, Running, dumpcap_of, missing, sha256, sums, when_acked
from patience import CaptureMarker, undisturbed
from programs import MRC

from mrc.lab import nftables
from mrc.lab.namespace import in_namespace
from mrc.lab.netlink import NetlinkSocket

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def two_hosts() -> Iterator[Hosts]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        missing("root and the program ip")
    hosts = Hosts(f"mrcudp{os.getpid()}")
    try:
        hosts.build()
        yield hosts
    finally:
        hosts.demolish()


@pytest.fixture
def hosts(two_hosts: Hosts, tmp_path: Path) -> Iterator[Hosts]:
    """Programs started on them are over after the test, and the cables are whole."""
    two_hosts.scratch = tmp_path
    yield two_hosts
    two_hosts.close()
    whole_again(two_hosts)


def whole_again(hosts: Hosts) -> None:
    for plane in range(2):
        ip("-n", hosts.names["a"], "link", "set", f"e{plane}", "up")
        # A link that went down has lost its IPv6 addresses.
        ip("-n", hosts.names["a"], "addr", "replace", f"{IPV6['a'][plane]}/64", "dev", f"e{plane}", "nodad")
    hosts.carry()


def packets_by_plane(document: dict[str, Any]) -> Counter[int]:
    found: Counter[int] = Counter()
    for path in document["paths"]:
        found[path["plane"]] += path["packets"]
    return found


def transferred(hosts: Hosts, file: Path, receiver: Running, sender: Running) -> dict[str, Any]:
    """Both ends done, the sums agree and the file is there. The sender's document."""
    sent = sender.end().succeeded().document
    received = receiver.end().succeeded().document
    assert sent["sums_agree"] is received["sums_agree"] is True
    assert sums(hosts.scratch / "in") == {file.name: sha256(file)}
    return sent


@pytest.mark.parametrize("mode", ["udp", "stev"])
@pytest.mark.parametrize("addresses", [IPV4, IPV6, MIXED], ids=["IPv4", "IPv6", "IPv4 and IPv6"])
def test_a_file_over_two_cables_in_equal_shares(hosts: Hosts, addresses: dict[str, Sequence[str]], mode: str) -> None:
    """An Ethernet MTU of 1500 leaves room for a path MTU of 1024, which nobody has to name. MRC-PATH-03."""
    file = hosts.file(4 * MIB + 5)

    def attempt() -> dict[str, Any]:
        # What is there already would not be sent again.
        (hosts.scratch / "in" / file.name).unlink(missing_ok=True)
        receiver = hosts.recv("--once", "--json", "--overwrite", "--mode", mode, *bound(addresses["b"]))
        sender = hosts.send(receiver, file, "--json", "--mode", mode, *bound(addresses["a"]))
        return transferred(hosts, file, receiver, sender)

    sent = undisturbed(attempt, itemgetter("retransmitted_packets"))
    share = packets_by_plane(sent)
    assert share.total() >= 4 * 1024 + 1
    assert share[0] == pytest.approx(share[1], rel=0.05)
    # 100 active EVs; one that lost a packet is replaced out of the reserve.
    assert 100 <= sum(1 for path in sent["paths"] if path["packets"]) <= 128


@pytest.mark.parametrize("addresses", [IPV4, IPV6], ids=["IPv4", "IPv6"])
def test_the_sender_finds_its_own_addresses(hosts: Hosts, addresses: dict[str, Sequence[str]]) -> None:
    file = hosts.file(100_000)
    receiver = hosts.recv("--once", "--json", *bound(addresses["b"]))
    sent = transferred(hosts, file, receiver, hosts.send(receiver, file, "--json"))
    assert set(packets_by_plane(sent)) == {0, 1}


@pytest.mark.parametrize(
    ("theirs", "ours"), [("127.0.0.1", "127.0.0.2"), ("::1", "::1")], ids=["IPv4", "IPv6, one address for both"]
)
def test_over_loopback(hosts: Hosts, theirs: str, ours: str) -> None:
    """An MTU of 65536 leaves room for 4096."""
    file = hosts.file(MIB)
    receiver = hosts.recv("--once", "--json", "--bind", theirs)
    sender = hosts.send(receiver, file, "--json", "--bind", ours, host="b")
    assert packets_by_plane(transferred(hosts, file, receiver, sender)).total() >= 256


def test_two_addresses_of_one_interface_are_two_planes(hosts: Hosts) -> None:
    file = hosts.file(MIB)

    def attempt() -> dict[str, Any]:
        # What is there already would not be sent again.
        (hosts.scratch / "in" / file.name).unlink(missing_ok=True)
        receiver = hosts.recv("--once", "--json", "--overwrite", *bound(("127.0.0.1", "::1")))
        sender = hosts.send(receiver, file, "--json", *bound(("127.0.0.2", "::1")), host="b")
        return transferred(hosts, file, receiver, sender)

    share = packets_by_plane(undisturbed(attempt, itemgetter("retransmitted_packets")))
    assert share[0] == pytest.approx(share[1], rel=0.05)


def test_without_the_privilege_for_raw_sockets(hosts: Hosts, need_program: Callable[[str], str]) -> None:
    argv = [need_program("setpriv"), "--bounding-set", "-net_raw", *MRC, "recv", "--bind", "10.7.0.2"]
    assert "raw sockets need root or CAP_NET_RAW" in hosts.start("b", argv).end().failed().one_line


def test_a_plane_whose_interface_goes_down_is_left_and_the_file_arrives(hosts: Hosts) -> None:
    # More where it was over before the interface was down.
    sent = hosts.in_time(partial(transferred_while_a_plane_goes, hosts), 24, 96, 384)
    share = packets_by_plane(sent)
    assert 0 < share[0] < share[1]
    last_use = {
        plane: max(path["last_use_ns"] for path in sent["paths"] if path["plane"] == plane and path["packets"])
        for plane in (0, 1)
    }
    assert last_use[0] < last_use[1]


def transferred_while_a_plane_goes(hosts: Hosts, mib: int) -> dict[str, Any]:
    """What the sender says in the end."""
    whole_again(hosts)
    hosts.forget()
    file, stats = hosts.file(mib * MIB), hosts.scratch / f"stats of {mib} MiB"
    receiver = hosts.recv("--once", "--json", *bound(IPV4["b"]))
    sender = hosts.send(receiver, file, "--json", "--stats", stats, *bound(IPV4["a"]))

    when_acked(stats, 0.1, sender)
    ip("-n", hosts.names["a"], "link", "set", "e0", "down")
    assert sender.process.poll() is None, "the transfer was over before its interface was down"
    return transferred(hosts, file, receiver, sender)


@pytest.mark.tshark
@pytest.mark.parametrize("plane", [0, 1], ids=["IPv4", "IPv6"])
def test_tshark_sees_rocev2_with_varying_source_ports(
    hosts: Hosts, plane: int, need_program: Callable[[str], str]
) -> None:
    """MRC-WIRE-05, MRC-EV-05, MRC-ICRC-09; and nothing else on the cable: no fragment, no ICMP error. MRC-WIRE-03."""
    tshark = need_program("tshark")
    capture = hosts.scratch / "capture.pcap"
    recording = hosts.start("b", [dumpcap_of(tshark), "-q", "-i", f"e{plane}", "-w", capture])
    seen_by(capture, hosts, plane)
    file = hosts.file(MIB // 4)
    receiver = hosts.recv("--once", "--json", "--bind", MIXED["b"][plane])
    sent = transferred(hosts, file, receiver, hosts.send(receiver, file, "--json"))
    used = {path["ev"] for path in sent["paths"] if path["packets"]}
    seen_by(capture, hosts, plane)
    recording.stop(signal.SIGINT)

    def read(*words: str) -> list[list[str]]:
        argv = [tshark, "-r", str(capture), "-o", "udp.check_checksum:TRUE", *words]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return [line.split("\t") for line in done.stdout.splitlines()]

    fields = ("udp.srcport", "udp.dstport", "udp.checksum", "ip.id", "ip.flags.df", "frame.protocols", "udp.length")
    every = read("-Y", "udp", "-T", "fields", *(word for field in fields for word in ("-e", field)))
    assert len(every) > 256
    version = "ip" if plane == 0 else "ipv6"
    # An EV may be the port of another protocol, which tshark then believes in.
    rows = [row for row in every if row[5].startswith(f"eth:ethertype:{version}:udp:infiniband")]
    assert len(rows) > 0.8 * len(every)
    assert {row[1] for row in rows} == {"4791"}
    assert {int(row[2], 16) for row in rows} == {0}
    if plane == 0:
        assert {int(row[3], 16) for row in rows} == {0}
        assert {row[4] for row in rows} <= {"1", "True"}
    # 1024 bytes of payload go one way, on every EV that was used; answers come back on EVs of their own.
    data = [row for row in rows if int(row[6]) > 1024]
    assert {int(row[0]) for row in data} <= used
    assert len(used) >= 50
    check_icrcs(capture, len(every))
    assert not read("-Y", "!udp and ((icmp.type == 3) or (icmpv6.type < 128) or ip.flags.mf == 1 or ipv6.fraghdr)")


def seen_by(capture: Path, hosts: Hosts, plane: int) -> None:
    """Wait until a capture at b has all that has come there."""
    descriptor = os.open(f"/run/netns/{hosts.names['b']}", os.O_RDONLY)
    try:
        with closing(CaptureMarker(partial(in_namespace, descriptor), f"e{plane}")) as marker:
            marker.wait(capture)
    finally:
        os.close(descriptor)


def check_icrcs(capture: Path, count: int) -> None:
    """Each packet's ICRC by the Scapy layers, which know nothing of sockets and batches."""
    from scapy.layers.l2 import Ether
    from scapy.utils import PcapNgReader

    from mrc.layers import BTH, bind_to_udp
    from mrc.layers.icrc import check_icrc

    bind_to_udp()

    seen = 0
    with PcapNgReader(str(capture)) as reader:
        for record in reader:
            packet = Ether(bytes(record))
            if packet.haslayer(BTH):
                assert check_icrc(packet) is True
                seen += 1
    assert seen == count


@pytest.mark.parametrize(
    ("theirs", "ours", "says"),
    [
        (["--bind", "10.7.0.2"], ["--mode", "stev"], "one end runs in stev mode, the other in udp"),
        (["--bind", "10.7.0.2"], ["--bind", "fd07:0::1"], "of different IP versions"),
        (
            ["--bind", "10.7.0.2"],
            ["--mtu", "2048"],
            "interface e0 has MTU 1500, which has no room for a path MTU of 2048: raise the interface's MTU",
        ),
        (["--bind", "10.7.0.2"], ["--bind", "10.7.9.9"], "10.7.9.9 is no address of this host"),
        (["--bind", "10.7.0.2"], ["--wire-profile", "udp_port=5000"], "sends to UDP port 5000, the other takes 4791"),
        (["--bind", "10.7.0.2"], ["--mode", "srv6"], "no fabric"),
    ],
)
def test_ends_that_do_not_fit_are_told_so_in_a_line(
    hosts: Hosts, theirs: list[str], ours: list[str], says: str
) -> None:
    receiver = hosts.recv(*theirs)
    ended = hosts.send(receiver, hosts.file(10), *ours).end().failed()
    assert says in ended.one_line
    assert sums(hosts.scratch / "in") == {}


def test_a_path_mtu_the_other_end_has_no_room_for(hosts: Hosts) -> None:
    """One end's interface has an MTU of 9000, the other's 1500."""
    ip("-n", hosts.names["a"], "link", "set", "e0", "mtu", "9000")
    try:
        receiver = hosts.recv("--once", "--json", "--bind", "10.7.0.2")
        file = hosts.file(10_000)
        refused = hosts.send(receiver, file).end().failed()
        assert "use --mtu 1024" in refused.one_line
        receiver.end()
        receiver = hosts.recv("--once", "--json", "--bind", "10.7.0.2")
        transferred(hosts, file, receiver, hosts.send(receiver, file, "--json", "--mtu", "1024"))
    finally:
        ip("-n", hosts.names["a"], "link", "set", "e0", "mtu", "1500")


@contextmanager
def blocked(hosts: Hosts, host: str) -> Iterator[None]:
    """A firewall in front of `host`: what comes to UDP port 4791 over any cable is dropped."""
    rule = [
        nftables.load_meta(nftables.META_L4PROTO),
        nftables.compare(nftables.COMPARE_EQUAL, bytes([socket.IPPROTO_UDP])),
        nftables.load_bytes(nftables.TRANSPORT_HEADER, 2, 2),
        nftables.compare(nftables.COMPARE_EQUAL, (4791).to_bytes(2, "big")),
        nftables.drop(),
    ]
    namespace = os.open(f"/run/netns/{hosts.names[host]}", os.O_RDONLY)
    try:
        opened = NetlinkSocket.inside(namespace, nftables.NETLINK_NETFILTER)
    finally:
        os.close(namespace)
    with closing(opened) as netlink:
        for cable in ("e0", "e1"):
            nftables.replace_table(
                netlink, f"firewall-{cable}", nftables.FAMILY_NETDEV, nftables.PRIORITY_FIRST, [rule], cable
            )
        try:
            yield
        finally:
            for cable in ("e0", "e1"):
                nftables.delete_table(netlink, f"firewall-{cable}", nftables.FAMILY_NETDEV)


@pytest.mark.parametrize("firewall_at", ["a", "b"])
def test_a_firewall_that_drops_the_port_is_named_with_both_addresses(hosts: Hosts, firewall_at: str) -> None:
    """In front of the receiver it drops the data, in front of the sender the answers: the sender cannot tell which."""
    receiver = hosts.recv("--once", *bound(IPV4["b"]))
    with blocked(hosts, firewall_at):
        ended = hosts.send(receiver, hosts.file(100_000), *bound(IPV4["a"])).end()
    assert ended.code == 1
    (said,) = [line for line in ended.err.splitlines() if line.startswith("Error: ")]
    assert "no packet of the peer ever arrived: UDP port 4791 is perhaps blocked by a firewall" in said
    assert "between 10.7.0.1 and 10.7.0.2 or 10.7.1.1 and 10.7.1.2, in one direction or in both" in said
    assert "`tcpdump -ni any udp port 4791`" in said
    receiver.kill()
