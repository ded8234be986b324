"""The way to one other rank: a QP, the slots it writes into, those it is written to, and what is under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np

from mrc.collectives.arrays import Bytes
from mrc.collectives.config import SPARE_RECEIVES, GroupConfig
from mrc.collectives.messages import (
    COUNT_MASK,
    FREED,
    HEADER_BYTES,
    NUMBER_MASK,
    PIECE,
    SLOT,
    TAKEN,
    Header,
    Told,
    count_immediate,
    kind_of,
    read_header,
    stream_immediate,
    stream_of,
)
from mrc.collectives.streams import Engine, Grant, Incoming, Outgoing, Token
from mrc.verbs import (
    CQ,
    MR,
    PD,
    QP,
    SGE,
    WC,
    QPCap,
    RecvWR,
    RemoteMemory,
    SendFlag,
    SendWR,
    WCOpcode,
    WCStatus,
    WROpcode,
)

_WITH_IMM, _SIGNALED, _SILENT = WROpcode.RDMA_WRITE_WITH_IMM, SendFlag.SIGNALED, SendFlag(0)
_RECEIVE, _SUCCESS = WCOpcode.RECV_RDMA_WITH_IMM, WCStatus.SUCCESS
# Streams of point-to-point operations that one rank lets another have at once.
POINT_STREAMS = 4
# What a write that says something is called when it completes.
_SOMETHING, _PIECE_WRITTEN, _MARK = 0, 1, 2
# Slots that data leaves free, for what keeps operations going.
_KEPT_SLOTS = 4


class Owner(Engine, Protocol):
    """The engine, as its links see it."""

    def on_data(self, link: Link, header: Header, slot: int) -> None:
        """A slot of an operation's was written."""

    def on_grant(self, link: Link, header: Header) -> None:
        """The peer says where a stream goes."""

    def on_failure(self, link: Link, why: str) -> None:
        """The QP has failed."""


def receives_of(config: GroupConfig) -> int:
    """How many writes with immediate can be under way towards a rank, at the most."""
    return config.eager_slots + config.window * (1 + POINT_STREAMS) + SPARE_RECEIVES


class Link:
    """To rank `rank`. All is called where the engine runs."""

    def __init__(self, rank: int, pd: PD, cq: CQ, config: GroupConfig, engine: Owner) -> None:
        self.rank = rank
        self.engine = engine
        self.eager_bytes = config.eager_bytes
        self.piece_bytes = config.piece_bytes
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
        self._to: RemoteMemory | None = None
        self._scratch: RemoteMemory | None = None
        self.incoming: dict[int, Incoming] = {}
        self.outgoing: dict[int, Outgoing] = {}
        # What came for operations that have not begun here.
        self.early: dict[int, list[tuple[Header, int]]] = {}
        self.grants: dict[int, Header] = {}
        self._written = 0  # slots of the peer's
        self._freed_there = 0
        self._read = 0  # slots of ours
        self._freed = 0
        self._told_freed = 0
        self._freed_early: set[int] = set()
        self._for_slots: deque[Outgoing] = deque()
        self._grants_waiting: deque[Header] = deque()
        self._unacknowledged: deque[Outgoing] = deque()
        self._drains: deque[Callable[[], None]] = deque()
        # The number of the first operation that the peer takes no part in any more.
        self.left_at: int | None = None
        self.closed = False

    @property
    def inbox(self) -> RemoteMemory:
        """Where the peer writes its slots."""
        return self._inbox_mr.remote

    @property
    def receives(self) -> int:
        """How many writes with immediate the peer may have outstanding."""
        return self._receives

    def open(self, inbox: RemoteMemory, scratch: RemoteMemory) -> None:
        """The peer's memory is known, and the QP connected."""
        self._to, self._scratch = inbox, scratch
        for _ in range(self._receives):
            self.qp.post_recv(RecvWR())

    # ------------------------------------------------------------------ sending

    def has_slot_for(self, stream: Outgoing) -> bool:
        """Whether data may be sent. If not the stream is pumped once it may."""
        if self._written - self._freed_there < self._slots - _KEPT_SLOTS:
            return True
        if stream not in self._for_slots:
            self._for_slots.append(stream)
        return False

    def send_data(self, token: Token, data: Bytes) -> None:
        """A slot of an operation's. There is one: `has_slot_for`."""
        place = self._slot_to_write()
        start = place + HEADER_BYTES
        self._staging[start : start + data.size] = data
        self._write_slot(place, Header(Told.DATA, token.signature, self._freed, token.sequence, data.size))

    def send_grant(self, token: Token, stream: int, length: int, grant: Grant) -> None:
        """Say where `length` bytes of a stream go."""
        header = Header(
            Told.GRANT,
            token.signature,
            0,
            token.sequence,
            length,
            grant.address,
            grant.rkey,
            stream,
            grant.first,
            grant.pieces,
        )
        if self._grants_waiting or self._written - self._freed_there >= self._slots:
            self._grants_waiting.append(header)
        else:
            self._write_slot(self._slot_to_write(), header)

    def _slot_to_write(self) -> int:
        return self._written % self._slots * self._slot_bytes

    def _write_slot(self, place: int, header: Header) -> None:
        self._told_freed = self._freed
        header._replace(freed=self._freed).pack_into(self._staging_view[place : place + HEADER_BYTES])
        assert self._to is not None
        mr = self._staging_mr
        length = HEADER_BYTES + (header.length if header.told == Told.DATA else 0)
        immediate = count_immediate(SLOT, self._written)
        self._written += 1
        sge = SGE(mr.addr + place, length, mr.lkey)
        self.qp.post_send(SendWR(_SOMETHING, _WITH_IMM, sge, self._to.addr + place, self._to.rkey, immediate, _SILENT))

    def scratch_place(self, piece: int) -> tuple[int, int]:
        """Address and rkey of a piece of the peer's scratch memory."""
        assert self._scratch is not None
        return self._scratch.addr + piece * self.piece_bytes, self._scratch.rkey

    def write_piece(
        self, stream: Outgoing, at: int, length: int, lkey: int, address: int, rkey: int, number: int
    ) -> None:
        """A piece of a stream, to its place."""
        self._unacknowledged.append(stream)
        immediate = stream_immediate(PIECE, stream.stream, number)
        self.qp.post_send(SendWR(_PIECE_WRITTEN, _WITH_IMM, SGE(at, length, lkey), address, rkey, immediate, _SIGNALED))

    def say_taken(self, stream: int, taken: int) -> None:
        self._say(stream_immediate(TAKEN, stream, taken))

    def _say(self, immediate: int) -> None:
        self.qp.post_send(SendWR(_SOMETHING, _WITH_IMM, None, 0, 0, immediate, _SILENT))

    # ------------------------------------------------------------------ slots

    def slot_bytes(self, slot: int, length: int) -> Bytes:
        """What lies in a slot behind its header."""
        start = slot * self._slot_bytes + HEADER_BYTES
        return self._inbox[start : start + length]

    def free_slot(self, slot: int) -> None:
        """The peer may write there again."""
        self._freed_early.add(slot)
        while self._freed < self._read and self._freed % self._slots in self._freed_early:
            self._freed_early.discard(self._freed % self._slots)
            self._freed += 1

    def tell_freed(self) -> None:
        """If nothing else has told the peer of it: at the end of the engine's step."""
        if self._freed - self._told_freed >= self._slots // 2 and not self.closed:
            self._told_freed = self._freed
            self._say(count_immediate(FREED, self._freed))

    # ------------------------------------------------------------------ completions

    def on_completion(self, done: WC) -> None:
        if self.closed:
            return
        if done.status != _SUCCESS:
            self.engine.on_failure(self, self.qp.explain(done.status))
            return
        if done.opcode != _RECEIVE:
            if done.wr_id == _MARK:
                self._drains.popleft()()
            else:
                self._unacknowledged.popleft().on_acknowledged()
            return
        self.qp.post_recv(RecvWR())
        immediate = done.imm_data or 0
        kind = kind_of(immediate)
        if kind == SLOT:
            self._on_slot()
        elif kind == PIECE:
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
        if header.told == Told.GRANT:
            self.free_slot(slot)
            self.engine.on_grant(self, header)
        else:
            self.engine.on_data(self, header, slot)

    def _on_freed(self, count: int) -> None:
        more = count - self._freed_there & COUNT_MASK
        if not more:
            return
        self._freed_there += more
        while self._grants_waiting and self._written - self._freed_there < self._slots:
            self._write_slot(self._slot_to_write(), self._grants_waiting.popleft())
        for _ in range(len(self._for_slots)):
            # One that still finds none puts itself back.
            self._for_slots.popleft().pump()

    def _on_taken(self, stream: int, taken: int) -> None:
        out = self.outgoing.get(stream)
        if out is not None:
            out.taken += taken - out.taken & NUMBER_MASK
            out.pump()

    # ------------------------------------------------------------------ end

    def drain(self, drained: Callable[[], None]) -> None:
        """Call `drained` once the peer has all that was sent so far."""
        if self.closed:
            drained()
            return
        self._drains.append(drained)
        # It completes after all that was posted before it, and consumes no receive.
        self.qp.post_send(SendWR(_MARK, WROpcode.RDMA_WRITE, send_flags=_SIGNALED))

    def close(self) -> None:
        """Nothing comes or goes any more."""
        if not self.closed:
            self.closed = True
            self.qp.close()
            self._staging_mr.close()
            self._inbox_mr.close()
            drains, self._drains = list(self._drains), deque()
            for drained in drains:
                drained()
