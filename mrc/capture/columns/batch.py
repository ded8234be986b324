# SPDX-License-Identifier: BSD-2-Clause
"""One run of packets as columns: what is known of each packet in arrays, its fields pulled out when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from mrc.capture.columns.icrcs import I8, NOT_THERE, RIGHT, WRONG, mask_of, verdicts
from mrc.capture.columns.stacks import SLOW, Stack, Stacks, stack_of, walk_run
from mrc.capture.columns.values import Values, bits, field_values
from mrc.capture.files import read_frames
from mrc.capture.fragments import Fragments
from mrc.capture.frames import I64, U8, Bools, Frames, rows_at, with_data
from mrc.capture.transport import icrc_ok
from mrc.capture.walk import walk
from mrc.capture.walked import Walked
from mrc.wire.fields import fields_to_ev_array
from mrc.wire.headers import HEADERS
from mrc.wire.opcodes import FIRST_MRC_OPCODE
from mrc.wire.profile import DEFAULT_WIRE_PROFILE, WireProfile

LAST, EVERY = -1, None


class Columns:
    """`len(columns)` packets of a capture, in file order; row i is packet `first + i`. mrc/capture/columns/__init__.py
    says what is where."""

    def __init__(
        self,
        frames: Frames,
        first: int,
        profile: WireProfile = DEFAULT_WIRE_PROFILE,
        fragments: Fragments | None = None,
    ) -> None:
        self.frames, self.first, self.profile = frames, first, profile
        stacks = Stacks()
        self.stack, self.payload_length, self.icrc_at = walk_run(frames, profile, stacks)
        count = len(self.stack)
        self.trimmed: Bools = np.zeros(count, np.bool_)
        self.malformed: dict[int, str] = {}
        self.slow: dict[int, Walked] = {}
        fragments = Fragments() if fragments is None else fragments
        whole: dict[int, bytes] = {}
        for row in np.flatnonzero(self.stack == SLOW).tolist():
            walked = self._walk(row)
            if walked.fragment_at is not None:
                walked = self._reassembled(row, walked, fragments, whole)
            self.slow[row] = walked
            self.stack[row] = stacks.index(stack_of(walked))
            self.payload_length[row] = walked.payload_length
            self.icrc_at[row] = -1 if walked.icrc_at is None else walked.icrc_at
            self.trimmed[row] = walked.trimmed
            if walked.malformed is not None:
                self.malformed[row] = walked.malformed
        self.stacks: list[Stack] = stacks.all
        if whole:
            self.frames = with_data(frames, whole)
        self._headers: dict[tuple[str, int | None], tuple[I64, U8]] = {}
        self._icrc: I8 | None = None

    def __len__(self) -> int:
        return len(self.stack)

    def _walk(self, row: int) -> Walked:
        record = self.frames.record(row)
        return walk(record.data, record.link_type, record.wire_length, self.profile)

    def _reassembled(self, row: int, walked: Walked, fragments: Fragments, whole: dict[int, bytes]) -> Walked:
        """The packet that a fragment completes (which may be a fragment inside a tunnel), else the fragment."""
        numbers: tuple[int, ...] = ()
        while walked.fragment_at is not None and (found := fragments.add(walked, self.first + row)):
            whole[row] = found.data
            numbers = tuple(dict.fromkeys((*numbers, *found.numbers)))
            link_type, wire_length = int(self.frames.link_type[row]), int(self.frames.wire_length[row])
            walked = walk(found.data, link_type, wire_length, self.profile)
            walked.fragments = numbers
        return walked

    def walked(self, row: int) -> Walked:
        """The packet as the walk over one packet finds it."""
        return self.slow.get(row) or self._walk(row)

    @property
    def numbers(self) -> I64:
        """Packet numbers, counted from 1 over the capture."""
        return np.arange(self.first, self.first + len(self))

    def offsets(self, layer: str, occurrence: int | None = LAST) -> tuple[I64, I64]:
        """(rows, offsets in `frames.data`) of the headers of that name.

        Where a packet has several: the one at index `occurrence` (0 the outermost, LAST the innermost), or with EVERY
        all of them, the row then repeated. An index counts those of the packet itself, not those of a tunnel around it,
        unless only the tunnel has one.
        """
        places = [stack.places(layer, own=occurrence is not EVERY) for stack in self.stacks]
        most = max(map(len, places), default=0)
        wanted = range(most) if occurrence is EVERY else (occurrence,)
        parts = []
        for index in wanted:
            at_of_stack = np.array([at[index] if -len(at) <= index < len(at) else -1 for at in places], np.int64)
            at = at_of_stack[self.stack] if len(at_of_stack) else np.zeros(0, np.int64)
            rows = np.flatnonzero(at >= 0)
            parts.append((rows, self.frames.start[rows] + at[rows]))
        if len(parts) == 1:
            return parts[0]
        empty = [np.zeros(0, np.int64)]
        return np.concatenate([rows for rows, _ in parts] or empty), np.concatenate([at for _, at in parts] or empty)

    def header(self, layer: str, occurrence: int | None = LAST) -> tuple[I64, U8]:
        """(rows, bytes of the headers as uint8 [len(rows), length]); which ones as in `offsets`."""
        found = self._headers.get((layer, occurrence))
        if found is None:
            rows, at = self.offsets(layer, occurrence)
            found = self._headers[layer, occurrence] = rows, rows_at(self.frames.data, at, HEADERS[layer].length)
        return found

    def values(self, layer: str, field: str, occurrence: int | None = LAST) -> tuple[I64, Values]:
        """(rows, values) of a field of wire.md section 13; which headers as in `offsets`.

        int64, but uint64 for 64 bits and Python's integers (dtype object) for more. MAC and IPv4 addresses are numbers;
        for IPv6 addresses and segments see `addresses`. `seth.ack_psn_offset` and `seth.probe_id` are given for those
        SETHs only that have them.
        """
        rows, header = self.header(layer, occurrence)
        if layer == "seth" and field in ("ack_psn_offset", "probe_id"):
            answers_probe = bits(header, *_PR) == 1
            these = answers_probe if field == "probe_id" else ~answers_probe
            rows, header = rows[these], header[these]
        return rows, field_values(layer, field, header, self.profile)

    def column(self, layer: str, field: str, default: int = 0, occurrence: int = LAST) -> Values:
        """`values` as one array with an element for each packet, `default` where it has no such field."""
        rows, values = self.values(layer, field, occurrence)
        whole = np.full(len(self), default, values.dtype)
        whole[rows] = values
        return whole

    def addresses(self, field: str, occurrence: int | None = LAST, layer: str = "ipv6") -> tuple[I64, Values, Values]:
        """(rows, upper and lower 64 bits) of `src` or `dst` of IPv6 headers, or GRHs; which ones as in `offsets`."""
        rows, header = self.header(layer, occurrence)
        shift = 128 if field == "src" else 0
        return rows, bits(header, shift + 64, 64), bits(header, shift, 64)

    def segments(self) -> tuple[I64, Values, Values]:
        """(rows, upper and lower 64 bits) of every segment in every SRH, a row for each."""
        rows, at = self.offsets("srh", EVERY)
        header = rows_at(self.frames.data, at, 8)
        room = np.minimum(8 * header[:, 1].astype(np.int64), self.frames.start[rows] + self.frames.kept[rows] - at - 8)
        count = np.minimum(header[:, 4].astype(np.int64) + 1, room // 16)
        index = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        entries = rows_at(self.frames.data, np.repeat(at + 8, count) + 16 * index, 16)
        return np.repeat(rows, count), bits(entries, 64, 64), bits(entries, 0, 64)

    def has(self, layer: str) -> Bools:
        """Which packets have that layer, `payload` and `icrc` included."""
        if layer == "payload":
            return self.payload_length > 0
        if layer == "icrc":
            return self.icrc_at >= 0
        having = np.array([any(name == layer for name, _ in stack.layers) for stack in self.stacks], np.bool_)
        return having[self.stack] if len(having) else np.zeros(0, np.bool_)

    def quick_by_stack(self, wanted: Bools) -> Iterator[tuple[Stack, I64]]:
        """The wanted packets that the quick walk knew, stack by stack: (stack, rows)."""
        quick = np.where(wanted, self.stack, -1)
        quick[list(self.slow)] = -1
        for index, stack in enumerate(self.stacks):
            rows = np.flatnonzero(quick == index)
            if len(rows):
                yield stack, rows

    @property
    def icrc(self) -> I8:
        """int8 [n]: RIGHT, WRONG, or NOT_THERE where there is none to check."""
        if self._icrc is None:
            self._icrc = self._verdicts()
        return self._icrc

    def _verdicts(self) -> I8:
        found: I8 = np.full(len(self), NOT_THERE, np.int8)
        groups: dict[tuple[int, int], tuple[U8, list[int]]] = {}
        there = self.icrc_at >= 0
        slow: list[int] = []
        for index, stack in enumerate(self.stacks):
            mask = mask_of(stack, self.profile)
            if mask is None:
                slow += np.flatnonzero(there & (self.stack == index)).tolist()
            else:
                groups.setdefault((stack.ip[-1], len(mask)), (mask, []))[1].append(index)
        for (ip_at, _), (mask, indices) in groups.items():
            chosen = np.zeros(len(self.stacks), np.bool_)
            chosen[indices] = True
            rows = np.flatnonzero(there & chosen[self.stack])
            found[rows] = verdicts(self.frames, rows, ip_at, mask, self.icrc_at[rows])
        for row in slow:
            verdict = icrc_ok(self.walked(row), self.profile)
            found[row] = NOT_THERE if verdict is None else RIGHT if verdict else WRONG
        return found

    def crc(self) -> tuple[I64, Values]:
        """(rows, the ICRC as it stands in the packet) of all that have one."""
        rows = np.flatnonzero(self.icrc_at >= 0)
        last = rows_at(self.frames.data, self.frames.start[rows] + self.icrc_at[rows], 4)
        return rows, last.view(">u4")[:, 0].astype(np.int64)

    def ev(self) -> tuple[I64, Values]:
        """(rows, the EV the packet travels on) of MRC packets, from the UDP source port and the innermost flow label (0
        over IPv4)."""
        rows, opcode = self.values("bth", "opcode")
        over_udp = np.array([stack.udp_at is not None for stack in self.stacks], np.bool_)
        rows = rows[(opcode >= FIRST_MRC_OPCODE) & over_udp[self.stack[rows]]]
        label = np.zeros(len(self), np.int64)
        six, flow = self.values("ipv6", "fl")
        label[six] = flow
        innermost_is_4 = np.array([_ipv4_innermost(stack) for stack in self.stacks], np.bool_)
        if innermost_is_4.any():
            label[innermost_is_4[self.stack]] = 0
        sport = self.column("udp", "sport")[rows].astype(np.uint32)
        low = (label[rows] & 0xFFFF).astype(np.uint32)
        return rows, fields_to_ev_array(sport, low, self.profile).astype(np.int64)


_PR = next((field.shift, field.bits) for field in HEADERS["seth"].fields if field.name == "pr")


def _ipv4_innermost(stack: Stack) -> bool:
    return bool(stack.ip) and ("ipv4", stack.ip[-1]) in stack.layers


def read_columns(stream: BinaryIO, name: str, profile: WireProfile = DEFAULT_WIRE_PROFILE) -> Iterator[Columns]:
    """The packets of a capture as columns, a run at a time, in file order. Raises as `read_frames`."""
    return _columns(read_frames(stream, name), profile)


def _columns(runs: Iterator[Frames], profile: WireProfile) -> Iterator[Columns]:
    first = 1
    fragments = Fragments()
    for frames in runs:
        columns = Columns(frames, first, profile, fragments)
        first += len(columns)
        yield columns
