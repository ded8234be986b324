# SPDX-License-Identifier: BSD-2-Clause
"""The NACKs a responder sends: their bytes, and for which want which reason (wire.md section 7; behaviour.md)."""

from __future__ import annotations

from mrc.conformance.script import TRIM_NACK, Bench, case, ms, pattern, us, wire

LIMITS = "where the room for packets above a hole is counted, and which reason each want has"


@case("MRC-NACK-01", look_at="the places of the fields of the NETH, byte by byte")
def the_neth_has_twenty_bytes(bench: Bench) -> None:
    """The NACK of a request beyond the window, timestamp 0xabcd: the twenty bytes behind its BTH as they are sent."""
    ev = bench.evs()[-1]
    psn = bench.window + 3
    bench.request(psn, pattern(16), ev=ev, timestamp=0xABCD)
    nack = bench.expect("NACK", nack_psn=psn, udp_len=8 + 12 + 20 + 4)
    neth = nack.frame[-24:-4]
    expected = bytes((0, 0, wire.PSN_OOR_WINDOW, neth[3])) + ev.to_bytes(4, "big")
    expected += neth[8:12]  # spdcid and dpdcid are MRC-NACK-25
    expected += b"\0" + (bench.tester.first_psn + psn & 0xFFFFFF).to_bytes(3, "big") + bytes((0x20, 0, 0xAB, 0xCD))
    bench.check(neth == expected, f"NETH {expected.hex(' ')}", f"it is {neth.hex(' ')}")


@case("MRC-NACK-25", look_at="the order of the two: first whom this packet is from, then whom it is for")
def the_dcids_of_a_nack_are_of_sender_and_receiver(bench: Bench) -> None:
    """spdcid is the low half of the target's QPN, dpdcid that of the tester's. With the switch dcids_of_data it is the
    other way round."""
    qpns = bench.target.qpn & 0xFFFF, bench.tester.qpn & 0xFFFF
    spdcid, dpdcid = qpns[::-1] if bench.profile.dcids_of_data else qpns
    bench.request(bench.window, pattern(16))
    bench.expect("NACK", nack_psn=bench.window, spdcid=spdcid, dpdcid=dpdcid)


@case("MRC-NACK-02", look_at="which packet of a burst each NACK names")
def a_nack_names_the_packet_that_caused_it(bench: Bench) -> None:
    """One burst: two requests that are taken, three beyond the window in falling order. Each of these has its NACK."""
    beyond = [bench.window + distance for distance in (40, 7, 2)]
    bench.send_together(*(bench.make.request(psn, pattern(16)) for psn in (0, 1, *beyond)))
    for psn in beyond:
        bench.expect("NACK", nack_psn=psn, psn=psn, reason=wire.PSN_OOR_WINDOW)
    bench.expect_no("NACK", within=us(100))


@case("MRC-NACK-02/wrap", first_psn=(1 << 24) - 1000, look_at="nack_psn beyond 0xffffff")
def nack_psn_wraps(bench: Bench) -> None:
    """A request beyond a window that wraps: nack_psn is small."""
    psn = bench.window + 10
    bench.request(psn, pattern(16))
    bench.expect("NACK", nack_psn=psn, psn=psn, reason=wire.PSN_OOR_WINDOW)


@case("MRC-NACK-03", look_at="whether EV and timestamp are those of the packet refused or of another one of its burst")
def a_nack_reflects_ev_and_timestamp(bench: Bench) -> None:
    """Four requests beyond the window in one burst, each on an EV of its own and with a timestamp of its own, and one
    without: each NACK has what its packet had."""
    evs = [ev for plane in bench.planes for ev in plane.evs][:5]
    stamps = (0x0102, 0xFFFE, 0x8000, 0x0001)[: len(evs)]
    sent = [
        bench.make.request(bench.window + number, pattern(16), ev=ev, timestamp=stamp)
        for number, (ev, stamp) in enumerate(zip(evs, stamps, strict=False))
    ]
    bench.send_together(*sent)
    for packet, stamp in zip(sent, stamps, strict=True):
        bench.expect("NACK", nack_psn=packet.psn, entropy=packet.ev, tx_timestamp=stamp)
    bench.request(bench.window + 9, pattern(16), ev=evs[-1])
    bench.expect("NACK", nack_psn=bench.window + 9, entropy=evs[-1], tx_timestamp=0)


@case("MRC-NACK-03/trimmed", agreed=[TRIM_NACK], look_at="what a NACK for a trimmed packet reflects")
def a_nack_for_a_trimmed_packet_reflects_its_ev(bench: Bench) -> None:
    """Trimmed packets on two EVs: each NACK has the EV of its packet."""
    for psn, ev in enumerate((bench.evs()[-1], bench.evs()[0])):
        bench.send(bench.make.request(psn, pattern(bench.mtu), ev=ev).trimmed())
        bench.expect("NACK", nack_psn=psn, entropy=ev, reason=wire.TRIMMED)


@case("MRC-NACK-04", look_at="cc_type of the NETH")
def cc_type_is_that_of_a_switch(bench: Bench) -> None:
    """The NACK of a request beyond the window has cc_type 2."""
    bench.request(bench.window, pattern(16))
    bench.expect("NACK", nack_psn=bench.window, cc_type=2, cc_flags=0)


@case("MRC-NACK-12", agreed=[TRIM_NACK], look_at="the two TRIMMED codepoints, and that each has its own reason")
def a_trimmed_packet_is_answered_with_its_reason(bench: Bench) -> None:
    """One packet trimmed in the fabric, one on the last hop: NACK TRIMMED and TRIMMED_LASTHOP."""
    for psn, lasthop, reason in ((0, False, wire.TRIMMED), (1, True, wire.TRIMMED_LASTHOP)):
        bench.send(bench.make.request(psn, pattern(bench.mtu)).trimmed(lasthop=lasthop))
        bench.expect("NACK", nack_psn=psn, reason=reason)


@case("MRC-NACK-13", without=[TRIM_NACK], look_at="whether a trimmed packet is answered without agreement")
def a_trimmed_packet_is_not_answered_without_agreement(bench: Bench) -> None:
    """Trimmed packets, of either codepoint, where trim NACK is not agreed: silence, and the target goes on."""
    for lasthop in (False, True):
        bench.send(bench.make.request(0, pattern(bench.mtu)).trimmed(lasthop=lasthop))
    bench.expect_silence(ms(1))
    bench.expect_works(0)


def _refused(bench: Bench, psn: int, reason: int, **fields: int) -> None:
    """A request for which there is no room: a NACK with this reason, and nothing is written."""
    bench.request(psn, pattern(32, psn), offset=32 * psn, **fields)
    bench.expect("NACK", nack_psn=psn, reason=reason)
    bench.expect_nothing_written()


@case("MRC-NACK-14", options={"max_span": 16}, look_at=LIMITS)
def without_a_bitmap_there_is_no_bitmap(bench: Bench) -> None:
    """The bitmap of the target reaches 16 PSNs beyond cack_psn. The 16th is taken, the 17th refused; when the hole
    has closed it is taken as well."""
    bench.request(15, pattern(32, 15), offset=480)
    bench.probe(1)
    bench.expect("SACK", probe_id=1, cack_psn=-1, above=[15])
    bench.expect_memory(480, pattern(32, 15))
    _refused(bench, 16, wire.NO_BITMAP)
    bench.request(0)
    bench.expect("ACK", psn=0)
    bench.request(16, pattern(32, 16), offset=512, rtx=1)
    bench.expect("SACK", ack_psn=16, cack_psn=0, above=[15, 16])
    bench.expect_memory(512, pattern(32, 16))


@case("MRC-NACK-15", options={"max_held_packets": 3}, look_at=LIMITS)
def without_a_buffer_there_is_no_packet_buffer(bench: Bench) -> None:
    """The target holds three packets above a hole. The fourth is refused, the one that closes the hole is not; then
    there is room again."""
    for psn in (1, 2, 3):
        bench.request(psn, pattern(32, psn), offset=32 * psn)
        bench.expect_memory(32 * psn, pattern(32, psn))
    _refused(bench, 4, wire.NO_PKT_BUFFER)
    bench.request(0)
    bench.expect("ACK", psn=3)
    bench.request(4, pattern(32, 4), offset=128, rtx=1)
    bench.expect("SACK", ack_psn=4, cack_psn=4)
    bench.expect_memory(128, pattern(32, 4))


@case("MRC-NACK-16", region=65536, immediates=3, options={"max_stashed_immediates": 2}, look_at=LIMITS)
def without_another_resource_there_is_no_resource(bench: Bench) -> None:
    """The target keeps two early immediates. The third is refused, a plain write in its place is not; when the hole
    has closed it is taken."""
    receives = bench.post_receives(3)
    for psn in (1, 2):
        bench.request(psn, immediate=psn, rqmsn=psn - 1)
    _refused(bench, 3, wire.NO_RESOURCE, immediate=3, rqmsn=2)
    bench.request(4, pattern(8), offset=8192)
    bench.expect_memory(8192, pattern(8))
    bench.request(0)
    bench.expect("ACK", psn=2)
    bench.request(3, immediate=3, rqmsn=2, rtx=1)
    bench.expect("SACK", ack_psn=3, cack_psn=4)
    for number, wr_id in enumerate(receives, 1):
        bench.expect_completion("RECEIVE", wr_id=wr_id, immediate=number)


@case("MRC-NACK-17", look_at="what is answered to requests once the QP is in ERROR without a request to blame")
def a_qp_that_cannot_go_on_says_unexp_event(bench: Bench) -> None:
    """The target's QP is put into ERROR by its owner. The next request is answered with NACK UNEXP_EVENT, and nothing
    of it is written."""
    bench.request(0)
    bench.expect("ACK", psn=0)
    bench.ask(bench.qp.to_error)
    bench.request(1, pattern(64))
    bench.expect("NACK", nack_psn=1, reason=wire.UNEXP_EVENT)
    bench.expect_no("ACK", within=us(100))
    bench.expect_nothing_written()
