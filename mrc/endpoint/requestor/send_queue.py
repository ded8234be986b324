# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Work in post order: the writes not wholly sent, those not wholly acknowledged, and the numbers they go under."""

from __future__ import annotations

from collections.abc import Iterator

from mrc.endpoint.completion_ring import NO_IMMEDIATE, CompletionRing
from mrc.endpoint.completions import WorkKind, WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.parts.numbers import column, signed
from mrc.endpoint.work import SOLICITED, WriteRequest
from mrc.errors import CallerError
from mrc.wire.compiled import i64s, may_raise, public, python

_LEAST_ROOM = 16
# What is known of each message, by place.
COLUMNS = (
    "wr_ids",
    "address",
    "first_psn",
    "last_psn",
    "immediate",
    "length",
    "packets",
    "sent_packets",
    "remote_va",
    "rkey",
    "rqmsn",
)
_COLUMNS = len(COLUMNS)
_NONE = -1
_SUCCESS, _WRITE = int(WorkStatus.SUCCESS), int(WorkKind.RDMA_WRITE)


class SendQueue:
    """The unfinished messages, those of MSN `oldest` to `next_msn` - 1, each in a place of its own; from `unsent` on
    they have packets that have never left.

    Of a message in `place(msn)`: cut into `packets` of up to one path MTU, of which `sent_packets` have left, the first
    under `first_psn`, the last under `last_psn` (-1 before). Its `length` bytes lie at `address` and go to `remote_va`
    under `rkey`. `rqmsn` numbers the writes with immediate; it is 0 in a plain write, whose `immediate` is -1.

    At most `max_wimm` writes with immediate are on their way at once (behaviour.md, Write-with-immediate).
    """

    wr_ids: public[i64s]
    address: public[i64s]
    first_psn: public[i64s]
    immediate: public[i64s]
    last_psn: public[i64s]
    length: public[i64s]
    packets: public[i64s]
    remote_va: public[i64s]
    rkey: public[i64s]
    rqmsn: public[i64s]
    sent_packets: public[i64s]

    def __init__(self, config: QpConfig, completions: CompletionRing) -> None:
        self._completions = completions
        self._max_wimm = config.max_wimm
        self._path_mtu = config.path_mtu
        self.oldest = self.unsent = self.next_msn = 0
        self.next_rqmsn = 0
        self.immediates_out = 0  # writes with immediate begun and not acknowledged
        # What was posted, by place, from message `_kept` on: it keeps the memory that is sent alive.
        self._kept = 0
        self._requests: list[WriteRequest | None] = []
        self._mask = -1
        self._columns: i64s = column(0)
        self._make_room(0)

    def _make_room(self, room: int) -> may_raise[None]:
        """Have places for so many messages, a power of two, or none before the first."""
        columns: i64s
        msn: int
        number: int
        before: int = self._mask
        old: i64s = self._columns
        requests = self._requests
        self._mask = room - 1
        self._requests = [None] * room
        # They are parts of one column: each memoryview takes half a kilobyte.
        self._columns = columns = column(_COLUMNS * room)
        for msn in range(self.oldest, self.next_msn):
            self._requests[msn & self._mask] = requests[msn & before]
            for number in range(_COLUMNS):
                columns[number * room + (msn & self._mask)] = old[number * (before + 1) + (msn & before)]
        self.wr_ids, self.address = columns[:room], columns[room : 2 * room]
        self.first_psn, self.last_psn = columns[2 * room : 3 * room], columns[3 * room : 4 * room]
        self.immediate, self.length = columns[4 * room : 5 * room], columns[5 * room : 6 * room]
        self.packets, self.sent_packets = columns[6 * room : 7 * room], columns[7 * room : 8 * room]
        self.remote_va, self.rkey = columns[8 * room : 9 * room], columns[9 * room : 10 * room]
        self.rqmsn = columns[10 * room :]

    # ------------------------------------------------------------------ work in

    def post(self, request: WriteRequest) -> may_raise[None]:
        """Raises CallerError for an immediate the peer never grants."""
        if request.immediate is not None and not self._max_wimm:
            raise CallerError("a write with immediate needs max_wimm of at least 1")
        if self.next_msn - self.oldest == len(self._requests):
            self._make_room(max(_LEAST_ROOM, 2 * len(self._requests)))
        self.release()
        self._completions.expect()
        self._requests[self.next_msn & self._mask] = request
        self.post_at(
            signed(request.wr_id),
            request.source.address + request.offset,
            request.length,
            request.remote_va,
            request.rkey,
            NO_IMMEDIATE if request.immediate is None else request.immediate | (SOLICITED if request.solicited else 0),
        )

    def reserve(self, room: int) -> may_raise[None]:
        """Have places for so many messages, a power of two, from now on: `post_at` makes none."""
        if len(self._requests) < room:
            self._make_room(room)

    def post_at(self, wr_id: int, address: int, length: int, remote_va: int, rkey: int, immediate: int) -> None:
        """Post a write of memory that its owner keeps until it has ended. There is a place for it.

        `immediate` may have SOLICITED with it.
        """
        place = self.next_msn & self._mask
        self.wr_ids[place] = wr_id
        self.rqmsn[place] = 0
        self.immediate[place] = immediate
        if immediate != NO_IMMEDIATE:
            self.rqmsn[place] = self.next_rqmsn
            self.next_rqmsn += 1
        self.length[place] = length
        self.address[place] = address
        self.remote_va[place] = remote_va
        self.rkey[place] = rkey
        self.packets[place] = max(1, (length + self._path_mtu - 1) // self._path_mtu)
        self.sent_packets[place] = 0
        # Unbounded sequence numbers, known once the first and last packet are sent.
        self.first_psn[place] = self.last_psn[place] = -1
        self.next_msn += 1

    # ------------------------------------------------------------------ packets out

    def place(self, msn: int) -> int:
        """Where an unfinished message is."""
        return msn & self._mask

    def has_unsent(self) -> bool:
        """Whether there is anything that has never left."""
        return self.unsent < self.next_msn

    def one_packet_waits(self) -> bool:
        """Whether a single packet is all that has never left, judged by its message."""
        place = self.unsent & self._mask
        return self.next_msn - self.unsent == 1 and self.packets[place] - self.sent_packets[place] == 1

    def next(self) -> int:
        """The message whose packet is the next to leave; -1 where there is none, or the peer's grant of immediates does
        not let it."""
        if self.unsent == self.next_msn:
            return _NONE
        place = self.unsent & self._mask
        if (
            self.immediate[place] != NO_IMMEDIATE
            and self.sent_packets[place] == 0
            and self.immediates_out >= self._max_wimm
        ):
            return _NONE
        return self.unsent

    def begin(self, psn: int) -> None:
        """The next packet of the message that `next` gave leaves under this PSN."""
        place = self.unsent & self._mask
        if self.sent_packets[place] == 0:
            self.first_psn[place] = psn
            if self.immediate[place] != NO_IMMEDIATE:
                self.immediates_out += 1
        self.sent_packets[place] += 1
        if self.sent_packets[place] == self.packets[place]:
            self.last_psn[place] = psn
            self.unsent += 1

    # ------------------------------------------------------------------ work out

    def finish(self, una: int) -> None:
        """Complete, oldest first, the messages of which every PSN is below `una`."""
        while self.oldest < self.unsent and self.last_psn[self.oldest & self._mask] < una:
            place = self.oldest & self._mask
            self.oldest += 1
            if self.immediate[place] != NO_IMMEDIATE:
                self.immediates_out -= 1
            self._completions.add(self.wr_ids[place], _SUCCESS, self.length[place], _WRITE, NO_IMMEDIATE)

    def holding(self, psn: int | None) -> python[int]:
        """The message one of whose packets went out as `psn`, or else the oldest; -1 without any."""
        for msn in self.unfinished():
            first = self.first_psn[msn & self._mask]
            if psn is not None and 0 <= first <= psn < first + self.sent_packets[msn & self._mask]:
                return msn
        return self.oldest if self.oldest < self.next_msn else _NONE

    def has_immediate(self, msn: int) -> python[bool]:
        """Whether an unfinished message is a write with immediate; False for -1."""
        return msn != _NONE and self.immediate[msn & self._mask] != NO_IMMEDIATE

    def unfinished(self) -> python[Iterator[int]]:
        """The MSNs of all messages not wholly acknowledged, oldest first."""
        return iter(range(self.oldest, self.next_msn))

    def request(self, msn: int) -> python[WriteRequest | None]:
        """What was posted as this message, None when it is done with."""
        return self._requests[msn & self._mask] if self.oldest <= msn < self.next_msn else None

    def release(self) -> python[None]:
        """Let go of the memory of messages that are done with."""
        # Of what was posted without a request there is nothing to let go of.
        self._kept = max(self._kept, self.oldest - len(self._requests))
        while self._kept < self.oldest:
            self._requests[self._kept & self._mask] = None
            self._kept += 1

    def flush(self, failed: int, status: WorkStatus) -> python[None]:
        """Complete all messages with errors: `failed` with this status, the others FLUSHED."""
        for msn in self.unfinished():
            outcome = status if msn == failed else WorkStatus.FLUSHED
            self._completions.add(self.wr_ids[msn & self._mask], outcome, 0, _WRITE, NO_IMMEDIATE)

    def clear(self) -> python[None]:
        """Forget all messages."""
        self.oldest = self.unsent = self.next_msn
        self.release()
