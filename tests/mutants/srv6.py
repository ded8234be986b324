# SPDX-License-Identifier: BSD-2-Clause
"""Outer headers that are not what the fabric expects."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np

from mrc.conformance.codec.carriage import Carriage, Outer
from mrc.conformance.codec.icrc import covered, icrc, icrc_bytes
from mrc.conformance.setup import Setup
from mrc.conformance.targets.in_process_paths import InProcessPaths
from mrc.endpoint.paths.addressing import Path
from mrc.wire.entropy import ev_to_fields
from mrc.wire.fields import COMMON
from mrc.wire.ipv4 import address_number
from mrc.wire.opcodes import REQUEST_OPCODES, Op
from mrc.wire.profile import WireProfile
from mrc.wire.templates import packet_template
from mrc.wire.transmit_batch import TransmitBatch
from mrc.wire.usid import UsidTemplate, container, shifted
from mutants.mutant import mutant
from mutants.packets import _Repacked

_BTH = 48  # behind an IPv6 header
_SEGMENTS_LEFT, _LAST_ENTRY, _SEGMENT = 3, 4, 8


@mutant("MRC-SRV6-01")
class TheOuterLengthCountsTheOuterHeader(InProcessPaths):
    """The payload length of the outer header counts that header too."""

    def on_the_wire(self, packet: bytes, port: int, destination: int, traffic_class: int) -> bytes:
        frame = super().on_the_wire(packet, port, destination, traffic_class)
        return frame[:4] + len(frame).to_bytes(2, "big") + frame[6:] if len(frame) > len(packet) else frame


@mutant("MRC-SRV6-01")
class AnSrhIsAlwaysThere(InProcessPaths):
    """Packets have a segment routing header although none was asked for."""

    def __init__(self, setup: Setup, wire: WireProfile, seed: int) -> None:
        super().__init__(setup, wire, seed)
        self._srh = True


@mutant("MRC-WIRE-03")
class ProbesHaveNoOuterHeader(InProcessPaths):
    """In SRv6 mode probes go to the NIC's own address without an outer header."""

    def on_the_wire(self, packet: bytes, port: int, destination: int, traffic_class: int) -> bytes:
        if self.mode == "srv6" and packet[_BTH] == Op.PROBE:
            return packet
        return super().on_the_wire(packet, port, destination, traffic_class)


@mutant("MRC-WIRE-03")
class OuterHeadersInEveryMode(InProcessPaths):
    """Requests have an outer header in UDP and STEV modes too."""

    def on_the_wire(self, packet: bytes, port: int, destination: int, traffic_class: int) -> bytes:
        if self.mode == "srv6" or packet[0] >> 4 != 6 or packet[_BTH] not in REQUEST_OPCODES:
            return super().on_the_wire(packet, port, destination, traffic_class)
        local, peer = self.pairs[port].local_address, self.pairs[port].peer_address
        outer = Outer(address_number(local), address_number(peer), traffic_class)
        return Carriage(0, 0, outer=outer).in_outer(packet)


@mutant("MRC-SRV6-02", "MRC-SRV6-08")
class UsidsLeaveAHole(UsidTemplate):
    """There is a uSID of zeros between block and source leaf."""

    def address(self, plane: int, uplink: int) -> int:
        return container(self.block, (0, *self.usids(plane, uplink)))


@mutant("MRC-SRV6-02")
class EachPlaneHasItsBlock(UsidTemplate):
    """The block holds the plane as well."""

    def address(self, plane: int, uplink: int) -> int:
        return container(self.block + plane, self.usids(plane, uplink))


@mutant("MRC-SRV6-04")
class InnerDestinationsAreTheOuterOnes(_Repacked):
    """The inner destination of requests is the outer one."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        rows = np.flatnonzero(np.isin(fields["opcode"], list(REQUEST_OPCODES)))
        outer = np.ascontiguousarray(batch.destination[start : batch.count][rows, 8:24]).view(">u8")
        fields["dst_high"][rows], fields["dst_low"][rows] = outer[:, 0], outer[:, 1]


@mutant("MRC-SRV6-04")
class InnerDestinationsAreOfPlaneZero(_Repacked):
    """Requests go to the NIC's address in plane 0, whatever plane they take."""

    def repack(self, batch: TransmitBatch, start: int) -> None:
        fields = batch.fields(COMMON, start, batch.count)
        rows = np.flatnonzero(np.isin(fields["opcode"], list(REQUEST_OPCODES)))
        (qp,) = self.qps.values()
        own = next(bytes(path.template) for path in qp.paths.paths if path.plane == 0) if qp.paths else b""
        fields["dst_high"][rows] = int.from_bytes(own[24:32], "big")
        fields["dst_low"][rows] = int.from_bytes(own[32:40], "big")


@mutant("MRC-SRV6-05", "MRC-SRV6-07")
class ThePlaneIsNotInTheHostPort(UsidTemplate):
    """The uSID of the host port is that of plane 0 in every plane."""

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        return (*super().usids(plane, uplink)[:-1], super().usids(0, uplink)[-1])


@mutant("MRC-SRV6-05", "MRC-SRV6-08")
class SpinesCountFromOne(UsidTemplate):
    """Uplink n leads to spine n + 1 in odd planes."""

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        found = super().usids(plane, uplink)
        return (found[0], found[1] + plane % 2, *found[2:]) if len(found) > 2 else found


class _OtherEvs(InProcessPaths):
    """EVs of another plan, on the paths they had."""

    def __init__(self, setup: Setup, wire: WireProfile, seed: int) -> None:
        super().__init__(setup, wire, seed)
        self.paths = [[self._renamed(path, wire) for path in paths] for paths in self.paths]

    def ev(self, plane: int, uplink: int) -> int:
        raise NotImplementedError

    def _renamed(self, path: Path, wire: WireProfile) -> Path:
        ev = self.ev(path.plane, path.spine)
        pair = self.pairs[path.port]
        ends = address_number(pair.local_address), address_number(pair.peer_address)
        return replace(path, ev=ev, template=packet_template(*ends, *ev_to_fields(ev, wire), wire))


@mutant("MRC-SRV6-06")
class UplinksAreInTheMiddle(_OtherEvs):
    """An EV is plane(8), uplink(16), zero(8)."""

    def ev(self, plane: int, uplink: int) -> int:
        return plane << 24 | uplink << 8


@mutant("MRC-SRV6-06")
class PlanesAreAtTheBottom(_OtherEvs):
    """An EV is uplink(16), zero(8), plane(8)."""

    def ev(self, plane: int, uplink: int) -> int:
        return uplink << 16 | plane


@mutant("MRC-SRV6-07")
class HostsAreNumberedInDecimal(UsidTemplate):
    """The base of host ports is 4000 and not 0x4000."""

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        found = super().usids(plane, uplink)
        return (*found[:-1], found[-1] - 0x4000 + 4000)


@mutant("MRC-SRV6-07", "MRC-SRV6-10")
class NumbersHaveOneNibble(UsidTemplate):
    """The uSID of a spine holds the last nibble of its number alone."""

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        return super().usids(plane, uplink & 0xF)


@mutant("MRC-SRV6-08")
class LeavesComeInReverse(UsidTemplate):
    """A destination names the destination leaf first and the source leaf behind the spine."""

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        found = super().usids(plane, uplink)
        return (found[2], found[1], found[0], found[3]) if len(found) > 2 else found


@mutant("MRC-SRV6-08")
class TheFirstSwitchIsLeftOut(UsidTemplate):
    """A destination is as the source leaf would leave it."""

    def address(self, plane: int, uplink: int) -> int:
        return shifted(super().address(plane, uplink))


@mutant("MRC-SRV6-09")
class EveryWayHasASpine(UsidTemplate):
    """Packets to a host on the same leaf go up to a spine and back."""

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        found = super().usids(plane, uplink)
        return found if len(found) > 2 else (found[0], 0x2000 | plane << 8 | uplink, *found)


@mutant("MRC-SRV6-10")
class NumbersAreNotChecked(UsidTemplate):
    """Leaf and host numbers of more than eight bits are taken, and lose what is beyond them."""

    def usids(self, plane: int, uplink: int) -> tuple[int, ...]:
        few = UsidTemplate(self.source_leaf & 0xFF, self.destination_leaf & 0xFF, self.destination_host & 0xFF)
        return few.usids(plane & 0xF, uplink & 0xFF)


class _OtherSrh(InProcessPaths):
    """A segment routing header with another byte in one place."""

    at: int
    value: int

    def routing_header(self, destination: int) -> tuple[int, bytes]:
        first, header = super().routing_header(destination)
        return first, header[: self.at] + bytes((self.value,)) + header[self.at + 1 :]


@mutant("MRC-SRV6-11")
class NoSegmentIsLeft(_OtherSrh):
    """Segments left is 0 when a packet leaves its host."""

    at, value = _SEGMENTS_LEFT, 0


@mutant("MRC-SRV6-11")
class TheLastEntryIsOne(_OtherSrh):
    """Last entry is the number of segments instead of the index of the last."""

    at, value = _LAST_ENTRY, 1


@mutant("MRC-SRV6-11")
class TheSegmentIsTheWholePath(InProcessPaths):
    """The SRH lists the whole path, and the destination has it too."""

    def routing_header(self, destination: int) -> tuple[int, bytes]:
        _, header = super().routing_header(destination)
        return destination, header[:_SEGMENT] + destination.to_bytes(16, "big")


@mutant("MRC-WIRE-04")
class Ipv4InsideOfSrv6(InProcessPaths):
    """In SRv6 mode the inner header is IPv4."""

    def on_the_wire(self, packet: bytes, port: int, destination: int, traffic_class: int) -> bytes:
        if self.mode == "srv6":
            inner = Carriage(0x0A000002, 0x0A000001, 4, traffic_class, sport=int.from_bytes(packet[40:42], "big"))
            headers = inner.headers(len(packet) - _BTH - 4)
            packet = headers + packet[_BTH:-4]
            packet += icrc_bytes(icrc(packet))
        return super().on_the_wire(packet, port, destination, traffic_class)


@mutant("MRC-ICRC-08")
class TheOuterHeaderIsCovered(InProcessPaths):
    """The ICRC of what is sent covers the outer header as well, as if no switch would rewrite its destination."""

    def on_the_wire(self, packet: bytes, port: int, destination: int, traffic_class: int) -> bytes:
        frame = super().on_the_wire(packet, port, destination, traffic_class)
        outer = bytearray(frame[: len(frame) - len(packet)])
        if not outer:
            return frame
        outer[0] |= 0x0F
        outer[1:4] = b"\xff" * 3
        outer[7] = 0xFF
        return frame[:-4] + icrc_bytes(zlib.crc32(b"\xff" * 8 + outer + covered(packet[:-4])))
