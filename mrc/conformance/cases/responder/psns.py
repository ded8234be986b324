# SPDX-License-Identifier: BSD-2-Clause
"""Which PSNs a responder takes, and what it answers to the others (behaviour.md, PSN table)."""

from __future__ import annotations

from mrc.conformance.script import Bench, case, ms, pattern, us, wire

HALF = 1 << 23


@case("MRC-RESP-01", look_at="the lookup of the DQP: does another QP answer, or the packet count as malformed?")
def an_unknown_qp_is_not_answered(bench: Bench) -> None:
    """A request for a QPN that the target does not have is dropped and counted, and the QP beside it goes on."""
    bench.expect_ignored(bench.make.request(0, pattern(64), dqp=bench.target.qpn ^ 0x800000, ackreq=1), within=ms(1))
    bench.expect_goes_on(0)


@case("MRC-RESP-02", look_at="the source address each packet is compared with: that of the plane it came in on")
def a_stranger_is_not_answered(bench: Bench) -> None:
    """A request that is right in all but its source address is dropped and counted, and its PSN has not arrived."""
    true = bench.make.request(0, pattern(64), ackreq=1)
    bench.expect_ignored(true.but(src=true.carriage.src + 0x77), within=ms(1))
    bench.expect_goes_on(0)


@case("MRC-RESP-02/other-plane", planes=2, look_at="whether sources are kept by plane, or in one set for all")
def the_peer_in_another_plane_is_a_stranger(bench: Bench) -> None:
    """The peer's address of plane 1 on a packet that came in on plane 0 is not the peer's address there."""
    from_plane_1 = bench.make.request(0, pattern(64), plane=1, ackreq=1)
    bench.send(bench.make.request(0, pattern(64), ackreq=1).but(src=from_plane_1.carriage.src))
    bench.expect_silence(ms(1))
    bench.expect_goes_on(0)


@case("MRC-RESP-03", look_at="where epsn starts: the first PSN the tester named out of band")
def epsn_starts_at_the_first_psn(bench: Bench) -> None:
    """Before anything has come cack_psn is the tester's first PSN less one; the first PSN moves it."""
    bench.probe(1)
    bench.expect("SACK", probe_id=1, cack_psn=-1)
    bench.request(0, pattern(8), ackreq=1)
    bench.expect("SACK", ack_psn=0, cack_psn=0)


@case("MRC-RESP-03/from-zero", first_psn=0, look_at="cack_psn before PSN 0: it is 0xffffff, not 0")
def epsn_may_start_at_zero(bench: Bench) -> None:
    """With 0 as the first PSN, cack_psn is 2^24 - 1 until it comes."""
    bench.probe(1)
    sack = bench.expect("SACK", probe_id=1, cack_psn=-1)
    bench.check(sack.layers["seth"]["cack_psn"] == 0xFFFFFF, "cack_psn 0xffffff on the wire", f"it is {sack}")
    bench.request(0, ackreq=1)
    bench.expect("SACK", ack_psn=0, cack_psn=0)


@case("MRC-RESP-03/wrap", first_psn=(1 << 24) - 3, look_at="epsn + 1 modulo 2^24")
def epsn_goes_past_the_end_of_the_circle(bench: Bench) -> None:
    """PSN 0xffffff is followed by PSN 0: six requests across it are acknowledged one by one."""
    for psn in range(6):
        bench.request(psn, pattern(8, psn), offset=8 * psn, ackreq=1)
        bench.expect("SACK", ack_psn=psn, cack_psn=psn, bitmap=0)
        bench.expect_memory(8 * psn, pattern(8, psn))


@case("MRC-RESP-04", look_at="placement by RETH.VA; where only payload in order is written, that is what to mend")
def requests_are_written_in_any_order(bench: Bench) -> None:
    """Four requests arrive as 2, 0, 3, 1. Each is written at its own VA at once, holes or not."""
    bench.needs_memory()
    for psn in (2, 0, 3, 1):
        bench.request(psn, pattern(100, psn), offset=1000 * psn)
        bench.expect_memory(1000 * psn, pattern(100, psn))
    bench.expect_nothing_written()


@case(
    "MRC-RESP-04/one-burst",
    region=65536,
    look_at="placement where many packets come at once, to addresses that are not in order",
)
def a_burst_out_of_order_is_written(bench: Bench) -> None:
    """A message of 32 packets comes in one burst, the last packet first: all of it is written where it belongs."""
    bench.needs_memory()
    payload = pattern(32 * bench.mtu - 5)
    bench.send(*reversed(bench.make.message(0, payload, offset=64)))
    bench.expect("ACK", psn=31)
    bench.expect_memory(64, payload)
    bench.expect_nothing_written()


@case("MRC-RESP-04/far", look_at="what is kept for PSNs far above a hole: room for the whole window is needed")
def the_far_end_of_the_window_is_written(bench: Bench) -> None:
    """The last PSN of the window comes first. It is written, and acknowledged once the hole below it is closed."""
    last = bench.window - 1
    bench.request(last, pattern(16), offset=32)
    bench.expect_memory(32, pattern(16))
    bench.send(*(bench.make.request(psn) for psn in range(last)))
    # Asking waits until all of the window has arrived: that may take a live target longer than an answer may.
    bench.expect_nothing_written()
    bench.expect("ACK", psn=last)


@case("MRC-RESP-05", look_at="what makes an ACK due (the left edge moved) and what makes a SACK due (a trigger)")
def new_requests_are_acked_and_sacked(bench: Bench) -> None:
    """PSN 0 moves the left edge: an ACK. PSN 2 does not, but asks: a SACK. PSN 1 does both."""
    bench.request(0, pattern(8))
    bench.expect("ACK", psn=0)
    bench.request(2, pattern(8), ackreq=1)
    bench.expect("SACK", ack_psn=2, cack_psn=0, above=[2])
    bench.expect_no("ACK", within=us(100))
    bench.request(1, pattern(8), ackreq=1)
    bench.expect("SACK", ack_psn=1, cack_psn=2, above=[])
    bench.expect("ACK", psn=2)


@case("MRC-RESP-06", look_at="duplicates below epsn: their payload must not be written again, their answers are due")
def an_old_duplicate_is_answered_and_not_written(bench: Bench) -> None:
    """PSN 0 comes again with other bytes for another place: an ACK, a SACK, and nothing is written."""
    bench.request(0, pattern(64))
    bench.expect("ACK", psn=0)
    bench.request(1, pattern(64, 2), offset=64)
    bench.expect("ACK", psn=1)
    bench.expect_memory(0, pattern(64) + pattern(64, 2))
    bench.request(0, pattern(64, 9), offset=4096)
    bench.expect("SACK", ack_psn=0, cack_psn=1)
    bench.expect("ACK", psn=1)
    bench.expect_nothing_written()


@case("MRC-RESP-06/oldest", look_at="the far edge of what counts as old: epsn - 2^23 is out, the PSN above it is in")
def the_oldest_duplicate_is_answered(bench: Bench) -> None:
    """PSN epsn - 2^23 + 1 is the oldest that still is a duplicate."""
    bench.expect_works(0)
    bench.request(1 - HALF + 1, pattern(16))
    bench.expect("SACK", cack_psn=0)
    bench.expect("ACK", psn=0)
    bench.expect_nothing_written()


@case("MRC-RESP-07", look_at="duplicates above epsn: the arrival bit decides, the payload must not be written again")
def a_duplicate_above_a_hole_is_sacked_only(bench: Bench) -> None:
    """PSN 2 comes twice while PSN 0 is missing, the second time with other bytes: a SACK, no ACK, nothing written."""
    bench.request(2, pattern(64))
    bench.expect_memory(0, pattern(64))
    bench.read()
    bench.request(2, pattern(64, 9), offset=4096)
    bench.expect("SACK", ack_psn=2, cack_psn=-1, above=[2])
    bench.expect_no("ACK", within=us(100))
    bench.expect_nothing_written()


@case("MRC-RESP-08", look_at="the check against the right edge, before anything is written")
def beyond_the_window_nothing_is_written(bench: Bench) -> None:
    """PSN epsn + window is one too far: neither written nor acknowledged, also once all below it has come."""
    bench.request(bench.window, pattern(64), ackreq=1)
    bench.expect_no("ACK", within=us(100))
    bench.expect_no("SACK", within=us(100))
    bench.expect_goes_on(0)
    bench.probe(7)
    bench.expect("SACK", probe_id=7, cack_psn=0, bitmap=0)


@case("MRC-RESP-09", look_at="what is answered to a PSN out of the window, and which PSN and EV the NACK names")
def beyond_the_window_there_is_a_nack(bench: Bench) -> None:
    """PSN epsn + window is answered with NACK PSN_OOR_WINDOW; so is one much further away."""
    for psn in (bench.window, bench.window + 5000):
        bench.request(psn, pattern(64))
        bench.expect("NACK", nack_psn=psn, psn=psn, reason=wire.PSN_OOR_WINDOW)
    bench.expect_silence(us(100))


@case("MRC-RESP-10", look_at="the distance of exactly 2^23: neither old duplicate nor beyond the window")
def too_old_is_not_answered(bench: Bench) -> None:
    """PSN epsn - 2^23 could be as far ahead as behind: it is counted, and that is all."""
    bench.expect_works(0)
    bench.read()
    bench.expect_ignored(bench.make.request(1 - HALF, pattern(64), ackreq=1))
    bench.expect_goes_on(1)


@case("MRC-RESP-11", look_at="MPR x 128, counted from epsn, and whether it moves with it")
def the_window_is_mpr_times_128(bench: Bench) -> None:
    """The last PSN of the window is taken and the next is not; when PSN 0 has come that one is taken too."""
    last = bench.window - 1
    bench.request(last, ackreq=1)
    bench.expect("SACK", ack_psn=last, cack_psn=-1)
    bench.request(last + 1, ackreq=1)
    bench.expect_no("SACK", within=us(100))
    bench.request(0)
    bench.expect("ACK", psn=0)
    bench.request(last + 1, ackreq=1)
    bench.expect("SACK", ack_psn=last + 1, cack_psn=0)


@case("MRC-RESP-11/mpr-9", options={"mpr_dest": 9}, look_at="whether the MPR agreed on is used, or a fixed one")
def the_window_follows_the_mpr(bench: Bench) -> None:
    """With an MPR of 9 the window is 1152 PSNs."""
    bench.request(1151, ackreq=1)
    bench.expect("SACK", ack_psn=1151, cack_psn=-1)
    bench.request(1152, ackreq=1)
    bench.expect_no("SACK", within=us(100))
