# SPDX-License-Identifier: BSD-2-Clause
"""What the packets of one QP say together: PSN order, MSN order, RETH continuity, retransmissions that own up to it.

Paths reorder and captures lose, so nothing here depends on the order or the completeness of the capture: each packet is
held to its own earlier transmissions and to its two neighbours in PSN order, whenever they turn up.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from mrc.capture.check.findings import Findings
from mrc.capture.check.packets import corrupted, is_mrc
from mrc.capture.columns import NO_TIME, Columns
from mrc.capture.columns.values import Values
from mrc.capture.frames import I64, Bools, rows_at
from mrc.capture.rows import Rows, empty_rows, joined_rows
from mrc.wire.opcodes import OPCODES
from mrc.wire.psn import PSN_MASK, psn_diff_array

# A flow remembers so many PSNs below its highest, and so many flows are remembered: 100 bytes for each PSN.
PSNS_KEPT = 4096
FLOWS_KEPT = 1024
# Two timestamps tell which packet went out first when both packets passed within 1 ms and the stamps, in units of
# 128 ns, are no further apart than that: 16 bits of them wrap after 8.4 ms. A sender that stood still for almost as
# long between stamp and port looks as if it had sent in reverse. So the packets have to have passed in reverse too.
_CLOSE_NS = 1_000_000
_CLOSE_UNITS = _CLOSE_NS // 128

_REQUEST = np.dtype(
    [(name, np.int64) for name in ("seq", "number", "opcode", "rtx", "msn", "rqmsn", "dmalen", "payload", "crc")]
    + [("va", np.uint64), ("time", np.int64), ("stamp", np.int64)]
)


def _of_opcodes(what: str) -> Bools:
    return np.array([value in OPCODES and bool(getattr(OPCODES[value], what)) for value in range(256)], np.bool_)


_STARTS, _ENDS, _FULL = _of_opcodes("starts"), _of_opcodes("ends"), _of_opcodes("full_payload")
_IMMEDIATE = np.array([value in OPCODES and "immdt" in OPCODES[value].headers for value in range(256)], np.bool_)


class Sequences:
    """The request flows of a capture: packets from one address to another for one destination QP."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._kept: OrderedDict[bytes, Rows] = OrderedDict()

    def check(self, columns: Columns) -> None:
        """Take in the requests of a run, in file order."""
        sound = is_mrc(columns) & columns.has("reth") & ~columns.trimmed & ~corrupted(columns)
        sound[list(columns.malformed)] = False
        rows = np.flatnonzero(sound)
        if not len(rows):
            return
        psn = columns.column("bth", "psn")[rows]
        requests = _requests(columns, rows)
        for key, chosen in _by_flow(columns, rows).items():
            kept = self._kept.pop(key, None)
            near = int(kept["seq"][-1]) if kept is not None else int(psn[chosen[0]])
            new = requests[chosen]
            new["seq"] = near + psn_diff_array(psn[chosen], near & PSN_MASK)
            if int(new["seq"].max()) <= near - PSNS_KEPT:
                kept = None  # so far back that it is another connection
            self._kept[key] = self._flow(kept, new)
            if len(self._kept) > FLOWS_KEPT:
                self._kept.popitem(last=False)

    def _flow(self, kept: Rows | None, new: Rows) -> Rows:
        """Hold new requests to those kept and to each other; what to keep, one row a PSN, in PSN order."""
        together = joined_rows([new] if kept is None else [kept, new], _REQUEST)
        together = together[np.argsort(together["seq"], kind="stable")]
        seq = together["seq"]
        first = np.ones(len(seq), np.bool_)
        first[1:] = seq[1:] != seq[:-1]
        singles = together[first]
        again = ~first
        if again.any():
            group = np.cumsum(first) - 1
            # The first transmission stands for its PSN, wherever the capture has it.
            self._transmissions(singles[group[again]], together[again])
        adjacent = singles["seq"][1:] == singles["seq"][:-1] + 1
        fresh = singles["number"] >= self._findings.first_number
        pairs = adjacent & (fresh[1:] | fresh[:-1])
        self._neighbours(singles[:-1][pairs], singles[1:][pairs])
        kept_now: Rows = singles[singles["seq"] > singles["seq"][-1] - PSNS_KEPT].copy()
        return kept_now

    def _transmissions(self, before: Rows, after: Rows) -> None:
        """A PSN that came before. A packet that is the same bit for bit was captured twice."""
        self._report(
            "MRC-WIRE-25",
            "a PSN sent again without rtx",
            (before["rtx"] == 0)
            & (after["rtx"] == 0)
            & (before["crc"] >= 0)
            & (after["crc"] >= 0)
            & (before["crc"] != after["crc"]),
            before,
            after,
        )
        self._report("MRC-REQ-02", "a retransmission with another MSN", before["msn"] != after["msn"], before, after)
        self._report(
            "MRC-REQ-03", "a retransmission with another RQMSN", before["rqmsn"] != after["rqmsn"], before, after
        )
        self._report("MRC-REQ-09", "a retransmission with another VA", before["va"] != after["va"], before, after)
        self._report(
            "MRC-REQ-10", "a retransmission with another DMALen", before["dmalen"] != after["dmalen"], before, after
        )

    def _neighbours(self, a: Rows, b: Rows) -> None:
        """`b` has the PSN after `a`'s."""
        a_ends, b_starts = _ENDS[a["opcode"]], _STARTS[b["opcode"]]
        inside = ~a_ends & ~b_starts
        mtu = np.where(_FULL[a["opcode"]] & (a["payload"] > 0), a["payload"], 1)
        b_full = _FULL[b["opcode"]]
        checks = (
            ("MRC-SEND-04", "after the end of a message comes no first packet", a_ends & ~b_starts),
            ("MRC-SEND-04", "a message is not followed to its end by the next PSNs", ~a_ends & b_starts),
            ("MRC-SEND-04", "a PSN sent after the one that follows it, by their timestamps", _sent_late(a, b)),
            (
                "MRC-REQ-02",
                "the MSN does not count up by 1 from message to message",
                a_ends & b_starts & (b["msn"] != (a["msn"] + 1 & 0xFFFF)),
            ),
            ("MRC-REQ-02", "the MSN changes inside a message", inside & (a["msn"] != b["msn"])),
            ("MRC-REQ-03", "the RQMSN changes inside a message", inside & (a["rqmsn"] != b["rqmsn"])),
            (
                "MRC-REQ-03",
                "the RQMSN does not count up by 1 from one write with immediate to the next",
                a_ends
                & b_starts
                & _ENDS[b["opcode"]]
                & _IMMEDIATE[a["opcode"]]
                & _IMMEDIATE[b["opcode"]]
                & (b["rqmsn"] != (a["rqmsn"] + 1 & 0xFFFF)),
            ),
            (
                "MRC-REQ-09",
                "the VA does not go on where the packet before ended",
                inside & (b["va"] != a["va"] + a["payload"].astype(np.uint64)),
            ),
            ("MRC-REQ-10", "DMALen changes inside a message", inside & (a["dmalen"] != b["dmalen"])),
            (
                "MRC-REQ-10",
                "DMALen does not agree with the Last's payload",
                inside & _ENDS[b["opcode"]] & ((b["dmalen"] - b["payload"]) % mtu != 0),
            ),
            (
                "MRC-REQ-14",
                "First and Middle carry different payloads",
                inside & _FULL[a["opcode"]] & b_full & (a["payload"] != b["payload"]),
            ),
            (
                "MRC-REQ-15",
                "a Last with more than the path MTU",
                inside & _ENDS[b["opcode"]] & _FULL[a["opcode"]] & (b["payload"] > a["payload"]),
            ),
        )
        for requirement, what, broken in checks:
            self._report(requirement, what, broken, a, b)

    def _report(self, requirement: str, what: str, broken: Bools, a: Rows, b: Rows) -> None:
        """Names the later of two packets, which is of this run."""
        self._findings.add(requirement, what, np.maximum(a["number"], b["number"])[broken])


def _sent_late(a: Rows, b: Rows) -> Bools:
    """Whether `a`, of the lower PSN, went out after `b`, both for the first time."""
    known = (a["stamp"] >= 0) & (b["stamp"] >= 0) & (a["rtx"] == 0) & (b["rtx"] == 0)
    known &= (a["time"] != NO_TIME) & (b["time"] != NO_TIME)
    later = (a["stamp"] - b["stamp"] + 0x8000 & 0xFFFF) - 0x8000
    behind = a["time"] - b["time"]
    late: Bools = known & (later > 0) & (later <= _CLOSE_UNITS) & (behind >= 0) & (behind <= _CLOSE_NS)
    return late


def _requests(columns: Columns, rows: I64) -> Rows:
    """The rows as `_REQUEST`, but for their unwrapped PSN."""
    requests = empty_rows(len(rows), _REQUEST)

    def put(name: str, values: Values) -> None:
        requests[name] = values[rows]

    put("number", columns.numbers)
    put("opcode", columns.column("bth", "opcode"))
    put("rtx", columns.column("bth", "rtx"))
    put("msn", columns.column("meth", "msn"))
    put("rqmsn", columns.column("meth", "rqmsn"))
    put("dmalen", columns.column("reth", "dmalen"))
    put("va", columns.column("reth", "va"))
    put("payload", columns.payload_length)
    put("time", columns.frames.time_ns)
    # Only stamps of a known unit, -1 for others.
    stamp = columns.column("tseth", "tx_timestamp", default=-1)
    put("stamp", np.where(columns.column("tseth", "tsr") == 0, stamp, -1))
    crc = np.full(len(columns), -1, np.int64)
    with_crc, values = columns.crc()
    crc[with_crc] = values
    put("crc", crc)
    return requests


def _by_flow(columns: Columns, rows: I64) -> dict[bytes, I64]:
    """Positions in `rows` by flow: innermost addresses and destination QP."""
    keys = np.zeros((len(rows), 35), np.uint8)
    stacks = columns.stack[rows]
    start = columns.frames.start[rows]
    for index in set(stacks.tolist()):
        stack = columns.stacks[index]
        these = np.flatnonzero(stacks == index)
        ip = stack.ip[-1]
        four = ("ipv4", ip) in stack.layers
        at, length = (ip + 12, 8) if four else (ip + 8, 32)
        keys[these, :length] = rows_at(columns.frames.data, start[these] + at, length)
        keys[these, 32:] = rows_at(columns.frames.data, start[these] + (stack.transport_at or 0) + 5, 3)
    found: dict[bytes, list[int]] = {}
    for position, key in enumerate(keys.view("V35")[:, 0].tolist()):
        found.setdefault(key, []).append(position)
    return {key: np.array(positions, np.int64) for key, positions in found.items()}
