# SPDX-License-Identifier: BSD-2-Clause
"""A filter over the columns of a run: which of its packets it lets through."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mrc.capture.columns import EVERY, LAST, NO_TIME, RIGHT, Columns
from mrc.capture.columns.ends import ColumnEnds
from mrc.capture.columns.values import Values
from mrc.capture.filter.language import Among, Both, Compare, Either, Node, Not, Operand, Present, parse
from mrc.capture.filter.names import IPV4, IPV6, Name
from mrc.capture.filter.values import Network, Value
from mrc.capture.frames import I64, Bools

_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_HALF = (1 << 64) - 1
# Rows, which may repeat; and for each a value, or the two halves of an IPv6 address.
_Found = tuple[I64, tuple[Values, ...]]


class Filter:
    """Made once from its text, asked run by run, in file order (times may count from the first packet).

    Where a packet has a layer more than once, a comparison holds when it holds for one of them; `!=` when it holds for
    all. A comparison with a field that a packet does not have is false. Raises FilterError.
    """

    def __init__(self, text: str) -> None:
        self._node = parse(text)
        self._start_ns: int | None = None

    def chosen(self, columns: Columns) -> Bools:
        """Which packets of a run pass."""
        times = columns.frames.time_ns
        there = times != NO_TIME
        if self._start_ns is None and there.any():
            self._start_ns = int(times[there.argmax()])
        return self._holds(self._node, columns)

    def _holds(self, node: Node, columns: Columns) -> Bools:
        if isinstance(node, Not):
            return ~self._holds(node.inner, columns)
        if isinstance(node, Both):
            return np.asarray(np.all([self._holds(part, columns) for part in node.parts], axis=0), np.bool_)
        if isinstance(node, Either):
            return np.asarray(np.any([self._holds(part, columns) for part in node.parts], axis=0), np.bool_)
        if isinstance(node, Present):
            return self._present(node, columns)
        if isinstance(node, Operand):
            rows, values = self._values(node, columns)
            return _any(columns, rows, values[0] != 0)
        if isinstance(node, Among):
            return self._among(node, columns)
        return self._compare(node, columns)

    def _present(self, node: Present, columns: Columns) -> Bools:
        if node.name is None:
            return columns.has(node.layer)
        if node.name.text == "icrc_ok":
            return np.asarray(columns.icrc == RIGHT)
        rows, values = self._values(Operand(node.name), columns)
        if node.name.text == "trimmed":
            return np.asarray(values[0] == 1)
        return _any(columns, rows, np.ones(len(rows), np.bool_))

    def _among(self, node: Among, columns: Columns) -> Bools:
        rows, values = self._values(node.operand, columns)
        passed = np.zeros(len(rows), np.bool_)
        for first, last in node.values:
            if first == last:
                passed |= _equal(node.operand.name, values, first)
            else:
                passed |= (values[0] >= first) & (values[0] <= last)
        return _any(columns, rows, passed)

    def _compare(self, node: Compare, columns: Columns) -> Bools:
        if isinstance(node.other, Operand):
            return self._compare_fields(node.operand, node.sign, node.other, columns)
        rows, values = self._values(node.operand, columns)
        if node.sign in ("==", "!="):
            same = _any(columns, rows, _equal(node.operand.name, values, node.other))
            if node.sign == "==":
                return same
            return _any(columns, rows, np.ones(len(rows), np.bool_)) & ~same
        return _any(columns, rows, np.asarray(_SIGNS[node.sign](values[0], node.other), np.bool_))

    def _compare_fields(self, left: Operand, sign: str, right: Operand, columns: Columns) -> Bools:
        """Of each side the innermost, if no index was given."""
        sides = []
        for operand in (left, right):
            occurrence = LAST if operand.occurrence is None else operand.occurrence
            sides.append(self._values(Operand(operand.name, occurrence, operand.mask), columns))
        (left_rows, left_values), (right_rows, right_values) = sides
        rows, at_left, at_right = np.intersect1d(left_rows, right_rows, return_indices=True)
        holds = np.ones(len(rows), np.bool_)
        for one, other in zip(left_values, right_values, strict=True):
            holds &= np.asarray(one[at_left] == other[at_right], np.bool_)
        if sign == "!=":
            holds = ~holds
        elif sign != "==":
            holds = np.asarray(_SIGNS[sign](left_values[0][at_left], right_values[0][at_right]), np.bool_)
        return _any(columns, rows, holds)

    def _values(self, operand: Operand, columns: Columns) -> _Found:
        name = operand.name
        occurrence = EVERY if operand.occurrence is None else operand.occurrence
        if not name.layer or name.layer in ("payload", "icrc"):
            rows, values = self._of_packet(name, columns)
        elif name.field == "segments":
            rows, high, low = columns.segments()
            return rows, (high, low)
        elif name.kind == IPV6:
            rows, high, low = columns.addresses(name.field, occurrence, name.layer)
            return rows, (high, low)
        else:
            rows, values = columns.values(name.layer, name.field, occurrence)
            if name.field.startswith("reserved"):
                # They are there when they are shown.
                rows, values = rows[values != 0], values[values != 0]
        if operand.mask is not None:
            values = values & (np.uint64(operand.mask) if values.dtype == np.uint64 else operand.mask)
        return rows, (values,)

    def _of_packet(self, name: Name, columns: Columns) -> tuple[I64, Values]:
        everything = np.arange(len(columns))
        frames = columns.frames
        match name.text:
            case "number":
                return everything, columns.numbers
            case "length":
                return everything, frames.wire_length
            case "payload.length":
                rows = np.flatnonzero(columns.payload_length)
                return rows, columns.payload_length[rows]
            case "icrc.crc":
                return columns.crc()
            case "ev":
                return columns.ev()
            case "path":
                paths = ColumnEnds(columns.profile).paths(columns, everything)
                rows = np.flatnonzero([path is not None for path in paths])
                return rows, np.array([paths[row] for row in rows.tolist()], object)
            case "icrc_ok":
                return everything, columns.icrc
            case "trimmed":
                return everything, columns.trimmed.astype(np.int64)
            case "malformed":
                rows = np.array(sorted(columns.malformed), np.int64)
                reasons = [columns.malformed[row].partition(":")[0] for row in rows.tolist()]
                return rows, np.array(reasons, object)
            case _:
                rows = np.flatnonzero(frames.time_ns != NO_TIME)
                since = (self._start_ns or 0) if name.text == "time_relative" else 0
                return rows, frames.time_ns[rows] - since


def _equal(name: Name, values: tuple[Values, ...], wanted: Value) -> Bools:
    if not isinstance(wanted, Network):
        return np.asarray(values[0] == wanted, np.bool_)
    if name.kind == IPV4:
        return np.asarray(values[0] & wanted.mask == wanted.address)
    high, low = values
    upper, lower = np.uint64(wanted.mask >> 64), np.uint64(wanted.mask & _HALF)
    same: Bools = (high & upper == wanted.address >> 64) & (low & lower == wanted.address & _HALF)
    return same


def _any(columns: Columns, rows: I64, holds: Bools) -> Bools:
    """Packets for one of whose rows it holds."""
    passed = np.zeros(len(columns), np.bool_)
    passed[rows[holds]] = True
    return passed
