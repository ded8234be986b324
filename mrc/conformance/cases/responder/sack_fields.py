# SPDX-License-Identifier: BSD-2-Clause
"""What a reliability SACK says, field by field (wire.md section 6; behaviour.md, Responder)."""

from __future__ import annotations

from mrc.conformance.script import CE, DYNAMIC_MPR, SVC_TIME, TRIM_NACK, Bench, Heard, case, pattern, us

SACK_BYTES = 28 + 8


def _seth_and_cc_state(sack: Heard) -> bytes:
    return bytes(sack.frame[-4 - SACK_BYTES : -4])


@case("MRC-SACK-01", look_at="the first 16 bits of the SETH: m << 5 | pr << 1, all else 0")
def the_seth_begins_with_m_and_pr(bench: Bench) -> None:
    """SACKs for a plain packet, a marked one, a probe and a marked probe: 0x0000, 0x0020, 0x0002, 0x0022, in a packet
    with 36 bytes behind the BTH."""
    bench.request(0, ackreq=1)
    bench.request(1, ackreq=1, ce=True)
    bench.probe(9)
    bench.probe(10, ce=True)
    named = ({"ack_psn": 0}, {"ack_psn": 1}, {"probe_id": 9}, {"probe_id": 10})
    for which, word in zip(named, (0x0000, 0x0020, 0x0002, 0x0022), strict=True):
        sack = bench.expect("SACK", **which, udp_len=8 + 12 + SACK_BYTES + 4)
        found = int.from_bytes(_seth_and_cc_state(sack)[:2], "big")
        bench.check(found == word, f"first 16 bits {word:#06x}", f"they are {found:#06x}: {sack}")


@case("MRC-SACK-02", look_at="bytes 2 and 3 of the SETH: a signed offset, or the probe's id as it is")
def ack_psn_offset_is_signed_and_probe_id_is_not(bench: Bench) -> None:
    """An old duplicate four below cack_psn: offset 0xfffc. A packet two above: 0x0002. A probe with id 0xfffc:
    0xfffc."""
    bench.send(*(bench.make.request(psn) for psn in range(5)))
    bench.request(0, ackreq=1)
    bench.request(6, ackreq=1)
    bench.probe(0xFFFC)
    named = ({"ack_psn": 0}, {"ack_psn": 6}, {"probe_id": 0xFFFC})
    for which, word in zip(named, (b"\xff\xfc", b"\x00\x02", b"\xff\xfc"), strict=True):
        found = _seth_and_cc_state(bench.expect("SACK", **which))[2:4]
        bench.check(found == word, f"bytes 2 and 3 of the SETH {word.hex(' ')}", f"they are {found.hex(' ')}")


@case(
    "MRC-SACK-03", look_at="ack_psn_offset: the triggering packet's PSN less cack_psn, as it is when the SACK is made"
)
def ack_psn_names_the_trigger(bench: Bench) -> None:
    """In order, above a hole, closing the hole, and an old duplicate: cack_psn + ack_psn_offset is the packet's PSN."""
    for psn, cack_psn in ((0, 0), (3, 0), (2, 0), (1, 3), (0, 3)):
        bench.request(psn, ackreq=1)
        bench.expect("SACK", ack_psn=psn, cack_psn=cack_psn)


@case("MRC-SACK-03/one-burst", look_at="ack_psn_offset where a later packet of the same burst moved cack_psn on")
def ack_psn_names_the_trigger_in_a_burst(bench: Bench) -> None:
    """PSNs 2, 0, 1 in one burst, each with AckReq: three SACKs, one for each of them."""
    bench.send_together(*(bench.make.request(psn, ackreq=1) for psn in (2, 0, 1)))
    found = sorted(bench.expect("SACK").ack_psn for _ in range(3))
    bench.check(found == [0, 1, 2], "SACKs with ack_psn 0, 1 and 2", f"they have {found}")


@case("MRC-SACK-03/wrap", first_psn=(1 << 24) - 2, look_at="ack_psn_offset across the end of the circle")
def ack_psn_names_the_trigger_across_the_end(bench: Bench) -> None:
    """PSN 0xfffffe has come; PSN 1 triggers a SACK with offset 3, PSN 0xffffff then one with cack_psn 0xffffff."""
    bench.request(0)
    bench.request(3, ackreq=1)
    bench.expect("SACK", ack_psn=3, cack_psn=0, ack_psn_offset=3)
    bench.request(1, ackreq=1)
    bench.expect("SACK", ack_psn=1, cack_psn=1, ack_psn_offset=0)


@case("MRC-SACK-04", look_at="whose EV is echoed: the triggering packet's, not the SACK's own or the last one's")
def entropy_is_that_of_the_trigger(bench: Bench) -> None:
    """A packet on each EV of each plane, all in one burst, each with AckReq: each SACK echoes its packet's EV."""
    evs = [ev for plane in bench.planes for ev in plane.evs]
    bench.send_together(*(bench.make.request(psn, ev=ev, ackreq=1) for psn, ev in enumerate(evs)))
    for psn, ev in enumerate(evs):
        bench.expect("SACK", ack_psn=psn, entropy=ev)


@case(
    "MRC-SACK-04/among-others",
    evs=2,
    look_at="the EV of a SACK that bytes trigger: that of the packet that reached the threshold",
)
def entropy_is_that_of_the_packet_with_ackreq(bench: Bench) -> None:
    """Of ten packets of one burst only the fifth asks, and it alone takes its EV: the SACK echoes that EV."""
    its, *others = [ev for plane in bench.planes for ev in plane.evs]
    evs = [its if psn == 4 else others[psn % len(others)] for psn in range(10)]
    bench.send_together(*(bench.make.request(psn, ev=ev, ackreq=psn == 4) for psn, ev in enumerate(evs)))
    bench.expect("SACK", ack_psn=4, entropy=its)


def _dcids(bench: Bench) -> dict[str, int]:
    """What the target's SACKs have as spdcid and dpdcid."""
    qpns = bench.target.qpn & 0xFFFF, bench.tester.qpn & 0xFFFF
    return dict(zip(("spdcid", "dpdcid"), qpns[::-1] if bench.profile.dcids_of_data else qpns, strict=True))


@case("MRC-SACK-05", look_at="the order of the two: first whom this packet is from, then whom it is for")
def the_dcids_are_of_sender_and_receiver(bench: Bench) -> None:
    """spdcid is the low half of the target's QPN, dpdcid that of the tester's; to a packet and to a probe. With the
    switch dcids_of_data it is the other way round."""
    dcids = _dcids(bench)
    bench.request(0, ackreq=1)
    bench.expect("SACK", ack_psn=0, **dcids)
    bench.probe(3)
    bench.expect("SACK", probe_id=3, **dcids)


@case("MRC-SACK-06", look_at="cack_psn with a hole: the last PSN before the first one missing")
def cack_psn_ends_before_the_first_hole(bench: Bench) -> None:
    """0, 1, 3 and 5 have come: cack_psn 1; then 2: 3; then 4: 5."""
    for psn, cack_psn in ((0, 0), (1, 1), (3, 1), (5, 1), (2, 3), (4, 5)):
        bench.request(psn, ackreq=1)
        bench.expect("SACK", ack_psn=psn, cack_psn=cack_psn)


@case("MRC-SACK-07", look_at="cc_type and cc_flags of byte 16, and whether 8 bytes follow the SETH")
def a_cc_state_follows(bench: Bench) -> None:
    """cc_type is 0, and the SACK is 8 bytes longer than its SETH."""
    bench.request(0, ackreq=1)
    bench.expect("SACK", ack_psn=0, cc_type=0, udp_len=8 + 12 + 28 + 8 + 4)


@case(
    "MRC-SACK-08", without=[DYNAMIC_MPR], look_at="mpr without dynamic MPR: always 0, which says that it is not in use"
)
def mpr_is_zero_without_dynamic_mpr(bench: Bench) -> None:
    """Dynamic MPR is not agreed: mpr is 0 in the SACK of a packet and of a probe."""
    bench.request(0, ackreq=1)
    bench.expect("SACK", ack_psn=0, mpr=0)
    bench.probe(1)
    bench.expect("SACK", probe_id=1, mpr=0)


@case("MRC-SACK-08/dynamic", agreed=[DYNAMIC_MPR], look_at="the unit of mpr: 128 PSNs")
def mpr_counts_units_of_128(bench: Bench) -> None:
    """Dynamic MPR is agreed: mpr says the window in units of 128, and the window is as large as it says."""
    bench.request(0, ackreq=1)
    units = bench.expect("SACK", ack_psn=0, mpr=bench.target.mpr).mpr
    bench.request(units * 128, ackreq=1)
    bench.expect("SACK", ack_psn=units * 128)


@case("MRC-SACK-09", look_at="which bit is which PSN: cack_psn + sack_offset is the least significant")
def the_bitmap_of_the_example(bench: Bench) -> None:
    """The example of the page: of PSNs 0 to 11, 5 and 8 are lost. cack_psn 4, sack_offset 1, bitmap 0b1110110."""
    for psn in (0, 1, 2, 3, 4, 6, 7, 9, 10):
        bench.request(psn)
    bench.request(11, ackreq=1)
    bench.expect("SACK", ack_psn=11, cack_psn=4, sack_offset=1, bitmap=0b1110110, above=[6, 7, 9, 10, 11])


@case("MRC-SACK-09/wrap", first_psn=(1 << 24) - 4, look_at="the bitmap across the end of the circle")
def the_bitmap_goes_past_the_end_of_the_circle(bench: Bench) -> None:
    """PSN 0xfffffc is missing, seven PSNs across the end have come: bits 1 to 7."""
    bench.send(*(bench.make.request(psn) for psn in range(1, 7)), bench.make.request(7, ackreq=1))
    bench.expect("SACK", ack_psn=7, cack_psn=-1, sack_offset=1, bitmap=0b11111110)


@case("MRC-SACK-09/whole", look_at="all 64 bits, the most significant among them")
def the_whole_bitmap_is_used(bench: Bench) -> None:
    """PSN 0 is missing and 1 to 63 have come, all but 32: bits 1 to 63 without bit 32."""
    arrived = [psn for psn in range(1, 64) if psn != 32]
    bench.send(*(bench.make.request(psn, ackreq=psn == 63) for psn in arrived))
    bench.expect("SACK", ack_psn=63, cack_psn=-1, above=arrived, bitmap=sum(1 << psn for psn in arrived))


@case("MRC-SACK-10", look_at="m: 1 for a packet that came CE, 0 for any other, whatever came before")
def m_says_whether_the_trigger_was_marked(bench: Bench) -> None:
    """A packet, a marked one, another: m is 0, 1, 0. A probe and a marked one: 0, 1."""
    for psn, ce in enumerate((False, True, False)):
        bench.request(psn, ackreq=1, ce=ce)
        bench.expect("SACK", ack_psn=psn, m=int(ce))
    for probe_id, ce in ((1, False), (2, True)):
        bench.probe(probe_id, ce=ce)
        bench.expect("SACK", probe_id=probe_id, m=int(ce))


def _ev_state_after(bench: Bench, m: int) -> tuple[int, str]:
    """The EV of the target's one write, and its state after a SACK with this m."""
    write = bench.written(0, pattern(16))
    bench.sack(0, to=write, m=m)
    bench.wait(us(10))
    return write.ev, bench.ev_state(write.ev)


@case("MRC-SACK-10/skip-once", look_at="what m=1 does to the EV of the SACK")
def m_1_skips_the_ev(bench: Bench) -> None:
    """The SACK of the target's write has m 1: its EV goes to SKIP."""
    ev, state = _ev_state_after(bench, 1)
    bench.check(state == "SKIP", f"EV {ev:#010x} in SKIP", f"it is in {state}")


@case("MRC-SACK-10/always-skip", target_evs=2, look_at="what m=2 does to the EV of the SACK")
def m_2_condemns_the_ev(bench: Bench) -> None:
    """The SACK of the target's write has m 2: its EV goes to ASSUMED_BAD."""
    ev, state = _ev_state_after(bench, 2)
    bench.check(state == "ASSUMED_BAD", f"EV {ev:#010x} in ASSUMED_BAD", f"it is in {state}")


@case("MRC-SACK-10/reserved", look_at="m=3, which is reserved: a test of single bits takes it for 1 or 2")
def m_3_changes_nothing(bench: Bench) -> None:
    """The SACK of the target's write has m 3: its EV stays GOOD, and the write completes all the same."""
    ev, state = _ev_state_after(bench, 3)
    bench.check(state == "GOOD", f"EV {ev:#010x} in GOOD", f"it is in {state}")
    bench.expect_completion("WRITE", wr_id=0)


@case("MRC-SACK-11", look_at="the order of the fields of the CC_STATE, and the widths of ooo_count and rcvd_bytes")
def the_cc_state_has_eight_bytes(bench: Bench) -> None:
    """tx_timestamp 0xabcd, three packets above a hole, 512 bytes and less than 256 more, rounded up: the eight bytes as
    they are sent."""
    for psn in (1, 2):
        filler = bench.request(psn, pattern(172))  # 40 + 8 + 12 + 20 + 172 + 4 = 256 bytes
        bench.check(filler.size == 256, "a packet of 256 bytes", f"it has {filler.size}")
    bench.request(3, timestamp=0xABCD, ackreq=1)
    sack = bench.expect("SACK", ack_psn=3, cack_psn=-1)
    found, wanted = _seth_and_cc_state(sack)[28:], bytes((0xAB, 0xCD, 0, 3, 0, 0, 0, 3))
    bench.check(found == wanted, f"CC_STATE {wanted.hex(' ')}", f"it is {found.hex(' ')}")


@case("MRC-SACK-11/penalty", look_at="byte 4 of the CC_STATE: restore_cwnd above seven bits of rcv_cwnd_pen")
def the_penalty_is_in_byte_4(bench: Bench) -> None:
    """The target is told to ask for a penalty of 5 and to restore: byte 4 is 0x85; without restore 0x7f for 127."""
    for psn, (penalty, restore, byte) in enumerate(((5, True, 0x85), (127, False, 0x7F), (0, False, 0x00))):
        bench.ask(lambda penalty=penalty, restore=restore: bench.qp.set_receiver_penalty(penalty, restore))  # type: ignore[misc]
        bench.request(psn, ackreq=1)
        sack = bench.expect("SACK", ack_psn=psn, rcv_cwnd_pen=penalty, restore_cwnd=int(restore))
        found = _seth_and_cc_state(sack)[32]
        bench.check(found == byte, f"byte 32 of the SACK {byte:#04x}", f"it is {found:#04x}")


@case("MRC-SACK-12", look_at="whose timestamp is reflected, and that nothing is where there was none")
def the_timestamp_is_reflected(bench: Bench) -> None:
    """Packets with timestamps 0x1234 (tsr 0) and 0xffff (tsr 1), one without a TSETH, and a probe with 0x0001."""
    bench.request(0, ackreq=1, timestamp=0x1234)
    bench.expect("SACK", ack_psn=0, tx_timestamp=0x1234)
    bench.request(1, ackreq=1, timestamp=0xFFFF, tsr=1)
    bench.expect("SACK", ack_psn=1, tx_timestamp=0xFFFF)
    bench.request(2, pattern(64), ackreq=1)
    bench.expect("SACK", ack_psn=2, tx_timestamp=0)
    bench.probe(1, timestamp=0x0001)
    bench.expect("SACK", probe_id=1, tx_timestamp=0x0001)


@case("MRC-SACK-12/one-burst", look_at="that each SACK of a burst reflects its own packet's timestamp")
def each_timestamp_of_a_burst_is_reflected(bench: Bench) -> None:
    """Four packets with AckReq in one burst, with timestamps 100, none, 300 and 400."""
    stamps = (100, None, 300, 400)
    bench.send(*(bench.make.request(psn, ackreq=1, timestamp=stamp) for psn, stamp in enumerate(stamps)))
    for psn, stamp in enumerate(stamps):
        bench.expect("SACK", ack_psn=psn, tx_timestamp=stamp or 0)


@case("MRC-SACK-13", look_at="ooo_count: packets above a hole, not PSNs up to the highest and not holes")
def ooo_count_counts_packets_above_a_hole(bench: Bench) -> None:
    """Packets come as 0, 2, 3, 7, 1, 4, 5, 6: above a hole there are 0, 1, 2, 3, 1, 1, 1, 0."""
    for psn, held in zip((0, 2, 3, 7, 1, 4, 5, 6), (0, 1, 2, 3, 1, 1, 1, 0), strict=True):
        bench.request(psn, ackreq=1)
        bench.expect("SACK", ack_psn=psn, ooo_count=held)


@case("MRC-SACK-14", look_at="what counts: UDP length + 40 of each new packet, the sum divided by 256 and rounded up")
def rcvd_bytes_is_a_running_total(bench: Bench) -> None:
    """Packets of many sizes: after each, rcvd_bytes is their sum / 256, rounded up."""
    total = 0
    for psn, length in enumerate((0, 1, 3, 100, 171, 172, 173, bench.mtu, 37, bench.mtu - 1)):
        total += bench.request(psn, pattern(length), ackreq=1).size
        bench.expect("SACK", ack_psn=psn, rcvd_bytes=-(-total // 256))


@case("MRC-SACK-14/timestamps", look_at="whether the TSETH's 4 bytes count: they are part of the UDP length")
def rcvd_bytes_counts_the_tseth(bench: Bench) -> None:
    """64 empty packets with a TSETH are 88 bytes each: 5632 together, 22 units; 84 bytes each would be 21."""
    bench.send(*(bench.make.request(psn, timestamp=1, ackreq=psn == 63) for psn in range(64)))
    bench.expect("SACK", ack_psn=63, rcvd_bytes=22)


@case("MRC-SACK-14/duplicates", look_at="what must not count: packets that came before, below epsn or above it")
def rcvd_bytes_does_not_count_duplicates(bench: Bench) -> None:
    """Two packets of a full path MTU, then each of them three times more: rcvd_bytes stays."""
    size = bench.request(0, pattern(bench.mtu)).size + bench.request(2, pattern(bench.mtu)).size
    for psn in (0, 2, 0, 2, 0, 2):
        bench.request(psn, pattern(bench.mtu), ackreq=1)
        bench.expect("SACK", ack_psn=psn, rcvd_bytes=-(-size // 256))


@case("MRC-SACK-14/rtx", look_at="whether a retransmission that is new to the target counts: it does")
def rcvd_bytes_counts_a_retransmission_once(bench: Bench) -> None:
    """PSN 0 comes for the first time with rtx: it counts."""
    size = bench.request(1, pattern(bench.mtu)).size
    size += bench.request(0, pattern(bench.mtu), rtx=1).size
    bench.expect("SACK", ack_psn=0, rcvd_bytes=-(-size // 256))


@case("MRC-SACK-14/trimmed", agreed=[TRIM_NACK], look_at="whether a trimmed packet counts: it has not arrived")
def rcvd_bytes_does_not_count_trimmed_packets(bench: Bench) -> None:
    """Eight packets come trimmed, then one whole: rcvd_bytes tells of that one alone."""
    bench.send(*(bench.make.request(psn, pattern(bench.mtu)).trimmed() for psn in range(8)))
    size = bench.request(0, pattern(bench.mtu), ackreq=1).size
    bench.expect("SACK", ack_psn=0, rcvd_bytes=-(-size // 256))


def expect_held(bench: Bench, sack: Heard, timestamp: int, held: int, sent_at: int, unit: int) -> None:
    """See that to a timestamp was added the time the packet was held: `held` ns, on a live network up to what passed
    between packet and SACK. In `unit` ns, in 16 bits."""
    added, least, most = (sack.tx_timestamp - timestamp) & 0xFFFF, held // unit, (sack.at - sent_at) // unit
    enough = least <= added <= most or most > 0xFFFF
    bench.check(enough, f"{least} to {most} added to timestamp {timestamp:#x}", f"{added} were: {sack}")


@case(
    "MRC-SACK-26",
    agreed=[SVC_TIME],
    look_at="the unit of tsr 0, 128 ns, and what counts as held: from receipt to answer",
)
def the_time_held_is_added(bench: Bench) -> None:
    """The target holds a packet for 256 us: the timestamp comes back 2000 units of 128 ns later."""
    bench.ask(lambda: bench.network.session.hold(us(256)))
    sent_at = bench.now
    # The sum is above 0x7fff: all 16 bits count.
    bench.request(0, ackreq=1, timestamp=0x7F00)
    expect_held(bench, bench.expect("SACK", ack_psn=0), 0x7F00, us(256), sent_at, 128)
    sent_at = bench.now
    bench.probe(1, timestamp=0xFFFF)
    expect_held(bench, bench.expect("SACK", probe_id=1), 0xFFFF, us(256), sent_at, 128)


@case("MRC-SACK-26/tsr-1", agreed=[SVC_TIME], look_at="the unit of tsr 1: that of the profile (tsr1_unit_ns)")
def the_time_held_is_in_the_packets_own_unit(bench: Bench) -> None:
    """With tsr 1 the 256 us that the packet is held are 256 units of 1 us."""
    bench.ask(lambda: bench.network.session.hold(us(256)))
    sent_at = bench.now
    bench.request(0, ackreq=1, timestamp=0x1000, tsr=1)
    expect_held(bench, bench.expect("SACK", ack_psn=0), 0x1000, us(256), sent_at, bench.profile.tsr1_unit_ns)


@case("MRC-SACK-26/no-timestamp", agreed=[SVC_TIME], look_at="a packet without TSETH: 0, not the time held")
def nothing_is_added_where_there_was_no_timestamp(bench: Bench) -> None:
    """A packet without TSETH is held for 256 us: its SACK has timestamp 0."""
    bench.ask(lambda: bench.network.session.hold(us(256)))
    bench.request(0, ackreq=1)
    bench.expect("SACK", ack_psn=0, tx_timestamp=0)


@case("MRC-SACK-26/not-agreed", without=[SVC_TIME], look_at="whether service time is added without being agreed")
def nothing_is_added_without_agreement(bench: Bench) -> None:
    """Service time is not agreed: a timestamp comes back as it was, however long the packet was held."""
    bench.ask(lambda: bench.network.session.hold(us(256)))
    bench.request(0, ackreq=1, timestamp=0x1000, ecn=CE)
    bench.expect("SACK", ack_psn=0, tx_timestamp=0x1000)
