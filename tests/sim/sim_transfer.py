# SPDX-License-Identifier: BSD-2-Clause
"""Writes over a simulated network, what the peer's memory should hold after them, and how they may end."""

from __future__ import annotations

from dataclasses import dataclass, field

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.memory import MemoryRegion
from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_states import QpState
from mrc.endpoint.work import WriteRequest
from mrc.fabric import Clos
from mrc.sim import Egress, LinkModel, SimFabric

MICROSECOND, MILLISECOND, SECOND = 1_000, 1_000_000, 1_000_000_000
NODES = ("h0", "h1")
# What befalls a packet befalls it between its sender's leaf and the spine; the other links of a path do nothing.
CLEAN = LinkModel(delay_ns=10_000)
DEAD = LinkModel(delay_ns=10_000, loss=1.0)
# 7 linear and 7 exponential retries of 16.8 ms take 4.4 s for one PSN; nothing here needs a second one.
PATIENCE = 60 * SECOND


def two_hosts(planes: int = 2, spines: int = 4, seed: int = 0, paths: LinkModel = CLEAN) -> SimFabric:
    """h0 and h1 on two leaves, `planes` x `spines` paths each way, every one like `paths`."""
    fabric = SimFabric(Clos(planes, 2, spines), LinkModel(delay_ns=0), seed=seed)
    set_all_paths(fabric, paths)
    return fabric


def path(fabric: SimFabric, sender: str, plane: int, spine: int) -> Egress:
    """The one place where this path of this sender is impaired."""
    return fabric.uplink(plane, NODES.index(sender), spine)


def set_all_paths(fabric: SimFabric, model: LinkModel, senders: tuple[str, ...] = NODES) -> None:
    for sender in senders:
        for plane in range(fabric.shape.planes):
            for spine in range(fabric.shape.spines):
                path(fabric, sender, plane, spine).model = model


@dataclass
class Transfer:
    """Writes from one node to the other over one QP, back to back in the peer's memory, one guard byte between."""

    sender: str
    qp: QueuePair
    data: bytes
    sizes: list[int]
    target: bytearray
    region: MemoryRegion
    completions: list[tuple[int, WorkStatus, int]] = field(default_factory=list)

    @property
    def done(self) -> bool:
        return len(self.completions) == len(self.sizes)

    def expected(self) -> bytes:
        memory, at, read = bytearray(len(self.target)), 0, 0
        for size in self.sizes:
            memory[at : at + size] = self.data[read : read + size]
            at, read = at + size + 1, read + size
        return bytes(memory)


def transfer(fabric: SimFabric, qp: QueuePair, sender: str, sizes: list[int], seed: int = 0) -> Transfer:
    receiver = NODES[1 - NODES.index(sender)]
    total = sum(sizes)
    # The same again after 64 KiB.
    block = bytes((at * 73 + seed + (at >> 8)) & 0xFF or 1 for at in range(min(total, 1 << 16)))
    content = (block * (total // (1 << 16) + 1))[:total]
    target = bytearray(total + len(sizes) + 8)
    region = fabric.endpoints[receiver].memory.register(target, va=0x10000 + seed * 8)
    source = MemoryRegion(content, 0, 0, remote_write=False)
    at = read = 0
    for number, size in enumerate(sizes):
        qp.post_write(WriteRequest(number, source, read, size, region.va + at, region.rkey))
        at, read = at + size + 1, read + size
    fabric.endpoints[sender].wake(qp)
    return Transfer(sender, qp, content, sizes, target, region)


def collect(fabric: SimFabric, transfers: list[Transfer]) -> None:
    by_qp = {(each.sender, each.qp.qpn): each for each in transfers}
    for node, completions in fabric.completions.items():
        for done in completions.others:
            by_qp[node, done.qpn].completions.append((done.wr_id, done.status, done.byte_len))
        completions.others.clear()


def run(fabric: SimFabric, transfers: list[Transfer], until: int = PATIENCE) -> bool:
    def finished() -> bool:
        collect(fabric, transfers)
        return all(each.done for each in transfers)

    return fabric.run(until, finished)


def check_all_arrived(each: Transfer) -> None:
    assert each.completions == [(at, WorkStatus.SUCCESS, size) for at, size in enumerate(each.sizes)]
    assert bytes(each.target) == each.expected()
    assert each.qp.state == QpState.RTS


def check_honest(each: Transfer) -> None:
    """Once each and in post order: successes, then if the QP failed errors for all the rest."""
    assert [wr_id for wr_id, _, _ in each.completions] == list(range(len(each.sizes)))
    statuses = [status for _, status, _ in each.completions]
    good = next((at for at, status in enumerate(statuses) if status != WorkStatus.SUCCESS), len(statuses))
    assert WorkStatus.SUCCESS not in statuses[good:]
    if good < len(statuses):
        assert each.qp.state == QpState.ERROR
        assert each.qp.error
    end = sum(size + 1 for size in each.sizes[:good])
    expected = each.expected()
    assert each.target[:end] == expected[:end]
    # What did not complete may have arrived in part, but nothing else may stand there.
    assert all(got in (0, want) for got, want in zip(each.target, expected, strict=True))


def start(fabric: SimFabric, work: list[tuple[str, list[int]]], config: QpConfig | None = None) -> list[Transfer]:
    """Each item of `work` is a sender and the sizes of its writes; two items share a QP."""
    transfers: list[Transfer] = []
    for number in range(0, len(work), 2):
        qps = fabric.connect(*NODES, config)
        for qp, (node, sizes) in zip(qps, work[number : number + 2], strict=True):
            transfers.append(transfer(fabric, qp, node, sizes, seed=len(transfers)))
    return transfers
