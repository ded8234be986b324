# SPDX-License-Identifier: BSD-2-Clause
"""When a transmission is lost, and what is sent again then (behaviour.md, Requestor, Loss)."""

from __future__ import annotations

from mrc.conformance.script import TRIM_NACK, Bench, Heard, case, other_than, pattern, us, wire

RTT = us(200)


def learn_the_rtt(bench: Bench) -> None:
    """Twenty writes, each acknowledged after 200 us: srtt is 200 us, and rttvar next to nothing. PSN 0 to 19."""
    bench.answer_after = RTT
    for psn in range(20):
        write = bench.written(psn, pattern(8))
        bench.wait(RTT)
        bench.sack(psn, to=write)
    bench.wait(us(10))
    bench.read("PROBE")  # on a real network a round trip may take longer than the ones before


def apart(bench: Bench, first: int, count: int, interval: int) -> list[Heard]:
    """Writes of a packet each, sent so long after one another."""
    writes = []
    for psn in range(first, first + count):
        writes.append(bench.written(psn, pattern(8)))
        bench.wait(interval)
    return writes


def _burst(bench: Bench, packets: int) -> list[Heard]:
    bench.post_write(pattern(packets * bench.mtu))
    return [bench.expect("WRITE", psn=psn) for psn in range(packets)]


@case("MRC-LOSS-01", agreed=[TRIM_NACK], look_at="whether a NACK is enough, with nothing acknowledged")
def a_nack_loses_a_packet(bench: Bench) -> None:
    """PSN 3 of five is NACKed: it is sent again at once, and nothing else is."""
    writes = _burst(bench, 5)
    bench.nack(writes[3], wire.TRIMMED)
    bench.expect("WRITE", psn=3, rtx=1, within=us(10), payload=writes[3].payload)
    bench.expect_no("WRITE", within=us(100))


@case("MRC-LOSS-01/last-hop", agreed=[TRIM_NACK], look_at="whether TRIMMED_LASTHOP loses a packet as TRIMMED does")
def a_nack_from_the_last_hop_loses_a_packet(bench: Bench) -> None:
    """PSN 3 of five is NACKed TRIMMED_LASTHOP: it is sent again at once, and nothing else is."""
    writes = _burst(bench, 5)
    bench.nack(writes[3], wire.TRIMMED_LASTHOP)
    bench.expect("WRITE", psn=3, rtx=1, within=us(10), payload=writes[3].payload)


@case("MRC-LOSS-02", look_at="what of an acknowledgement makes a packet lost: one transmitted a guard later")
def a_hole_is_lost_once_something_later_arrived(bench: Bench) -> None:
    """Of packets 100 us apart PSN 20 is missing: it is lost once PSN 26 has arrived, 600 us later."""
    learn_the_rtt(bench)
    writes = apart(bench, 20, 7, us(100))
    bench.sack(19, [26], to=writes[6])
    bench.expect("WRITE", psn=20, rtx=1, within=us(10))


@case("MRC-LOSS-03", look_at="whether loss is judged by transmissions or by PSNs")
def a_retransmission_is_not_lost_by_the_next_sack(bench: Bench) -> None:
    """PSN 20 was sent again. SACKs of packets 27 and 28, which left before it, report it missing still: it is not sent
    a third time."""
    learn_the_rtt(bench)
    writes = apart(bench, 20, 9, us(100))
    bench.sack(19, [21, 22, 23, 24, 25, 26], to=writes[6])
    bench.expect("WRITE", psn=20, rtx=1, within=us(10))
    bench.sack(19, [*range(21, 28)], to=writes[7])
    bench.sack(19, [*range(21, 29)], to=writes[8])
    bench.expect_no("WRITE", within=us(150), psn=20)


@case("MRC-LOSS-05", look_at="the guard in packets: three, and not fewer")
def two_packets_later_is_no_loss(bench: Bench) -> None:
    """PSN 20 is missing. That PSN 22, sent two packets and 200 us later, has arrived loses nothing; that PSN 23 has
    does."""
    learn_the_rtt(bench)
    writes = apart(bench, 20, 4, us(100))
    bench.sack(19, [21, 22], to=writes[2])
    bench.expect_no("WRITE", within=us(10), psn=20)
    bench.sack(19, [21, 22, 23], to=writes[3])
    bench.expect("WRITE", psn=20, rtx=1, within=us(10))


@case("MRC-LOSS-05/time", look_at="the guard in time: RTT/4, however many packets went by")
def a_quarter_of_an_rtt_has_to_pass(bench: Bench) -> None:
    """Packets leave 5 us apart, RTT/4 is 50 us. PSN 20 is missing: PSN 28, 40 us later, loses nothing; PSN 32, 60 us
    later, does."""
    bench.needs_virtual_time("5 us from 10")
    learn_the_rtt(bench)
    writes = apart(bench, 20, 13, us(5))
    bench.sack(19, range(21, 29), to=writes[8])
    bench.expect_no("WRITE", within=us(10), psn=20)
    bench.sack(19, range(21, 33), to=writes[12])
    bench.expect("WRITE", psn=20, rtx=1, within=us(10))


@case("MRC-LOSS-09", look_at="when the probe for a lost tail leaves: one srtt + 4 rttvar after the last transmission")
def a_probe_finds_a_lost_tail(bench: Bench) -> None:
    """srtt is 200 us and rttvar next to nothing. Of a write of four packets the last two are lost: a probe comes
    between one and one and a half round trips after the last of them, and its answer brings both again within 10
    us."""
    learn_the_rtt(bench)
    bench.post_write(pattern(4 * bench.mtu))
    writes = [bench.expect("WRITE", psn=psn) for psn in range(20, 24)]
    probe = bench.expect("PROBE", after=RTT, within=RTT * 3 // 2, since=writes[-1].at)
    bench.wait(RTT)
    bench.sack(21, to=probe)
    for psn in (22, 23):
        bench.expect("WRITE", psn=psn, rtx=1, within=us(10))


@case("MRC-LOSS-10", look_at="whether what has arrived is sent again as well, as go-back-N does")
def only_what_is_missing_is_sent_again(bench: Bench) -> None:
    """Of 20 packets 100 us apart PSN 22 and 25 are missing: these two are sent again, with rtx, and no other."""
    learn_the_rtt(bench)
    writes = apart(bench, 20, 20, us(100))
    bench.sack(21, [psn for psn in range(23, 40) if psn != 25], to=writes[-1])
    bench.wait(us(100))
    found = [(write.psn, write.rtx) for write in bench.read("WRITE")]
    bench.check(found == [(22, 1), (25, 1)], "PSN 22 and 25 again", f"(PSN, rtx) {found}")


@case(
    "MRC-LOSS-11",
    target_evs=2,
    agreed=[TRIM_NACK],
    look_at="which EV a retransmission takes: any but the one that was NACKed",
)
def a_retransmission_takes_another_ev(bench: Bench) -> None:
    """Sixteen packets are NACKed one by one, those that are sent again too: never does one leave on the EV that its
    NACK names."""
    for psn, write in enumerate(_burst(bench, 16)):
        for _ in range(2):
            bench.nack(write, wire.TRIMMED_LASTHOP)
            write = bench.expect("WRITE", psn=psn, rtx=1, ev=other_than(write.ev))
