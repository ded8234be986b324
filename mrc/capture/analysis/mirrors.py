# SPDX-License-Identifier: BSD-2-Clause
"""The mirror ports that packets came from: ERSPAN, or GRE with sequence numbers, whose gaps are what a mirror lost.

What a mirror lost was not lost by the fabric: it only is not in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from mrc.capture.columns import Columns
from mrc.capture.frames import I64, Bools, rows_at
from mrc.capture.texts import ipv4_text, ipv6_text

_ERSPAN, _ERSPAN_3 = 0x88BE, 0x22EB
_SEQUENCE = 0x10
# GRE with all of its fields, and the session number behind it.
_LONGEST = 16 + 4
_SESSION_MASK = 0x3FF
# Numbers further apart are those of a mirror that was set up again.
_SAME_MIRROR = 1 << 20
# Where fewer numbers differ, they do not count packets.
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class Mirror:
    """`packets` in the file; `lost` by the sequence numbers, None where there are none, or none that count;
    `first_gap_packet` is the packet behind the first gap, by its number in the file. `session` is None but for ERSPAN
    with a header of its own."""

    kind: str
    source: str
    destination: str
    session: int | None
    packets: int
    lost: int | None
    first_gap_packet: int | None


class _Key(NamedTuple):
    kind: str
    source: bytes
    destination: bytes
    session: int | None


@dataclass(slots=True)
class Mirrors:
    """Takes in runs; `packets` of them came through a mirror."""

    packets: int = 0
    _counts: dict[_Key, int] = field(default_factory=dict)
    _numbers: dict[_Key, list[I64]] = field(default_factory=dict)
    _packets: dict[_Key, list[I64]] = field(default_factory=dict)

    def add(self, columns: Columns) -> None:
        rows, at = columns.offsets("gre", 0)
        if not len(rows):
            return
        frames = columns.frames
        whole = at + _LONGEST <= frames.start[rows] + frames.kept[rows]
        rows, at = rows[whole], at[whole]
        head = rows_at(frames.data, at, _LONGEST).astype(np.int64)
        numbered = (head[:, 0] & _SEQUENCE) > 0
        protocol = head[:, 2] << 8 | head[:, 3]
        before = 4 + 4 * ((head[:, 0] >> 7 & 1) + (head[:, 0] >> 5 & 1))
        number, session = _word(head, np.where(numbered, before, 0)), _word(head, before + 4) & _SESSION_MASK
        kinds = np.select(
            [protocol == _ERSPAN_3, (protocol == _ERSPAN) & numbered, protocol == _ERSPAN, numbered], [3, 2, 1, 4], 0
        )
        for stack in np.unique(columns.stack[rows]).tolist():
            name, ip = _carrying(columns.stacks[stack].layers)
            length = 4 if name == "ipv4" else 16
            of_stack = (columns.stack[rows] == stack) & (kinds > 0)
            ends = rows_at(frames.data, frames.start[rows] + ip + (12 if length == 4 else 8), 2 * length)
            self._take(of_stack, kinds, ends, session, number, numbered, columns.first + rows)

    def _take(
        self,
        these: Bools,
        kinds: I64,
        ends: np.ndarray,
        session: I64,
        number: I64,
        numbered: Bools,
        packets: I64,
    ) -> None:
        """The packets of one stack, by mirror."""
        length = ends.shape[1] // 2
        for kind in np.unique(kinds[these]).tolist():
            of_kind = these & (kinds == kind)
            for pair in {row.tobytes() for row in ends[of_kind]}:
                of_pair = of_kind & (ends == np.frombuffer(pair, np.uint8)).all(axis=1)
                for one in np.unique(session[of_pair]).tolist() if kind in (2, 3) else [None]:
                    rows = of_pair if one is None else of_pair & (session == one)
                    key = _Key(_NAMES[kind], pair[:length], pair[length:], one)
                    self.packets += int(rows.sum())
                    self._counts[key] = self._counts.get(key, 0) + int(rows.sum())
                    self._numbers.setdefault(key, []).append(number[rows & numbered])
                    self._packets.setdefault(key, []).append(packets[rows & numbered])

    def finish(self) -> list[Mirror]:
        return [
            Mirror(
                key.kind,
                _text(key.source),
                _text(key.destination),
                key.session,
                count,
                *_gaps(np.concatenate(self._numbers[key]), np.concatenate(self._packets[key])),
            )
            for key, count in self._counts.items()
        ]


_NAMES = {1: "ERSPAN I", 2: "ERSPAN II", 3: "ERSPAN III", 4: "GRE"}


def _carrying(layers: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """The IP header, and where it is, that carries the outermost GRE."""
    names = [name for name, _ in layers]
    return next(each for each in reversed(layers[: names.index("gre")]) if each[0] in ("ipv4", "ipv6"))


def _word(head: I64, at: I64) -> I64:
    """Four bytes of each row from `at` on."""
    rows = np.arange(len(head))
    return head[rows, at] << 24 | head[rows, at + 1] << 16 | head[rows, at + 2] << 8 | head[rows, at + 3]


def _text(address: bytes) -> str:
    return ipv4_text(address) if len(address) == 4 else ipv6_text(address)


def _gaps(numbers: I64, packets: I64) -> tuple[int | None, int | None]:
    """How many sequence numbers of 32 bits are missing between those that are there, in whatever order they came, and
    which of these packets is behind the first gap."""
    if len(numbers) < _FEWEST:
        return None, None
    steps = (np.diff(numbers) + (1 << 31)) % (1 << 32) - (1 << 31)
    steps[np.abs(steps) > _SAME_MIRROR] = 1
    unwrapped, at = np.unique(np.concatenate([[0], np.cumsum(steps)]), return_index=True)
    if len(unwrapped) < _FEWEST:
        return None, None
    gaps = np.flatnonzero(np.diff(unwrapped) > 1)
    return int(unwrapped[-1] - unwrapped[0]) + 1 - len(unwrapped), int(packets[at[gaps[0] + 1]]) if len(gaps) else None
