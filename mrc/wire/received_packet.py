# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""One packet of a batch: its headers up to the BTH, read once for all who look at it."""

from __future__ import annotations

from mrc.wire import octets
from mrc.wire.compiled import unsigned
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import BTH_AT, PSN_BITS_MASK, PSN_FLAGS_AT, UDP_AT, shifts_in

_UDP_AT, _BTH_AT, _PSN_AT, _PSN_MASK = UDP_AT, BTH_AT, PSN_FLAGS_AT, PSN_BITS_MASK
# How far the fields are shifted in the first eight bytes of each header.
_VERSION, _CLASS, _LABEL, _PLEN, _NEXT_HEADER, _ = shifts_in("ipv6", "version tc fl plen nh hlim")
_SPORT, _DPORT, _UDP_LENGTH, _ = shifts_in("udp", "sport dport len chksum")
_OPCODE, _FLAGS, _P_KEY, _DQP = shifts_in("bth", "opcode tver pkey dqp")
_8_BITS, _16_BITS, _20_BITS, _24_BITS = 0xFF, 0xFFFF, 0xFFFFF, 0xFFFFFF


class ReceivedPacket:
    """The packet that was `read` last: row `row` of a batch.

    It begins at `at` in `batch.flat`, has `length` bytes up to the end of its ICRC and came in on the local port number
    `port`. `outer` is the traffic class of the outer header, `inner` that of its own. The others are fields of
    its headers; `flags` is the BTH's second byte, `psn_word` its last word and `psn` the PSN in that.
    """

    row: int
    at: int
    length: int
    port: int
    outer: int
    inner: int
    version: int
    label: int
    plen: int
    next_header: int
    sport: int
    dport: int
    udp_length: int
    opcode: int
    flags: int
    pkey: int
    dqp: int
    psn_word: int
    psn: int

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        self.row = self.at = self.length = self.port = self.outer = self.inner = 0
        self.version = self.label = self.plen = self.next_header = 0
        self.sport = self.dport = self.udp_length = 0
        self.opcode = self.flags = self.pkey = self.dqp = self.psn_word = self.psn = 0

    def read(self, batch: ReceivedBatch, row: int) -> None:
        """Look at a packet that is at least as long as these headers."""
        at = row * batch.room
        self.row, self.at, self.length = row, at, batch.lengths[row]
        self.port, self.outer = batch.ports[row], batch.classes[row]
        ip: unsigned = octets.u64(batch.flat, at)
        self.version = ip >> _VERSION
        self.inner = ip >> _CLASS & _8_BITS
        self.label = ip >> _LABEL & _20_BITS
        self.plen = ip >> _PLEN & _16_BITS
        self.next_header = ip >> _NEXT_HEADER & _8_BITS
        udp: unsigned = octets.u64(batch.flat, at + _UDP_AT)
        self.sport = udp >> _SPORT
        self.dport = udp >> _DPORT & _16_BITS
        self.udp_length = udp >> _UDP_LENGTH & _16_BITS
        bth: unsigned = octets.u64(batch.flat, at + _BTH_AT)
        self.opcode = bth >> _OPCODE
        self.flags = bth >> _FLAGS & _8_BITS
        self.pkey = bth >> _P_KEY & _16_BITS
        self.dqp = bth >> _DQP & _24_BITS
        self.psn_word = octets.u32(batch.flat, at + _PSN_AT)
        self.psn = self.psn_word & _PSN_MASK
