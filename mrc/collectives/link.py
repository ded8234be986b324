# SPDX-License-Identifier: BSD-2-Clause
"""The link to one other rank: the QP, the slots of both ends, credits, and the streams in progress.

It is made when the first operation needs it (`linking`). Until the other end may be sent to, headers and streams wait.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

import numpy as np

from mrc.collectives.arrays import Bytes
from mrc.collectives.config import SPARE_RECEIVES, GroupConfig
from mrc.collectives.linking import Linking, Side
from mrc.collectives.messages import (
    CHUNK,
    COUNT_MASK,
    FREED,
    HEADER_BYTES,
    NUMBER_MASK,
    SLOT,
    TAKEN,
    Call,
    Header,
    Signature,
    SlotKind,
    Token,
    count_immediate,
    kind_of,
    read_header,
    stream_immediate,
    stream_of,
)
from mrc.collectives.resources import Resources
from mrc.collectives.streams import Engine, Grant, ReceiveStream, SendStream
from mrc.verbs import (
    MR,
    QP,
    SGE,
    WC,
    QPCap,
    RecvWR,
    RemoteMemory,
    SendFlag,
    SendWR,
    VerbsError,
    WCOpcode,
    WCStatus,
    WROpcode,
)

_POINT = Signature(Call.POINT)
_WITH_IMM, _SIGNALED, _SILENT = WROpcode.RDMA_WRITE_WITH_IMM, SendFlag.SIGNALED, SendFlag(0)
_RECEIVE, _SUCCESS = WCOpcode.RECV_RDMA_WITH_IMM, WCStatus.SUCCESS
# Point-to-point streams that a receiver grants one sender at a time.
POINT_STREAMS = 4
# Slots kept free of data, for grants and calls.
_KEPT_SLOTS = 4


class Calls(Protocol):
    """What is done with a peer's messages."""

    def on_data(self, link: Link, header: Header, slot: int) -> None:
        """The peer wrote a slot of data."""

    def on_grant(self, link: Link, header: Header) -> None:
        """The peer granted a stream its place."""

    def on_call(self, link: Link, header: Header) -> None:
        """The peer has called an operation in which it sends to this rank."""

    def on_want(self, link: Link, header: Header) -> None:
        """The peer would receive from any rank, with the tag in the header."""

    def on_have(self, link: Link, header: Header) -> None:
        """The peer has sends for this rank to receive from any rank."""


class Owner(Engine, Protocol):
    """The engine as its links use it."""

    @property
    def calls(self) -> Calls: ...

    def on_failure(self, link: Link, why: str) -> None:
        """The QP has failed."""

    def tell(self, rank: int, note: dict[str, Any]) -> None:
        """Send a message to a rank over the control."""

    def until_posted(self) -> None:
        """Return once the endpoint has what was posted: a peer that is notified afterwards finds it there."""


def receives_of(config: GroupConfig) -> int:
    """Return the most writes with immediate that can be in flight to a rank."""
    return config.eager_slots + config.window * (1 + POINT_STREAMS) + SPARE_RECEIVES


class Link:
    """The link to rank `rank`. All methods but `drain` run where the engine does."""

    def __init__(self, rank: int, resources: Resources, config: GroupConfig, engine: Owner) -> None:
        pd, cq = resources.pd, resources.cq
        self.rank = rank
        self.engine = engine
        self.eager_bytes = config.eager_bytes
        self.chunk_bytes = config.chunk_bytes
        self.window = config.window
        self._slots = config.eager_slots
        self._slot_bytes = config.eager_bytes + HEADER_BYTES
        receives = receives_of(config)
        self._receives = receives
        self.qp = QP(pd, send_cq=cq, recv_cq=cq, cap=QPCap(max_send_wr=4 * receives, max_recv_wr=receives))
        self._staging: Bytes = np.zeros(self._slots * self._slot_bytes, np.uint8)
        self._inbox: Bytes = np.zeros(self._slots * self._slot_bytes, np.uint8)
        self._staging_mr: MR = pd.mr(self._staging)
        self._inbox_mr: MR = pd.mr(self._inbox)
        self._staging_view = self._staging.data
        self._inbox_view = self._inbox.data
        self._linking = Linking(
            resources.context, self.qp, config, receives, self._inbox_mr.remote, resources.scratch_mr.remote
        )
        self._asked = False
        self._connected = False
        self._open = False  # the peer may be sent to
        self._to: RemoteMemory | None = None
        self._scratch: RemoteMemory | None = None
        self.incoming: dict[int, ReceiveStream] = {}
        self.outgoing: dict[int, SendStream] = {}
        # Data, grants and calls of operations that have not begun here.
        self.early: dict[int, list[tuple[Header, int]]] = {}
        self.grants: dict[int, Header] = {}
        self.calls: dict[int, Header] = {}
        self._written = 0  # slots of the peer's
        self._freed_there = 0
        self._read = 0  # slots of ours
        self._freed = 0
        self._reported_freed = 0
        self._freed_early: set[int] = set()
        self._for_slots: deque[SendStream] = deque()
        self._headers_waiting: deque[Header] = deque()
        self._unacknowledged: deque[SendStream] = deque()
        self.closed = False

    # ------------------------------------------------------------------ coming up

    def ask(self) -> None:
        """Tell the peer this end's side, unless that was done."""
        if not self._asked:
            self._asked = True
            self.engine.tell(self.rank, {"link": self._linking.side(), "linked": self._connected})

    def on_side(self, theirs: Side, *, linked: bool) -> None:
        """Connect to the peer's side. `linked`: it has connected to this one's. Raises PeerError as `Linking` does."""
        if self._connected or self.closed:
            return
        self._to, self._scratch = self._linking.connect(theirs)
        self.qp.post_recv(*[RecvWR()] * self._receives)
        self.engine.until_posted()
        self._connected = True
        if self._asked:
            self.engine.tell(self.rank, {"linked": True})
        else:
            self.ask()
        if linked:
            self.on_linked()

    def on_linked(self) -> None:
        """The peer has connected: send what waits."""
        if self._open or not self._connected or self.closed:
            return
        self._open = True
        self._send_waiting()

    # ------------------------------------------------------------------ sending

    def has_slot_for(self, stream: SendStream) -> bool:
        """Return whether a slot is free for data. If not, pump the stream when one is."""
        if self._open and self._written - self._freed_there < self._slots - _KEPT_SLOTS:
            return True
        if stream not in self._for_slots:
            self._for_slots.append(stream)
        return False

    def send_data(self, token: Token, data: Bytes) -> None:
        """Write a slot of data. Needs a free slot (`has_slot_for`)."""
        place = self._slot_to_write()
        start = place + HEADER_BYTES
        self._staging[start : start + data.size] = data
        self._write_slot(place, Header(SlotKind.DATA, token.signature, 0, token.sequence, data.size))

    def send_grant(self, token: Token, stream: int, length: int, grant: Grant) -> None:
        """Grant the peer a place for `length` bytes of a stream."""
        header = Header(
            SlotKind.GRANT,
            token.signature,
            0,
            token.sequence,
            length,
            grant.address,
            grant.rkey,
            stream,
            grant.first,
            grant.chunks,
        )
        self._send_header(header)

    def send_call(self, token: Token) -> None:
        """Tell the peer what this rank has called, before anything is sent to it."""
        self._send_header(Header(SlotKind.CALL, token.signature, 0, token.sequence))

    def send_want(self, tag: int) -> None:
        """Tell the peer that this rank would receive from any rank."""
        self._send_header(Header(SlotKind.WANT, _POINT, 0, tag))

    def send_have(self, tag: int, count: int) -> None:
        """Tell the peer, which wants it, that there are `count` sends since then."""
        self._send_header(Header(SlotKind.HAVE, _POINT, 0, tag, count))

    def _send_header(self, header: Header) -> None:
        if not self._open or self._headers_waiting or self._written - self._freed_there >= self._slots:
            self._headers_waiting.append(header)
        else:
            self._write_slot(self._slot_to_write(), header)

    def _slot_to_write(self) -> int:
        return self._written % self._slots * self._slot_bytes

    def _write_slot(self, place: int, header: Header) -> None:
        self._reported_freed = self._freed
        header.pack_into(self._staging_view[place : place + HEADER_BYTES], self._freed)
        assert self._to is not None
        mr = self._staging_mr
        length = HEADER_BYTES + (header.length if header.kind == SlotKind.DATA else 0)
        immediate = count_immediate(SLOT, self._written)
        self._written += 1
        sge = SGE(mr.addr + place, length, mr.lkey)
        self.qp.post_send(SendWR(0, _WITH_IMM, sge, self._to.addr + place, self._to.rkey, immediate, _SILENT))

    def scratch_place(self, chunk: int) -> tuple[int, int]:
        """Return address and rkey of a chunk of the peer's scratch memory."""
        assert self._scratch is not None
        return self._scratch.addr + chunk * self.chunk_bytes, self._scratch.rkey

    def write_chunk(
        self, stream: SendStream, at: int, length: int, lkey: int, address: int, rkey: int, number: int
    ) -> None:
        """Write a chunk of a stream to its place."""
        self._unacknowledged.append(stream)
        immediate = stream_immediate(CHUNK, stream.stream, number)
        self.qp.post_send(SendWR(0, _WITH_IMM, SGE(at, length, lkey), address, rkey, immediate, _SIGNALED))

    def report_taken(self, stream: int, taken: int) -> None:
        self._say(stream_immediate(TAKEN, stream, taken))

    def _say(self, immediate: int) -> None:
        self.qp.post_send(SendWR(0, _WITH_IMM, None, 0, 0, immediate, _SILENT))

    # ------------------------------------------------------------------ slots

    def slot_bytes(self, slot: int, length: int) -> Bytes:
        """Return `length` bytes of data of a slot."""
        start = slot * self._slot_bytes + HEADER_BYTES
        return self._inbox[start : start + length]

    def free_slot(self, slot: int) -> None:
        """Free a slot. The peer gets a credit for it once all earlier slots are free."""
        self._freed_early.add(slot)
        while self._freed < self._read and self._freed % self._slots in self._freed_early:
            self._freed_early.discard(self._freed % self._slots)
            self._freed += 1

    def report_freed(self) -> None:
        """Send a credit for freed slots, unless other messages carried it or half of the slots are still free."""
        if self._freed - self._reported_freed >= self._slots // 2 and not self.closed:
            self._reported_freed = self._freed
            self._say(count_immediate(FREED, self._freed))

    # ------------------------------------------------------------------ completions

    def on_completion(self, done: WC) -> None:
        if self.closed:
            return
        if done.status != _SUCCESS:
            self.engine.on_failure(self, self.qp.explain(done.status))
            return
        if done.opcode != _RECEIVE:
            self._unacknowledged.popleft().on_acknowledged()
            return
        self.qp.post_recv(RecvWR())
        # Whoever sends has connected, even where its message that says so is still on its way.
        self.on_linked()
        immediate = done.imm_data or 0
        kind = kind_of(immediate)
        if kind == SLOT:
            self._on_slot()
        elif kind == CHUNK:
            stream, _ = stream_of(immediate)
            self.incoming[stream].on_landed(0)
        elif kind == FREED:
            self._on_freed(immediate & COUNT_MASK)
        else:
            stream, taken = stream_of(immediate)
            self._on_taken(stream, taken)

    def _on_slot(self) -> None:
        slot = self._read % self._slots
        self._read += 1
        start = slot * self._slot_bytes
        header = read_header(self._inbox_view[start : start + HEADER_BYTES])
        self._on_freed(header.freed)
        if header.kind == SlotKind.DATA:
            self.engine.calls.on_data(self, header, slot)
            return
        self.free_slot(slot)
        handle = {
            SlotKind.GRANT: self.engine.calls.on_grant,
            SlotKind.CALL: self.engine.calls.on_call,
            SlotKind.WANT: self.engine.calls.on_want,
            SlotKind.HAVE: self.engine.calls.on_have,
        }.get(SlotKind(header.kind))
        assert handle is not None
        handle(self, header)

    def _on_freed(self, count: int) -> None:
        more = count - self._freed_there & COUNT_MASK
        if not more:
            return
        self._freed_there += more
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self._headers_waiting and self._written - self._freed_there < self._slots:
            self._write_slot(self._slot_to_write(), self._headers_waiting.popleft())
        for _ in range(len(self._for_slots)):
            # A stream that finds no slot queues again.
            self._for_slots.popleft().pump()

    def _on_taken(self, stream: int, taken: int) -> None:
        out = self.outgoing.get(stream)
        if out is not None:
            out.taken += taken - out.taken & NUMBER_MASK
            out.pump()

    # ------------------------------------------------------------------ end

    def drain(self, timeout: float | None) -> None:
        """Wait until the peer has received everything sent so far. Raises VerbsError as `QP.drain`. From any thread."""
        if not self._open:
            return
        try:
            # The peer's word that it has drained is its `bye`.
            self.qp.drain(timeout, quiet=0)
        except VerbsError:
            # A peer that has left has received everything.
            if not self.closed:
                raise

    def close(self) -> None:
        """Destroy the QP and deregister the slots."""
        if not self.closed:
            self.closed = True
            self.qp.close()
            self._staging_mr.close()
            self._inbox_mr.close()
