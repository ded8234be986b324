# SPDX-License-Identifier: BSD-2-Clause
"""A connected pair of QPs, ours and the peer's, and messages written either way over it."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Self, TypeVar

from network import OURS, PEERS
from peer import RDMA_WRITE, RECV_RDMA_WITH_IMM, SUCCESS, Done, Peer

from mrc.endpoint.completions import Completion, WorkKind, WorkStatus
from mrc.endpoint.work import WriteRequest
from mrc.errors import PeerError
from mrc.rc import RcConfig
from mrc.rc.node import RcNode

T = TypeVar("T")

MEMORY_BYTES = 24 << 20  # as much as the peer has
PATIENCE_S = 60.0
_FIRST_PSN = 0xFFFF80  # they wrap soon; so do the peer's
_RETRIES = 7
_TIMEOUT = 17  # 537 ms, with the retries 4 s: emulated machines and busy ones take their time
_PEERS_TIMEOUT = 15  # 134 ms; to Soft-RoCE seven retries are retries without end
_RNR_TIMER = 18  # 5.12 ms


@dataclass(frozen=True, slots=True)
class Write:
    """One message, to the same offset in the other's memory."""

    offset: int
    length: int
    immediate: int | None = None


@contextmanager
def running(node: RcNode) -> Iterator[None]:
    """The node's loop turns in a thread of its own."""
    over = Event()
    thread = Thread(target=node.driver.run, args=(over.is_set,), name="rc", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        node.driver.wake()
        thread.join()


class Pair:
    """Over IP `version` 4 or 6. Everything here raises PeerError when the peer refuses an order or falls silent."""

    def __init__(self, node: RcNode, peer: Peer, version: int, path_mtu: int) -> None:
        self.peer = peer
        self._node = node
        self._completions = SimpleQueue[Completion]()
        self._ids = itertools.count(1)
        config = RcConfig(path_mtu=path_mtu, timeout=_TIMEOUT, retry_count=_RETRIES, min_rnr_timer=_RNR_TIMER)
        self.theirs = peer.open(PEERS[version], OURS[version], path_mtu, _RNR_TIMER)
        self.memory = bytearray(MEMORY_BYTES)
        endpoint = node.endpoint
        self.region = self._call(lambda: endpoint.memory.register(self.memory))
        self.qp = self._call(lambda: node.create_qp(config, first_psn=_FIRST_PSN, complete=self._completions.put))
        ours, peers = OURS[version], PEERS[version]
        self._call(lambda: node.connect(self.qp, ours, peers, self.theirs.qpn, self.theirs.psn))
        peer.connect(self.qp.qpn, self.qp.first_psn, _PEERS_TIMEOUT, _RETRIES)

    def _call(self, action: Callable[[], T]) -> T:
        return self._node.driver.call(action)

    def count(self, name: str) -> int:
        """One of our QP's counters."""
        return self.qp.counters.as_dict(zeros=True)[name]

    def write(self, write: Write, va: int | None = None, rkey: int | None = None) -> None:
        """Post it, to the peer's own address and key unless others are given."""

        def post() -> None:
            request = WriteRequest(
                next(self._ids),
                self.region,
                write.offset,
                write.length,
                self.theirs.va + write.offset if va is None else va,
                self.theirs.rkey if rkey is None else rkey,
                write.immediate,
            )
            self.qp.post_write(request)
            self._node.endpoint.wake(self.qp)

        self._call(post)

    def receive(self, count: int) -> None:
        """Post receives of ours."""
        for _ in range(count):
            self._call(lambda: self.qp.post_receive(next(self._ids)))

    def take(self, count: int) -> list[Completion]:
        """Our next completions."""
        taken: list[Completion] = []
        try:
            while len(taken) < count:
                taken.append(self._completions.get(timeout=PATIENCE_S))
        except Empty:
            raise PeerError(f"after {len(taken)} of {count} completions none in {PATIENCE_S:.0f} s") from None
        return taken

    def poll(self, count: int) -> list[Done]:
        """The peer's next completions."""
        return self.peer.poll(count, round(PATIENCE_S * 1e3))

    # ------------------------------------------------------------------ messages

    def exchange(self, ours: Sequence[Write], theirs: Sequence[Write]) -> list[str]:
        """Write random bytes, ours to the peer and the peer's to us, all messages under way at once. What is wrong with
        the outcome."""
        for write in ours:
            self.memory[write.offset : write.offset + write.length] = os.urandom(write.length)
        for write in theirs:
            self.peer.fill(write.offset, write.length)
        to_peer, to_us = _immediates(ours), _immediates(theirs)
        self.peer.receive(len(to_peer))
        self.receive(len(to_us))
        for write in ours:
            self.write(write)
        for write in theirs:
            va = self.region.va + write.offset
            self.peer.write(write.offset, write.length, va, self.region.rkey, write.immediate)
        completed = self.take(len(ours) + len(to_us))
        completed_there = self.poll(len(theirs) + len(to_peer))
        sent = [done for done in completed if done.kind == WorkKind.RDMA_WRITE]
        received = [done for done in completed if done.kind != WorkKind.RDMA_WRITE]
        wrong = [
            *_difference(
                "our writes",
                [(done.status, done.byte_len) for done in sent],
                [(WorkStatus.SUCCESS, write.length) for write in ours],
            ),
            *_difference(
                "our receives",
                [(done.status, done.byte_len, done.immediate) for done in received],
                [(WorkStatus.SUCCESS, write.length, write.immediate) for write in to_us],
            ),
            *_difference(
                "the peer's writes",
                [done.status for done in completed_there if done.opcode == RDMA_WRITE],
                [SUCCESS] * len(theirs),
            ),
            *_difference(
                "the peer's receives",
                [done for done in completed_there if done.opcode != RDMA_WRITE],
                [Done(SUCCESS, RECV_RDMA_WITH_IMM, write.length, write.immediate or 0, 1) for write in to_peer],
            ),
        ]
        return wrong + self._differences([*ours, *theirs])

    def _differences(self, writes: Sequence[Write]) -> list[str]:
        wrong = []
        for write in writes:
            ours = hashlib.sha256(memoryview(self.memory)[write.offset : write.offset + write.length]).hexdigest()
            theirs = self.peer.sum(write.offset, write.length)
            if ours != theirs:
                wrong.append(f"{write.length} bytes: SHA-256 {ours} here, {theirs} at the peer")
        return wrong

    # ------------------------------------------------------------------ end

    def close(self) -> None:
        self._call(lambda: self._node.endpoint.destroy_qp(self.qp))
        self._call(lambda: self._node.endpoint.memory.deregister(self.region))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _immediates(writes: Sequence[Write]) -> list[Write]:
    return [write for write in writes if write.immediate is not None]


def _difference(what: str, got: Sequence[object], expected: Sequence[object]) -> list[str]:
    """The first completion that is not as it must be."""
    for number, (one, other) in enumerate(itertools.zip_longest(got, expected)):
        if one != other:
            return [f"{what}: completion {number} is {one}, not {other}"]
    return []
