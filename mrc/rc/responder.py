"""The responder of RC: takes writes in order, answers with ACK or NAK (IBTA 9.7.4, 9.7.5, 9.9.3)."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable

from mrc.endpoint.completions import Completion, WorkKind, WorkStatus
from mrc.endpoint.memory import MemoryRegion, MemoryTable
from mrc.rc.config import RcConfig
from mrc.rc.counters import RcCounters
from mrc.rc.framing import Framing
from mrc.rc.opcodes import EXTENSION_BYTES, WRITES, RcOp
from mrc.rc.syndromes import NAK_SEQUENCE_ERROR, RNR_NAK
from mrc.endpoint.refusals import ACK_SYNDROME, NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, NAK_STATUS
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH, OPCODES
from mrc.wire.psn import psn_diff
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import ACKREQ, EXTENSION_AT, PAD_SHIFT, PSN_BITS_MASK
from mrc.wire.transmit_batch import TransmitBatch

# Of a request: opcode, flags, psn_word, as they lie behind the UDP header.
_BTH = struct.Struct(">BB6xI")
_BTH_AT = 48
_RETH = struct.Struct(">QII")
_IMMEDIATE = struct.Struct(">I")


class _NotReady(Exception):
    """A write with immediate found no receive."""


class RefusedRequest(Exception):
    """A request that ends its QP: its PSN and the NAK's syndrome."""

    def __init__(self, psn: int, syndrome: int, what: str) -> None:
        super().__init__(f"the peer's request with PSN {psn} {what}")
        self.psn = psn
        self.syndrome = syndrome


class Responder:
    """One QP's receiving half. `fail(status, detail)` is called when a request ends the QP."""

    __slots__ = (
        "_answer",
        "_complete",
        "_config",
        "_counters",
        "_fail",
        "_held_back",
        "_length",
        "_memory",
        "_message",
        "_posted",
        "_qpn",
        "_refused",
        "epsn",
        "msn",
    )

    def __init__(
        self,
        *,
        qpn: int,
        config: RcConfig,
        memory: MemoryTable,
        counters: RcCounters,
        complete: Callable[[Completion], None],
        fail: Callable[[WorkStatus, str], None],
    ) -> None:
        self._qpn = qpn
        self._config = config
        self._memory = memory
        self._counters = counters
        self._complete = complete
        self._fail = fail
        # The PSN expected next, and how many messages are complete, both 24 bit.
        self.epsn = 0
        self.msn = 0
        self._posted: deque[int] = deque()
        # Where the next packet of the message under way goes, None between messages: R_Key, address, bytes to come.
        self._message: tuple[int, int, int] | None = None
        self._length = 0  # of that message
        # The (PSN, syndrome) to be sent: a later answer says all that an earlier one does.
        self._answer: tuple[int, int] | None = None
        # A NAK is out for epsn: whatever follows it is dropped without another one until epsn is there.
        self._held_back = False
        self._refused: tuple[int, int] | None = None

    def post_receive(self, wr_id: int) -> None:
        self._posted.append(wr_id)

    def flush(self) -> None:
        """The QP is over: complete every posted receive with an error."""
        while self._posted:
            self._complete(
                Completion(self._posted.popleft(), self._qpn, WorkStatus.FLUSHED, 0, WorkKind.RECV_RDMA_WITH_IMM)
            )

    # ------------------------------------------------------------------ requests in

    def on_request(self, batch: ReceivedBatch, row: int) -> None:
        """A request of the peer's whose length, ICRC and source have been checked: PSN first, then what it wants."""
        opcode, flags, psn_word = _BTH.unpack_from(batch.view(row, _BTH_AT, EXTENSION_AT))
        self._counters.requests_received += 1
        psn = psn_word & PSN_BITS_MASK
        ahead = psn_diff(psn, self.epsn)
        if ahead < 0:
            self._counters.duplicates += 1
            # Where a NAK waits, it acknowledges the same.
            if self._answer is None:
                self._answer = ((self.epsn - 1) & PSN_BITS_MASK, ACK_SYNDROME)
            return
        if ahead > 0:
            self._counters.out_of_sequence += 1
            if not self._held_back:
                self._hold_back(NAK_SEQUENCE_ERROR)
            return
        try:
            self._execute(batch, row, opcode, flags >> PAD_SHIFT & 3)
        except _NotReady:
            self._hold_back(RNR_NAK | self._config.min_rnr_timer)
            return
        except RefusedRequest as refusal:
            self._refused = self._answer = (refusal.psn, refusal.syndrome)
            self._fail(NAK_STATUS[refusal.syndrome], str(refusal))
            return
        self.epsn = (psn + 1) & PSN_BITS_MASK
        self._held_back = False
        if psn_word & ACKREQ:
            self._answer = (psn, ACK_SYNDROME)
        elif self._answer is not None and self._answer[1] != ACK_SYNDROME:
            # It asked for what has come.
            self._answer = None

    def _hold_back(self, syndrome: int) -> None:
        self._held_back = True
        self._answer = (self.epsn, syndrome)

    def on_request_in_error(self) -> None:
        """A request after the one that ended the QP: the NAK may have been lost."""
        self._answer = self._refused

    def _execute(self, batch: ReceivedBatch, row: int, opcode: int, pad: int) -> None:
        if opcode not in WRITES:
            raise self._refusal(NAK_INVALID_REQUEST, f"has opcode {opcode:#04x}: only writes are served here")
        found, message = OPCODES[opcode], self._message
        if found.starts != (message is None):
            raise self._refusal(NAK_INVALID_REQUEST, f"has opcode {opcode:#04x}, out of its place in a message")
        start = EXTENSION_AT + EXTENSION_BYTES[RcOp(opcode)]
        end = int(batch.length[row]) - ICRC_LENGTH - pad
        size = end - start
        if message is None:
            va, rkey, length = _RETH.unpack(batch.view(row, EXTENSION_AT, EXTENSION_AT + HEADER_LENGTHS["reth"]))
            left = length
        else:
            rkey, va, left = message
            length = self._length
        if not self._fits(size, left, full=found.full_payload, ends=found.ends):
            raise self._refusal(NAK_INVALID_REQUEST, "has a length that contradicts its message")
        region = self._region(rkey, va, left) if left else None
        immediate = None
        if "immdt" in found.headers:
            if not self._posted:
                raise _NotReady
            (immediate,) = _IMMEDIATE.unpack(batch.view(row, start - HEADER_LENGTHS["immdt"], start))
        if region is not None:
            offset = va - region.va
            region.view[offset : offset + size] = batch.view(row, start, end)
            self._counters.bytes_placed += size
        self._length = length
        self._message = None if found.ends else (rkey, va + size, left - size)
        if found.ends:
            self._end_message(immediate)

    def _fits(self, size: int, left: int, *, full: bool, ends: bool) -> bool:
        """Whether `size` bytes are what a packet has to carry while `left` of its message are still to come."""
        if full:
            return size == self._config.path_mtu and left > size
        return ends and size == left and size <= self._config.path_mtu

    def _region(self, rkey: int, va: int, left: int) -> MemoryRegion:
        """Where all that is left of a message may be written. Raises RefusedRequest when it may not."""
        region = self._memory.find(rkey)
        if region is None or not region.remote_write:
            raise self._refusal(NAK_REMOTE_ACCESS, f"names R_Key {rkey:#010x}, which opens no region")
        if not region.va <= va <= region.va + region.length - left:
            raise self._refusal(NAK_REMOTE_ACCESS, "names a range outside the region")
        return region

    def _end_message(self, immediate: int | None) -> None:
        self.msn = (self.msn + 1) & PSN_BITS_MASK
        self._counters.messages_received += 1
        if immediate is not None:
            self._complete(
                Completion(
                    self._posted.popleft(),
                    self._qpn,
                    WorkStatus.SUCCESS,
                    self._length,
                    WorkKind.RECV_RDMA_WITH_IMM,
                    immediate,
                )
            )

    def _refusal(self, syndrome: int, what: str) -> RefusedRequest:
        return RefusedRequest(self.epsn, syndrome, what)

    # ------------------------------------------------------------------ answers out

    @property
    def has_answer(self) -> bool:
        return self._answer is not None

    def transmit(self, batch: TransmitBatch, framing: Framing) -> bool:
        """Put the answer that is due into the batch. Whether there was one."""
        if self._answer is None:
            return False
        psn, syndrome = self._answer
        self._answer = None
        framing.acknowledge(batch, psn, syndrome, self.msn)
        counters = self._counters
        if syndrome == ACK_SYNDROME:
            counters.acks_sent += 1
        elif syndrome == NAK_SEQUENCE_ERROR:
            counters.sequence_naks_sent += 1
        elif syndrome in NAK_STATUS:
            counters.fatal_naks_sent += 1
        else:
            counters.rnr_naks_sent += 1
        return True
