# SPDX-License-Identifier: BSD-2-Clause
"""What packets say, in the words of `mrc.capture.summary.info`, made for many packets of one stack at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrc.capture.columns.batch import Columns
from mrc.capture.columns.icrcs import WRONG
from mrc.capture.columns.values import field_values
from mrc.capture.frames import I64, Bools, rows_at
from mrc.capture.summary import info
from mrc.wire.headers import HEADERS
from mrc.wire.words import fields_of, writer


def info_of_all(columns: Columns, wanted: Bools) -> list[str]:
    """`info` of those packets of a run that are wanted, an empty text for the others."""
    words = [""] * len(columns)
    for index, stack in enumerate(columns.stacks):
        rows = np.flatnonzero(wanted & (columns.stack == index))
        if not len(rows):
            continue
        if stack.transport_index is None or stack.transport_index == len(stack.layers):
            said = [info(columns.walked(row), columns.profile) for row in rows.tolist()]
        else:
            said = _of_transport(columns, stack.layers[stack.transport_index :], rows)
        for row, text in zip(rows.tolist(), said, strict=True):
            words[row] = text
    return words


def _of_transport(columns: Columns, headers: tuple[tuple[str, int], ...], rows: I64) -> list[str]:
    """Packets that have these headers from the BTH on, each at its offset in the frame."""
    start = columns.frames.start[rows]
    names, values = [], []
    for name, at in headers:
        header = rows_at(columns.frames.data, start + at, HEADERS[name].length)
        names.append(name)
        values += [field_values(name, field, header, columns.profile).tolist() for field in fields_of(name)]
    # Of the rest only what is to be said of any of them.
    for name, rest in _rest(columns, rows).items():
        if any(any(column) for column in rest):
            names.append(name)
            values += rest
    return writer(tuple(names))(values)


def _rest(columns: Columns, rows: I64) -> dict[str, list[list[Any]]]:
    malformed = [columns.malformed.get(row) for row in rows.tolist()] if columns.malformed else []
    return {
        "payload": [columns.payload_length[rows].tolist()],
        "icrc": [(columns.icrc[rows] == WRONG).tolist()],
        "verdict": [columns.trimmed[rows].tolist(), malformed or [None] * len(rows)],
    }
