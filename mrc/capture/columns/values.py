# SPDX-License-Identifier: BSD-2-Clause
"""Values of one field of many headers, by the layouts of `mrc.wire.headers` and the profile's switches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mrc.capture.frames import U8
from mrc.wire.headers import HEADERS
from mrc.wire.opcodes import FIRST_MRC_OPCODE
from mrc.wire.profile import WireProfile

Values = npt.NDArray[Any]

_WORDS = (1, 2, 4, 8)


def bits(rows: U8, shift: int, width: int, signed: bool = False) -> Values:
    """`width` bits that end `shift` bits before the end of each row: int64 [n], uint64 for 64 bits, Python's integers
    (dtype object) for more."""
    count, length = rows.shape
    if not count:
        return np.zeros(0, object if width > 64 else np.uint64 if width == 64 else np.int64)
    first, end = length - (shift + width - 1) // 8 - 1, length - shift // 8
    size = next((word for word in _WORDS if word >= end - first), 0)
    at = max(0, end - size)
    if not size or at + size > length:
        mask = (1 << width) - 1
        whole = [int.from_bytes(row.tobytes(), "big") >> shift & mask for row in rows]
        return np.array(whole, object if width > 64 else np.uint64 if width == 64 else np.int64)
    words: Values = np.ndarray((count,), f">u{size}", rows, at, (length,))
    value = words.astype(np.uint64 if size == 8 else np.int64)
    down = shift - 8 * (length - at - size)
    if down:
        value = value >> value.dtype.type(down)
    if width < 8 * size:
        value = value & value.dtype.type((1 << width) - 1)
    if width < 64:
        value = value.astype(np.int64, copy=False)
        if signed:
            half = 1 << width - 1
            value = (value ^ half) - half
    return value


def field_values(header: str, name: str, rows: U8, profile: WireProfile) -> Values:
    """Field `name` (as in wire.md section 13) of headers given as rows of bytes, uint8 [n, length of the header].

    `ack_psn_offset` and `probe_id` are read from every SETH, whichever of the two its pr bit says it is.
    """
    if header == "seth" and name == "probe_id":
        return _plain(header, "ack_psn_offset", rows) & 0xFFFF
    if header == "bth":
        if name in ("se", "m") and not profile.solicited_event_first:
            standard = rows[:, 0] < FIRST_MRC_OPCODE
            return np.where(standard, _plain(header, name, rows), _plain(header, {"se": "m", "m": "se"}[name], rows))
        if name in ("rtx", "ts", "reserved3"):
            return _bth_bits(name, rows)
    if header == "eeth" and profile.eeth_op_shift == 4 and name in ("op", "reserved", "reserved2"):
        byte = rows[:, 1].astype(np.int64)
        return {"op": byte >> 4 & 3, "reserved": byte >> 6 & 1, "reserved2": byte & 0xF}[name]
    return _plain(header, name, rows)


def _plain(header: str, name: str, rows: U8) -> Values:
    field = next(field for field in HEADERS[header].fields if field.name == name)
    return bits(rows, field.shift, field.bits, field.signed)


def _bth_bits(name: str, rows: U8) -> Values:
    """Bits that standard opcodes do not have, and count as reserved there."""
    value = _plain("bth", name, rows)
    standard = rows[:, 0] < FIRST_MRC_OPCODE
    if name == "reserved3":
        return np.where(standard, rows[:, 8] & 0x3F, value)
    return np.where(standard, 0, value)
