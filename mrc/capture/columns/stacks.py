# SPDX-License-Identifier: BSD-2-Clause
"""Which headers each packet of a run has and where: the walk of `mrc.capture.walk`, on many packets at once.

Packets are sorted into groups that have the same headers at the same places, header by header. What the quick way does
not know (options, fragments, other protocols, anything trimmed or wrong) is left to the walk, packet by
packet; a property test holds both to the same answers. Both read the table of `mrc.capture.carriers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mrc.capture.carriers import CARRIERS, IP_PROTOCOLS, LINK_TYPES, UDP_PORTS, Carrier, Step
from mrc.capture.frames import I64, U8, Bools, Frames, rows_at
from mrc.capture.transport import PAD_AT, SHAPES, TS_AT, TS_SHIFT
from mrc.capture.walk import GRH_PROTOCOL, ROUTING
from mrc.capture.walked import Walked
from mrc.wire.opcodes import BTH_LENGTH, ICRC_LENGTH
from mrc.wire.profile import WireProfile
from mrc.wire.rows import PAD_SHIFT

Layers = tuple[tuple[str, int], ...]

SLOW = -1
_MOST_IP_HEADERS = 3
# The quick way goes no deeper; the walk does.
_MOST_LAYERS = 16


class Stack(NamedTuple):
    """The headers of a packet: (name, offset in the frame) of each, as in `Walked.layers`; and as there `ip`, `udp_at`,
    `transport_at`, `transport_index`, `inside`."""

    layers: Layers
    ip: tuple[int, ...]
    udp_at: int | None
    transport_at: int | None
    transport_index: int | None
    inside: int = 0

    def places(self, layer: str, own: bool) -> list[int]:
        """Where the headers of that name are, outermost first; with `own` without those of a tunnel around the packet,
        unless there are no others."""
        places = [at for name, at in self.layers if name == layer]
        return ([at for at in places if at >= self.inside] or places) if own else places


def stack_of(walked: Walked) -> Stack:
    """The stack of a packet that went the slow way."""
    layers, ip = tuple(walked.layers), tuple(walked.ip)
    return Stack(layers, ip, walked.udp_at, walked.transport_at, walked.transport_index, walked.inside)


class Stacks:
    """The stacks of one run, each once: `all[index]`."""

    def __init__(self) -> None:
        self.all: list[Stack] = []
        self._index: dict[Stack, int] = {}

    def index(self, stack: Stack) -> int:
        found = self._index.get(stack)
        if found is None:
            found = self._index[stack] = len(self.all)
            self.all.append(stack)
        return found


class Walks(NamedTuple):
    """What the quick way found, int64 [n] each: the `stack` index or SLOW; and where it is not SLOW, `payload_length`
    as in `Walked` and `icrc_at` (offset in the frame; -1 for none)."""

    stack: I64
    payload_length: I64
    icrc_at: I64


def _shape_arrays() -> tuple[I64, Bools]:
    lengths, payload = np.full(512, SLOW, np.int64), np.zeros(512, np.bool_)
    for key, (length, _, has_payload) in SHAPES.items():
        lengths[key], payload[key] = length, has_payload
    return lengths, payload


_HEADERS_LENGTH, _HAS_PAYLOAD = _shape_arrays()


class _Group(NamedTuple):
    """Packets (`rows`) alike up to offset `at`, where the next header begins."""

    rows: I64
    at: int
    layers: Layers
    ip: tuple[int, ...]
    inside: int = 0


class _Walker:
    def __init__(self, frames: Frames, profile: WireProfile, stacks: Stacks) -> None:
        self.frames, self.stacks = frames, stacks
        self.ports = profile.accepted_udp_ports
        # Whether a packet with such a codepoint was cut is the walk's to say.
        self.ordinary = np.ones(64, np.bool_)
        self.ordinary[list(profile.trimmed_dscps)] = False
        count = len(frames.start)
        # Where each packet ends by what its headers say so far; bytes after it are link padding.
        self.end = np.maximum(frames.wire_length, frames.kept)
        self.walks = Walks(np.full(count, SLOW, np.int64), np.zeros(count, np.int64), np.full(count, -1, np.int64))

    def header(self, group: _Group, length: int) -> tuple[_Group, U8]:
        """Those of a group that have `length` more bytes, and these bytes."""
        rows, at = group.rows, group.at
        enough = np.minimum(self.frames.kept, self.end)[rows] >= at + length
        if not enough.all():
            rows = rows[enough]
        return group._replace(rows=rows), rows_at(self.frames.data, self.frames.start[rows] + at, length)

    def link(self, link_type: int, rows: I64) -> None:
        name = LINK_TYPES.get(link_type)
        if name is not None:
            self.follow(_Group(rows, 0, (), ()), name)

    def follow(self, group: _Group, name: str) -> None:
        """On with a group whose next header is the one called `name`."""
        if not len(group.rows) or len(group.ip) == _MOST_IP_HEADERS or len(group.layers) >= _MOST_LAYERS:
            return
        if name == "ipv6":
            self.ipv6(group)
        elif name == "ipv4":
            self.ipv4(group)
        elif name == "udp":
            self.udp(group)
        elif name == "grh":
            self.grh(group)
        else:
            self.carrier(group, CARRIERS[name])

    def carrier(self, group: _Group, carrier: Carrier) -> None:
        """Past a header of the table of carriers."""
        group, head = self.header(group, carrier.peek)
        if not len(group.rows):
            return
        steps: dict[Step, list[I64]] = {}
        for first, rows in _alike(head, carrier.decides):
            steps.setdefault(carrier.step(head[first].tobytes()), []).append(rows)
        for step, parts in steps.items():
            if step.following is None or step.truncated:
                continue
            chosen = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
            rows, at = group.rows[chosen], group.at + step.length
            if carrier.length_at is not None:
                said = head[chosen, carrier.length_at].astype(np.int64) << 8 | head[chosen, carrier.length_at + 1]
                good = at + said <= self.end[rows]
                rows, said = rows[good], said[good]
                self.end[rows] = at + said
            layers = (*group.layers, *((name, group.at + first) for name, first in step.layers))
            if carrier.tunnel is None:
                following = group._replace(rows=rows, at=at, layers=layers)
            else:
                following = _Group(rows, at, layers, (), at)
            self.follow(following, step.following)

    def ipv6(self, group: _Group) -> None:
        group, head = self.header(group, 40)
        at = group.at
        ends = at + 40 + (head[:, 4].astype(np.int64) << 8 | head[:, 5])
        good = (head[:, 0] >> 4 == 6) & (ends > at + 40) & (ends <= self.end[group.rows])
        good &= self.ordinary[head[:, 0].astype(np.int64) << 2 & 0x3C | head[:, 1] >> 6]
        following = np.where(good, head[:, 6], 0xFF)
        self.end[group.rows[good]] = ends[good]
        next_group = group._replace(at=at + 40, layers=(*group.layers, ("ipv6", at)), ip=(*group.ip, at))
        self.carried(next_group, following)
        self.routing(next_group._replace(rows=group.rows[following == ROUTING]))

    def carried(self, group: _Group, protocol: I64 | U8) -> None:
        """On with what an IP header says it carries, `protocol` for each of the group."""
        for number, name in IP_PROTOCOLS.items():
            self.follow(group._replace(rows=group.rows[protocol == number]), name)

    def grh(self, group: _Group) -> None:
        group, head = self.header(group, 40)
        at = group.at
        ends = at + 40 + (head[:, 4].astype(np.int64) << 8 | head[:, 5])
        good = (head[:, 0] >> 4 == 6) & (ends > at + 40) & (ends <= self.end[group.rows]) & (head[:, 6] == GRH_PROTOCOL)
        good &= self.ordinary[head[:, 0].astype(np.int64) << 2 & 0x3C | head[:, 1] >> 6]
        rows = group.rows[good]
        self.end[rows] = ends[good]
        layers = (*group.layers, ("grh", at))
        self.transport(group._replace(rows=rows, at=at + 40, layers=layers, ip=(*group.ip, at)), None)

    def ipv4(self, group: _Group) -> None:
        group, head = self.header(group, 20)
        at = group.at
        length = head[:, 2].astype(np.int64) << 8 | head[:, 3]
        good = (head[:, 0] == 0x45) & (length >= 20) & (at + length <= self.end[group.rows])
        good &= self.ordinary[head[:, 1] >> 2]
        # Neither more fragments nor an offset.
        good &= (head[:, 6] & 0x3F == 0) & (head[:, 7] == 0)
        self.end[group.rows[good]] = at + length[good]
        layers, ip = (*group.layers, ("ipv4", at)), (*group.ip, at)
        following = group._replace(rows=group.rows[good], at=at + 20, layers=layers, ip=ip)
        self.carried(following, head[good, 9])

    def routing(self, group: _Group) -> None:
        """A segment routing header."""
        if not len(group.rows):
            return
        group, head = self.header(group, 8)
        room = 8 * head[:, 1].astype(np.int64)
        last, left = head[:, 4].astype(np.int64), head[:, 3].astype(np.int64)
        good = (head[:, 2] == 4) & (16 * (last + 1) <= room) & (left <= last + 1)
        for length in set((room[good] + 8).tolist()):
            these = group._replace(rows=group.rows[good & (room + 8 == length)])
            these, whole = self.header(these, length)
            layers = (*group.layers, ("srh", group.at))
            self.carried(these._replace(at=group.at + length, layers=layers), whole[:, 0])

    def udp(self, group: _Group) -> None:
        group, head = self.header(group, 8)
        at = group.at
        length = head[:, 4].astype(np.int64) << 8 | head[:, 5]
        good = (length >= 8) & (at + length == self.end[group.rows])
        port = head[:, 2].astype(np.int64) << 8 | head[:, 3]
        accepted = np.zeros(len(port), np.bool_)
        for each in self.ports:
            accepted |= port == each
        layers = (*group.layers, ("udp", at))
        self.transport(group._replace(rows=group.rows[good & accepted], at=at + 8, layers=layers), at)
        for number, name in UDP_PORTS.items():
            rows = group.rows[good & ~accepted & (port == number)]
            self.follow(group._replace(rows=rows, at=at + 8, layers=layers), name)

    def transport(self, group: _Group, udp_at: int | None) -> None:
        if not len(group.rows):
            return
        group, head = self.header(group, BTH_LENGTH)
        at, rows = group.at, group.rows
        key = head[:, 0].astype(np.int64) << 1 | head[:, TS_AT] >> TS_SHIFT & 1
        length = _HEADERS_LENGTH[key]
        end, kept = self.end[rows], self.frames.kept[rows]
        body = end - at - length - ICRC_LENGTH
        pad = head[:, PAD_AT] >> PAD_SHIFT & 3
        good = (length >= 0) & (body >= pad) & (_HAS_PAYLOAD[key] | (body == 0)) & (kept >= at + length)
        if not good.all():
            rows, key, end, kept, body, pad = (each[good] for each in (rows, key, end, kept, body, pad))
        carriers, index = group.layers, len(group.layers)
        stack_of_key = np.full(512, SLOW, np.int64)
        for shape in np.flatnonzero(np.bincount(key, minlength=512)).tolist():
            headers = tuple((name, at + distance) for name, distance in SHAPES[shape][1])
            stack_of_key[shape] = self.stacks.index(
                Stack((*carriers, *headers), group.ip, udp_at, at, index, group.inside)
            )
        self.walks.stack[rows] = stack_of_key[key]
        self.walks.payload_length[rows] = body - pad
        # Of a packet that the capture kept in part, all headers at least, the ICRC is not there.
        self.walks.icrc_at[rows] = np.where(kept >= end, end - ICRC_LENGTH, -1)


def _alike(head: U8, decides: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, I64]]:
    """Sorts rows of bytes by the bits that decide: of each kind its first row, and all of them."""
    key = np.zeros(len(head), np.int64)
    for at, mask in decides:
        key = key << 8 | head[:, at] & mask
    if (key == key[0]).all():
        yield 0, np.arange(len(head))
        return
    kinds, firsts, inverse = np.unique(key, return_index=True, return_inverse=True)
    for kind in range(len(kinds)):
        yield int(firsts[kind]), np.flatnonzero(inverse == kind)


def walk_run(frames: Frames, profile: WireProfile, stacks: Stacks) -> Walks:
    """The quick walk over a run; `stacks` gets the stacks it finds."""
    walker = _Walker(frames, profile, stacks)
    for link_type in set(frames.link_type.tolist()):
        walker.link(link_type, np.flatnonzero(frames.link_type == link_type))
    return walker.walks
