# SPDX-License-Identifier: BSD-2-Clause
"""What a packet consists of and what carries it (wire.md section 1)."""

from __future__ import annotations

from mrc.conformance.cases.wire.every_kind import every_kind
from mrc.conformance.script import Bench, Heard, case, pattern, us

BTH, METH, TSETH, RETH, IMMDT, ICRC, UDP = 12, 4, 4, 16, 4, 4, 8


def _expect_long_write(bench: Bench, tseth: int) -> None:
    """A write with immediate in three packets, the last of 5 bytes: each header in its place, each length right."""
    data = pattern(2 * bench.mtu + 5)
    bench.post_write(data, offset=512, immediate=0xC0FFEE42)
    at = 0
    for psn, (length, immdt) in enumerate(((bench.mtu, 0), (bench.mtu, 0), (5, IMMDT))):
        size = UDP + BTH + METH + tseth + RETH + immdt + length + -length % 4 + ICRC
        where = {"va": bench.tester.region_va + 512 + at, "rkey": bench.tester.rkey, "dmalen": len(data)}
        packet = bench.expect("WRITE", psn=psn, udp_len=size, payload=data[at : at + length], msn=0, rqmsn=0, **where)
        at += length
        if immdt:
            bench.check(packet.has("data"), "an ImmDt in the last packet", f"it is {packet}")
            bench.check(packet.data == 0xC0FFEE42, "immediate 0xc0ffee42", f"it is {packet.data:#x}")


@case("MRC-WIRE-01", options={"timestamps": 1}, look_at="the order of the headers, TSETH between METH and RETH")
def a_data_packet_has_its_headers_in_order(bench: Bench) -> None:
    """The target's write of three packets with immediate, with TSETH: every field and the payload in its place."""
    _expect_long_write(bench, TSETH)


@case("MRC-WIRE-01/no-tseth", options={"timestamps": 0}, look_at="the order of the headers where ts is 0")
def a_data_packet_without_tseth_has_its_headers_in_order(bench: Bench) -> None:
    """The target's write of three packets with immediate, without TSETH: every field and the payload in its place."""
    _expect_long_write(bench, 0)


@case(
    "MRC-WIRE-01/received",
    immediates=1,
    look_at="where the target looks for RETH, ImmDt and payload, with and without TSETH",
)
def data_packets_are_read_in_order(bench: Bench) -> None:
    """Writes with immediate, with and without TSETH, with every pad count: written, and the immediate told."""
    ids = bench.post_receives(8)
    for psn in range(8):
        payload, stamp = pattern(61 + psn % 4, psn), 0x5555 if psn >= 4 else None
        bench.request(psn, payload, offset=128 * psn, immediate=0xA0 + psn, rqmsn=psn, timestamp=stamp)
        bench.expect("ACK", psn=psn)
        bench.expect_memory(128 * psn, payload)
        bench.expect_completion("RECEIVE", wr_id=ids[psn], length=len(payload), immediate=0xA0 + psn)
    bench.expect_nothing_written()


@case("MRC-WIRE-02", own_timers=True, look_at="bytes between the last header and the ICRC of a control packet")
def control_packets_carry_no_payload(bench: Bench) -> None:
    """The target's SACKs, ACKs, NACKs, probes and responses end where their headers end."""
    lengths = {"SACK": 36, "ACK": 4, "NACK": 20, "PROBE": 16, "ENDPOINT_REQUEST": 16, "ENDPOINT_RESPONSE": 36}
    for packet in every_kind(bench):
        if packet.kind in lengths:
            found, wanted = packet.carriage.udp_length, UDP + BTH + lengths[packet.kind] + ICRC
            bench.check(found == wanted, f"a UDP length of {wanted} in a {packet.kind}", f"it is {found}: {packet}")


@case("MRC-WIRE-02/received", look_at="whether the length of a control packet is checked against its opcode")
def a_control_packet_with_payload_is_dropped(bench: Bench) -> None:
    """A SACK with four bytes too many acknowledges nothing and is counted; one without them completes the write."""
    write = bench.written(0, pattern(16))
    bench.mark_counters()
    bench.sack(0, to=write, payload=b"\0\0\0\0")
    bench.wait(us(10))
    bench.expect_no_completion()
    bench.expect_counted(1)
    bench.sack(0, to=write)
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=0)


def _check_outer(bench: Bench, packets: list[Heard], wanted: bool) -> None:
    what = "an outer IPv6 header" if wanted else "no outer IPv6 header"
    for packet in packets:
        bench.check((packet.carriage.outer is not None) == wanted, f"{what} in {bench.mode} mode", f"not so: {packet}")


@case(
    "MRC-WIRE-03",
    mode="srv6",
    own_timers=True,
    look_at="which packets leave without an outer header: control packets and probes too have one",
)
def in_srv6_mode_there_is_an_outer_header(bench: Bench) -> None:
    """In SRv6 mode every packet of the target's has an outer IPv6 header."""
    _check_outer(bench, every_kind(bench), wanted=True)


@case("MRC-WIRE-03/udp", mode="udp", own_timers=True, look_at="outer headers where the mode has none")
def in_udp_mode_there_is_no_outer_header(bench: Bench) -> None:
    """In UDP mode no packet of the target's has one."""
    _check_outer(bench, every_kind(bench), wanted=False)


@case("MRC-WIRE-03/stev", mode="stev", own_timers=True, look_at="outer headers where the mode has none")
def in_stev_mode_there_is_no_outer_header(bench: Bench) -> None:
    """In STEV mode no packet of the target's has one."""
    _check_outer(bench, every_kind(bench), wanted=False)


def _over_ipv4(bench: Bench) -> None:
    for packet in every_kind(bench):
        bench.check(packet.carriage.version == 4, "IPv4", f"version {packet.carriage.version}: {packet}")
    bench.request(1, pattern(77), ackreq=1)
    bench.expect("SACK", ack_psn=1, cack_psn=1)
    bench.expect_memory(0, pattern(77))


@case(
    "MRC-WIRE-04", mode="udp", ip=4, own_timers=True, look_at="IPv4 on receipt and in what is sent, its ICRC above all"
)
def udp_mode_works_over_ipv4(bench: Bench) -> None:
    """UDP mode over IPv4: what the target sends is right, and what it gets is written and acknowledged."""
    _over_ipv4(bench)


@case(
    "MRC-WIRE-04/stev",
    mode="stev",
    ip=4,
    own_timers=True,
    look_at="IPv4 on receipt and in what is sent, its ICRC above all",
)
def stev_mode_works_over_ipv4(bench: Bench) -> None:
    """STEV mode over IPv4: the same."""
    _over_ipv4(bench)


@case("MRC-WIRE-04/srv6", mode="srv6", own_timers=True, look_at="the inner header in SRv6 mode: IPv6 and nothing else")
def in_srv6_mode_there_is_no_ipv4(bench: Bench) -> None:
    """In SRv6 mode the inner header of every packet of the target's is IPv6."""
    for packet in every_kind(bench):
        bench.check(packet.carriage.version == 6, "IPv6 inside", f"version {packet.carriage.version}: {packet}")


@case("MRC-WIRE-05", own_timers=True, look_at="the UDP destination port of packets of every kind")
def packets_go_to_the_port_of_mrc(bench: Bench) -> None:
    """Every packet of the target's goes to UDP port 4791, or to the one the wire profile names."""
    for packet in every_kind(bench):
        found, wanted = packet.carriage.dport, bench.profile.udp_port
        bench.check(found == wanted, f"UDP destination port {wanted}", f"it is {found}: {packet}")


@case("MRC-WIRE-06", look_at="which UDP ports are listened to: both that texts print, and no other")
def packets_to_both_ports_are_taken(bench: Bench) -> None:
    """Requests to each accepted port are taken; to 4790, 4792, 7914 and 0 they are dropped and counted."""
    psn = 0
    for dport in bench.profile.accepted_udp_ports:
        bench.request(psn, ackreq=1, dport=dport)
        bench.expect("SACK", ack_psn=psn, cack_psn=psn)
        psn += 1
    bench.read()
    for dport in {4790, 4792, 7914, 0} - set(bench.profile.accepted_udp_ports):
        bench.expect_ignored(bench.make.request(psn, pattern(16), ackreq=1, dport=dport))
    bench.expect_goes_on(psn)


@case("MRC-WIRE-09", target_first_psn=0x010203, look_at="the byte order of whatever is not as it should be here")
def what_is_sent_is_big_endian(bench: Bench) -> None:
    """The target's first PSN is 0x010203; it writes 0x050607 bytes: PSN, DQP, VA, R_Key and DMALen of its first
    packet, byte by byte."""
    bench.post_write(pattern(0x050607), offset=0x01020304)
    packet = bench.expect("WRITE", psn=0)
    at = len(packet.frame) - ICRC - len(packet.padding) - packet.length
    va = bench.tester.region_va + 0x01020304
    reth = bytes(va >> 56 - 8 * byte & 0xFF for byte in range(8)) + bytes.fromhex("5eed000100050607")
    found = packet.frame[at - RETH : at]
    bench.check(found == reth, f"RETH {reth.hex(' ')}", f"it is {found.hex(' ')}")
    bth = packet.frame[packet.frame.index(found) - METH - BTH - TSETH * packet.ts :][:BTH]
    bench.check(bth[9:12] == bytes((1, 2, 3)), "PSN 01 02 03", f"it is {bth[9:12].hex(' ')}")
    qpn = bytes((bench.tester.qpn >> 16, bench.tester.qpn >> 8 & 0xFF, bench.tester.qpn & 0xFF))
    bench.check(bth[5:8] == qpn, f"DQP {qpn.hex(' ')}", f"it is {bth[5:8].hex(' ')}")


@case("MRC-WIRE-09/received", immediates=1, look_at="the byte order in which received fields are read")
def what_is_received_is_big_endian(bench: Bench) -> None:
    """A write with immediate to an offset of two different bytes, and the timestamp in its SACK, byte by byte."""
    (wr_id,) = bench.post_receives()
    bench.request(0, pattern(9), offset=0x0102, immediate=0x01020304, timestamp=0x0506, ackreq=1)
    sack = bench.expect("SACK", ack_psn=0)
    found = bytes(sack.frame[-4 - 8 : -4 - 6])
    bench.check(found == b"\x05\x06", "tx_timestamp 05 06", f"it is {found.hex(' ')}")
    bench.expect_memory(0x0102, pattern(9))
    bench.expect_completion("RECEIVE", wr_id=wr_id, immediate=0x01020304, length=9)
