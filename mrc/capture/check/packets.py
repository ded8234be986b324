# SPDX-License-Identifier: BSD-2-Clause
"""What one packet alone shows: reserved bits, lengths against opcodes, values that the protocol pins, the ICRC."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from mrc.capture.check.findings import Findings
from mrc.capture.columns import LAST, RIGHT, WRONG, Columns
from mrc.capture.columns.values import Values
from mrc.capture.frames import I64, Bools
from mrc.wire.headers import HEADERS
from mrc.wire.names import SYNDROMES, UNLIMITED_CREDITS
from mrc.wire.opcodes import FIRST_MRC_OPCODE, OPCODES, REQUEST_OPCODES, Op

PATH_MTUS = (256, 512, 1024, 2048, 4096)
_ENDPOINT_QP = 2
_FULL, _ENDS = ({op for op in Op if getattr(OPCODES[op], what)} for what in ("full_payload", "ends"))
_WITH_IMMEDIATE = {Op.WRITE_LAST_WITH_IMMEDIATE, Op.WRITE_ONLY_WITH_IMMEDIATE}

Get = Callable[[str], Values]


class Rule(NamedTuple):
    """A requirement that packets with `layer` break where `broken` holds; it gets a reader of `layer.field` names,
    whose arrays have an element for each such packet."""

    requirement: str
    layer: str
    what: str
    broken: Callable[[Get], Bools]


def _differs(name: str, value: int) -> Callable[[Get], Bools]:
    return lambda get: np.asarray(get(name) != value)


def _opcode_in(get: Get, opcodes: set[Op]) -> Bools:
    return np.isin(get("bth.opcode"), [int(op) for op in opcodes])


def _reserved(layer: str, *also: str) -> Callable[[Get], Bools]:
    names = [f"{layer}.{field.name}" for field in HEADERS[layer].fields if field.reserved or field.name in also]
    return lambda get: np.any([get(name) != 0 for name in names], axis=0)


RULES = (
    Rule("MRC-WIRE-07", "bth", "TVer is not 0", _differs("bth.tver", 0)),
    Rule("MRC-WIRE-20", "bth", "reserved bits of the BTH are not 0", _reserved("bth", "fecn", "becn")),
    Rule(
        "MRC-WIRE-22",
        "bth",
        "M is not 0, or SE in another packet than the last of a write with immediate",
        lambda get: np.asarray((get("bth.m") != 0) | ((get("bth.se") != 0) & ~_opcode_in(get, _WITH_IMMEDIATE))),
    ),
    Rule("MRC-WIRE-24", "bth", "the P_Key is not 0xFFFF", _differs("bth.pkey", 0xFFFF)),
    Rule(
        "MRC-WIRE-28",
        "bth",
        "ts is 1 in a packet whose opcode has no TSETH",
        lambda get: np.asarray((get("bth.ts") == 1) & (get("bth.opcode") > Op.WRITE_ONLY_WITH_IMMEDIATE)),
    ),
    Rule(
        "MRC-REQ-04",
        "meth",
        "RQMSN is not 0 in a plain write",
        lambda get: (get("meth.rqmsn") != 0) & _opcode_in(get, {Op.WRITE_LAST, Op.WRITE_ONLY}),
    ),
    Rule("MRC-REQ-05", "tseth", "ftype of the TSETH is not 1", _differs("tseth.ftype", 1)),
    Rule("MRC-REQ-05", "tseth", "reserved bits of the TSETH are not 0", _reserved("tseth")),
    Rule(
        "MRC-REQ-13",
        "reth",
        "First or Middle with a payload that is no path MTU",
        lambda get: _opcode_in(get, _FULL) & ~np.isin(get("payload"), PATH_MTUS),
    ),
    Rule(
        "MRC-REQ-15",
        "reth",
        "Last without payload",
        lambda get: (get("payload") == 0) & _opcode_in(get, {Op.WRITE_LAST, Op.WRITE_LAST_WITH_IMMEDIATE}),
    ),
    Rule(
        "MRC-REQ-15",
        "reth",
        "Last or Only with more than 4096 bytes, the largest path MTU",
        lambda get: (get("payload") > PATH_MTUS[-1]) & _opcode_in(get, _ENDS),
    ),
    Rule(
        "MRC-REQ-10",
        "reth",
        "DMALen of an Only is not its payload's length",
        lambda get: (
            (get("payload") != get("reth.dmalen")) & _opcode_in(get, {Op.WRITE_ONLY, Op.WRITE_ONLY_WITH_IMMEDIATE})
        ),
    ),
    Rule(
        "MRC-REQ-10",
        "reth",
        "DMALen of a First, Middle or Last is not more than its payload's length",
        lambda get: (
            (get("payload") >= get("reth.dmalen")) & ~_opcode_in(get, {Op.WRITE_ONLY, Op.WRITE_ONLY_WITH_IMMEDIATE})
        ),
    ),
    Rule(
        "MRC-WIRE-18",
        "aeth",
        "an RNR NAK (syndrome 0x20 to 0x3F)",
        lambda get: np.asarray(get("aeth.syndrome") >> 5 == 1),
    ),
    Rule(
        "MRC-ACK-05",
        "aeth",
        "a NAK for a sequence (syndrome 0x60)",
        lambda get: np.asarray(get("aeth.syndrome") == 0x60),
    ),
    Rule(
        "MRC-ACK-03",
        "aeth",
        "a syndrome that does not exist",
        lambda get: ~np.isin(get("aeth.syndrome"), list(SYNDROMES)) & (get("aeth.syndrome") >> 5 != 1),
    ),
    Rule(
        "MRC-ACK-04",
        "aeth",
        "an ACK whose syndrome is not 0x1F",
        lambda get: np.asarray(get("aeth.syndrome") < UNLIMITED_CREDITS),
    ),
    Rule(
        "MRC-WIRE-30",
        "seth",
        "the PSN of a SACK is not its cack_psn",
        lambda get: np.asarray(get("bth.psn") != get("seth.cack_psn")),
    ),
    Rule(
        "MRC-SACK-01",
        "seth",
        "type, next or reserved bits of the SETH are not 0",
        lambda get: _reserved("seth")(get) | ((get("seth.type") | get("seth.next")) != 0),
    ),
    Rule(
        "MRC-SACK-05",
        "seth",
        "neither dpdcid nor spdcid is the low half of the receiver's QPN",
        lambda get: np.asarray(
            (get("seth.dpdcid") != get("bth.dqp") & 0xFFFF) & (get("seth.spdcid") != get("bth.dqp") & 0xFFFF)
        ),
    ),
    Rule("MRC-SACK-10", "seth", "m is 3, which is reserved", lambda get: np.asarray(get("seth.m") == 3)),
    Rule(
        "MRC-SACK-23",
        "seth",
        "the bitmap of a SACK for an rtx packet or a probe does not start at cack_psn + 1",
        lambda get: (get("seth.sack_offset") != 1) & ((get("bth.rtx") | get("seth.pr")) == 1),
    ),
    Rule(
        "MRC-SACK-11",
        "cc_state",
        "the reserved bit of the CC_STATE is not 0",
        lambda get: (get("cc_state.reserved") != 0) & (get("seth.cc_type") == 0),
    ),
    Rule("MRC-NACK-01", "neth", "reserved bits of the NETH are not 0", _reserved("neth")),
    Rule(
        "MRC-NACK-02",
        "neth",
        "nack_psn is not the PSN of the NACK",
        lambda get: np.asarray(get("bth.psn") != get("neth.nack_psn")),
    ),
    Rule("MRC-WIRE-32", "peth", "the PSN of a probe is not 0", _differs("bth.psn", 0)),
    Rule("MRC-PROBE-01", "peth", "reserved bits of the PETH are not 0", _reserved("peth")),
    Rule("MRC-OP-01", "erth", "reserved bits of the ERTH are not 0", _reserved("erth")),
    Rule(
        "MRC-OP-02", "erth", "op of an endpoint request is neither 0 nor 1", lambda get: np.asarray(get("erth.op") > 1)
    ),
    Rule("MRC-OP-04", "eeth", "reserved bits of the EETH are not 0", _reserved("eeth")),
    Rule(
        "MRC-OP-02", "eeth", "op of an endpoint response is neither 0 nor 1", lambda get: np.asarray(get("eeth.op") > 1)
    ),
    *(
        Rule(
            "MRC-WIRE-33",
            layer,
            "an endpoint operation with another DQP than 2, or more than 16 bits of request id",
            lambda get: np.asarray((get("bth.dqp") != _ENDPOINT_QP) | (get("bth.psn") >> 16 != 0)),
        )
        for layer in ("erth", "eeth")
    ),
)


def check_packets(columns: Columns, findings: Findings) -> None:
    """Each MRC packet for itself; of the others the ICRC alone."""
    findings.add("MRC-ICRC-01", "the ICRC is wrong", columns.numbers[columns.icrc == WRONG])
    mrc = is_mrc(columns)
    if not mrc.any():
        return
    check_lengths(columns, mrc, findings)
    _check_carriers(columns, mrc, findings)
    # Of what was trimmed nothing but BTH and METH is as it was sent; broken packets have been named already.
    sound = mrc & ~columns.trimmed & ~corrupted(columns)
    sound[list(columns.malformed)] = False
    for layer in sorted({rule.layer for rule in RULES}):
        rows = np.flatnonzero(sound & columns.has(layer))
        if len(rows):
            get = _reader(columns, rows)
            for rule in RULES:
                if rule.layer == layer:
                    findings.add(rule.requirement, rule.what, columns.numbers[rows[rule.broken(get)]])


def is_mrc(columns: Columns) -> Bools:
    """Which packets have a BTH with an MRC opcode."""
    mrc = np.zeros(len(columns), np.bool_)
    rows, opcode = columns.values("bth", "opcode")
    mrc[rows[opcode >= FIRST_MRC_OPCODE]] = True
    return mrc


def corrupted(columns: Columns) -> Bools:
    """Which packets are not as they were sent, by their ICRC: none where most ICRCs of the run are wrong, for then they
    were never right."""
    wrong: Bools = columns.icrc == WRONG
    checked = int(np.isin(columns.icrc, (WRONG, RIGHT)).sum())
    return wrong if 2 * int(wrong.sum()) <= checked else np.zeros(len(wrong), np.bool_)


def _reader(columns: Columns, rows: I64) -> Get:
    read: dict[str, Values] = {}

    def get(name: str) -> Values:
        values = read.get(name)
        if values is None:
            layer, _, field = name.partition(".")
            whole = columns.column(layer, field) if field else columns.payload_length
            values = read[name] = whole[rows]
        return values

    return get


_LENGTHS = {
    "unknown_opcode": ("MRC-WIRE-17", "an opcode that does not exist"),
    "unexpected_payload": ("MRC-WIRE-02", "a control packet with a payload"),
    "bad_pad": ("MRC-WIRE-23", "a pad count of more bytes than there are"),
}
_LENGTH_REASONS = ("short_header", "no_icrc", "short_packet", "bad_length")


def check_lengths(columns: Columns, mrc: Bools, findings: Findings) -> None:
    """Malformed packets by what their opcode asks for. What the capture did not keep is nobody's violation."""
    opcode = columns.column("bth", "opcode")
    for row, reason in columns.malformed.items():
        if not mrc[row]:
            continue
        word = reason.partition(":")[0]
        number = columns.numbers[row : row + 1]
        if word in _LENGTHS:
            findings.add(*_LENGTHS[word], number)
        elif word in _LENGTH_REASONS:
            data = int(opcode[row]) in OPCODES and OPCODES[int(opcode[row])].is_request
            kind = "data" if data else "control"
            what = f"a {kind} packet whose lengths do not fit its opcode or each other ({word})"
            findings.add("MRC-WIRE-01" if data else "MRC-WIRE-02", what, number)


def _check_carriers(columns: Columns, mrc: Bools, findings: Findings) -> None:
    """What carries the packets."""
    numbers = columns.numbers
    if columns.profile.udp_checksum_zero:
        checksum = columns.column("udp", "chksum", occurrence=LAST)
        findings.add("MRC-ICRC-09", "a UDP checksum that is not 0", numbers[mrc & (checksum != 0)])
    # Marked or not, data must be markable.
    request = np.isin(columns.column("bth", "opcode"), sorted(REQUEST_OPCODES)) & mrc & ~columns.trimmed
    ecn = _outermost_ecn(columns)
    findings.add("MRC-ECN-01", "data that is not sent ECT(0)", numbers[request & (ecn >= 0) & (ecn < 2)])
    # Of the packet's own headers: a mirror or an overlay around it carries whatever it likes.
    inside = [
        len(stack.ip) > 1 and any(name == "ipv4" and at >= stack.inside for name, at in stack.layers)
        for stack in columns.stacks
    ]
    findings.add(
        "MRC-WIRE-04", "IPv4 inside another IP packet, or around one", numbers[mrc & np.array(inside)[columns.stack]]
    )


def _outermost_ecn(columns: Columns) -> I64:
    """The ECN bits of the outermost IP header, -1 where there is none."""
    four, six = columns.column("ipv4", "tos", -1, occurrence=0), columns.column("ipv6", "tc", -1, occurrence=0)
    six_outside = np.array([bool(stack.ip) and ("ipv6", stack.ip[0]) in stack.layers for stack in columns.stacks])
    word = np.where(six_outside[columns.stack], six, four)
    return np.where(word >= 0, word & 3, -1)
