# SPDX-License-Identifier: BSD-2-Clause
"""Messages whose packets contradict each other, and bursts in which something is wrong (behaviour.md, Responder)."""

from __future__ import annotations

from typing import Any

from mrc.conformance.script import Bench, case, ms, pattern, us, wire

AGREE = "what is remembered of a message: its DMALen and its VA, by MSN, whichever of its packets comes first"
BURST = "whether a burst is judged packet by packet, in order of arrival, whatever is wrong with each"


def _nothing_completes(bench: Bench) -> None:
    """The QP is over; the receive that was posted is flushed."""
    bench.expect_state("ERROR")
    bench.expect_completion("RECEIVE", status="FLUSHED")


@case("MRC-RESP-14/last-left", look_at="a Last against DMALen: what is left after whole path MTUs")
def a_last_that_is_not_what_is_left_is_refused(bench: Bench) -> None:
    """A Last with immediate of 1 byte says 8 path MTUs, as the very first packet: an invalid request, no completion."""
    bench.post_receives()
    bench.request(0, b"x", opcode=wire.LAST, immediate=7, dmalen=8 * bench.mtu, offset=8 * bench.mtu)
    bench.expect("NAK", psn=0, syndrome=wire.INVALID_REQUEST)
    bench.expect_nothing_written()
    _nothing_completes(bench)


@case("MRC-RESP-14/first-alone", look_at="whether a First of a message that fits one packet is taken")
def a_first_of_a_short_message_is_refused(bench: Bench) -> None:
    """A First whose DMALen is one path MTU: it should have been an Only."""
    bench.request(0, pattern(bench.mtu), opcode=wire.FIRST, dmalen=bench.mtu)
    bench.expect("NAK", psn=0, syndrome=wire.INVALID_REQUEST)
    bench.expect_nothing_written()


@case("MRC-RESP-14/last-alone", look_at="whether a Last of a message that fits one packet is taken")
def a_last_of_a_short_message_is_refused(bench: Bench) -> None:
    """A Last of 64 bytes whose DMALen is 64: it should have been an Only."""
    bench.request(0, pattern(64), opcode=wire.LAST, dmalen=64)
    bench.expect("NAK", psn=0, syndrome=wire.INVALID_REQUEST)
    bench.expect_nothing_written()


@case("MRC-RESP-17", look_at=AGREE)
def dmalen_is_the_same_in_each_packet(bench: Bench) -> None:
    """A First says three path MTUs, the Middle behind it four: the Middle is refused, and not written."""
    mtu = bench.mtu
    bench.request(0, pattern(mtu), opcode=wire.FIRST, dmalen=3 * mtu, msn=0)
    bench.expect("ACK", psn=0)
    bench.expect_memory(0, pattern(mtu))
    bench.request(1, pattern(mtu, 1), opcode=wire.MIDDLE, dmalen=4 * mtu, msn=0, offset=mtu)
    bench.expect("NAK", psn=1, syndrome=wire.INVALID_REQUEST)
    bench.expect_nothing_written()


@case("MRC-RESP-17/last-first", look_at=AGREE)
def dmalen_is_fixed_by_what_comes_first(bench: Bench) -> None:
    """A Last comes first and says three path MTUs, then the First says five: the First is the offender."""
    mtu = bench.mtu
    bench.request(2, pattern(mtu), opcode=wire.LAST, dmalen=3 * mtu, msn=0, offset=2 * mtu)
    bench.expect_memory(2 * mtu, pattern(mtu))
    bench.request(0, pattern(mtu), opcode=wire.FIRST, dmalen=5 * mtu, msn=0)
    bench.expect("NAK", psn=0, syndrome=wire.INVALID_REQUEST)
    bench.expect_nothing_written()


@case("MRC-RESP-17/any-order", region=65536, look_at=AGREE)
def packets_that_agree_come_in_any_order(bench: Bench) -> None:
    """Two messages of three packets, all six in reverse: nothing contradicts, and both arrive."""
    mtu = bench.mtu
    first = bench.make.message(0, pattern(2 * mtu + 40), msn=0)
    second = bench.make.message(3, pattern(2 * mtu + 1, 5), msn=1, offset=8 * mtu)
    for packet in reversed(first + second):
        bench.send(packet)
    bench.expect("ACK", psn=5, msn=2)
    bench.expect_memory(0, pattern(2 * mtu + 40))
    bench.expect_memory(8 * mtu, pattern(2 * mtu + 1, 5))


@case("MRC-RESP-18", look_at=AGREE)
def va_advances_by_the_path_mtu(bench: Bench) -> None:
    """The Middle of a message has a VA 8 bytes too far: an invalid request, and not written."""
    mtu = bench.mtu
    bench.request(0, pattern(mtu), opcode=wire.FIRST, dmalen=3 * mtu, msn=0)
    bench.expect_memory(0, pattern(mtu))
    bench.request(1, pattern(mtu, 1), opcode=wire.MIDDLE, dmalen=3 * mtu, msn=0, offset=mtu + 8)
    bench.expect("NAK", psn=1, syndrome=wire.INVALID_REQUEST)
    bench.expect_nothing_written()


@case("MRC-RESP-18/lone-last", look_at="a Last whose message never began: the PSNs before it are no part of it")
def a_last_without_its_message_completes_nothing(bench: Bench) -> None:
    """A Last with immediate of 1 byte says one path MTU and 1, rightly, but it is the very first packet: an invalid
    request, no completion."""
    bench.post_receives()
    bench.request(0, b"x", opcode=wire.LAST, immediate=7, dmalen=bench.mtu + 1, offset=bench.mtu)
    bench.expect("NAK", psn=0, syndrome=wire.INVALID_REQUEST)
    bench.expect_nothing_written()
    _nothing_completes(bench)


@case("MRC-RESP-18/only", look_at="what stands at the PSNs between a First and its Last")
def a_message_has_its_psns_to_itself(bench: Bench) -> None:
    """Behind a First comes an Only at the PSN of its Last: an invalid request, and not written."""
    mtu = bench.mtu
    bench.request(0, pattern(mtu), opcode=wire.FIRST, dmalen=mtu + 8, msn=0)
    bench.expect_memory(0, pattern(mtu))
    bench.request(1, pattern(8), msn=1, offset=4096)
    bench.expect("NAK", psn=1, syndrome=wire.INVALID_REQUEST)
    bench.expect_nothing_written()


@case("MRC-RESP-19", look_at="how much of the region a First is held against: its whole message")
def a_message_that_ends_beyond_the_region_is_refused_at_its_first(bench: Bench) -> None:
    """A First that lies in the region, of a message that ends one byte behind it: NAK remote access error."""
    mtu = bench.mtu
    offset = bench.target.region_length - 2 * mtu + 1
    bench.request(0, pattern(mtu), opcode=wire.FIRST, dmalen=2 * mtu, msn=0, offset=offset)
    bench.expect("NAK", psn=0, syndrome=wire.REMOTE_ACCESS_ERROR)
    bench.expect_nothing_written()


@case("MRC-RESP-19/last", look_at="how much of the region a Last is held against: its whole message")
def a_message_that_begins_before_the_region_is_refused_at_its_last(bench: Bench) -> None:
    """Above a hole a Last that lies in the region, of a message that began one byte before it."""
    mtu = bench.mtu
    bench.request(4, pattern(mtu), opcode=wire.LAST, dmalen=2 * mtu, msn=0, offset=mtu - 1)
    bench.expect("NAK", psn=4, syndrome=wire.REMOTE_ACCESS_ERROR)
    bench.expect_nothing_written()


def _burst(bench: Bench, wrong: list[dict[str, Any]]) -> None:
    """In one burst on one EV a good request, those that are wrong, a good one. The NAK names the first wrong one."""
    ev = bench.evs()[0]
    packets = [bench.make.request(0, pattern(32), ev=ev)]
    packets += [bench.make.request(1 + at, pattern(32), ev=ev, **each) for at, each in enumerate(wrong)]
    packets.append(bench.make.request(1 + len(wrong), pattern(32), ev=ev, offset=4096))
    bench.send(*packets)
    bench.expect("NAK", psn=1)
    bench.expect_memory(0, pattern(32))
    bench.expect_nothing_written()


@case("MRC-ACK-08/in-one-burst", look_at=BURST)
def the_first_offender_of_a_burst_is_named(bench: Bench) -> None:
    """A request beyond the region, one with an R_Key that opens none, one of wrong length: the first is named."""
    far = bench.target.region_length
    _burst(bench, [{"offset": far}, {"rkey": bench.target.rkey ^ 1, "offset": 64}, {"dmalen": 31, "offset": 128}])


@case("MRC-ACK-08/another-order", look_at=BURST)
def the_first_offender_is_named_whatever_is_wrong_with_it(bench: Bench) -> None:
    """A request of wrong length, one with an R_Key that opens none, one beyond the region: the first is named."""
    far = bench.target.region_length
    _burst(bench, [{"dmalen": 31, "offset": 128}, {"rkey": bench.target.rkey ^ 1, "offset": 64}, {"offset": far}])


@case("MRC-RESP-20", look_at="what becomes of the good requests of a burst that come before a bad one")
def what_comes_before_an_offender_is_acknowledged(bench: Bench) -> None:
    """Three good requests and a bad one in one burst: the three are written and acknowledged, then comes the NAK."""
    ev = bench.evs()[0]
    packets = [bench.make.request(psn, pattern(32, psn), ev=ev, offset=32 * psn) for psn in range(3)]
    bench.send(*packets, bench.make.request(3, pattern(32), ev=ev, rkey=bench.target.rkey ^ 1, offset=128))
    bench.expect("ACK", psn=2)
    bench.expect("NAK", psn=3, syndrome=wire.REMOTE_ACCESS_ERROR)
    for psn in range(3):
        bench.expect_memory(32 * psn, pattern(32, psn))
    bench.expect_nothing_written()


@case(
    "MRC-RESP-20/window",
    options={"mpr_dest": 1},
    look_at="whether the window moves with each packet of a burst or after all of it",
)
def the_window_moves_with_each_packet_of_a_burst(bench: Bench) -> None:
    """All of the window but its first PSN has arrived. That PSN and the one beyond the window come in one burst: both
    are taken, and nothing is NACKed."""
    for psn in range(1, bench.window):
        bench.request(psn)
    bench.wait(ms(1))
    ev = bench.evs()[0]
    bench.send(bench.make.request(0, ev=ev), bench.make.request(bench.window, ev=ev))
    bench.expect("ACK", psn=bench.window)
    bench.expect_no("NACK", within=us(100))
