# SPDX-License-Identifier: BSD-2-Clause
"""What an analysis keeps of each packet: fixed rows of numbers, taken out of a run of columns at once.

A capture is read run by run; of a request or answer some 80 bytes stay until the end, of its payload nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mrc.capture.analysis.clock import Clock
from mrc.capture.analysis.identity import identities
from mrc.capture.columns import LAST, Columns
from mrc.capture.columns.values import Values
from mrc.capture.frames import I64, Bools
from mrc.capture.rows import Rows, empty_rows
from mrc.wire.opcodes import FIRST_MRC_OPCODE, OPCODES, Op

# Kinds of packets, by opcode.
OTHER, REQUEST, ANSWER, PROBE, CNP, ENDPOINT = range(6)
# Kinds of answers. NAK is an AETH that refuses; RESPONSE brings data of a READ or an ATOMIC.
SACK, PROBE_ANSWER, ACK, NAK, NACK, RESPONSE = range(6)

# `ev` is the packet's own, an answer's too; `entropy` the EV that an answer names.
# `stamped`: with a time stamp of its sender, so that no two transmissions are alike. `lone`: seen at one of two places,
# and which one is not known (`copies`).
REQUEST_ROW = np.dtype(
    [(name, np.int64) for name in ("number", "time", "seq", "ev")]
    + [(name, np.int32) for name in ("payload", "length", "msn", "span", "hop", "pair")]
    + [("identity", np.uint32), ("opcode", np.uint8)]
    + [(name, np.bool_) for name in ("rtx", "ackreq", "ce", "trimmed", "stamped", "lone")]
)
ANSWER_ROW = np.dtype(
    [(name, np.int64) for name in ("number", "time", "cack", "trigger", "base", "entropy", "ev")]
    + [("bitmap", np.uint64), ("identity", np.uint32)]
    + [(name, np.int32) for name in ("held", "probe_id", "msn", "payload", "hop")]
    + [(name, np.uint8) for name in ("kind", "mark", "code")]
    + [("rtx", np.bool_), ("ce", np.bool_), ("lone", np.bool_)]
)
PROBE_ROW = np.dtype(
    [(name, np.int64) for name in ("number", "time", "ev")]
    + [("probe_id", np.int32), ("hop", np.int32), ("identity", np.uint32)]
)
ENDPOINT_ROW = np.dtype(
    [(name, np.int64) for name in ("number", "time", "ev", "mask")]
    + [("request_id", np.int32), ("hop", np.int32), ("identity", np.uint32)]
    + [("op", np.uint8), ("answers", np.bool_)]
)

_RC_ACK, _RC_ATOMIC_ACK, _RC_READ_REQUEST, _CNP = 0x11, 0x12, 0x0C, 0x81
RC_READ_RESPONSES = (0x0D, 0x0E, 0x0F, 0x10)


def _kind_of(opcode: int) -> int:
    if opcode not in OPCODES:
        return OTHER
    known = OPCODES[opcode]
    if known.is_mrc:
        if known.is_request:
            return REQUEST
        if opcode == Op.PROBE:
            return PROBE
        if opcode in (Op.ENDPOINT_REQUEST, Op.ENDPOINT_RESPONSE):
            return ENDPOINT
        return ANSWER if opcode in (Op.SACK, Op.ACKNOWLEDGE, Op.NACK) else OTHER
    if opcode in (_RC_ACK, _RC_ATOMIC_ACK, *RC_READ_RESPONSES):
        return ANSWER
    if opcode == _CNP:
        return CNP
    return REQUEST if opcode <= 0x17 else OTHER


KINDS: npt.NDArray[np.int64] = np.array([_kind_of(value) for value in range(256)])


class Fields:
    """The fields of one run that an analysis reads, as one array each with an element for every packet."""

    def __init__(self, columns: Columns, clock: Clock) -> None:
        self.columns = columns
        self.count = len(columns)
        self.number = columns.numbers
        self.opcode = self("bth", "opcode")
        self.sound = columns.has("bth")
        self.sound[list(columns.malformed)] = False
        self.kind = np.where(self.sound, KINDS[self.opcode], OTHER)
        self.mrc: Bools = self.opcode >= FIRST_MRC_OPCODE
        self.psn = self("bth", "psn")
        self.qpn = self("bth", "dqp")
        requests = self.kind == REQUEST
        self.time = clock.filled(columns.frames.time_ns, self.psn, self.qpn, requests, self.number)
        self.ev = self("udp", "sport")
        rows, ev = columns.ev()
        self.ev[rows] = ev
        self.hop = self._hops()
        self.ce = self._marked()
        self.identity = identities(columns, self.ev)

    def __call__(self, layer: str, field: str, default: int = 0) -> Values:
        return self.columns.column(layer, field, default)

    def _hops(self) -> I64:
        """How far a packet has come: its outermost hop limit, and above that (from bit 8) how many uSIDs are left."""
        hop = self.columns.column("ipv6", "hlim", 0, 0)
        four, ttl = self.columns.values("ipv4", "ttl", 0)
        own = self._own("ipv4", 0)
        hop[four[own]] = ttl[own]
        rows, upper, lower = self.columns.addresses("dst", 0)
        usids = np.stack([upper >> np.uint64(16), upper, *(lower >> np.uint64(down) for down in (48, 32, 16, 0))])
        left = np.cumprod((usids & np.uint64(0xFFFF)) != 0, axis=0).sum(axis=0)
        inner, _ = self.columns.offsets("ipv6", LAST)
        outer_at = np.zeros(self.count, np.int64)
        outer_at[rows] = self.columns.offsets("ipv6", 0)[1]
        inner_at = np.zeros(self.count, np.int64)
        inner_at[inner] = self.columns.offsets("ipv6", LAST)[1]
        carried = (outer_at != inner_at) | self.columns.has("srh")
        left = np.where(carried[rows] & (upper >> np.uint64(48) == 0x5F00), left, 0)
        hop[rows] |= left << 8
        srh, segments_left = self.columns.values("srh", "segleft", 0)
        hop[srh] += np.minimum(segments_left, 15) * 6 << 8
        return hop

    def _own(self, layer: str, occurrence: int) -> Bools:
        """Which headers of `columns.values` are the packet's, and not those of a tunnel that carries it."""
        columns = self.columns
        rows, at = columns.offsets(layer, occurrence)
        inside = np.array([stack.inside for stack in columns.stacks], np.int64)
        own: Bools = at - columns.frames.start[rows] >= inside[columns.stack[rows]] if len(rows) else rows > 0
        return own

    def _marked(self) -> Bools:
        """Whether CE is on any IP header of the packet itself."""
        marked = np.zeros(self.count, np.bool_)
        for layer, field in (("ipv6", "tc"), ("ipv4", "tos")):
            for occurrence in (0, LAST):
                rows, value = self.columns.values(layer, field, occurrence)
                own = self._own(layer, occurrence)
                marked[rows[own]] |= value[own] & 3 == 3
        return marked

    def requests(self, rows: I64, seq: I64, pair: int) -> Rows:
        """The rows as REQUEST_ROW, given their unwrapped PSNs."""
        made = empty_rows(len(rows), REQUEST_ROW)
        opcode, mrc = self.opcode[rows], self.mrc[rows]
        _put(made, rows, number=self.number, time=self.time, ev=self.ev, hop=self.hop, ce=self.ce, opcode=self.opcode)
        made["identity"] = self.identity[rows]
        made["seq"], made["pair"] = seq, pair
        made["payload"] = self.columns.payload_length[rows]
        made["length"] = np.minimum(self.columns.frames.wire_length[rows], 1 << 30)
        made["msn"] = np.where(mrc, self("meth", "msn", -1)[rows], -1)
        made["span"] = np.where(opcode == _RC_READ_REQUEST, self("reth", "dmalen")[rows] & 0x7FFFFFFF, 0)
        made["rtx"], made["ackreq"] = self("bth", "rtx")[rows], self("bth", "ackreq")[rows]
        made["trimmed"] = self.columns.trimmed[rows]
        made["stamped"] = mrc & (self("bth", "ts")[rows] == 1)
        return made

    def answers(self, rows: I64, seq: I64) -> Rows:
        """The rows as ANSWER_ROW. `seq` is the unwrapped PSN of the BTH.

        `cack`: everything up to it has arrived (-1 << 62 where the answer says no such thing); `trigger`: the PSN it is
        about; `code`: the AETH's syndrome or the NETH's reason; `payload` of a READ's response.
        """
        made = empty_rows(len(rows), ANSWER_ROW)
        opcode = self.opcode[rows]
        syndrome = self("aeth", "syndrome")[rows]
        probe_answer = self("seth", "pr")[rows] == 1
        is_sack, is_nack = opcode == Op.SACK, opcode == Op.NACK
        refusing = ~is_sack & ~is_nack & (syndrome >= 0x20)
        response = np.isin(opcode, (*RC_READ_RESPONSES, _RC_ATOMIC_ACK))
        _put(made, rows, number=self.number, time=self.time, ev=self.ev, hop=self.hop, ce=self.ce)
        made["identity"] = self.identity[rows]
        made["kind"] = np.select(
            [is_sack & probe_answer, is_sack, is_nack, refusing, response],
            [PROBE_ANSWER, SACK, NACK, NAK, RESPONSE],
            ACK,
        )
        never = np.int64(-1 << 62)
        # A NAK of standard RoCEv2 acknowledges what came before it; MRC's says nothing of the kind.
        no_news = is_nack | refusing & self.mrc[rows]
        made["cack"] = np.where(no_news, never, np.where(refusing, seq - 1, seq))
        offset = self("seth", "ack_psn_offset")[rows]
        made["trigger"] = np.where(is_sack & ~probe_answer, seq + offset, seq)
        made["base"] = seq + self("seth", "sack_offset")[rows]
        made["bitmap"] = self("seth", "bitmap")[rows]
        made["entropy"] = np.where(is_nack, self("neth", "entropy")[rows], self("seth", "entropy", -1)[rows])
        made["mark"] = self("seth", "m")[rows]
        made["held"] = np.where(self("seth", "cc_type")[rows] == 0, self("cc_state", "ooo_count")[rows], 0)
        made["probe_id"] = self("seth", "probe_id", -1)[rows]
        made["msn"] = self("aeth", "msn", -1)[rows]
        made["code"] = np.where(is_nack, self("neth", "reason")[rows], syndrome)
        made["payload"] = self.columns.payload_length[rows]
        made["rtx"] = self("bth", "rtx")[rows]
        return made

    def probes(self, rows: I64) -> Rows:
        made = empty_rows(len(rows), PROBE_ROW)
        _put(made, rows, number=self.number, time=self.time, ev=self.ev, hop=self.hop)
        made["identity"] = self.identity[rows]
        made["probe_id"] = self("peth", "probe_id")[rows]
        return made

    def endpoint_operations(self, rows: I64) -> Rows:
        made = empty_rows(len(rows), ENDPOINT_ROW)
        _put(made, rows, number=self.number, time=self.time, ev=self.ev, request_id=self.psn & 0xFFFF, hop=self.hop)
        made["identity"] = self.identity[rows]
        answers = made["answers"] = self.opcode[rows] == Op.ENDPOINT_RESPONSE
        made["op"] = np.where(answers, self("eeth", "op")[rows], self("erth", "op")[rows])
        made["mask"] = self("erth", "port_status_mask")[rows]
        return made


def _put(made: Rows, rows: I64, **columns: npt.NDArray[Any]) -> None:
    for name, column in columns.items():
        made[name] = column[rows]
