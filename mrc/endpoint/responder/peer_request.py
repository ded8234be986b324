# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""A write request of the peer that is being judged: what its headers say, read once for all checks."""

from __future__ import annotations

from mrc.endpoint.completion_ring import NO_IMMEDIATE
from mrc.endpoint.memory import VA_LIMIT
from mrc.endpoint.responder.opcode_terms import ENDS, IMMEDIATE, STARTS
from mrc.wire import octets
from mrc.wire.compiled import const_u8s, public, unsigned
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH
from mrc.wire.received_batch import ReceivedBatch, ReceivedPacket
from mrc.wire.rows import PAD_SHIFT, TS, fields_at, header_at, offsets_in

# Where in a request: rqmsn, msn; the RETH, behind a TSETH if there is one, and in it rkey, dmalen.
_RQMSN_AT, _MSN_AT = fields_at("meth", "rqmsn msn")
_RETH_AT = header_at("reth")
_RKEY, _DMALEN = offsets_in("reth", "rkey dmalen")
_TSETH_BYTES, _RETH_BYTES, _IMMDT_BYTES = (HEADER_LENGTHS[header] for header in ("tseth", "reth", "immdt"))
_ICRC_BYTES, _PAD_SHIFT, _TS, _NO_IMMEDIATE = ICRC_LENGTH, PAD_SHIFT, TS, NO_IMMEDIATE
_VA_LIMIT: unsigned = VA_LIMIT
_STARTS: const_u8s = STARTS
_ENDS: const_u8s = ENDS
_IMMEDIATE: const_u8s = IMMEDIATE


class PeerRequest:
    """A packet of a message of `dmalen` bytes: `size` of them lie at `payload_at` in the batch, for `va` and `rkey`.

    `psn` is unbounded. `start` is `va` as a signed number; what no region can have is VA_LIMIT there. `starts` and
    `ends` say that the message does so in this packet. `rqmsn` is NO_IMMEDIATE, and `immediate` 0, without immediate.
    """

    psn: public[int]
    opcode: int
    msn: int
    rqmsn: int
    immediate: int
    start: int
    rkey: public[int]
    dmalen: public[int]
    size: public[int]
    payload_at: int
    va: public[unsigned]
    starts: public[bool]
    ends: public[bool]

    __slots__ = tuple(__annotations__)

    def __init__(self) -> None:
        self.psn = self.opcode = self.msn = self.immediate = self.start = 0
        self.rkey = self.dmalen = self.size = self.payload_at = self.va = 0
        self.rqmsn = NO_IMMEDIATE
        self.starts = self.ends = False

    def read(self, batch: ReceivedBatch, packet: ReceivedPacket, psn: int) -> None:
        """Read the request with this PSN, of which all headers are there."""
        self.psn = psn
        self.opcode = packet.opcode
        self.starts, self.ends = _STARTS[packet.opcode] != 0, _ENDS[packet.opcode] != 0
        reth = packet.at + _RETH_AT
        if packet.psn_word & _TS:
            reth += _TSETH_BYTES
        self.va = octets.u64(batch.flat, reth)
        self.start = self.va if self.va < _VA_LIMIT else _VA_LIMIT
        self.rkey = octets.u32(batch.flat, reth + _RKEY)
        self.dmalen = octets.u32(batch.flat, reth + _DMALEN)
        self.msn = octets.u16(batch.flat, packet.at + _MSN_AT)
        self.payload_at = reth + _RETH_BYTES
        self.rqmsn, self.immediate = _NO_IMMEDIATE, 0
        if _IMMEDIATE[packet.opcode]:
            self.rqmsn = octets.u16(batch.flat, packet.at + _RQMSN_AT)
            self.immediate = octets.u32(batch.flat, self.payload_at)
            self.payload_at += _IMMDT_BYTES
        pad = packet.flags >> _PAD_SHIFT & 3
        self.size = packet.at + packet.length - self.payload_at - pad - _ICRC_BYTES
