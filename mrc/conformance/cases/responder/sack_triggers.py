# SPDX-License-Identifier: BSD-2-Clause
"""When a SACK is sent, where its bitmap begins and which way it goes (behaviour.md, Responder)."""

from __future__ import annotations

from mrc.conformance.script import Bench, case, pattern, us

SIXTEEN_KIB = 16 * 1024
LEAST = 1024  # what a packet counts at least
THRESHOLD = "the count of bytes since the last SACK: max(size, 1024) each, a SACK when it reaches the threshold"


def _first_sacked(bench: Bench, first: int, payload: bytes, most: int) -> int:
    """The PSN of the first of these requests, sent one by one, that a SACK answers."""
    for psn in range(first, first + most):
        bench.request(psn, payload)
        bench.wait(us(1))
        found = bench.read("SACK")
        if found:
            bench.check(found[0].ack_psn == psn, f"a SACK for PSN {psn}", f"it is {found[0]}")
            return psn
    bench.check(False, f"a SACK for one of {most} requests", "none came")
    return -1


@case("MRC-SACK-15", options={"sack_threshold_bytes": SIXTEEN_KIB}, look_at=THRESHOLD)
def small_packets_count_as_1024_bytes(bench: Bench) -> None:
    """Empty requests count 1024 each: the sixteenth reaches 16 KiB, and again the sixteenth after that."""
    for first in (0, 16):
        found = _first_sacked(bench, first, b"", 40)
        bench.check(found == first + 15, f"the SACK after PSN {first + 15}", f"it came after PSN {found}")


@case("MRC-SACK-15/sizes", options={"sack_threshold_bytes": SIXTEEN_KIB}, path_mtu=4096, look_at=THRESHOLD)
def large_packets_count_as_what_they_are(bench: Bench) -> None:
    """Requests of 4096 bytes are 4180 with all headers: four of them reach 16 KiB; of 1500 bytes, eleven do."""
    for first, length in ((0, 4096), (4, 1500)):
        size = bench.make.request(0, pattern(length)).size
        last = first + -(-SIXTEEN_KIB // size) - 1
        found = _first_sacked(bench, first, pattern(length), 40)
        bench.check(found == last, f"the SACK after PSN {last}", f"it came after PSN {found}")


@case("MRC-SACK-15/since-the-last", options={"sack_threshold_bytes": SIXTEEN_KIB}, look_at=THRESHOLD)
def any_sack_starts_the_count_anew(bench: Bench) -> None:
    """After ten requests one with AckReq brings a SACK: the next one by bytes comes sixteen requests later."""
    bench.send(*(bench.make.request(psn) for psn in range(10)))
    bench.expect_no("SACK", within=us(10))
    bench.request(10, ackreq=1)
    bench.expect("SACK", ack_psn=10)
    found = _first_sacked(bench, 11, b"", 40)
    bench.check(found == 26, "the SACK after PSN 26", f"it came after PSN {found}")


@case("MRC-SACK-15/one-burst", options={"sack_threshold_bytes": SIXTEEN_KIB}, look_at=THRESHOLD)
def bytes_trigger_inside_a_burst(bench: Bench) -> None:
    """Forty empty requests in one burst: SACKs for the sixteenth and the thirty-second, and no other."""
    bench.send(*(bench.make.request(psn) for psn in range(40)))
    bench.wait(us(10))
    found = [sack.ack_psn for sack in bench.read("SACK")]
    bench.check(found == [15, 31], "SACKs for PSN 15 and 31", f"they are for {found}")


@case("MRC-SACK-15/out-of-order", options={"sack_threshold_bytes": SIXTEEN_KIB}, look_at=THRESHOLD)
def packets_above_a_hole_count_too(bench: Bench) -> None:
    """PSN 0 is missing: the sixteenth request above it brings a SACK with cack_psn -1."""
    bench.send(*(bench.make.request(psn) for psn in range(1, 17)))
    bench.expect("SACK", ack_psn=16, cack_psn=-1, above=range(1, 17))


@case("MRC-SACK-16", look_at="the threshold where nobody configured one: 16 KiB")
def the_threshold_is_16_kib(bench: Bench) -> None:
    """Fifteen empty requests bring no SACK, the sixteenth does."""
    found = _first_sacked(bench, 0, b"", 300)
    bench.check(found == 15, "the SACK after PSN 15", f"it came after PSN {found}")


@case("MRC-SACK-17", look_at="AckReq, bit 7 of byte 8 of the BTH")
def ackreq_triggers_a_sack(bench: Bench) -> None:
    """A request without AckReq brings no SACK, one with it does, in order and above a hole."""
    bench.request(0)
    bench.expect_no("SACK", within=us(100))
    bench.request(1, ackreq=1)
    bench.expect("SACK", ack_psn=1, within=us(100))
    bench.request(5, ackreq=1)
    bench.expect("SACK", ack_psn=5, cack_psn=1, within=us(100))


@case("MRC-SACK-18", look_at="CE on either IP header: it asks for a SACK at once, with m 1")
def a_mark_triggers_a_sack(bench: Bench) -> None:
    """A request that came CE brings a SACK with m 1; so does one above a hole. One with ECT(0) or ECT(1) does not."""
    bench.request(0, ce=True)
    bench.expect("SACK", ack_psn=0, m=1, within=us(100))
    bench.request(2, ce=True)
    bench.expect("SACK", ack_psn=2, m=1, within=us(100))
    for psn, ecn in ((3, 0b10), (4, 0b01), (5, 0b00)):
        bench.request(psn, ecn=ecn)
        bench.expect_no("SACK", within=us(100))


@case("MRC-SACK-19", look_at="rtx: a retransmission is answered at once, whoever waits for it")
def a_retransmission_triggers_a_sack(bench: Bench) -> None:
    """Requests with rtx bring SACKs with rtx: one that is new, one that has come before."""
    bench.request(0, rtx=1)
    bench.expect("SACK", ack_psn=0, rtx=1, within=us(100))
    bench.request(0, rtx=1)
    bench.expect("SACK", ack_psn=0, rtx=1, within=us(100))


@case("MRC-SACK-20", look_at="ack_psn_offset of a packet that lies further back than 16 bits reach")
def a_very_old_packet_has_offset_0(bench: Bench) -> None:
    """PSN 40,000 below cack_psn: ack_psn_offset 0. PSN 32,768 below, the last that 16 bits reach: -32,768."""
    bench.expect_works(0)
    bench.request(-40_000, rtx=1)
    bench.expect("SACK", cack_psn=0, ack_psn_offset=0)
    bench.request(-32_768, rtx=1)
    bench.expect("SACK", cack_psn=0, ack_psn_offset=-32_768)
    bench.request(-32_769, rtx=1)
    bench.expect("SACK", cack_psn=0, ack_psn_offset=0)


@case("MRC-SACK-21", look_at="what an idle QP says: nothing above cack_psn, counted from the PSN after it")
def an_idle_qp_answers_a_probe(bench: Bench) -> None:
    """Before anything has come, and again after three requests in order: sack_offset 1, bitmap 0."""
    bench.probe(0xBEEF)
    bench.expect("SACK", probe_id=0xBEEF, cack_psn=-1, sack_offset=1, bitmap=0, within=us(100))
    bench.send(*(bench.make.request(psn) for psn in range(3)))
    bench.probe(0)
    bench.expect("SACK", probe_id=0, cack_psn=2, sack_offset=1, bitmap=0, within=us(100))


def _hole_at_0(bench: Bench, highest: int) -> None:
    """PSNs 1 to `highest` arrive, but for 0 and for all between 5 and `highest`."""
    bench.send(*(bench.make.request(psn) for psn in range(1, 5)))
    bench.request(highest, ackreq=1)


@case(
    "MRC-SACK-22", look_at="the base while all fits: cack_psn + 1 as long as the highest lies in the 64 PSNs from there"
)
def the_bitmap_starts_at_epsn_while_all_fits(bench: Bench) -> None:
    """PSN 0 is missing and 63 the highest: the 64 PSNs from 0 on hold it, so the bitmap starts there."""
    _hole_at_0(bench, 63)
    bench.expect("SACK", ack_psn=63, cack_psn=-1, sack_offset=1, above=[1, 2, 3, 4, 63])


@case(
    "MRC-SACK-22/beyond",
    window=301,
    look_at="the base when it does not fit: the highest is the last bit, highest - 63 the first",
)
def the_bitmap_ends_with_the_highest(bench: Bench) -> None:
    """PSN 0 is missing and 64 the highest: the bitmap starts at 1. Then 300: it starts at 237."""
    _hole_at_0(bench, 64)
    bench.expect("SACK", ack_psn=64, cack_psn=-1, sack_offset=2, above=[1, 2, 3, 4, 64])
    bench.request(300, ackreq=1)
    bench.expect("SACK", ack_psn=300, cack_psn=-1, sack_offset=238, above=[300], bitmap=1 << 63)


@case(
    "MRC-SACK-22/lower-trigger",
    window=301,
    look_at="the base of a SACK for a packet below the highest: the highest decides",
)
def the_highest_decides_and_not_the_trigger(bench: Bench) -> None:
    """PSN 0 is missing, 300 is the highest, PSN 200 triggers: the bitmap still ends with 300."""
    _hole_at_0(bench, 300)
    bench.expect("SACK", ack_psn=300)
    bench.request(200, ackreq=1)
    bench.expect("SACK", ack_psn=200, cack_psn=-1, sack_offset=238, above=[300])


@case(
    "MRC-SACK-23", window=301, look_at="the base of a SACK for a probe or an rtx packet: old holes must not stay unseen"
)
def probes_and_retransmissions_see_the_oldest_holes(bench: Bench) -> None:
    """PSN 0 is missing and 300 the highest: SACKs for a probe and for rtx packets start at PSN 0 all the same."""
    _hole_at_0(bench, 300)
    bench.expect("SACK", ack_psn=300)
    bench.probe(4)
    bench.expect("SACK", probe_id=4, cack_psn=-1, sack_offset=1, above=[1, 2, 3, 4])
    bench.request(250, rtx=1)
    bench.expect("SACK", ack_psn=250, cack_psn=-1, sack_offset=1, above=[1, 2, 3, 4])
    bench.request(300, rtx=1)
    bench.expect("SACK", ack_psn=300, cack_psn=-1, sack_offset=1, above=[1, 2, 3, 4])


@case("MRC-SACK-25", planes=2, look_at="which plane each SACK leaves by: successive ones alternate")
def successive_sacks_alternate_planes(bench: Bench) -> None:
    """Eight SACKs, one after the other: each leaves by another plane than the one before. Then eight of one burst."""
    planes = []
    for psn in range(8):
        bench.request(psn, ackreq=1)
        planes.append(bench.expect("SACK", ack_psn=psn).plane)
    bench.send(*(bench.make.request(psn, ackreq=1) for psn in range(8, 16)))
    planes += [bench.expect("SACK", ack_psn=psn).plane for psn in range(8, 16)]
    same = [at for at in range(1, len(planes)) if planes[at] == planes[at - 1]]
    bench.check(not same, "planes that alternate", f"the SACKs left by planes {planes}")
