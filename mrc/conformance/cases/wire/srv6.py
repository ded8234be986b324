# SPDX-License-Identifier: BSD-2-Clause
"""The outer header of SRv6 mode and what its addresses are made of (wire.md section 11).

The target is host 1 of the fabric and the tester host 0; unless a case says otherwise the target is on leaf 1, the
tester on leaf 0.
"""

from __future__ import annotations

from mrc.conformance.cases.paths.sending import Sending
from mrc.conformance.cases.wire.entropy_setups import expect_refused, expect_taken
from mrc.conformance.cases.wire.every_kind import every_kind
from mrc.conformance.codec.carriage import parsed_address
from mrc.conformance.script import Bench, Heard, case

IPV6, IPV6_IN_IPV6, ROUTING, SRH_LENGTH = 40, 41, 43, 24
PLANE_UPLINK = "8:0:0x0F 8:0:0 16:0:0xFF"


def usids(address: int) -> list[int]:
    """The six uSIDs of an outer destination, the first switch's first."""
    return [address >> shift & 0xFFFF for shift in range(80, -1, -16)]


def address_text(address: int) -> str:
    """An address as its eight groups."""
    return ":".join(f"{address >> shift & 0xFFFF:x}" for shift in range(112, -1, -16))


def outer_destination(bench: Bench, packet: Heard) -> int:
    """As the packet left the target. Fails where there is no outer header."""
    bench.needs_outer_as_sent()
    bench.check(packet.carriage.outer is not None, "an outer IPv6 header", f"none: {packet}")
    return int(packet.outer_dst)


def expect_destination(bench: Bench, packet: Heard, wanted: str) -> None:
    """See that a packet has this outer destination, given as text."""
    found = outer_destination(bench, packet)
    right = found == parsed_address(wanted)[1]
    bench.check(right, f"outer destination {wanted}", f"it is {address_text(found)}: {packet}")


@case(
    "MRC-SRV6-01",
    mode="srv6",
    own_timers=True,
    look_at="next header and length of the outer header, and what follows it",
)
def a_packet_is_ipv6_in_ipv6(bench: Bench) -> None:
    """Every packet of the target's is an IPv6 header of 40 bytes with next header 41, the length of what follows, and
    then the whole inner packet."""
    for packet in every_kind(bench):
        outer, inner = packet.frame[:IPV6], packet.frame[IPV6:]
        following = outer[6]
        bench.check(following == IPV6_IN_IPV6, "next header 41", f"it is {following}: {packet}")
        length = int.from_bytes(outer[4:6], "big")
        bench.check(length == len(inner), f"outer payload length {len(inner)}", f"it is {length}: {packet}")
        whole = IPV6 + int.from_bytes(inner[4:6], "big")
        bench.check(inner[0] >> 4 == 6, "IPv6 inside", f"version {inner[0] >> 4}: {packet}")
        told = f"40 bytes more than the {whole} of the inner packet"
        bench.check(len(packet.frame) == whole + IPV6, told, f"{len(packet.frame) - whole} more: {packet}")


@case(
    "MRC-SRV6-02",
    mode="srv6",
    own_timers=True,
    look_at="where the uSIDs begin in an outer destination, and what follows the last",
)
def a_destination_is_a_block_and_usids(bench: Bench) -> None:
    """In the outer destination of every packet there are 32 bits of block, the same in all, then one to six uSIDs of 16
    bits, and zeros after the last."""
    blocks = set()
    for packet in every_kind(bench):
        address = outer_destination(bench, packet)
        blocks.add(address >> 96)
        found = usids(address)
        count = found.index(0) if 0 in found else len(found)
        bench.check(count > 0 and not any(found[count:]), "uSIDs, then zeros", f"{address_text(address)}: {packet}")
    told = ", ".join(f"{block:#010x}" for block in blocks)
    bench.check(len(blocks) == 1, "one block in all destinations", told)


@case("MRC-SRV6-04", mode="srv6", look_at="the inner addresses: those of the NICs in the plane that a packet takes")
def the_inner_destination_is_the_nics_own(bench: Bench) -> None:
    """The inner destination of every packet of the target's is the address of the tester's NIC in that plane, and the
    inner source that of its own; requests go by all planes."""
    Sending(bench).carry(64)
    packets = bench.all_heard
    for packet in packets:
        plane = bench.plane(packet)
        for what, found, wanted in (("destination", packet.dst, plane.tester), ("source", packet.src, plane.target)):
            right = found == parsed_address(wanted)[1]
            bench.check(
                right, f"inner {what} {wanted} in plane {plane.number}", f"it is {address_text(found)}: {packet}"
            )
    used = {packet.plane for packet in packets if packet.kind == "WRITE"}
    bench.check(len(used) == len(bench.planes), f"requests on {len(bench.planes)} planes", f"on {sorted(used)}")


def _by_ev(bench: Bench, packets: int = 128) -> dict[int, list[int]]:
    """The uSIDs that requests of the target's take, by EV; see that all EVs of the profile are there."""
    sending = Sending(bench)
    found = {write.ev: usids(outer_destination(bench, write)) for write in sending.carry(packets)}
    lacking = ", ".join(f"{ev:#010x}" for ev in set(sending.evs) - set(found))
    bench.check(not lacking, "requests on every EV", f"none on {lacking}")
    return found


@case("MRC-SRV6-05", mode="srv6", look_at="what differs between the addresses of two EVs: the T1's uSID, and the plane")
def an_address_is_a_template_with_plane_and_uplink(bench: Bench) -> None:
    """The uSIDs of one EV are those of another, but that each has the other's plane in it, and the spine's the other's
    uplink."""
    found = _by_ev(bench)
    first = min(found)
    for ev, path in sorted(found.items()):
        planes, uplinks = (ev >> 24) - (first >> 24), (ev & 0xFFFF) - (first & 0xFFFF)
        wanted = [usid + (planes << 8) if usid else 0 for usid in found[first]]
        wanted[1] += uplinks
        told, telling = (" ".join(f"{usid:x}" for usid in each) for each in (wanted, path))
        bench.check(path == wanted, f"uSIDs {told} for EV {ev:#010x}, after those of {first:#010x}", f"{telling}")


@case(
    "MRC-SRV6-06",
    mode="srv6",
    planes=4,
    options={"evs_per_plane": 4, "ev_fields": "8:0:0x03 8:0:0 16:0:0xFF:252:255"},
    look_at="which bits of an EV are the plane, and which the uplink",
)
def an_ev_is_plane_zero_uplink(bench: Bench) -> None:
    """Four planes with uplinks 252 to 255: the EV of each request is 0xpp0000uu, of the plane pp that it leaves on and
    the uplink uu that its spine's uSID names. All sixteen are used."""
    seen = set()
    for write in Sending(bench).carry(128):
        uplink = usids(outer_destination(bench, write))[1] & 0xFF
        wanted = write.plane << 24 | uplink
        bench.check(write.ev == wanted, f"EV {wanted:#010x}", f"it is {write.ev:#010x}: {write}")
        seen.add((write.plane, uplink))
    every = {(plane.number, uplink) for plane in bench.planes for uplink in range(252, 256)}
    bench.check(seen == every, "uplinks 252 to 255 of each plane", f"(plane, uplink) {sorted(seen)}")


@case(
    "MRC-SRV6-07",
    mode="srv6",
    planes=16,
    options={
        "evs_per_plane": 1,
        "ev_fields": "8:0:0x0F 8:0:0 16:0x9C:0",
        "target_leaf": 0x2A,
        "tester_leaf": 0xF0,
        "tester_host": 0x7B,
    },
    look_at="the nibbles of each uSID: kind, plane, number; a host's is 0x4000 + p * 256 + h",
)
def a_usid_tells_kind_plane_and_number(bench: Bench) -> None:
    """From leaf 0x2a by spine 0x9c to host 0x7b on leaf 0xf0, in sixteen planes: in plane 11, say, 1b2a, 2b9c, 1bf0,
    4b7b."""
    planes = set()
    for write in Sending(bench).carry(64):
        p = f"{write.plane:x}"
        expect_destination(bench, write, f"5f00:0:1{p}2a:2{p}9c:1{p}f0:4{p}7b::")
        planes.add(write.plane)
    bench.check(len(planes) == 16, "requests in 16 planes", f"in {len(planes)}")


@case(
    "MRC-SRV6-08",
    planes=2,
    plane_evs=4,
    mode="srv6",
    options={"target_leaf": 0, "tester_leaf": 1, "tester_host": 1},
    look_at="the order in the destination: block, source leaf, spine, destination leaf, host port, zeros",
)
def the_example_of_the_page(bench: Bench) -> None:
    """From leaf 0 to host 1 on leaf 1: on plane 1 and uplink 3 the destination is 5f00:0:1100:2103:1101:4101::, and on
    the others likewise."""
    seen = set()
    for write in Sending(bench).carry(64):
        plane, uplink = f"{write.plane:x}", f"{write.ev & 0xFF:02x}"
        expect_destination(bench, write, f"5f00:0:1{plane}00:2{plane}{uplink}:1{plane}01:4{plane}01::")
        seen.add(write.ev)
    bench.check(0x01000003 in seen, "a request on EV 0x01000003", ", ".join(f"{ev:#010x}" for ev in sorted(seen)))


@case("MRC-SRV6-08/every-kind", mode="srv6", own_timers=True, look_at="the outer destination of what is no request")
def every_packet_goes_that_way(bench: Bench) -> None:
    """From leaf 1 to host 0 on leaf 0: requests, probes, answers and endpoint operations go by 5f00:0:1p01:2puu:1p00:
    4p00::, p the plane they leave on and uu the uplink of their EV."""
    for packet in every_kind(bench):
        plane, uplink = f"{bench.plane(packet).number:x}", f"{packet.ev & 0xFF:02x}"
        expect_destination(bench, packet, f"5f00:0:1{plane}01:2{plane}{uplink}:1{plane}00:4{plane}00::")


@case(
    "MRC-SRV6-09",
    mode="srv6",
    options={"evs_per_plane": 1, "target_leaf": 5, "tester_leaf": 5},
    own_timers=True,
    look_at="the way to a host on the same leaf: no spine, and the leaf once",
)
def on_one_leaf_there_is_no_spine(bench: Bench) -> None:
    """Both on leaf 5: every packet of the target's goes by 5f00:0:1p05:4p00::, p the plane."""
    for packet in every_kind(bench):
        plane = f"{bench.plane(packet).number:x}"
        expect_destination(bench, packet, f"5f00:0:1{plane}05:4{plane}00::")


@case(
    "MRC-SRV6-10",
    mode="srv6",
    planes=16,
    options={
        "evs_per_plane": 1,
        "ev_fields": "8:0:0x0F 8:0:0 16:255:0",
        "target_leaf": 255,
        "tester_leaf": 254,
        "tester_host": 255,
    },
    look_at="the highest numbers of planes, leaves, spines and hosts",
)
def the_highest_numbers_are_taken(bench: Bench) -> None:
    """Leaves 255 and 254, spine 255, host 255, sixteen planes: requests go by 5f00:0:1fff:2fff:1ffe:4fff:: in plane 15,
    and so on."""
    seen = set()
    for write in Sending(bench).carry(64):
        p = f"{write.plane:x}"
        expect_destination(bench, write, f"5f00:0:1{p}ff:2{p}ff:1{p}fe:4{p}ff::")
        seen.add(write.plane)
    bench.check(len(seen) == 16, "requests in 16 planes", f"in {len(seen)}")


@case("MRC-SRV6-10/beyond", mode="srv6", look_at="which numbers too high for the uSIDs are taken nonetheless")
def what_lies_beyond_is_refused(bench: Bench) -> None:
    """Plane 16, leaf 256 on either side, host 256 and spine 256 are each refused."""
    expect_taken(bench, planes=16, target_leaf=255, tester_leaf=255, tester_host=255, evs_per_plane=1)
    expect_refused(bench, "17 planes", planes=17)
    expect_refused(bench, "a leaf 256 of the target", target_leaf=256)
    expect_refused(bench, "a leaf 256 of the tester", tester_leaf=256)
    expect_refused(bench, "a host 256", tester_host=256)
    spine = "8:0:0x01 8:0:0 16:{}:0"
    expect_taken(bench, evs_per_plane=1, ev_fields=spine.format(255))
    expect_refused(bench, "a spine 256", evs_per_plane=1, ev_fields=spine.format(256))


@case(
    "MRC-SRV6-11",
    mode="srv6",
    options={"srh": 1},
    own_timers=True,
    look_at="the eight bytes of the SRH before its segment, the segment, and what the destination keeps",
)
def an_srh_lists_the_second_container(bench: Bench) -> None:
    """With SRH every packet has next header 43 and 24 bytes: next header 41, length 2, routing type 4, segments left 1,
    last entry 0, flags and tag 0, and the container 5f00:0:4p00::. The destination is 5f00:0:1p01:2puu:1p00::."""
    head = bytes((IPV6_IN_IPV6, 2, 4, 1, 0, 0, 0, 0))
    for packet in every_kind(bench):
        srh, p = packet.frame[IPV6 : IPV6 + SRH_LENGTH], f"{bench.plane(packet).number:x}"
        bench.check(packet.frame[6] == ROUTING, "next header 43", f"it is {packet.frame[6]}: {packet}")
        bench.check(srh[:8] == head, f"an SRH that begins {head.hex(' ')}", f"{srh[:8].hex(' ')}: {packet}")
        wanted = f"5f00:0:4{p}00::"
        segment = int.from_bytes(srh[8:], "big")
        right = segment == parsed_address(wanted)[1]
        bench.check(right, f"segment {wanted}", f"it is {address_text(segment)}: {packet}")
        expect_destination(bench, packet, f"5f00:0:1{p}01:2{p}{packet.ev & 0xFF:02x}:1{p}00::")
        inner = packet.frame[IPV6 + SRH_LENGTH :]
        whole = IPV6 + int.from_bytes(inner[4:6], "big")
        bench.check(len(inner) == whole, "the inner packet right behind", f"{len(inner)} bytes of {whole}: {packet}")


@case(
    "MRC-SRV6-11/one-leaf",
    mode="srv6",
    options={"srh": 1, "evs_per_plane": 1, "target_leaf": 5, "tester_leaf": 5},
    own_timers=True,
    look_at="the two containers between hosts on one leaf",
)
def an_srh_on_one_leaf(bench: Bench) -> None:
    """Both on leaf 5: the destination is 5f00:0:1p05::, the segment 5f00:0:4p00::."""
    for packet in every_kind(bench):
        p = f"{bench.plane(packet).number:x}"
        expect_destination(bench, packet, f"5f00:0:1{p}05::")
        wanted = parsed_address(f"5f00:0:4{p}00::")[1]
        bench.check(packet.segments == (wanted,), f"segment {address_text(wanted)}", f"{packet.segments}: {packet}")
