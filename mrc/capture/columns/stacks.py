"""Which headers each packet of a run has and where: the walk of `mrc.capture.walk`, on many packets at once.

Packets are sorted into groups that have the same headers at the same places, header by header. What the quick way does
not know (options, fragments, other protocols, anything trimmed or wrong) is left to the walk, packet by
packet; a property test holds both to the same answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mrc.capture.frames import I64, U8, Bools, Frames, rows_at
from mrc.capture.transport import PAD_AT, SHAPES, TS_AT, TS_SHIFT
from mrc.capture.walk import ETHERNET, IPV4, IPV6, LINUX_SLL, LINUX_SLL2, RAW_IP, ROUTING, UDP, VLAN_TYPES
from mrc.capture.walked import Walked
from mrc.wire.opcodes import BTH_LENGTH, ICRC_LENGTH
from mrc.wire.profile import WireProfile
from mrc.wire.rows import PAD_SHIFT

Layers = tuple[tuple[str, int], ...]

SLOW = -1
_IPV4_TYPE, _IPV6_TYPE = 0x0800, 0x86DD
_MOST_IP_HEADERS = 3
_MOST_TAGS = 3


class Stack(NamedTuple):
    """The headers of a packet: (name, offset in the frame) of each, as in `Walked.layers`; and as there `ip`, `udp_at`,
    `transport_at`, `transport_index`."""

    layers: Layers
    ip: tuple[int, ...]
    udp_at: int | None
    transport_at: int | None
    transport_index: int | None


def stack_of(walked: Walked) -> Stack:
    """The stack of a packet that went the slow way."""
    layers, ip = tuple(walked.layers), tuple(walked.ip)
    return Stack(layers, ip, walked.udp_at, walked.transport_at, walked.transport_index)


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
        group = _Group(rows, 0, (), ())
        if link_type in RAW_IP:
            group, head = self.header(group, 1)
            four = head[:, 0] >> 4 == 4
            self.network(group._replace(rows=group.rows[four]), IPV4)
            self.network(group._replace(rows=group.rows[~four]), IPV6)
            return
        if link_type == ETHERNET:
            length, protocol_at, layer = 14, 12, ("ether", 0)
        elif link_type == LINUX_SLL:
            length, protocol_at, layer = 16, 14, ("sll", 14)
        elif link_type == LINUX_SLL2:
            length, protocol_at, layer = 20, 0, ("sll", 0)
        else:
            return
        group, head = self.header(group, length)
        kind = head[:, protocol_at].astype(np.int64) << 8 | head[:, protocol_at + 1]
        self.ether_types(group._replace(at=length, layers=(layer,)), kind)

    def ether_types(self, group: _Group, kind: I64) -> None:
        """What follows an Ethernet type, `kind` for each of the group; VLAN tags among it."""
        for ether_type, protocol in ((_IPV6_TYPE, IPV6), (_IPV4_TYPE, IPV4)):
            self.network(group._replace(rows=group.rows[kind == ether_type]), protocol)
        tagged = np.isin(kind, list(VLAN_TYPES))
        if tagged.any() and len(group.layers) <= _MOST_TAGS:
            inside, head = self.header(group._replace(rows=group.rows[tagged]), 4)
            next_kind = head[:, 2].astype(np.int64) << 8 | head[:, 3]
            layers = (*group.layers, ("vlan", group.at))
            self.ether_types(inside._replace(at=group.at + 4, layers=layers), next_kind)

    def network(self, group: _Group, protocol: int) -> None:
        if not len(group.rows) or len(group.ip) == _MOST_IP_HEADERS:
            return
        if protocol == IPV6:
            self.ipv6(group)
        elif protocol == IPV4:
            self.ipv4(group)
        elif protocol == UDP:
            self.udp(group)
        elif protocol == ROUTING:
            self.routing(group)

    def ipv6(self, group: _Group) -> None:
        group, head = self.header(group, 40)
        at = group.at
        ends = at + 40 + (head[:, 4].astype(np.int64) << 8 | head[:, 5])
        good = (head[:, 0] >> 4 == 6) & (ends > at + 40) & (ends <= self.end[group.rows])
        good &= self.ordinary[head[:, 0].astype(np.int64) << 2 & 0x3C | head[:, 1] >> 6]
        following = np.where(good, head[:, 6], 0xFF)
        self.end[group.rows[good]] = ends[good]
        next_group = group._replace(at=at + 40, layers=(*group.layers, ("ipv6", at)), ip=(*group.ip, at))
        for protocol in (UDP, IPV6, ROUTING, IPV4):
            self.network(next_group._replace(rows=group.rows[following == protocol]), protocol)

    def ipv4(self, group: _Group) -> None:
        group, head = self.header(group, 20)
        at = group.at
        length = head[:, 2].astype(np.int64) << 8 | head[:, 3]
        good = (head[:, 0] == 0x45) & (length >= 20) & (at + length <= self.end[group.rows])
        good &= self.ordinary[head[:, 1] >> 2]
        # Neither more fragments nor an offset.
        good &= (head[:, 6] & 0x3F == 0) & (head[:, 7] == 0)
        self.end[group.rows[good]] = at + length[good]
        good &= head[:, 9] == UDP
        layers, ip = (*group.layers, ("ipv4", at)), (*group.ip, at)
        self.network(_Group(group.rows[good], at + 20, layers, ip), UDP)

    def routing(self, group: _Group) -> None:
        """A segment routing header."""
        group, head = self.header(group, 8)
        room = 8 * head[:, 1].astype(np.int64)
        last, left = head[:, 4].astype(np.int64), head[:, 3].astype(np.int64)
        good = (head[:, 2] == 4) & (16 * (last + 1) <= room) & (left <= last + 1)
        for length in set((room[good] + 8).tolist()):
            these = group._replace(rows=group.rows[good & (room + 8 == length)])
            these, whole = self.header(these, length)
            layers = (*group.layers, ("srh", group.at))
            for protocol in (UDP, IPV6, IPV4):
                rows = these.rows[whole[:, 0] == protocol]
                self.network(_Group(rows, group.at + length, layers, group.ip), protocol)

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
        self.transport(_Group(group.rows[good & accepted], at + 8, layers, group.ip), at)

    def transport(self, group: _Group, udp_at: int) -> None:
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
            stack_of_key[shape] = self.stacks.index(Stack((*carriers, *headers), group.ip, udp_at, at, index))
        self.walks.stack[rows] = stack_of_key[key]
        self.walks.payload_length[rows] = body - pad
        # Of a packet that the capture kept in part, all headers at least, the ICRC is not there.
        self.walks.icrc_at[rows] = np.where(kept >= end, end - ICRC_LENGTH, -1)


def walk_run(frames: Frames, profile: WireProfile, stacks: Stacks) -> Walks:
    """The quick walk over a run; `stacks` gets the stacks it finds."""
    walker = _Walker(frames, profile, stacks)
    for link_type in set(frames.link_type.tolist()):
        walker.link(link_type, np.flatnonzero(frames.link_type == link_type))
    return walker.walks
