# SPDX-License-Identifier: BSD-2-Clause
"""The headers of a request: METH, TSETH, RETH and ImmDt (wire.md section 4)."""

from __future__ import annotations

from mrc.conformance.cases.responder.sack_fields import expect_held
from mrc.conformance.script import SVC_TIME, TRIM_NACK, Bench, Heard, Unsupported, case, ms, pattern, wire

IMMEDIATE = 0xCAFEF00D
VA_OFFSET = 0x12345
METH_AT = 12
BEHIND_METH = 16
UNIT = 128  # ns, of a timestamp with tsr 0


def _behind_udp(packet: Heard) -> bytes:
    """From the BTH to the ICRC, found by nothing but the UDP length."""
    return packet.frame[len(packet.frame) - (packet.udp_len - 8) :]


def _expect_bytes(bench: Bench, packet: Heard, start: int, wanted: bytes, what: str) -> None:
    found = _behind_udp(packet)[start : start + len(wanted)]
    bench.check(found == wanted, f"{what} {wanted.hex(' ')} at byte {start}", f"it is {found.hex(' ')}: {packet}")


@case("MRC-REQ-01", look_at="the four bytes behind the BTH: RQMSN first, MSN second, 16 bits each")
def meth_is_rqmsn_and_msn(bench: Bench) -> None:
    """A plain write and two writes with immediate: the four bytes behind the BTH are RQMSN and MSN."""
    for number in range(3):
        bench.post_write(pattern(8), immediate=IMMEDIATE if number else None)
    for psn, meth in enumerate(("0000 0000", "0000 0001", "0001 0002")):
        _expect_bytes(bench, bench.expect("WRITE", psn=psn), METH_AT, bytes.fromhex(meth), "RQMSN and MSN")


@case("MRC-REQ-02", look_at="what the MSN counts: messages, not packets")
def msn_numbers_the_messages(bench: Bench) -> None:
    """Writes of three packets, one and two have MSN 0, 1 and 2 in each of their packets."""
    for packets in (3, 1, 2):
        bench.post_write(pattern(packets * bench.mtu))
    for psn, msn in enumerate((0, 0, 0, 1, 2, 2)):
        bench.expect("WRITE", psn=psn, msn=msn)


@case("MRC-REQ-02/again", agreed=[TRIM_NACK], look_at="whether a retransmission keeps the MSN of its message")
def msn_stays_in_a_retransmission(bench: Bench) -> None:
    """The second packet of the second message is NACKed: sent again it still has MSN 1."""
    for packets in (1, 3, 1):
        bench.post_write(pattern(packets * bench.mtu))
    writes = [bench.expect("WRITE", psn=psn) for psn in range(5)]
    bench.nack(writes[2], wire.TRIMMED)
    bench.expect("WRITE", psn=2, rtx=1, msn=1, rqmsn=0)


@case("MRC-REQ-03", look_at="what the RQMSN counts: writes with immediate, and nothing else")
def rqmsn_numbers_the_writes_with_immediate(bench: Bench) -> None:
    """Writes with immediate of two packets, one and three have RQMSN 0, 1 and 2 in each of their packets, whatever
    plain writes go between them."""
    wanted: list[int] = []
    for number, packets in enumerate((2, 1, 3)):
        bench.post_write(pattern(packets * bench.mtu), immediate=IMMEDIATE)
        bench.post_write(pattern(8))
        wanted += [number] * packets + [0]
    for psn, rqmsn in enumerate(wanted):
        bench.expect("WRITE", psn=psn, rqmsn=rqmsn)


@case("MRC-REQ-04", look_at="the RQMSN of a plain write behind one with immediate")
def rqmsn_is_zero_in_a_plain_write(bench: Bench) -> None:
    """Plain writes of one packet and of three behind three writes with immediate have RQMSN 0."""
    for _ in range(3):
        bench.post_write(pattern(8), immediate=IMMEDIATE)
    for packets in (1, 3):
        bench.post_write(pattern(packets * bench.mtu))
    for psn, msn in zip(range(3, 7), (3, 4, 4, 4), strict=True):
        bench.expect("WRITE", psn=psn, rqmsn=0, msn=msn)


@case("MRC-REQ-05", options={"timestamps": 1}, look_at="the four bytes behind the METH when ts is 1")
def tseth_is_timestamp_tsr_and_ftype(bench: Bench) -> None:
    """A request with a TSETH: its first two bytes are the timestamp, the other two tsr, eleven zeros and ftype 1."""
    packet = bench.written(0, pattern(8), ts=1, udp_len=8 + 12 + 4 + 4 + 16 + 8 + 4)
    tseth = packet.tx_timestamp.to_bytes(2, "big") + (packet.tsr << 15 | 1).to_bytes(2, "big")
    _expect_bytes(bench, packet, BEHIND_METH, tseth, "a TSETH of")


@case("MRC-REQ-05/received", look_at="where the timestamp of a request is taken from")
def a_tseth_is_read(bench: Bench) -> None:
    """A request with a TSETH whose reserved bits are all ones: its timestamp is reflected, its payload is written."""
    bench.request(0, pattern(40), ackreq=1, timestamp=0xA55A, tseth_reserved=0x7FF)
    bench.expect("SACK", ack_psn=0, tx_timestamp=0xA55A)
    bench.expect_memory(0, pattern(40))


def _units_apart(bench: Bench, apart: int) -> tuple[int, int]:
    """What the timestamps of two writes, sent so long after one another, are apart, and what they should be."""
    found = []
    for psn in range(2):
        write = bench.written(psn, pattern(8))
        if write.tsr:
            raise Unsupported("the target's timestamps have tsr 1")
        found.append(write)
        bench.sack(psn, to=write)
        bench.wait_until(write.at + apart)
    first, second = found
    return second.tx_timestamp - first.tx_timestamp & 0xFFFF, (second.at - first.at) // UNIT


@case("MRC-REQ-06", options={"timestamps": 1}, look_at="the unit of the timestamp: 128 ns")
def timestamps_count_128_ns(bench: Bench) -> None:
    """Two writes 8 ms apart: their timestamps are 62500 apart, one more or less for rounding."""
    found, units = _units_apart(bench, ms(8))
    some = 1 + bench.stamp_slack // UNIT
    late = (found - units + 0x8000 & 0xFFFF) - 0x8000
    bench.check(abs(late) <= some, f"timestamps {units} apart", f"they are {found} apart")


@case("MRC-REQ-06/wrap", options={"timestamps": 1}, look_at="what is left of a time of more than 8.4 ms in 16 bits")
def timestamps_wrap(bench: Bench) -> None:
    """Two writes 9 ms apart, 70312 units: the timestamps are 70312 - 65536 = 4776 apart."""
    found, units = _units_apart(bench, ms(9))
    some = 1 + bench.stamp_slack // UNIT
    late = (found - units + 0x8000 & 0xFFFF) - 0x8000
    bench.check(abs(late) <= some, f"timestamps {units % 65536} apart", f"they are {found} apart")


@case("MRC-REQ-07", agreed=[SVC_TIME], look_at="the unit of tsr 1: that of the profile (tsr1_unit_ns)")
def the_unit_of_tsr_1_is_the_profiles(bench: Bench) -> None:
    """A request with tsr 1 is held for 1 ms: its timestamp comes back 1000 units of 1 us later, and wraps."""
    bench.ask(lambda: bench.network.session.hold(ms(1)))
    for psn, timestamp in enumerate((0x0100, 0xFFF0)):
        sent_at = bench.now
        bench.request(psn, ackreq=1, timestamp=timestamp, tsr=1)
        sack = bench.expect("SACK", ack_psn=psn, within=ms(2))
        expect_held(bench, sack, timestamp, ms(1), sent_at, bench.profile.tsr1_unit_ns)


@case("MRC-REQ-08", options={"timestamps": 0}, look_at="the sixteen bytes behind the METH: VA, R_Key, DMALen")
def reth_is_va_rkey_and_dmalen(bench: Bench) -> None:
    """A write of three packets without TSETH: each of them has a RETH of sixteen bytes behind its METH."""
    length = 2 * bench.mtu + 5
    bench.post_write(pattern(length), offset=VA_OFFSET)
    for psn in range(3):
        packet = bench.expect("WRITE", psn=psn, ts=0)
        va = bench.tester.region_va + VA_OFFSET + psn * bench.mtu
        reth = va.to_bytes(8, "big") + bench.tester.rkey.to_bytes(4, "big") + length.to_bytes(4, "big")
        _expect_bytes(bench, packet, BEHIND_METH, reth, "a RETH of")
        padded = packet.length + -packet.length % 4
        behind = packet.udp_len - 8 - (12 + 4 + 16 + 4)
        bench.check(behind == padded, f"{padded} bytes of payload and padding", f"there are {behind}: {packet}")


@case("MRC-REQ-09", look_at="the VA of the second packet on: the first one's is for the first alone")
def va_advances_by_one_path_mtu(bench: Bench) -> None:
    """The packets of a write of four and a half path MTUs have VAs one path MTU apart, whatever address it is for."""
    bench.post_write(pattern(4 * bench.mtu + bench.mtu // 2), offset=VA_OFFSET)
    for psn in range(5):
        bench.expect("WRITE", psn=psn, va=bench.tester.region_va + VA_OFFSET + psn * bench.mtu)


@case("MRC-REQ-09/again", agreed=[TRIM_NACK], look_at="the VA of a retransmission: that of its first transmission")
def va_stays_in_a_retransmission(bench: Bench) -> None:
    """The third packet of a write is NACKed: it is sent again with the VA and the payload it had."""
    bench.post_write(pattern(4 * bench.mtu), offset=VA_OFFSET)
    writes = [bench.expect("WRITE", psn=psn) for psn in range(4)]
    bench.nack(writes[2], wire.TRIMMED)
    bench.expect("WRITE", psn=2, rtx=1, va=writes[2].va, payload=writes[2].payload, dmalen=4 * bench.mtu)


@case("MRC-REQ-10", look_at="whether DMALen is the message's length or what is left of it")
def dmalen_is_the_messages_length(bench: Bench) -> None:
    """Each packet of a write of four packets, of one, and of none but headers has the length of its whole message."""
    for length in (3 * bench.mtu + 17, 9, 0):
        bench.post_write(pattern(length))
    for psn, length in enumerate([3 * bench.mtu + 17] * 4 + [9, 0]):
        bench.expect("WRITE", psn=psn, dmalen=length)


@case(
    "MRC-REQ-11", region=65536, look_at="whether a packet is placed as it comes, by its own VA, or waits for its First"
)
def each_packet_is_placed_from_itself(bench: Bench) -> None:
    """The packets of a message of five come last first, 1 ms apart: each is in memory before the next one comes."""
    bench.needs_memory()
    payload = pattern(4 * bench.mtu + 9)
    packets = bench.make.message(0, payload, offset=512)
    for number in reversed(range(5)):
        bench.send(packets[number])
        bench.wait(ms(1))
        at = number * bench.mtu
        bench.expect_memory(512 + at, payload[at : at + bench.mtu])
        bench.expect_nothing_written()
    bench.expect("ACK", psn=4, msn=1)


@case("MRC-REQ-11/mixed", region=65536, look_at="what a packet is placed by, when those of two messages come mixed")
def packets_of_two_messages_mixed_are_placed(bench: Bench) -> None:
    """Two messages of three packets come in one burst, mixed and out of order: both are where they belong."""
    first, second = pattern(3 * bench.mtu, 1), pattern(3 * bench.mtu, 2)
    packets = [*bench.make.message(0, first), *bench.make.message(3, second, offset=16384, msn=1)]
    bench.send(*(packets[number] for number in (4, 1, 5, 0, 3, 2)))
    bench.expect("ACK", psn=5, msn=2)
    bench.expect_memory(0, first)
    bench.expect_memory(16384, second)


@case("MRC-REQ-12", options={"timestamps": 1}, look_at="where ImmDt stands, and which opcodes have one")
def immdt_stands_behind_the_reth_of_the_last_packet(bench: Bench) -> None:
    """Writes with immediate of two packets and of one: 0xc9 and 0xcb have the immediate behind the RETH, before the
    payload, 0xc6 does not. Neither does a plain write."""
    payload = pattern(bench.mtu + 12)
    bench.post_write(payload, immediate=IMMEDIATE)
    bench.post_write(pattern(12), immediate=IMMEDIATE ^ 0xFF)
    bench.post_write(pattern(12))
    reth_ends = 12 + 4 + 4 + 16
    immediates = {1: IMMEDIATE, 2: IMMEDIATE ^ 0xFF}
    for psn, wanted in enumerate((payload[: bench.mtu], payload[bench.mtu :], pattern(12), pattern(12))):
        packet = bench.expect("WRITE", psn=psn, ts=1)
        immdt = immediates[psn].to_bytes(4, "big") if psn in immediates else b""
        _expect_bytes(bench, packet, reth_ends, immdt + wanted, "ImmDt, if any, and payload")
        length = packet.udp_len - 8 - reth_ends - 4
        bench.check(
            length == len(immdt + wanted), f"{len(immdt + wanted)} bytes behind the RETH", f"there are {length}"
        )


def _expect_lengths(bench: Bench, *lengths: int) -> None:
    for psn, length in enumerate(lengths):
        bench.expect("WRITE", psn=psn, length=length)


def _path_mtu_holds(bench: Bench, mtu: int) -> None:
    """The target cuts its writes by this path MTU, and takes messages that are cut so."""
    payload = pattern(2 * mtu + 1)
    bench.post_write(payload)
    _expect_lengths(bench, mtu, mtu, 1)
    bench.message(0, payload)
    bench.expect("ACK", psn=2, msn=1)
    bench.expect_memory(0, payload)


@case("MRC-REQ-13", path_mtu=256, look_at="whether a path MTU of 256 can be had, both ways")
def path_mtu_256(bench: Bench) -> None:
    """With a path MTU of 256 bytes writes are cut by it, both ways."""
    _path_mtu_holds(bench, 256)


@case("MRC-REQ-13/512", path_mtu=512, look_at="whether a path MTU of 512 can be had, both ways")
def path_mtu_512(bench: Bench) -> None:
    """With a path MTU of 512 bytes writes are cut by it, both ways."""
    _path_mtu_holds(bench, 512)


@case("MRC-REQ-13/1024", path_mtu=1024, look_at="whether a path MTU of 1024 can be had, both ways")
def path_mtu_1024(bench: Bench) -> None:
    """With a path MTU of 1024 bytes writes are cut by it, both ways."""
    _path_mtu_holds(bench, 1024)


@case("MRC-REQ-13/2048", region=65536, path_mtu=2048, look_at="whether a path MTU of 2048 can be had, both ways")
def path_mtu_2048(bench: Bench) -> None:
    """With a path MTU of 2048 bytes writes are cut by it, both ways."""
    _path_mtu_holds(bench, 2048)


@case("MRC-REQ-13/4096", region=65536, path_mtu=4096, look_at="whether a path MTU of 4096 can be had, both ways")
def path_mtu_4096(bench: Bench) -> None:
    """With a path MTU of 4096 bytes writes are cut by it, both ways."""
    _path_mtu_holds(bench, 4096)


@case("MRC-REQ-14", look_at="how long the packets before the last one are")
def first_and_middle_are_one_path_mtu_long(bench: Bench) -> None:
    """A write of four path MTUs and 3 bytes: First and Middles carry one path MTU each, without padding."""
    bench.post_write(pattern(4 * bench.mtu + 3))
    for psn in range(4):
        bench.expect("WRITE", psn=psn, length=bench.mtu, pad=0, opcode=wire.MIDDLE if psn else wire.FIRST)


@case("MRC-REQ-15", look_at="the last packet of a write of whole path MTUs, and the write of no bytes")
def last_and_only_carry_the_rest(bench: Bench) -> None:
    """A Last carries 1 byte after one path MTU, and a path MTU after another; an Only 0 bytes, 1 byte, a path MTU."""
    mtu = bench.mtu
    for length in (mtu + 1, 2 * mtu, 0, 1, mtu):
        bench.post_write(pattern(length))
    wanted = ((wire.FIRST, mtu), (wire.LAST, 1), (wire.FIRST, mtu), (wire.LAST, mtu), (wire.ONLY, 0), (wire.ONLY, 1))
    for psn, (opcode, length) in enumerate((*wanted, (wire.ONLY, mtu))):
        bench.expect("WRITE", psn=psn, opcode=opcode, length=length)


@case("MRC-REQ-15/received", region=65536, look_at="whether the shortest and the longest Last and Only are taken")
def every_length_of_last_and_only_is_taken(bench: Bench) -> None:
    """Messages that end in a Last of 1 byte and of a path MTU, and Onlys of 0 bytes, 1 byte and a path MTU, are all
    acknowledged and written."""
    mtu, psn = bench.mtu, 0
    for msn, length in enumerate((mtu + 1, 2 * mtu, 0, 1, mtu)):
        psn += len(bench.message(psn, pattern(length, msn), msn=msn, offset=msn * 4 * mtu))
        bench.expect("ACK", psn=psn - 1, msn=msn + 1)
        bench.expect_memory(msn * 4 * mtu, pattern(length, msn))
