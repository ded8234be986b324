# SPDX-License-Identifier: BSD-2-Clause
"""The program at a link's sending end, run by the kernel on packets made by hand, without a link."""

from __future__ import annotations

import errno
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
from bpf_frames import (
    CE,
    CONTROL,
    ECT_0,
    ECT_1,
    FAST_CLASS,
    KINDS,
    NO_TRIM,
    NOT_ECT,
    ROUTING,
    TCP,
    TRIMMABLE,
    TRIMMABLE_RETX,
    TRIMMED,
    TRIMMED_LASTHOP,
    UDP,
    checksum,
    framed,
    ipv4,
    ipv6,
    packet,
    routing,
    send,
    settings,
    stand_still,
    udp,
)
from hypothesis import given
from hypothesis import strategies as st

from mrc.errors import SystemRefused
from mrc.fabric import Impairment
from mrc.lab.bpf import LinkCounters, LinkProgram, trial
from mrc.wire.profile import WireProfile
from mrc.wire.trimming import trim

pytestmark = pytest.mark.root

RATE = 100_000
# A queue that is above its first threshold once this is in it.
FILLER = packet("srv6", NO_TRIM, NOT_ECT, 2000)


@pytest.fixture
def program() -> Iterator[LinkProgram]:
    with LinkProgram.load() as loaded:
        yield loaded


def trimming(program: LinkProgram, *, last_hop: bool = False) -> None:
    """From the next packet on all is trimmed that may be."""
    stand_still(program, settings(last_hop, rate_bps=RATE, queue_bytes=100_000, trim_at_bytes=2000))
    assert send(program, FILLER).passed


def marking(program: LinkProgram, *, last_hop: bool = False) -> None:
    """From the next packet on all is marked that may be."""
    stand_still(program, settings(last_hop, rate_bps=RATE, queue_bytes=100_000, ecn_at_bytes=2000))
    assert send(program, FILLER).passed


def test_without_settings_everything_passes_as_it_is(program: LinkProgram) -> None:
    for kind in KINDS:
        done = send(program, packet(kind))
        assert (done.passed, done.frame, done.tc_class) == (True, framed(packet(kind)), 0)
    assert program.counters() == LinkCounters()
    assert program.impairment() == Impairment()


class TestTrimming:
    @pytest.mark.parametrize(("last_hop", "codepoint"), [(False, TRIMMED), (True, TRIMMED_LASTHOP)])
    @pytest.mark.parametrize("dscp", [TRIMMABLE, TRIMMABLE_RETX])
    def test_srv6_byte_by_byte(self, program: LinkProgram, dscp: int, last_hop: bool, codepoint: int) -> None:
        """MRC-TRIM-01, MRC-TRIM-03, MRC-ECN-08."""
        trimming(program, last_hop=last_hop)
        whole = packet("srv6", dscp)
        done = send(program, whole)
        # Outer IPv6 40, inner IPv6 40, UDP 8, BTH 12, METH and TSETH 8.
        kept = 40 + 40 + 8 + 12 + 8
        class_and_length = bytes(
            [0x60 | codepoint >> 2, (codepoint & 3) << 6 | ECT_0 << 4 | 0xA, 0xBC, 0xDE, 0, kept - 40]
        )
        assert done.passed
        assert done.frame == framed(class_and_length + whole[6:kept])
        assert program.counters().trimmed_packets == 1

    @pytest.mark.parametrize("last_hop", [False, True])
    @pytest.mark.parametrize("kind", KINDS)
    def test_every_stack_as_the_reference_trims_it(self, program: LinkProgram, kind: str, last_hop: bool) -> None:
        """MRC-TRIM-01, MRC-TRIM-03, MRC-ECN-08."""
        trimming(program, last_hop=last_hop)
        for whole in (packet(kind), packet(kind, TRIMMABLE_RETX, CE, 5)):
            assert send(program, whole).frame == framed(trim(whole, last_hop=last_hop))

    @pytest.mark.parametrize(("last_hop", "codepoint"), [(False, 48), (True, 50)])
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_configured_size_and_codepoint(
        self, program: LinkProgram, kind: str, last_hop: bool, codepoint: int
    ) -> None:
        """wire.md section 12: "cuts a packet to its configured size, rewrites the outermost DSCP".

        MRC-TRIM-01, MRC-TRIM-02, MRC-TRIM-03, MRC-TRIM-08, MRC-TRIM-09.
        """
        wire = WireProfile(dscp_trimmed=48, dscp_trimmed_lasthop=50)
        for size in (200, 256, 1010):
            wanted = settings(
                last_hop,
                rate_bps=RATE,
                queue_bytes=100_000,
                trim_at_bytes=2000,
                trim_to_bytes=size,
                trim_dscp=48,
                trim_dscp_lasthop=50,
            )
            stand_still(program, wanted)
            send(program, FILLER)
            before = program.counters().trimmed_packets
            whole = packet(kind)
            done = send(program, whole)
            assert done.frame == framed(trim(whole, wire, last_hop=last_hop, kept_bytes=size - 14))
            assert (len(done.frame), done.tc_class) == (size, FAST_CLASS)
            assert program.counters().trimmed_packets == before + 1
            # As long as what is kept, or shorter: uncut, with the codepoint, at high priority; not counted.
            for payload in (size - 14 - len(packet(kind, payload=0)), 0):
                small = packet(kind, payload=payload)
                done = send(program, small)
                assert done.frame == framed(trim(small, wire, last_hop=last_hop, kept_bytes=size - 14))
                assert (len(done.frame), done.tc_class) == (14 + len(small), FAST_CLASS)
            assert program.counters().trimmed_packets == before + 1
            # What another switch trimmed goes ahead too, whichever of the two codepoints that one gave.
            assert {send(program, packet(kind, dscp)).tc_class for dscp in (48, 50)} == {FAST_CLASS}
            assert send(program, packet(kind, TRIMMED)).tc_class == 0

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_size_that_ends_in_the_headers(self, program: LinkProgram, kind: str) -> None:
        """A switch knows nothing of what it cuts; the outermost length says what is left."""
        stand_still(program, settings(rate_bps=RATE, queue_bytes=100_000, trim_at_bytes=2000, trim_to_bytes=64))
        send(program, FILLER)
        done = send(program, packet(kind))
        assert (done.passed, len(done.frame)) == (True, 64)
        content = done.frame[14:]
        said = int.from_bytes(content[2:4], "big") if kind == "udp4" else 40 + int.from_bytes(content[4:6], "big")
        assert said == 50

    def test_lengths_in_udp_mode(self, program: LinkProgram) -> None:
        """MRC-TRIM-03. UDP 8, BTH 12, 8 bytes more."""
        trimming(program)
        over_6, over_4 = (send(program, packet(kind)).frame[14:] for kind in ("udp6", "udp4"))
        assert (len(over_6), over_6[4:6], over_6[44:46]) == (68, b"\0\x1c", b"\0\x1c")
        assert (len(over_4), over_4[2:4], over_4[24:26], over_4[1]) == (48, b"\0\x30", b"\0\x1c", TRIMMED << 2 | ECT_0)
        assert checksum(over_4[:20]) == 0

    def test_a_trimmed_packet_goes_with_priority(self, program: LinkProgram) -> None:
        """MRC-TRIM-02."""
        trimming(program)
        assert send(program, packet("srv6")).tc_class == FAST_CLASS
        assert send(program, packet("srv6", NO_TRIM)).tc_class == 0

    def test_what_is_short_already_only_gets_the_codepoint(self, program: LinkProgram) -> None:
        trimming(program)
        for length in (40 + 40 + 8 + 12, 40 + 40 + 8 + 12 + 7, 40 + 40 + 8 + 12 + 8):
            short = packet("srv6")[:length]
            short = short[:4] + (length - 40).to_bytes(2, "big") + short[6:]
            assert send(program, short).frame == framed(trim(short))

    @pytest.mark.parametrize(
        "content",
        [
            packet("srv6", NO_TRIM),
            packet("udp6", 5),
            ipv6(UDP, udp(1000, 4790), TRIMMABLE, ECT_0),
            ipv6(TCP, udp(1000), TRIMMABLE, ECT_0),
            ipv6(41, ipv6(TCP, udp(1000), TRIMMABLE, ECT_0), TRIMMABLE, ECT_0),
            ipv6(44, udp(1000), TRIMMABLE, ECT_0),
            ipv4(TCP, udp(1000), TRIMMABLE, ECT_0),
            ipv4(UDP, udp(1000), TRIMMABLE, ECT_0, fragment=0x2000),
            ipv4(UDP, udp(1000), TRIMMABLE, ECT_0, fragment=0x0010),
            packet("srv6")[: 40 + 40 + 8 + 11],
            packet("srv6")[:40],
        ],
        ids=[
            "no-trim",
            "other-dscp",
            "port",
            "tcp",
            "tcp-inside",
            "ipv6-fragment",
            "tcp4",
            "first",
            "rest",
            "bth",
            "bare",
        ],
    )
    def test_nothing_else_is_trimmed(self, program: LinkProgram, content: bytes) -> None:
        trimming(program)
        assert send(program, content).frame == framed(content)
        assert program.counters().trimmed_packets == 0

    @pytest.mark.parametrize("port", [4791, 4971])
    def test_both_ports_of_wire_md(self, program: LinkProgram, port: int) -> None:
        trimming(program)
        whole = ipv6(UDP, udp(1000, port), TRIMMABLE, ECT_0)
        assert send(program, whole).frame == framed(trim(whole))

    def test_a_segment_offloaded_packet_is_let_alone(self, program: LinkProgram) -> None:
        trimming(program)
        whole = packet("udp6")
        assert send(program, whole, segment_bytes=500).frame == framed(whole)

    def test_the_codepoints_are_switches(self, program: LinkProgram) -> None:
        """MRC-ECN-11."""
        wire = WireProfile(
            dscp_trimmable=10, dscp_trimmable_retx=11, dscp_trimmed=21, dscp_control=22, trim_keeps_after_bth=24
        )
        wanted = settings(rate_bps=RATE, queue_bytes=100_000, trim_at_bytes=2000)
        stand_still(program, replace(wanted, wire=wire))
        send(program, FILLER)
        for dscp in (10, 11):
            assert send(program, packet("srv6", dscp)).frame == framed(trim(packet("srv6", dscp), wire))
        for dscp in (TRIMMABLE, TRIMMABLE_RETX):
            assert send(program, packet("srv6", dscp)).frame == framed(packet("srv6", dscp))
        assert send(program, packet("srv6", 22)).tc_class == FAST_CLASS
        assert send(program, packet("srv6", CONTROL)).tc_class == 0


class TestMarking:
    @pytest.mark.parametrize("ecn", [ECT_0, ECT_1])
    @pytest.mark.parametrize("kind", KINDS)
    def test_ect_becomes_ce_and_nothing_else_changes(self, program: LinkProgram, kind: str, ecn: int) -> None:
        marking(program)
        done = send(program, packet(kind, ecn=ecn))
        # Only the outermost header changes; in srv6 modes the inner one keeps what it had.
        start = 20 if kind == "udp4" else 40
        expected = packet(kind, ecn=CE)[:start] + packet(kind, ecn=ecn)[start:]
        assert done.frame == framed(expected)
        assert done.tc_class == 0
        assert program.counters().marked_packets == 1

    @pytest.mark.parametrize("ecn", [NOT_ECT, CE])
    @pytest.mark.parametrize("kind", KINDS)
    def test_what_cannot_be_marked_or_is_already(self, program: LinkProgram, kind: str, ecn: int) -> None:
        marking(program)
        assert send(program, packet(kind, ecn=ecn)).frame == framed(packet(kind, ecn=ecn))
        assert program.counters().marked_packets == 0

    def test_tcp_is_marked_like_everything(self, program: LinkProgram) -> None:
        marking(program)
        assert send(program, ipv6(TCP, bytes(100), 0, ECT_0)).frame == framed(ipv6(TCP, bytes(100), 0, CE))
        assert send(program, ipv4(TCP, bytes(100), 0, ECT_1)).frame == framed(ipv4(TCP, bytes(100), 0, CE))

    def test_not_on_the_last_hop(self, program: LinkProgram) -> None:
        """MRC-ECN-04."""
        marking(program, last_hop=True)
        assert send(program, packet("srv6")).frame == framed(packet("srv6"))

    @pytest.mark.parametrize("dscp", [CONTROL, TRIMMED, TRIMMED_LASTHOP])
    def test_not_what_goes_with_priority(self, program: LinkProgram, dscp: int) -> None:
        marking(program)
        done = send(program, packet("srv6", dscp))
        assert (done.frame, done.tc_class) == (framed(packet("srv6", dscp)), FAST_CLASS)

    def test_arp_and_frames_of_no_protocol_pass(self, program: LinkProgram) -> None:
        marking(program)
        for start in (b"\x08\x06", b"\x12\x34"):
            frame = framed(FILLER)[:12] + start + bytes(46)
            assert trial.run(program, frame).frame == frame


class TestQueue:
    """Frames of 1000 bytes; nothing leaves, so what is in it is what was let in."""

    DATA = packet("udp6", NO_TRIM, NOT_ECT, 1000 - 14 - 40 - 8 - 12 - 24 - 4)
    FAST = packet("udp6", CONTROL, NOT_ECT, 1000 - 14 - 40 - 8 - 12 - 24 - 4)

    def fill(self, program: LinkProgram, content: bytes, count: int) -> int:
        return sum(send(program, content).passed for _ in range(count))

    def test_it_is_full_when_the_next_does_not_fit(self, program: LinkProgram) -> None:
        assert len(framed(self.DATA)) == 1000
        stand_still(program, settings(rate_bps=RATE, queue_bytes=20_500))
        assert self.fill(program, self.DATA, 30) == 20
        counters = program.counters()
        assert (counters.dropped_packets, counters.queue_high_water_bytes) == (10, 20_000)

    def test_data_and_priority_have_room_of_their_own(self, program: LinkProgram) -> None:
        stand_still(program, settings(rate_bps=RATE, queue_bytes=20_500))
        assert self.fill(program, self.DATA, 30) == 20
        assert self.fill(program, self.FAST, 30) == 20
        assert program.counters().queue_high_water_bytes == 40_000

    def test_thresholds_count_data_only(self, program: LinkProgram) -> None:
        stand_still(program, settings(rate_bps=RATE, queue_bytes=50_500, ecn_at_bytes=5500, trim_at_bytes=10_500))
        self.fill(program, self.FAST, 20)
        outcomes = [send(program, packet("udp6", payload=1000 - 102)) for _ in range(20)]
        marked = [done.frame[15] >> 4 & 3 == CE for done in outcomes]
        trimmed = [len(done.frame) < 1000 for done in outcomes]
        assert marked == [False] * 5 + [True] * 5 + [False] * 10
        assert trimmed == [False] * 10 + [True] * 10

    def test_what_may_not_be_trimmed_goes_on_until_it_is_full(self, program: LinkProgram) -> None:
        stand_still(program, settings(rate_bps=RATE, queue_bytes=20_500, trim_at_bytes=10_500))
        assert self.fill(program, self.DATA, 30) == 20
        assert program.counters().trimmed_packets == 0

    def test_a_trimmed_packet_takes_its_new_length(self, program: LinkProgram) -> None:
        stand_still(program, settings(rate_bps=RATE, queue_bytes=16_400, trim_at_bytes=10_500))
        self.fill(program, self.DATA, 10)
        # Ethernet 14, IPv6 40, UDP 8, BTH 12, 8 more: 82 bytes.
        assert self.fill(program, packet("udp6"), 300) == 16_400 // 82
        counters = program.counters()
        assert counters.queue_high_water_bytes == 10_000 + 16_400 // 82 * 82
        assert (counters.trimmed_packets, counters.dropped_packets) == (200, 100)

    def test_a_segment_offloaded_packet_counts_whole(self, program: LinkProgram) -> None:
        stand_still(program, settings(rate_bps=RATE, queue_bytes=20_500))
        for _ in range(30):
            send(program, self.DATA, segment_bytes=400)
        assert program.counters().dropped_packets == 10

    def test_settings_change_and_counters_stay(self, program: LinkProgram) -> None:
        stand_still(program, settings(rate_bps=RATE, queue_bytes=20_500))
        self.fill(program, self.DATA, 30)
        stand_still(program, settings(rate_bps=RATE, queue_bytes=30_500))
        assert self.fill(program, self.DATA, 30) == 10
        assert program.counters().dropped_packets == 10 + 20
        program.set(settings())
        assert self.fill(program, self.DATA, 30) == 30
        assert program.counters().dropped_packets == 30

    def test_another_process_finds_it_by_number(self, program: LinkProgram) -> None:
        stand_still(program, settings(rate_bps=RATE, queue_bytes=20_500))
        self.fill(program, self.DATA, 25)
        with LinkProgram.by_id(program.number()) as same:
            assert same.counters() == program.counters()
            assert same.counters().dropped_packets == 5


class TestChance:
    """Counts of a fair draw are within five standard deviations but once in two million runs."""

    COUNT = 3000

    def within(self, found: int, share: float) -> bool:
        return abs(found - self.COUNT * share) < 5 * math.sqrt(self.COUNT * share * (1 - share))

    @pytest.mark.parametrize("kind", KINDS)
    def test_corruption_turns_one_bit_over_from_the_bth_on(self, program: LinkProgram, kind: str) -> None:
        whole = packet(kind, payload=100)
        bth_at = len(whole) - 4 - 100 - 24 - 12
        program.set(settings(corrupt=0.3))
        wrong = []
        for _ in range(self.COUNT):
            got = send(program, whole).frame[14:]
            changed = [at for at in range(len(whole)) if got[at] != whole[at]]
            assert len(got) == len(whole)
            assert len(changed) <= 1
            wrong += [(at, got[at] ^ whole[at]) for at in changed]
        assert program.counters().corrupted_packets == len(wrong)
        assert self.within(len(wrong), 0.3)
        assert {bits.bit_count() for _, bits in wrong} == {1}
        assert {bits for _, bits in wrong} == {1 << bit for bit in range(8)}
        assert min(at for at, _ in wrong) >= bth_at
        # 140 places, some 900 draws: that a given one is missed has a chance of a six-hundredth.
        assert len({at for at, _ in wrong}) > 110

    def test_only_mrc_packets_are_corrupted(self, program: LinkProgram) -> None:
        program.set(settings(corrupt=1.0))
        for content in (ipv6(TCP, udp(100), 0, ECT_0), ipv6(UDP, udp(100, 53), 0, ECT_0)):
            assert send(program, content).frame == framed(content)
        assert send(program, packet("srv6")).frame != framed(packet("srv6"))

    def test_what_is_marked_may_be_corrupted_too_what_is_trimmed_not(self, program: LinkProgram) -> None:
        limits = {"rate_bps": RATE, "queue_bytes": 100_000, "corrupt": 1.0}
        stand_still(program, settings(**limits, ecn_at_bytes=2000))
        send(program, FILLER)
        send(program, packet("srv6"))
        assert (program.counters().marked_packets, program.counters().corrupted_packets) == (1, 2)
        stand_still(program, settings(**limits, trim_at_bytes=2000))
        assert send(program, packet("srv6")).frame == framed(trim(packet("srv6")))
        assert program.counters().corrupted_packets == 2


@given(
    st.builds(
        Impairment,
        duplicate=st.floats(1e-6, 1),
        corrupt=st.floats(1e-6, 1),
        rate_bps=st.integers(100_000, 10**12),
        queue_bytes=st.just(0) | st.integers(2 * 10**8, 256_000_000),
        ecn_at_bytes=st.integers(0, 10**7),
        trim_at_bytes=st.just(0) | st.integers(10**7 + 1, 10**8),
        trim_to_bytes=st.just(0) | st.integers(64, 65_535),
        trim_dscp=st.integers(0, 63),
        trim_dscp_lasthop=st.integers(0, 63),
    )
)
def test_what_was_set_is_read_back(wanted: Impairment) -> None:
    with LinkProgram.load() as program:
        program.set(settings(**{name: getattr(wanted, name) for name in wanted.__slots__}))
        assert program.impairment() == wanted


def test_what_is_no_link_program_is_refused() -> None:
    with pytest.raises(SystemRefused, match="open eBPF program") as refused:
        LinkProgram.by_id(0xFFFFFFF0)
    assert refused.value.errno == errno.ENOENT


def test_a_routing_header_that_ends_beyond_the_packet_is_survived(program: LinkProgram) -> None:
    trimming(program)
    cut_short = ipv6(ROUTING, routing(b"")[:4], TRIMMABLE, ECT_0)
    too_long = ipv6(ROUTING, b"\x29\xff" + bytes(30), TRIMMABLE, ECT_0)
    for content in (cut_short, too_long):
        assert send(program, content).frame == framed(content)
