# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""A packet of data on its way out (behaviour.md, Requestor): whether it may leave, which is next, what it says.

From the end to the beginning: `SendRoom` says whether data may leave. `DataSender` takes the packet that is next, what
was lost before what is new, and has an EV drawn. `RequestMaker` appends it to the batch and records that it leaves.
`RequestHeaders` writes its headers from the BTH on (wire.md sections 3 and 4). Posted writes are cut into packets here.
Nothing of a packet is kept: to be sent again it is written anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.config import QpConfig
from mrc.endpoint.parts.numbers import column
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.requestor.nacked import NackHandler
from mrc.endpoint.requestor.send_queue import SendQueue
from mrc.endpoint.requestor.sending_parts import SendingParts
from mrc.endpoint.work import SOLICITED
from mrc.wire import octets
from mrc.wire.compiled import const_u8s, i64s, python, readonly, with_gil
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH, Op
from mrc.wire.rows import (
    BTH_AT,
    EXTENSION_AT,
    HEADER_ROOM,
    PSN_BITS_MASK,
    PSN_FLAGS_AT,
    REQUEST_LENGTH,
    REQUEST_TS_LENGTH,
    RTX,
    TIMESTAMP_FTYPE,
    TIMESTAMP_UNIT_NS,
    TS,
    fields_at,
    header_at,
    offsets_in,
)
from mrc.wire.transmit_batch import TransmitBatch

if TYPE_CHECKING:
    from mrc.endpoint.tracing import QpTrace

_IMMDT = HEADER_LENGTHS["immdt"]
# Where in a packet: dqp_word, psn_word, RQMSN and MSN, what follows them.
_DQP_AT, _PSN_AT = fields_at("bth", "reserved ackreq")
_METH_AT, _BEHIND_METH = header_at("meth"), header_at("reth")
_RKEY, _DMALEN = offsets_in("reth", "rkey dmalen")
_TSETH, _RETH = HEADER_LENGTHS["tseth"], HEADER_LENGTHS["reth"]
_STARTS, _ENDS, _IMMEDIATE = 1, 2, 4
_IMMEDIATE_BITS = SOLICITED - 1
(_FLAGS_AT,) = fields_at("bth", "se")
_RTX_BIT = RTX >> 24
_NONE = -1


def _opcodes() -> python[memoryview]:
    """[begins its message | ends it | with immediate] to the opcode; an immediate counts only where a message ends."""
    table = bytearray([Op.WRITE_MIDDLE] * 8)
    table[_STARTS] = table[_STARTS | _IMMEDIATE] = Op.WRITE_FIRST
    table[_ENDS], table[_ENDS | _IMMEDIATE] = Op.WRITE_LAST, Op.WRITE_LAST_WITH_IMMEDIATE
    table[_STARTS | _ENDS], table[_STARTS | _ENDS | _IMMEDIATE] = Op.WRITE_ONLY, Op.WRITE_ONLY_WITH_IMMEDIATE
    return memoryview(table)


_OPCODES: const_u8s = _opcodes()


class RequestHeaders:
    """Those of one QP's requests, written into the rows of a batch.

    A packet is named by the place of its message in `queue` and its position among its packets.
    """

    def __init__(self, queue: SendQueue, *, peer_qpn: int, path_mtu: int, timestamps: bool, se: int) -> None:
        """`se` is the bit of a solicited event in its byte."""
        self._queue = queue
        self._path_mtu = path_mtu
        self._peer_qpn = peer_qpn
        self._se = se
        self._ts = timestamps
        self._least: int = EXTENSION_AT + (REQUEST_TS_LENGTH if timestamps else REQUEST_LENGTH)

    def length(self, place: int, position: int) -> int:
        """Bytes of a packet before its payload."""
        carries = self._queue.immediate[place] >= 0 and position == self._queue.packets[place] - 1
        return self._least + _IMMDT if carries else self._least

    def write(self, batch: TransmitBatch, row: int, place: int, msn: int, position: int, psn: int, now: int) -> None:
        """Write those of a packet, but for what `batch` has filled in."""
        base, immediate = row * HEADER_ROOM, self._queue.immediate[place]
        kind = _ENDS if position == self._queue.packets[place] - 1 else 0
        if position == 0:
            kind |= _STARTS
        if immediate >= 0:
            kind |= _IMMEDIATE
        batch.flat[base + BTH_AT] = _OPCODES[kind]
        octets.put32(batch.flat, base + _DQP_AT, self._peer_qpn)
        octets.put32(batch.flat, base + _PSN_AT, psn & PSN_BITS_MASK | (TS if self._ts else 0))
        octets.put32(batch.flat, base + _METH_AT, (self._queue.rqmsn[place] & 0xFFFF) << 16 | msn & 0xFFFF)
        at = base + _BEHIND_METH
        if self._ts:
            octets.put32(batch.flat, at, (now // TIMESTAMP_UNIT_NS & 0xFFFF) << 16 | TIMESTAMP_FTYPE)
            at += _TSETH
        octets.put64(batch.flat, at, self._queue.remote_va[place] + position * self._path_mtu)
        octets.put32(batch.flat, at + _RKEY, self._queue.rkey[place])
        octets.put32(batch.flat, at + _DMALEN, self._queue.length[place])
        if immediate >= 0 and kind & _ENDS:
            octets.put32(batch.flat, at + _RETH, immediate & _IMMEDIATE_BITS)
            if immediate & SOLICITED:
                batch.flat[base + _FLAGS_AT] |= self._se


def full_packet_bytes(config: QpConfig) -> python[int]:
    """Nominal size of a full packet (UDP length + 40; nscc.md calls it `mtu`)."""
    extension = REQUEST_TS_LENGTH if config.timestamps else REQUEST_LENGTH
    return EXTENSION_AT + extension + config.path_mtu + ICRC_LENGTH


class RequestMaker:
    """Writes packets of the messages in `queue`, each on an EV drawn before, and records that they leave."""

    _msns: i64s

    def __init__(self, qp: QpParts, sending: SendingParts) -> None:
        self._sent = sending.sent
        self._queue = sending.queue
        self._paths = qp.paths
        self._counters = qp.counters
        self._path_mtu = qp.config.path_mtu
        self._first_class = qp.classes.data
        self._again_class = qp.classes.retransmission
        self._headers = RequestHeaders(
            sending.queue,
            peer_qpn=qp.peer.qpn,
            path_mtu=qp.config.path_mtu,
            timestamps=qp.config.timestamps,
            se=qp.wire.solicited_event_bit,
        )
        self.make_ring()

    def make_ring(self) -> python[None]:
        """A ring as large as that of `sent`, while nothing has been sent."""
        # By PSN the number of its message.
        self._msns = column(self._sent.mask + 1)

    def transmit_new(self, batch: TransmitBatch, msn: int, ev: int, now: int) -> int:
        """Append the next packet of message `msn`, under the next PSN. Returns its nominal bytes."""
        psn = self._sent.next_psn
        self._msns[psn & self._sent.mask] = msn
        position = self._queue.sent_packets[self._queue.place(msn)]
        size = self._append(batch, msn, position, psn, ev, self._first_class, now)
        self._sent.transmit_one(size, ev, now)
        return size

    def transmit_again(self, batch: TransmitBatch, psn: int, ev: int, now: int) -> int:
        """Append this PSN, which went out before, with rtx. Returns its nominal bytes."""
        msn = self._msns[psn & self._sent.mask]
        position = psn - self._queue.first_psn[self._queue.place(msn)]
        size = self._append(batch, msn, position, psn, ev, self._again_class, now)
        batch.set_bits(batch.count - 1, PSN_FLAGS_AT, _RTX_BIT)
        self._sent.transmit_again_one(psn, size, ev, now)
        return size

    def _append(
        self, batch: TransmitBatch, msn: int, position: int, psn: int, ev: int, traffic_class: int, now: int
    ) -> int:
        place, moved = self._queue.place(msn), position * self._path_mtu
        length = min(self._queue.length[place] - moved, self._path_mtu)
        header_length = self._headers.length(place, position)
        row = batch.append(
            self._paths.frames, ev, traffic_class, header_length, self._queue.address[place] + moved, length
        )
        self._headers.write(batch, row, place, msn, position, psn, now)
        self._counters.data_packets_sent += 1
        self._counters.data_bytes_sent += length
        return header_length + length + (-length & 3) + ICRC_LENGTH


class DataSender:
    """Which packet leaves next, and on which EV: what was lost, oldest first, then new data in post order.

    `resend` is a heap of PSNs that were lost; one acknowledged meanwhile is passed over.
    """

    def __init__(self, qp: QpParts, sending: SendingParts, requests: RequestMaker) -> None:
        self._sent = sending.sent
        self._queue = sending.queue
        self._requests = requests
        self._paths = qp.paths
        self._counters = qp.counters
        self._trace: readonly[QpTrace | None] = qp.trace
        self.resend = sending.resend

    def has_lost(self) -> bool:
        """Whether anything lost waits to be sent again."""
        while self.resend.count:
            if self._sent.waits_to_leave(self.resend.first()):
                return True
            self.resend.pop()
        return False

    def new_data_may_go(self, last_psn: int) -> bool:
        """Whether `last_psn`, the last that may be in use, and the peer's grant of immediates let a new packet out."""
        return self._sent.next_psn <= last_psn and self._queue.next() != _NONE

    def transmit(self, batch: TransmitBatch, limit: int, window: int, last_psn: int, now: int) -> int:
        """Append up to `limit` packets, one more as long as they have less than `window` bytes, new ones up to
        `last_psn`. Returns their nominal bytes."""
        total = 0
        while limit > 0 and total < window:
            size = self._next(batch, last_psn, now)
            if size == _NONE:
                break
            total += size
            limit -= 1
        return total

    def _next(self, batch: TransmitBatch, last_psn: int, now: int) -> int:
        """Append the packet that is next and return its nominal bytes, or -1 where none may leave."""
        return self._again(batch, now) if self.has_lost() else self._new(batch, last_psn, now)

    def _again(self, batch: TransmitBatch, now: int) -> int:
        psn = self.resend.first()
        # Drawn at send time, and not the EV the last transmission was lost on, while there is another.
        ev = self._paths.select(now, self._sent.lost_ev[psn & self._sent.mask])
        if ev == _NONE:
            return _NONE
        self.resend.pop()
        self._counters.retransmitted_packets += 1
        size = self._requests.transmit_again(batch, psn, ev, now)
        if self._trace is not None:
            self._trace_sent_again(psn, ev)
        return size

    def _trace_sent_again(self, psn: int, ev: int) -> with_gil[None]:
        if self._trace is not None:
            self._trace.sent_again([psn], [ev], [int(self._sent.times_sent[psn & self._sent.mask])])

    def _new(self, batch: TransmitBatch, last_psn: int, now: int) -> int:
        psn = self._sent.next_psn
        msn = self._queue.next() if psn <= last_psn else _NONE
        if msn == _NONE:
            return _NONE
        ev = self._paths.select(now, _NONE)
        if ev == _NONE:
            return _NONE
        size = self._requests.transmit_new(batch, msn, ev, now)
        self._queue.begin(psn)
        return size


class SendRoom:
    """Whether data may leave now: what the peer, the congestion window, the paths and our own records have room for.

    `most` is how many PSNs our own records reach beyond the oldest unacknowledged one.
    """

    def __init__(self, qp: QpParts, sending: SendingParts, sender: DataSender, nacks: NackHandler, most: int) -> None:
        self._sent = sending.sent
        self._queue = sending.queue
        self._sender = sender
        self._nacks = nacks
        self._paths = qp.paths
        self._controller = sending.controller
        self._most = most

    def may_send(self) -> bool:
        """Whether a packet of data may leave."""
        if not self._queue.has_unsent() and not self._sender.resend.count:
            return False
        if self._controller.room() <= 0 or not self._paths.usable():
            return False
        if self._sent.make_log_room(1) <= 0:
            return False
        return self._sender.has_lost() or self._sender.new_data_may_go(self.last_new())

    def stalled(self) -> bool:
        """Whether there is new data, nothing is outstanding that would bring news, and it cannot leave: the SACK that
        opened the window was lost, or no path is usable."""
        if not self._queue.has_unsent() or self._sent.outstanding:
            return False
        return self._sent.next_psn > self._last_sendable() or not self._paths.usable()

    def _last_sendable(self) -> int:
        """The last PSN the peer granted, as far as our own records reach."""
        return min(self._sent.right_edge, self._sent.una + self._most) - 1

    def last_new(self) -> int:
        """The last PSN that may leave for the first time: no further one while the peer has no room."""
        no_room = self._nacks.waits and self._nacks.waits_for_room()
        return self._sent.next_psn - 1 if no_room else self._last_sendable()

    def of_records(self, most: int) -> int:
        """Packets of data, at most `most`, that our own records have room for; 0 where there is nothing to send."""
        if most <= 0 or not (self._queue.has_unsent() or self._sender.resend.count):
            return 0
        return min(most, self._sent.make_log_room(most))

    def of_window(self) -> int:
        """Bytes of the congestion window that are free: one more packet may leave while there are any."""
        return self._controller.room()
