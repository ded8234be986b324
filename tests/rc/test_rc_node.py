# SPDX-License-Identifier: BSD-2-Clause
"""RC over real sockets: two nodes in a namespace of the test's own, over its loopback, without loss and with."""

from __future__ import annotations

import gc
import itertools
import os
import secrets
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Thread
from typing import Self

import pytest
from patience import PATIENCE_S, until_in_use

from mrc.endpoint.completions import Completion, WorkKind, WorkStatus
from mrc.endpoint.work import WriteRequest
from mrc.errors import CallerError, SystemRefused
from mrc.lab.impairment import loss
from mrc.lab.namespace import in_namespace, unshare_network
from mrc.lab.netlink import NetlinkSocket
from mrc.lab.nftables import NETLINK_NETFILTER
from mrc.net.hosts import OwnAddress
from mrc.net.udp_port import full_packets
from mrc.rc import RcConfig
from mrc.rc.node import RC_HEADERS, RcNode
from mrc.threads import in_thread
from mrc.wire.profile import WireProfile
from mrc.wire.transmit_batch import TransmitBatch

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root for raw sockets and a namespace"
    ),
]
ADDRESSES = {4: ("10.9.0.1", "10.9.0.2"), 6: ("fd09::1", "fd09::2")}
SIZES = (0, 1, 63, 1000, 4096, 4097, 300_001)


@pytest.fixture(scope="module")
def namespace() -> Iterator[int]:
    """Its loopback has ADDRESSES and room for 4096 bytes of payload."""

    def make() -> int:
        descriptor = unshare_network()
        subprocess.run(["ip", "link", "set", "lo", "mtu", "4300", "up"], check=True)
        for address in itertools.chain(*ADDRESSES.values()):
            subprocess.run(["ip", "addr", "add", address, "dev", "lo"], check=True)
        until_in_use({"lo"})
        return descriptor

    descriptor = in_thread(make)
    yield descriptor
    os.close(descriptor)


@dataclass
class End:
    """A node that runs in a thread of its own, with one QP."""

    node: RcNode
    address: str
    done: list[Completion] = field(default_factory=list)
    memory: bytearray = field(default_factory=lambda: bytearray(1 << 20))

    def __enter__(self) -> Self:
        self.over = Event()
        self.thread = Thread(target=self.node.driver.run, args=(self.over.is_set,), daemon=True)
        self.thread.start()
        self.region = self.node.driver.call(lambda: self.node.endpoint.memory.register(self.memory))
        return self

    def __exit__(self, *exc: object) -> None:
        self.over.set()
        self.node.driver.wake()
        self.thread.join()
        self.node.driver.close()

    def create(self, config: RcConfig) -> None:
        self.qp = self.node.driver.call(
            lambda: self.node.create_qp(config, first_psn=0xFFFFF0, complete=self.done.append)
        )

    def connect(self, other: End) -> None:
        peer = other.qp
        self.node.driver.call(lambda: self.node.connect(self.qp, self.address, other.address, peer.qpn, peer.first_psn))

    def write(self, other: End, offset: int, content: bytes, immediate: int | None) -> None:
        def post() -> None:
            self.memory[offset : offset + len(content)] = content
            va, rkey = other.region.va + offset, other.region.rkey
            self.qp.post_write(WriteRequest(1, self.region, offset, len(content), va, rkey, immediate))
            self.node.endpoint.wake(self.qp)

        self.node.driver.call(post)

    def take(self, count: int) -> list[Completion]:
        until = time.monotonic() + PATIENCE_S
        while len(self.done) < count:
            assert time.monotonic() < until, self.node.endpoint.total_counters().as_dict()
            time.sleep(0.001)
        taken, self.done[:count] = self.done[:count], []
        return taken


@pytest.fixture
def pair(namespace: int) -> Iterator[Callable[[int, int], tuple[End, End]]]:
    """Makes two connected ends over an IP version with a path MTU."""
    with ExitStack() as stack:

        def make(version: int, path_mtu: int) -> tuple[End, End]:
            ends = []
            for address in ADDRESSES[version]:
                node = in_namespace(namespace, partial(RcNode, [OwnAddress("lo", address)], path_mtu))
                ends.append(stack.enter_context(End(node, address)))
                ends[-1].create(RcConfig(path_mtu=path_mtu, timeout=15))
            first, second = ends
            first.connect(second)
            second.connect(first)
            return first, second

        yield make


def exchange(sender: End, receiver: End) -> None:
    for number, size in enumerate(SIZES):
        content = os.urandom(size)
        for immediate in (None, number):
            if immediate is not None:
                receiver.node.driver.call(lambda: receiver.qp.post_receive(9))
            sender.write(receiver, 7 + number, content, immediate)
            (done,) = sender.take(1)
            assert (done.status, done.byte_len) == (WorkStatus.SUCCESS, size)
            assert receiver.memory[7 + number : 7 + number + size] == content
            if immediate is not None:
                (done,) = receiver.take(1)
                assert (done.kind, done.immediate) == (WorkKind.RECV_RDMA_WITH_IMM, number)
                assert done.byte_len == size


@pytest.mark.parametrize("path_mtu", [1024, 4096])
@pytest.mark.parametrize("version", [4, 6])
def test_writes_both_ways(pair: Callable[[int, int], tuple[End, End]], version: int, path_mtu: int) -> None:
    first, second = pair(version, path_mtu)
    exchange(first, second)
    exchange(second, first)


@pytest.mark.parametrize("version", [4, 6])
def test_with_loss(namespace: int, pair: Callable[[int, int], tuple[End, End]], version: int) -> None:
    first, second = pair(version, 1024)
    netfilter = NetlinkSocket.inside(namespace, NETLINK_NETFILTER)
    try:
        loss.install(netfilter, "lo", 0.03)
        exchange(first, second)
        exchange(second, first)
        ((dropped,)) = [found.dropped_packets for found in loss.installed(netfilter)]
        loss.clear(netfilter, "lo")
    finally:
        netfilter.close()
    counters = [end.node.endpoint.total_counters() for end in (first, second)]
    # 1,200 packets of data and their answers: by chance none is lost once in 10^15 runs.
    assert dropped > 0
    assert sum(each.retransmitted_packets for each in counters) > 0
    assert sum(each.bad_icrc + each.bad_length for each in counters) == 0


def test_a_peer_that_is_not_there(pair: Callable[[int, int], tuple[End, End]]) -> None:
    first, second = pair(6, 1024)
    second.node.driver.call(lambda: second.node.endpoint.destroy_qp(second.qp))
    first.node.driver.call(lambda: first.node.endpoint.destroy_qp(first.qp))
    first.create(RcConfig(path_mtu=1024, timeout=8, retry_count=2))
    first.connect(second)
    first.write(second, 0, b"anybody?", None)
    assert [done.status for done in first.take(1)] == [WorkStatus.RETRY_EXCEEDED]
    assert first.node.endpoint.total_counters().local_ack_timeouts == 3


def test_refusals(namespace: int, pair: Callable[[int, int], tuple[End, End]]) -> None:
    first, _ = pair(4, 1024)
    with pytest.raises(CallerError, match="room for a path MTU of 1024"):
        first.node.create_qp(RcConfig(path_mtu=2048))
    qp = first.node.create_qp(RcConfig())
    with pytest.raises(CallerError, match=r"none of this node's addresses: 10\.9\.0\.1"):
        first.node.connect(qp, "10.9.0.2", "10.9.0.1", 17, 0)
    with pytest.raises(CallerError, match="different IP versions"):
        first.node.connect(qp, "10.9.0.1", "fd09::2", 17, 0)
    with pytest.raises(CallerError, match="at most 16 addresses, got 17"):
        RcNode([OwnAddress("lo", "10.9.0.1")] * 17, 1024)
    gc.collect()  # what earlier tests let go of is closed by now
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SystemRefused, match=r"10\.9\.0\.9"):
        in_namespace(namespace, lambda: RcNode([OwnAddress("lo", "10.9.0.1"), OwnAddress("lo", "10.9.0.9")], 1024))
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_a_node_at_sixteen_addresses(namespace: int) -> None:
    """And with the longest packets that the interface has room for."""
    addresses = [OwnAddress("lo", f"127.0.0.{number}") for number in range(1, 17)]
    with in_namespace(namespace, partial(RcNode, addresses, 4300 - 64)) as node:
        assert node.create_qp(RcConfig(), first_psn=5).first_psn == 5
    with pytest.raises(SystemRefused, match="4300"):
        in_namespace(namespace, partial(RcNode, addresses, 4300 - 63))


def test_keys_and_numbers_cannot_be_guessed(namespace: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """R_Keys, and the seed of QPNs and PSNs, are the system's random numbers."""
    asked: list[int] = []

    def randbits(count: int) -> int:
        asked.append(count)
        return 0xABCD0000 + len(asked)

    monkeypatch.setattr(secrets, "randbits", randbits)
    with in_namespace(namespace, partial(RcNode, [OwnAddress("lo", "10.9.0.1")], 1024)) as node:
        assert (asked, node.endpoint.config.seed) == ([63], 0xABCD0001)
        assert node.endpoint.memory.register(bytearray(1)).rkey == 0xABCD0002
        assert asked == [63, 32]


@pytest.mark.parametrize("qpn", [0x10, 0x3FFF, 0xFFFFFF])
def test_packets_have_the_ports_that_they_are_to_have(namespace: int, qpn: int) -> None:
    """The source port is of the dynamic range and the same for all of a QP's packets; the other is the profile's."""
    wire = WireProfile(udp_port=4971)
    with in_namespace(namespace, partial(RcNode, [OwnAddress("lo", "10.9.0.1")], 1024, wire=wire)) as node:
        qp = node.endpoint.create_qp(qpn=qpn)
        qp.to_init()
        node.connect(qp, "10.9.0.1", "10.9.0.2", 0x77, 0)
        region = node.endpoint.memory.register(bytearray(1))
        for wr_id in range(2):
            qp.post_write(WriteRequest(wr_id, region, 0, 1, 0, 1))
        node.endpoint.wake(qp)
        batch = TransmitBatch(4)
        assert node.endpoint.transmit(batch, 0) == 2
        for row in range(2):
            source, destination = struct.unpack_from(">HH", batch.packet(row), 20)
            assert (source, destination) == (0xC000 + qpn % 0x4000, 4971)


def test_the_longest_packet() -> None:
    # IP, UDP, BTH, RETH, immediate, payload, ICRC
    assert full_packets("10.0.0.1", 4096, RC_HEADERS).length == 20 + 8 + 12 + 16 + 4 + 4096 + 4
    assert full_packets("fd00::1", 1024, RC_HEADERS).length == 40 + 8 + 12 + 16 + 4 + 1024 + 4
