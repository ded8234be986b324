# SPDX-License-Identifier: BSD-2-Clause
"""Two endpoints of one process that hand each other batches, for suites that need one to have sent something."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Sequence

import numpy as np

from mrc.endpoint.config import Capability, EndpointConfig, QpConfig
from mrc.endpoint.congestion import DEFAULT_ALGORITHM, FixedWindow, FixedWindowConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.paths.addressing import Path, PlanePair, srv6_paths
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.work import WriteRequest
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch
from mrc.wire.usid import UsidTemplate

BATCH = 128
MILLISECOND = 1_000_000


def address(host: int, plane: int) -> str:
    return f"fd00:{plane:x}::{host + 1:x}"


def paths_of(host: int, planes: int = 2, spines: int = 4) -> list[Path]:
    """Every path from a host to the other."""
    pairs = [PlanePair(p, p, address(host, p), address(1 - host, p), spines) for p in range(planes)]
    return srv6_paths(pairs, UsidTemplate(host, 1 - host, 1 - host))


class Pair:
    """A sender with `window` packets of `path_mtu` bytes to send and everything posted, and its receiver. `qps` are
    the sender's and the receiver's. The window is fixed, or `by_nscc`."""

    def __init__(self, window: int, path_mtu: int = 4096, *, by_nscc: bool = False) -> None:
        mpr = -(-window // 128)
        config = QpConfig(path_mtu=path_mtu, mpr=mpr, mpr_dest=mpr, capabilities=Capability.TRIM_NACK)
        self.sender, self.receiver = (Endpoint(EndpointConfig(seed=host, transmit_batch=BATCH)) for host in (0, 1))
        fixed = FixedWindowConfig(window)
        controller = DEFAULT_ALGORITHM if by_nscc else lambda sizes: FixedWindow(sizes, fixed)
        self.qps = qps = [endpoint.create_qp(config, controller) for endpoint in (self.sender, self.receiver)]
        for host, (qp, other) in enumerate(zip(qps, reversed(qps), strict=True)):
            sources = {p: int(ipaddress.IPv6Address(address(1 - host, p))) for p in range(2)}
            qp.to_init()
            qp.to_rtr(QpPeer(other.qpn, other.first_psn, paths_of(host), sources, config.capabilities))
            qp.to_rts()
        size = path_mtu * window
        source = self.sender.memory.register(np.ones(size, np.uint8), remote_write=False)
        target = self.receiver.memory.register(np.ones(size, np.uint8))
        self._work = WriteRequest(0, source, 0, size, target.va, target.rkey)
        self._window = window
        self.now = 0
        self.post()

    def post(self) -> None:
        """Post a write of all packets once more."""
        self.qps[0].post_write(self._work)
        self.sender.wake(self.qps[0])

    def data(self) -> list[ReceivedBatch]:
        """Everything the sender has to say, in batches of 128 packets of data."""
        batch = TransmitBatch(BATCH)
        packets: list[bytes] = []
        ports: list[int] = []
        while len(packets) < self._window:
            batch.clear()
            self.now += 1000
            count = self.sender.transmit(batch, self.now)
            if not count:
                raise RuntimeError(f"the sender stopped after {len(packets)} packets: a fault of the benchmark")
            rows = [row for row in range(count) if batch.payload_length[row]]
            packets += [batch.packet(row) for row in rows]
            ports += [int(batch.port[row]) for row in rows]
        return _batches(packets, ports)

    def sacks(self, data: Sequence[ReceivedBatch]) -> list[ReceivedBatch]:
        """What the receiver answers to these."""
        batch = TransmitBatch(BATCH)
        packets: list[bytes] = []
        ports: list[int] = []
        for arrived in data:
            self.now += 1000
            self.receiver.receive(arrived, self.now)
            while True:
                batch.clear()
                count = self.receiver.transmit(batch, self.now)
                if not count:
                    break
                packets += [batch.packet(row) for row in range(count)]
                ports += [int(batch.port[row]) for row in range(count)]
        return _batches(packets, ports)


def without(data: Sequence[ReceivedBatch], share: float) -> list[ReceivedBatch]:
    """These with a share of the packets lost at random, the same ones each time."""
    draw = random.Random(1)
    kept = [
        [(batch.packet(row), int(batch.port[row])) for row in range(batch.count) if draw.random() >= share]
        for batch in data
    ]
    return [_batches([p for p, _ in rows], [port for _, port in rows])[0] for rows in kept]


def _batches(packets: Sequence[bytes], ports: Sequence[int]) -> list[ReceivedBatch]:
    batches = []
    for start in range(0, len(packets), BATCH):
        batch = ReceivedBatch.from_packets(packets[start : start + BATCH])
        batch.port[:] = ports[start : start + BATCH]
        batches.append(batch)
    return batches
