"""What packets say, in the words of `mrc.capture.summary.info`, made for many packets of one stack at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mrc.capture.columns.batch import Columns
from mrc.capture.columns.icrcs import WRONG
from mrc.capture.columns.stacks import Stack
from mrc.capture.columns.values import field_values
from mrc.capture.frames import I64, Bools, rows_at
from mrc.capture.summary import info
from mrc.wire.names import MARKS, NACK_REASONS, OPERATIONS, SYNDROMES
from mrc.wire.opcodes import BTH_LENGTH, HEADER_LENGTHS, OPCODES
from mrc.wire.psn import PSN_MASK

Lists = list[list[int]]


def info_of_all(columns: Columns, wanted: Bools) -> list[str]:
    """`info` of those packets of a run that are wanted, an empty text for the others."""
    words = [""] * len(columns)
    for row, walked in columns.slow.items():
        if wanted[row]:
            words[row] = info(walked, columns.profile)
    for stack, rows in columns.quick_by_stack(wanted):
        for row, text in zip(rows.tolist(), _of_stack(columns, stack, rows), strict=True):
            words[row] = text
    return words


def _of_stack(columns: Columns, stack: Stack, rows: I64) -> list[str]:
    """Packets that went the quick way: whole headers, nothing wrong but perhaps the ICRC."""
    start = columns.frames.start[rows]
    first = stack.transport_index or 0
    parts: list[Iterable[str]] = []
    for name, at in stack.layers[first:]:
        fields, text = _WORDS[name]
        header = rows_at(columns.frames.data, start + at, BTH_LENGTH if name == "bth" else HEADER_LENGTHS[name])
        parts.append(text([field_values(name, field, header, columns.profile).tolist() for field in fields]))
    length = columns.payload_length[rows]
    if length.any():
        parts.append(_plain(" Payload={}", length.tolist(), unless_zero=True))
    wrong = columns.icrc[rows] == WRONG
    if wrong.any():
        parts.append([" [ICRC wrong]" if each else "" for each in wrong.tolist()])
    return list(map("".join, zip(*parts, strict=True)))


def _plain(form: str, values: list[int], unless_zero: bool = False) -> list[str]:
    if unless_zero:
        return [form.format(value) if value else "" for value in values]
    return list(map(form.format, values))


def _bth(columns: Lists) -> list[str]:
    names = {value: opcode.name for value, opcode in OPCODES.items()}
    return [
        f"{names[opcode]} QP=0x{dqp:06x} PSN={psn}{' [AckReq]' if ackreq else ''}{' [rtx]' if rtx else ''}"
        for opcode, dqp, psn, ackreq, rtx in zip(*columns, strict=True)
    ]


def _meth(columns: Lists) -> list[str]:
    return [f" MSN={msn} RQMSN={rqmsn}" if rqmsn else f" MSN={msn}" for rqmsn, msn in zip(*columns, strict=True)]


def _reth(columns: Lists) -> list[str]:
    return [f" VA=0x{va:x} Len={dmalen}" for va, dmalen in zip(*columns, strict=True)]


def _aeth(columns: Lists) -> list[str]:
    return [
        f" {'ACK' if syndrome < 0x20 else SYNDROMES.get(syndrome, f'syndrome 0x{syndrome:02x}')} MSN={msn}"
        for syndrome, msn in zip(*columns, strict=True)
    ]


def _seth(columns: Lists) -> list[str]:
    words = []
    for mark, answers_probe, offset, probe_id, entropy, cack_psn, sack_offset, bitmap in zip(*columns, strict=True):
        which = f"probe_id={probe_id}" if answers_probe else f"ack={cack_psn + offset & PSN_MASK}"
        said = f" cack={cack_psn} {which} EV=0x{entropy:08x}"
        if mark:
            said += f" [{MARKS[mark]}]"
        words.append(f"{said} bitmap={sack_offset:+d}:0x{bitmap:x}" if bitmap else said)
    return words


def _neth(columns: Lists) -> list[str]:
    return [
        f" {NACK_REASONS.get(reason, f'reason 0x{reason:02x}')} nack={nack_psn} EV=0x{entropy:08x}"
        for reason, entropy, nack_psn in zip(*columns, strict=True)
    ]


def _erth(columns: Lists) -> list[str]:
    return [
        f" {OPERATIONS.get(op, f'op {op}')}{'' if op else f' ports=0x{ports:x}'}"
        for op, ports in zip(*columns, strict=True)
    ]


def _eeth(columns: Lists) -> list[str]:
    return [f" {OPERATIONS.get(op, f'op {op}')}" for op in columns[0]]


def _one(form: str, unless_zero: bool = False) -> Callable[[Lists], list[str]]:
    return lambda columns: _plain(form, columns[0], unless_zero)


# Of each header the fields that are shown, and what is said of them.
_WORDS: dict[str, tuple[tuple[str, ...], Callable[[Lists], list[str]]]] = {
    "bth": (("opcode", "dqp", "psn", "ackreq", "rtx"), _bth),
    "meth": (("rqmsn", "msn"), _meth),
    "tseth": (("tx_timestamp",), _one(" TS={}")),
    "reth": (("va", "dmalen"), _reth),
    "immdt": (("data",), _one(" Imm=0x{:08x}")),
    "aeth": (("syndrome", "msn"), _aeth),
    "seth": (
        ("m", "pr", "ack_psn_offset", "probe_id", "entropy", "cack_psn", "sack_offset", "bitmap"),
        _seth,
    ),
    "cc_state": (("ooo_count",), _one(" ooo={}", unless_zero=True)),
    "neth": (("reason", "entropy", "nack_psn"), _neth),
    "peth": (("probe_id",), _one(" probe_id={}")),
    "erth": (("op", "port_status_mask"), _erth),
    "eeth": (("op",), _eeth),
    "atomiceth": (("va",), _one(" VA=0x{:x}")),
    "atomicacketh": (("orig",), _one(" Orig={}")),
    "deth": (("sqpn",), _one(" SQP=0x{:06x}")),
    "ieth": (("rkey",), _one(" Invalidate=0x{:08x}")),
}
