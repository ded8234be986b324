# SPDX-License-Identifier: BSD-2-Clause
"""Where a packet carries its EV (wire.md section 10)."""

from __future__ import annotations

from mrc.conformance.cases.paths.sending import Sending
from mrc.conformance.cases.wire.entropy_setups import expect_refused, expect_taken
from mrc.conformance.script import Bench, Heard, case

LOW_IN_PORT, HIGH_IN_PORT = {"ev_low_half_in_source_port": True}, {"ev_low_half_in_source_port": False}
ONE_EV = {"evs_per_plane": 1, "ev_fields": "32:0x89ABCDE1:0"}
ALL_ONES = 0xFFFFFFFF
PACKETS = 64


def evs_sent(bench: Bench, packets: int = PACKETS) -> set[int]:
    """The EVs of so many requests of the target's."""
    return {write.ev for write in Sending(bench).carry(packets)}


@case("MRC-EV-01", ip=6, look_at="which bits of source port and flow label make the EV that a SACK names")
def an_ev_of_32_bits_is_read_from_two_fields(bench: Bench) -> None:
    """Requests on 32 EVs, each with another bit 0, half of the EV in the source port and half in the low 16 bits of the
    flow label, whose other four bits are set: each SACK names the EV of its request."""
    for bit in range(32):
        ev = ALL_ONES ^ 1 << bit
        packet = bench.make.request(bit, ev=ev, ackreq=1)
        bench.send(packet.but(fl=packet.carriage.flow_label | 0xF0000))
        bench.expect("SACK", ack_psn=bit, entropy=ev)


@case(
    "MRC-EV-01/sent",
    target_evs=8,
    mode="stev",
    ip=6,
    options={"ev_fields": "16:0x8928:0x0003 16:0xD1E0:0x0001"},
    look_at="which half of an EV lacks in the packets that are sent on it",
)
def an_ev_of_32_bits_is_sent_in_two_fields(bench: Bench) -> None:
    """The profile has eight EVs, 0x8928 to 0x892b above 0xd1e0 and 0xd1e1: requests carry these, and all eight."""
    wanted = {high << 16 | low for high in range(0x8928, 0x892C) for low in (0xD1E0, 0xD1E1)}
    expect_evs(bench, wanted)


def expect_evs(bench: Bench, wanted: set[int]) -> None:
    """See that the target's requests go by these EVs, and by all of them."""
    found = evs_sent(bench)
    told = ", ".join(f"{ev:#x}" for ev in sorted(wanted))
    bench.check(found == wanted, f"EVs {told}", ", ".join(f"{ev:#x}" for ev in sorted(found)))


def _expect_halves(bench: Bench, sport: int, label: int) -> None:
    """EV 0x89abcde1, as the target sends it and as it reads it."""
    write: Heard = bench.written(0, b"\1")
    found = write.carriage.sport, write.carriage.flow_label & 0xFFFF
    wanted = f"source port {sport:#x}, flow label {label:#x}"
    bench.check(found == (sport, label), wanted, f"source port {found[0]:#x}, flow label {found[1]:#x}")
    bench.request(0, sport=sport, fl=label, ackreq=1)
    bench.expect("SACK", ack_psn=0, entropy=0x89ABCDE1)


@case(
    "MRC-EV-02",
    mode="stev",
    ip=6,
    planes=1,
    options=ONE_EV,
    wire=LOW_IN_PORT,
    look_at="which half of the EV is in the source port: the low one",
)
def the_low_half_is_in_the_source_port(bench: Bench) -> None:
    """EV 0x89abcde1 is source port 0xcde1 and flow label 0x89ab, in a request of the target's and in one to it."""
    _expect_halves(bench, 0xCDE1, 0x89AB)


@case(
    "MRC-EV-02/turned-around",
    mode="stev",
    ip=6,
    planes=1,
    options=ONE_EV,
    wire=HIGH_IN_PORT,
    look_at="whether the switch that turns the halves around is followed, in what is sent and what is received",
)
def a_switch_puts_the_high_half_there(bench: Bench) -> None:
    """With the switch ev_low_half_in_source_port off the same EV is source port 0x89ab and flow label 0xcde1."""
    _expect_halves(bench, 0x89AB, 0xCDE1)


def _expect_low_half_alone(bench: Bench) -> None:
    for psn, sport in enumerate((0xC001, 0x8000, 0xFFFE, 0x0A25)):
        bench.request(psn, sport=sport, ackreq=1)
        bench.expect("SACK", ack_psn=psn, entropy=sport)
    far = 4 + bench.window
    bench.request(far, sport=0xC123)
    bench.expect("NACK", nack_psn=far, entropy=0xC123)
    bench.probe(9, sport=0xC124)
    bench.expect("SACK", probe_id=9, entropy=0xC124)


@case(
    "MRC-EV-03", mode="udp", ip=4, wire=LOW_IN_PORT, look_at="the high 16 bits of entropy over IPv4, which has no label"
)
def over_ipv4_the_missing_half_is_zero(bench: Bench) -> None:
    """Over IPv4 the source port is the low half of entropy and the high half is 0: in SACKs for requests and probes and
    in a NACK."""
    _expect_low_half_alone(bench)


@case(
    "MRC-EV-03/stev", mode="stev", ip=4, wire=LOW_IN_PORT, look_at="the high 16 bits of entropy over IPv4 in STEV mode"
)
def over_ipv4_the_missing_half_is_zero_in_stev_mode(bench: Bench) -> None:
    """In STEV mode over IPv4 the source port is the low half of entropy and the high half is 0."""
    _expect_low_half_alone(bench)


@case("MRC-EV-04", mode="srv6", look_at="from which of the two IP headers a responder takes the flow label")
def the_inner_packet_tells_the_ev(bench: Bench) -> None:
    """Eight requests whose outer flow label is another one than the inner: the SACK names the EV of the inner
    packet."""
    evs = [ev for plane in bench.planes for ev in plane.evs]
    for psn, ev in enumerate([*evs, 0x89ABCDE1, 0x7654C321]):
        bench.request(psn, ev=ev, outer_fl=0x5A5A + psn, ackreq=1)
        bench.expect("SACK", ack_psn=psn, entropy=ev)


@case("MRC-EV-04/sent", mode="srv6", look_at="source port and flow label of the inner packets that are sent")
def every_request_has_its_ev_inside(bench: Bench) -> None:
    """Source port and flow label of the target's inner packets make an EV of its profile, one of the plane that the
    packet takes; each EV of the profile is seen."""
    writes = Sending(bench).carry(PACKETS)
    for plane in bench.planes:
        found = {write.ev for write in writes if write.plane == plane.number}
        told = ", ".join(f"{ev:#x}" for ev in sorted(found))
        bench.check(found == set(plane.target_evs), f"the EVs of plane {plane.number} in its packets", told)


@case(
    "MRC-EV-05",
    target_evs=8,
    mode="udp",
    options={"ev_fields": "16:0xD0A0:0x0007"},
    look_at="the UDP source port of what is sent in UDP mode",
)
def in_udp_mode_the_source_port_is_the_ev(bench: Bench) -> None:
    """The profile has EVs 0xd0a0 to 0xd0a7: these are the source ports of the target's requests, all eight."""
    found = {write.carriage.sport for write in Sending(bench).carry(PACKETS)}
    told = ", ".join(f"{port:#x}" for port in sorted(found))
    bench.check(found == set(range(0xD0A0, 0xD0A8)), "source ports 0xd0a0 to 0xd0a7", told)
    bench.request(0, sport=0xD123, fl=0, ackreq=1)
    bench.expect("SACK", ack_psn=0, entropy=_of_sixteen(bench, 0xD123))


def _of_sixteen(bench: Bench, value: int) -> int:
    """The EV of a packet that has these bits in its source port and none in its flow label."""
    return value if bench.profile.ev_low_half_in_source_port else value << 16


@case(
    "MRC-EV-06",
    target_evs=8,
    mode="stev",
    ip=6,
    options={"ev_widths": "8 8 16", "ev_fields": "8:0x30:0x07 8:0xA5:0 16:0x1234:0"},
    look_at="the order of the fields in a structured EV: the first hop is on top",
)
def the_first_hop_is_on_top(bench: Bench) -> None:
    """Tiers of 8, 8 and 16 bits: 0x30 to 0x37 for the first hop, 0xa5, 0x1234. The EVs are 0x30a51234 to 0x37a51234."""
    expect_evs(bench, {0x30A51234 + (hop << 24) for hop in range(8)})


@case(
    "MRC-EV-07",
    target_evs=8,
    mode="stev",
    ip=4,
    options={"ev_widths": "4 12", "ev_fields": "4:0x8:0x7 12:0xA25:0"},
    look_at="where the bits of a structured EV go over IPv4",
)
def over_ipv4_a_structure_has_sixteen_bits(bench: Bench) -> None:
    """Tiers of 4 and 12 bits: 8 to 15 for the first hop, 0xa25. The source ports are 0x8a25 to 0xfa25."""
    found = {write.carriage.sport for write in Sending(bench).carry(PACKETS)}
    told = ", ".join(f"{port:#x}" for port in sorted(found))
    bench.check(found == {0x0A25 + (hop << 12) for hop in range(8, 16)}, "source ports 0x8a25 to 0xfa25", told)


@case("MRC-EV-07/limit", mode="stev", ip=4, look_at="whether structures of more than 16 bits are taken over IPv4")
def over_ipv4_a_longer_structure_is_refused(bench: Bench) -> None:
    """Over IPv4 a profile of 16 bits is taken, one of 17 that uses all of them is refused."""
    expect_taken(bench, ev_widths="4 12", ev_fields="4:0:0xF 12:0:0xFFF")
    expect_refused(bench, "EVs of 17 bits", ev_widths="4 13", ev_fields="4:0x8:0x7 13:0:0x1FFF")


def _stacks(bench: Bench) -> dict[int, set[tuple[int, ...]]]:
    """By EV the outer destinations and SRH segments of the requests that went on it."""
    bench.needs_outer_as_sent()
    found: dict[int, set[tuple[int, ...]]] = {}
    for write in Sending(bench).carry(2 * PACKETS):
        there = (write.outer_dst, *write.segments) if write.carriage.outer is not None else ()
        bench.check(bool(there), "an outer header", f"none: {write}")
        found.setdefault(write.ev, set()).add(there)
    return found


def _expect_a_stack_for_each_ev(bench: Bench, segments: int) -> None:
    stacks = _stacks(bench)
    for ev, each in stacks.items():
        bench.check(len(each) == 1, f"one uSID stack for EV {ev:#010x}", f"there are {len(each)}")
        found = len(next(iter(each))) - 1
        bench.check(found == segments, f"{segments} segments in an SRH", f"there are {found}")
    different = {next(iter(each)) for each in stacks.values()}
    bench.check(len(different) == len(stacks), f"{len(stacks)} stacks for as many EVs", f"there are {len(different)}")
    wanted = sum(len(plane.target_evs) for plane in bench.planes)
    bench.check(len(stacks) == wanted, f"requests on all {wanted} EVs", f"on {len(stacks)}")


@case("MRC-EV-08", mode="srv6", look_at="whether the EV of a packet, and nothing else, chooses its outer destination")
def an_ev_chooses_a_usid_stack(bench: Bench) -> None:
    """Over 128 requests each EV has one outer destination, always the same, and no two EVs have the same; there is no
    SRH."""
    _expect_a_stack_for_each_ev(bench, 0)


@case("MRC-EV-08/srh", mode="srv6", options={"srh": 1}, look_at="how many segments the SRH lists, and for which EVs")
def an_ev_chooses_a_usid_stack_and_a_segment(bench: Bench) -> None:
    """Over 128 requests each EV has one outer destination and one segment in the segment routing header, always the
    same, and no two EVs have both alike."""
    _expect_a_stack_for_each_ev(bench, 1)
