# SPDX-License-Identifier: BSD-2-Clause
"""The JSON objects of `mrc.capture.fields.packet_document`, as text, for many packets of one stack at a time.

Packets of one stack differ in the values of their fields alone, so that one pattern makes them all. What has something
more to show (a reserved field that is not 0, segments, the answer to a probe) or went the slow way is made by itself.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from mrc.capture.columns.batch import Columns
from mrc.capture.columns.ends import ColumnEnds
from mrc.capture.columns.icrcs import NOT_THERE, RIGHT, WRONG
from mrc.capture.columns.stacks import Stack
from mrc.capture.columns.values import field_values
from mrc.capture.fields import ADDRESS_TEXTS, NOT_NAMED, packet_document
from mrc.capture.frames import I64, NO_TIME, U8, Bools, rows_at
from mrc.capture.texts import seconds_text
from mrc.wire.headers import HEADERS, Field
from mrc.wire.names import OPCODE_WORDS

_OPCODE_TEXTS = {value: json.dumps(name) for value, name in OPCODE_WORDS.items()}
_VERDICTS = {RIGHT: "true", WRONG: "false", NOT_THERE: "null"}


def documents(columns: Columns, rows: I64) -> list[str]:
    """The object of each of these rows, as `json.dumps` writes it."""
    texts: dict[int, str] = {}
    wanted = np.zeros(len(columns), np.bool_)
    wanted[rows] = True
    payload, icrc = columns.payload_length > 0, columns.icrc_at >= 0
    about = _about(columns, rows)
    for stack, quick in columns.quick_by_stack(wanted):
        if any(name == "srh" for name, _ in stack.layers):
            continue
        for has_payload in (False, True):
            for has_icrc in (False, True):
                group = quick[(payload[quick] == has_payload) & (icrc[quick] == has_icrc)]
                if len(group):
                    texts.update(_group(columns, stack, group, has_payload, has_icrc, about))
    return [texts[row] if row in texts else _one(columns, row) for row in rows.tolist()]


def _one(columns: Columns, row: int) -> str:
    record = columns.frames.record(row)
    return json.dumps(packet_document(columns.first + row, record, columns.walked(row), columns.profile))


def _about(columns: Columns, rows: I64) -> dict[int, str]:
    """What is known of each of these packets as a whole, from its length to the name of its opcode."""
    evs = np.full(len(columns), -1, np.int64)
    with_ev, ev = columns.ev()
    evs[with_ev] = ev
    paths = ColumnEnds(columns.profile).paths(columns, rows)
    path_texts = {path: json.dumps(path) for path in set(paths)}
    opcodes = columns.column("bth", "opcode", -1)[rows].tolist()
    return {
        row: f'"length": {length}, "ev": {ev if ev >= 0 else "null"}, "path": {path_texts[path]}, '
        f'"opcode_name": {_OPCODE_TEXTS.get(opcode, "null")}'
        for row, length, ev, path, opcode in zip(
            rows.tolist(), columns.frames.wire_length[rows].tolist(), evs[rows].tolist(), paths, opcodes, strict=True
        )
    }


def _group(
    columns: Columns, stack: Stack, rows: I64, has_payload: bool, has_icrc: bool, about: dict[int, str]
) -> dict[int, str]:
    """Texts of those rows that have nothing more to show than their stack says."""
    plain = np.ones(len(rows), np.bool_)
    layers: list[str] = []
    values: list[list[Any]] = []
    for name, at in stack.layers:
        header = rows_at(columns.frames.data, columns.frames.start[rows] + at, HEADERS[name].length)
        pattern, found, has_more = _layer(columns, name, header)
        layers.append(pattern)
        values += found
        plain &= ~has_more
    if has_payload:
        layers.append('{"layer": "payload", "length": %d}')
        values.append(columns.payload_length[rows].tolist())
    if has_icrc:
        layers.append('{"layer": "icrc", "fields": {"crc": %d}}')
        last = rows_at(columns.frames.data, columns.frames.start[rows] + columns.icrc_at[rows], 4)
        values.append(last.view(">u4")[:, 0].tolist())
    pattern = (
        '{"number": %d, "time": %s, %s, "layers": ['
        + ", ".join(layers)
        + '], "icrc_ok": %s, "malformed": null, "trimmed": false}'
    )
    times = ["null" if ns == NO_TIME else f'"{seconds_text(ns)}"' for ns in columns.frames.time_ns[rows].tolist()]
    verdicts = [_VERDICTS[verdict] for verdict in columns.icrc[rows].tolist()]
    abouts = [about[row] for row in rows.tolist()]
    all_values = zip(columns.numbers[rows].tolist(), times, abouts, *values, verdicts, strict=True)
    together = zip(rows.tolist(), plain.tolist(), all_values, strict=True)
    return {row: pattern % each for row, is_plain, each in together if is_plain}


def _layer(columns: Columns, name: str, header: U8) -> tuple[str, list[list[Any]], Bools]:
    """The pattern of a layer, its values, and which rows have more to show than it does."""
    has_more = np.zeros(len(header), np.bool_)
    names, values = [], []
    for field in HEADERS[name].fields:
        if field.name in NOT_NAMED.get(name, ()):
            continue
        if field.reserved:
            has_more |= _not_zero(columns, name, field, header)
        elif field.name in ("src", "dst"):
            names.append(f'"{field.name}": "%s"')
            values.append(_addresses(name, field, header))
        else:
            names.append(f'"{field.name}": %d')
            values.append(field_values(name, field.name, header, columns.profile).tolist())
    if name == "seth":
        has_more |= field_values(name, "pr", header, columns.profile) == 1
    return f'{{"layer": "{name}", "fields": {{{", ".join(names)}}}}}', values, has_more


def _not_zero(columns: Columns, name: str, field: Field, header: U8) -> Bools:
    if field.bits > 64:  # whole bytes
        end = header.shape[1] - field.shift // 8
        return np.asarray(header[:, end - field.bits // 8 : end].any(axis=1))
    return np.asarray(field_values(name, field.name, header, columns.profile) != 0)


def _addresses(name: str, field: Field, header: U8) -> list[str]:
    """The usual texts. Few differ, so each is made once."""
    end = header.shape[1] - field.shift // 8
    length = field.bits // 8
    packed = np.ascontiguousarray(header[:, end - length : end]).view(f"V{length}")[:, 0].tolist()
    texts = {data: ADDRESS_TEXTS[name](data) for data in set(packed)}
    return [texts[data] for data in packed]
