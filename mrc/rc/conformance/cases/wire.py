# SPDX-License-Identifier: BSD-2-Clause
"""How packets of RC look, and which ones are none."""

from __future__ import annotations

from mrc.rc.conformance.script import RcBench, ms, pattern, rc_case, wire


@rc_case("RC-WIRE-01", look_at="the opcode of each packet by its place in the message")
def opcodes_by_place(bench: RcBench) -> None:
    """Messages of 0 bytes, 1 byte and exactly one path MTU are one Only each; one more byte makes a First and a Last;
    four path MTUs a First, two Middles and a Last."""
    for number, size in enumerate((0, 1, bench.mtu)):
        bench.written(number, pattern(size), opcode=wire.RC_ONLY, length=size)
    bench.written(3, pattern(bench.mtu + 1), opcode=wire.RC_FIRST)
    bench.expect("WRITE", psn=4, opcode=wire.RC_LAST)
    bench.post_write(pattern(4 * bench.mtu))
    for psn, opcode in enumerate((wire.RC_FIRST, wire.RC_MIDDLE, wire.RC_MIDDLE, wire.RC_LAST), 5):
        bench.expect("WRITE", psn=psn, opcode=opcode)


@rc_case("RC-WIRE-02", look_at="which packet of a message has the immediate, and where in it: behind the RETH, if any")
def immediates_by_place(bench: RcBench) -> None:
    """A write with immediate of 5 bytes is an Only with Immediate; one of two path MTUs a First without and a Last with
    it."""
    bench.written(
        0,
        pattern(5),
        immediate=0xDEADBEEF,
        opcode=wire.RC_ONLY_IMMEDIATE,
        data=0xDEADBEEF,
        payload=pattern(5),
        dmalen=5,
    )
    bench.written(1, pattern(2 * bench.mtu), immediate=7, opcode=wire.RC_FIRST, length=bench.mtu)
    bench.expect("WRITE", psn=2, opcode=wire.RC_LAST_IMMEDIATE, data=7, payload=pattern(2 * bench.mtu)[bench.mtu :])


@rc_case("RC-WIRE-03", look_at="the RETH: it is the message's, not the packet's")
def reth_of_the_message(bench: RcBench) -> None:
    """Of a message of 2.5 path MTUs the First names its VA, R_Key and whole length; Middle and Last carry payload right
    behind the BTH."""
    data = pattern(2 * bench.mtu + bench.mtu // 2)
    bench.post_write(data, offset=0x321)
    va, rkey, mtu = bench.tester.region_va + 0x321, bench.tester.rkey, bench.mtu
    bench.expect("WRITE", psn=0, va=va, rkey=rkey, dmalen=len(data), payload=data[:mtu])
    bench.expect("WRITE", psn=1, payload=data[mtu : 2 * mtu])
    bench.expect("WRITE", psn=2, payload=data[2 * mtu :])


@rc_case("RC-WIRE-04", path_mtu=256, look_at="where a message is cut")
def full_packets(bench: RcBench) -> None:
    """At a path MTU of 256, 700 bytes are cut into 256, 256 and 188."""
    bench.post_write(pattern(700))
    for psn, size in enumerate((256, 256, 188)):
        bench.expect("WRITE", psn=psn, length=size)


@rc_case("RC-WIRE-04/largest", path_mtu=4096, look_at="a path MTU of 4096")
def full_packets_of_4096(bench: RcBench) -> None:
    """At a path MTU of 4096, 8192 bytes are cut into two."""
    bench.post_write(pattern(8192))
    for psn in (0, 1):
        bench.expect("WRITE", psn=psn, length=4096)


@rc_case("RC-WIRE-05", look_at="the pad count in the BTH: the number of bytes between payload and ICRC")
def padding_is_sent(bench: RcBench) -> None:
    """Writes of 0 to 5 bytes are padded with 0, 3, 2, 1, 0 and 3 bytes."""
    for size in range(6):
        write = bench.written(size, pattern(size), payload=pattern(size), pad=-size % 4)
        bench.check(len(write.padding) == -size % 4, f"{-size % 4} bytes behind the payload", f"{len(write.padding)}")


@rc_case("RC-WIRE-05/received", look_at="whether the padding is written with the payload")
def padding_is_not_written(bench: RcBench) -> None:
    """Writes of 0 to 5 bytes, padded with bytes that are not 0: the payload is written and nothing beside it."""
    for size in range(6):
        bench.request(size, pattern(size), offset=100 * size, padding=b"\xee" * (-size % 4), ackreq=1)
        bench.expect("ACK", psn=size)
        bench.expect_memory(100 * size, pattern(size))
    bench.expect_nothing_written()


def _wrong_icrc_is_dropped(bench: RcBench) -> None:
    bench.mark_counters()
    right = bench.make.request(0, pattern(64), ackreq=1)
    for wrong in (right.right_icrc ^ 1, 0, int.from_bytes(right.right_icrc.to_bytes(4, "little"), "big")):
        bench.send(right.but(icrc=wrong))
    bench.send(right.on_the_way(payload=pattern(64, 2)), right.on_the_way(va=bench.target.region_va + 64))
    bench.expect_silence(ms(1))
    bench.expect_nothing_written()
    bench.send(right.on_the_way(hlim=2, ecn=3, chksum=0))
    bench.expect("ACK", psn=0)
    bench.expect_memory(0, pattern(64))
    bench.written(0, pattern(63), payload=pattern(63))


@rc_case("RC-WIRE-06", ip=6, look_at="the ICRC over IPv6: what it covers, its byte order, and what it masks")
def icrc_over_ipv6(bench: RcBench) -> None:
    """Over IPv6: wrong ICRCs are dropped; a packet whose hop limit and ECN changed on the way is not; the target's own
    ICRC is right."""
    _wrong_icrc_is_dropped(bench)


@rc_case("RC-WIRE-06/ipv4", ip=4, look_at="the ICRC over IPv4: TTL, ToS and header checksum are masked")
def icrc_over_ipv4(bench: RcBench) -> None:
    """Over IPv4: wrong ICRCs are dropped; a packet whose TTL and ECN changed on the way is not; the target's own ICRC
    is right."""
    _wrong_icrc_is_dropped(bench)


@rc_case("RC-WIRE-07", look_at="bytes 2 and 3 of the BTH")
def default_partition(bench: RcBench) -> None:
    """The target's write and its ACK carry P_Key 0xFFFF."""
    bench.written(0, pattern(8), pkey=0xFFFF)
    bench.request(0, ackreq=1)
    bench.expect("ACK", psn=0, pkey=0xFFFF)


@rc_case("RC-WIRE-08", look_at="how P_Keys are compared: 15 bits have to agree, and one of the two be a full member's")
def partitions(bench: RcBench) -> None:
    """P_Keys 0x1234, 0x9234 and 0xFFFE are other partitions'; 0x7FFF is a limited member of the own one."""
    for pkey in (0x1234, 0x9234, 0xFFFE):
        bench.request(0, pattern(16), pkey=pkey, ackreq=1)
    bench.expect_silence(ms(1))
    bench.expect_nothing_written()
    bench.request(0, pattern(16), pkey=0x7FFF, ackreq=1)
    bench.expect("ACK", psn=0)
    bench.expect_memory(0, pattern(16))


@rc_case("RC-WIRE-09", look_at="the lower four bits of byte 1 of the BTH")
def transport_version(bench: RcBench) -> None:
    """Each TVer but 0 is dropped; the target sends 0."""
    for tver in range(1, 16):
        bench.request(0, pattern(16), tver=tver, ackreq=1)
    bench.expect_silence(ms(1))
    bench.expect_goes_on(0)
    bench.written(0, b"", tver=0)


@rc_case("RC-WIRE-10", look_at="the UDP destination port")
def udp_port(bench: RcBench) -> None:
    """The target's packets go to RoCEv2's port; a request to the port beside it is not one."""
    bench.request(0, pattern(16), dport=bench.profile.udp_port + 1, ackreq=1)
    bench.expect_silence(ms(1))
    bench.expect_nothing_written()
    answer = bench.expect_works(0)
    bench.check(answer.dport == bench.profile.udp_port, f"an ACK to UDP port {bench.profile.udp_port}", f"{answer}")


@rc_case("RC-WIRE-11", look_at="what the UDP source port is taken from: the QP, and nothing that changes")
def one_path(bench: RcBench) -> None:
    """Fifty packets of five messages have one UDP source port and one flow label."""
    for _ in range(5):
        bench.post_write(pattern(10 * bench.mtu))
    found = [bench.expect("WRITE", psn=psn) for psn in range(50)]
    bench.check(len({write.ev for write in found}) == 1, "one source port and flow label", f"{found[0]}, {found[-1]}")


@rc_case("RC-WIRE-12", look_at="the reserved bits of the BTH that are sent")
def reserved_bits_are_sent_as_0(bench: RcBench) -> None:
    """Byte 4 and the bits beside AckReq are 0 in a write and in an ACK."""
    zeros = dict.fromkeys(("fecn", "becn", "bth_reserved", "reserved2", "rtx", "ts", "reserved3"), 0)
    bench.written(0, pattern(8), **zeros)
    bench.request(0, ackreq=1)
    bench.expect("ACK", psn=0, **zeros)


@rc_case("RC-WIRE-12/received", look_at="bits that are no part of what is looked at")
def reserved_bits_are_ignored(bench: RcBench) -> None:
    """Requests with solicited event, with the migration state, and with each reserved bit set are taken as usual."""
    for psn, bits in enumerate(
        ({"se": 1}, {"m": 1}, {"fecn": 1, "becn": 1, "reserved": 0x3F}, {"reserved2": 1, "rtx": 1, "ts": 1})
    ):
        bench.request(psn, pattern(16, psn), offset=16 * psn, ackreq=1, **bits)
        bench.expect("ACK", psn=psn)
        bench.expect_memory(16 * psn, pattern(16, psn))
    bench.request(4, reserved3=15, ackreq=1)
    bench.expect("ACK", psn=4)


@rc_case("RC-WIRE-13", look_at="opcodes: the upper three bits name the transport")
def other_transports(bench: RcBench) -> None:
    """Writes of UC and of MRC, a SEND of UD and an opcode that RC has not: no answer, nothing written."""
    request = bench.make.request(0, pattern(64), ackreq=1)
    for opcode in (0x2A, 0xCA, 0x64, 0x1F):
        bench.send(request.but(opcode=opcode))
    bench.expect_silence(ms(1))
    bench.expect_goes_on(0)


@rc_case("RC-WIRE-14", look_at="lengths: of IP, of UDP, and of what the opcode needs")
def lengths_that_contradict(bench: RcBench) -> None:
    """A UDP length of 4 too many and too few, packets broken off anywhere, a pad count without anything to be padded:
    no answer, nothing written."""
    request = bench.make.request(0, pattern(32), ackreq=1)
    size = len(request.frame())
    udp_length = size - (40 if request.carriage.version == 6 else 20)
    bench.send(request.but(udp_len=udp_length + 4), request.but(udp_len=udp_length - 4))
    for length in (0, 1, 39, 41, 47, 48, 59, 60, 75, size - 1):
        bench.send(request.broken_off(length))
    bench.send(bench.make.request(0, pad=3, ackreq=1))
    bench.expect_silence(ms(1))
    bench.expect_goes_on(0)


@rc_case("RC-WIRE-15", look_at="the layout of an ACK, and which QPN it goes to")
def acknowledge(bench: RcBench) -> None:
    """The ACK of a write is opcode 0x11 to the tester's QPN, with an AETH and without payload, padding and AckReq."""
    bench.request(0, pattern(3), ackreq=1)
    bench.expect("ACK", opcode=wire.RC_ACK, dqp=bench.tester.qpn, psn=0, msn=1, length=0, pad=0, ackreq=0)
