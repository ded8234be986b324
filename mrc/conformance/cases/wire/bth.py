# SPDX-License-Identifier: BSD-2-Clause
"""The base transport header, bit by bit (wire.md section 3)."""

from __future__ import annotations

from mrc.conformance.cases.wire.every_kind import every_kind
from mrc.conformance.script import TRIM_NACK, Bench, Heard, case, ms, pattern, us, wire


def _bth(packet: Heard) -> bytes:
    """The 12 bytes behind UDP."""
    at = len(packet.frame) - (packet.carriage.udp_length or 0) + 8
    return packet.frame[at : at + 12]


@case("MRC-WIRE-07", own_timers=True, look_at="bits 3:0 of BTH byte 1, in packets of every kind")
def tver_is_sent_as_0(bench: Bench) -> None:
    """TVer is 0 in every packet of the target's."""
    for packet in every_kind(bench):
        tver = _bth(packet)[1] & 0x0F
        bench.check(tver == 0, "TVer 0", f"it is {tver}: {packet}")


@case("MRC-WIRE-08", look_at="whether TVer is looked at before anything else is believed")
def another_tver_is_dropped(bench: Bench) -> None:
    """Requests and a probe with TVer 1, 8 and 15 are dropped and counted: no answer, nothing written."""
    for tver in (1, 8, 15):
        for packet in (bench.make.request(0, pattern(32), ackreq=1), bench.make.probe(1)):
            bench.expect_ignored(packet.but(tver=tver))
    bench.expect_goes_on(0)


@case("MRC-WIRE-20", options={"timestamps": 0}, look_at="the place of each field in the twelve bytes")
def the_bth_has_twelve_bytes(bench: Bench) -> None:
    """The target writes 3 bytes. Its BTH: opcode 0xca, pad 1, P_Key, 0, our QPN, AckReq alone, its first PSN. Sent
    again it has the rtx bit as well."""
    write = bench.written(0, pattern(3))
    ends = bench.tester.qpn.to_bytes(3, "big"), bench.target.first_psn.to_bytes(3, "big")
    wanted = bytes((0xCA, 0x10, 0xFF, 0xFF, 0x00)) + ends[0] + b"\x80" + ends[1]
    bench.check(_bth(write) == wanted, f"BTH {wanted.hex(' ')}", f"it is {_bth(write).hex(' ')}")
    bench.nack(write, wire.TRIMMED_LASTHOP)
    again = bench.expect("WRITE", psn=0, within=us(100))
    wanted = wanted[:8] + b"\xa0" + wanted[9:]
    bench.check(_bth(again) == wanted, f"BTH {wanted.hex(' ')}", f"it is {_bth(again).hex(' ')}")


@case("MRC-WIRE-20/received", look_at="the place of each field in the twelve bytes")
def the_bth_is_read_in_its_places(bench: Bench) -> None:
    """All that may be set in the BTH of a request is set (SE, M, reserved bits of bytes 4 and 8, AckReq, rtx, ts,
    pad 3): it is taken for what it is."""
    bench.request(
        0,
        pattern(13),
        se=1,
        bth_m=1,
        fecn=1,
        becn=1,
        bth_reserved=0x3F,
        reserved2=1,
        reserved3=15,
        ackreq=1,
        rtx=1,
        timestamp=77,
    )
    bench.expect("SACK", ack_psn=0, cack_psn=0, rtx=1, tx_timestamp=77)
    bench.expect_memory(0, pattern(13))
    bench.expect_nothing_written()


@case("MRC-WIRE-22", own_timers=True, look_at="bits 7 and 6 of BTH byte 1, in packets of every kind")
def se_and_m_are_sent_as_0(bench: Bench) -> None:
    """SE and M are 0 in every packet of the target's."""
    for packet in every_kind(bench):
        bits = _bth(packet)[1] >> 6
        bench.check(bits == 0, "SE and M 0", f"they are {bits:02b}: {packet}")


@case("MRC-WIRE-23", look_at="the pad count and the length of what the target sends")
def the_padding_fills_four_bytes(bench: Bench) -> None:
    """The target writes 0 to 8 bytes: the pad count is what lacks to a multiple of four, and so many bytes follow."""
    for psn, length in enumerate(range(9)):
        packet = bench.written(psn, pattern(length), pad=-length % 4, payload=pattern(length))
        rest = (packet.udp_len - 8) % 4
        bench.check(rest == 0, "a multiple of four bytes behind UDP", f"{packet.udp_len - 8}: {packet}")


@case("MRC-WIRE-23/received", look_at="whether padding is taken for payload")
def padding_is_not_written(bench: Bench) -> None:
    """Requests of 1 to 8 bytes whose padding is 0xee: just the payload is written."""
    for psn, length in enumerate(range(1, 9)):
        packet = bench.make.request(psn, pattern(length, psn), offset=64 * psn)
        bench.send(packet.but(padding=b"\xee" * (-length % 4)))
        bench.expect("ACK", psn=psn)
        bench.expect_memory(64 * psn, pattern(length, psn))
    bench.expect_nothing_written()


@case("MRC-WIRE-24", own_timers=True, look_at="bytes 2 and 3 of the BTH, in packets of every kind")
def the_pkey_is_ffff(bench: Bench) -> None:
    """The P_Key is 0xffff in every packet of the target's."""
    for packet in every_kind(bench):
        found = _bth(packet)[2:4]
        bench.check(found == b"\xff\xff", "P_Key ff ff", f"it is {found.hex(' ')}: {packet}")


@case("MRC-WIRE-25", look_at="the rtx bit: of retransmissions, and of what is new behind them")
def rtx_tells_retransmissions(bench: Bench) -> None:
    """The target's four packets go out with rtx 0; the one that is NACKed with rtx 1; a write posted later with 0."""
    bench.post_write(pattern(4 * bench.mtu))
    writes = [bench.expect("WRITE", psn=psn, rtx=0) for psn in range(4)]
    bench.nack(writes[2], wire.TRIMMED_LASTHOP)
    bench.expect("WRITE", psn=2, rtx=1, within=us(100))
    bench.written(4, pattern(4), rtx=0)


@case("MRC-WIRE-25/by-timer", own_timers=True, look_at="the rtx bit of what a timer sends again")
def what_a_timer_sends_again_has_rtx(bench: Bench) -> None:
    """Nobody answers the target's write: sooner or later it comes again, with rtx 1 each time."""
    bench.written(0, pattern(4), rtx=0)
    for _ in range(3):
        bench.expect("WRITE", psn=0, rtx=1, within=ms(200))


@case("MRC-WIRE-26", look_at="whose rtx bit a SACK has: that of the packet that triggered it")
def a_sack_copies_rtx(bench: Bench) -> None:
    """Of four packets in one burst, all with AckReq, two have rtx: their SACKs have it and the others have not."""
    bits = (0, 1, 0, 1)
    bench.send_together(*(bench.make.request(psn, ackreq=1, rtx=rtx) for psn, rtx in enumerate(bits)))
    for psn, rtx in enumerate(bits):
        bench.expect("SACK", ack_psn=psn, rtx=rtx)


@case("MRC-WIRE-27", look_at="whose rtx bit a NACK has: that of the packet that caused it")
def a_nack_copies_rtx(bench: Bench) -> None:
    """Three packets beyond the window, the second with rtx: its NACK has it and the others have not."""
    for number, rtx in enumerate((0, 1, 0)):
        bench.request(bench.window + number, rtx=rtx)
        bench.expect("NACK", nack_psn=bench.window + number, rtx=rtx)


@case("MRC-WIRE-27/trimmed", agreed=[TRIM_NACK], look_at="whose rtx bit the NACK of a trimmed packet has")
def a_nack_of_a_trimmed_packet_copies_rtx(bench: Bench) -> None:
    """Two trimmed packets, one with rtx: their NACKs have what they had."""
    for psn, rtx in enumerate((1, 0)):
        bench.send(bench.make.request(psn, pattern(bench.mtu), rtx=rtx).trimmed())
        bench.expect("NACK", nack_psn=psn, reason=wire.TRIMMED, rtx=rtx)


@case("MRC-WIRE-28", options={"timestamps": 1}, look_at="whether ts and the TSETH come together")
def ts_is_1_with_a_tseth(bench: Bench) -> None:
    """The target sends with timestamps: ts is 1, and behind the METH lie 4 bytes with ftype 1."""
    bench.written(0, pattern(8), ts=1, ftype=1, payload=pattern(8), udp_len=8 + 12 + 4 + 4 + 16 + 8 + 4)


@case("MRC-WIRE-28/without", options={"timestamps": 0}, look_at="whether ts and the TSETH come together")
def ts_is_0_without_a_tseth(bench: Bench) -> None:
    """The target sends without timestamps: ts is 0, and the RETH follows the METH at once."""
    bench.written(0, pattern(8), ts=0, payload=pattern(8), udp_len=8 + 12 + 4 + 16 + 8 + 4)


@case("MRC-WIRE-28/received", look_at="whether ts says where the RETH begins")
def ts_says_whether_there_is_a_tseth(bench: Bench) -> None:
    """Requests with and without TSETH, one after the other and in one burst: all are written where they belong."""
    packets = [
        bench.make.request(psn, pattern(24, psn), offset=32 * psn, timestamp=99 if psn % 2 else None)
        for psn in range(8)
    ]
    for burst in (packets[:1], packets[1:2], packets[2:]):
        bench.send(*burst)
        bench.expect("ACK", psn=burst[-1].psn)
    for psn in range(8):
        bench.expect_memory(32 * psn, pattern(24, psn))


@case("MRC-WIRE-29", look_at="DQP and PSN of requests: the peer's QPN, PSNs that count from the first one on")
def requests_name_the_peer_and_count(bench: Bench) -> None:
    """The target's five packets, of two writes: our QPN in each, PSNs 0 to 4 from its first PSN on."""
    bench.post_write(pattern(3 * bench.mtu))
    bench.post_write(pattern(2 * bench.mtu))
    for psn in range(5):
        packet = bench.expect("WRITE", dqp=bench.tester.qpn)
        bench.check(packet.psn == psn, f"PSN {psn}", f"it is {packet}")


@case("MRC-WIRE-29/wrap", target_first_psn=(1 << 24) - 2, look_at="the PSN after 0xffffff")
def psns_of_requests_wrap(bench: Bench) -> None:
    """The target's first PSN is 0xfffffe: its packets have PSNs 0xfffffe, 0xffffff, 0, 1, and an ACK of 1 completes
    them."""
    bench.post_write(pattern(4 * bench.mtu))
    for wanted in (0xFFFFFE, 0xFFFFFF, 0, 1):
        found = int.from_bytes(_bth(bench.expect("WRITE"))[9:12], "big")
        bench.check(found == wanted, f"PSN {wanted:#x}", f"it is {found:#x}")
    bench.ack(3, msn=1)
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=0)


@case("MRC-WIRE-30", look_at="DQP and PSN of a SACK: the requestor's QPN, and cack_psn")
def a_sack_names_the_requestor_and_cack_psn(bench: Bench) -> None:
    """PSN 0 has come, 5 triggers: the SACK's BTH says our QPN and PSN 0, not 5. So does the answer to a probe."""
    bench.request(0)
    bench.request(5, ackreq=1)
    bench.expect("SACK", ack_psn=5, dqp=bench.tester.qpn, psn=0)
    bench.probe(1)
    bench.expect("SACK", probe_id=1, dqp=bench.tester.qpn, psn=0)


@case("MRC-WIRE-31", look_at="DQP and PSN of a NACK: the requestor's QPN, and the PSN of the packet that caused it")
def a_nack_names_the_requestor_and_the_packet(bench: Bench) -> None:
    """PSN 0 has come, one far beyond the window follows: the NACK's BTH says our QPN and that PSN."""
    bench.request(0)
    bench.request(bench.window + 77)
    bench.expect("NACK", nack_psn=bench.window + 77, dqp=bench.tester.qpn, psn=bench.window + 77)


@case("MRC-WIRE-32", look_at="DQP and PSN of a reliability probe, and the PSN of the write after it")
def a_probe_uses_no_psn(bench: Bench) -> None:
    """The target's write is not answered and it probes, with our QPN and PSN 0. What it writes next has PSN 1."""
    bench.written(0, pattern(8))
    probe = bench.expect("PROBE", dqp=bench.tester.qpn, psn=0, within=ms(40))
    bench.sack(0, to=probe)
    bench.written(1, pattern(8), rtx=0)


@case("MRC-WIRE-32/received", look_at="whether the PSN of a probe, 0, is taken for a request's")
def a_probe_moves_nothing(bench: Bench) -> None:
    """Probes between requests, before the first and above a hole: they move neither cack_psn nor the bitmap."""
    bench.probe(1)
    bench.expect("SACK", probe_id=1, cack_psn=-1, bitmap=0)
    bench.request(0)
    bench.request(2)
    for probe_id in (2, 3):
        bench.probe(probe_id)
        bench.expect("SACK", probe_id=probe_id, cack_psn=0, above=[2], ooo_count=1)
    bench.request(1, ackreq=1)
    bench.expect("SACK", ack_psn=1, cack_psn=2)


@case("MRC-WIRE-33", look_at="DQP 2 and the request id in PSN bits 15:0 of an endpoint response")
def an_endpoint_response_has_dqp_2_and_the_id(bench: Bench) -> None:
    """EV probes with ids 0, 0xbeef and 0xffff are answered to DQP 2 with the same ids."""
    for request_id in (0, 0xBEEF, 0xFFFF):
        bench.endpoint_request(request_id)
        bench.expect("ENDPOINT_RESPONSE", request_id=request_id, dqp=2)


@case("MRC-WIRE-33/sent", look_at="DQP 2 and the request id in PSN bits 15:0 of an endpoint request")
def an_endpoint_request_has_dqp_2_and_an_id(bench: Bench) -> None:
    """The target is told to probe two EVs: its requests go to DQP 2 with ids of their own, and our answers, which give
    the ids back, are taken."""
    evs = [plane.target_evs[0] for plane in bench.planes]
    ids = set()
    for ev in evs:
        bench.probe_ev(ev)
        ids.add(bench.expect("ENDPOINT_REQUEST", op=wire.EV_PROBE, dqp=2, ev=ev).request_id)
    bench.check(len(ids) == len(evs), "an id of its own in each request", f"they are {sorted(ids)}")
    bench.wait(us(100))
    results = bench.ask_if_it_can("results of EV probes", bench.network.session.ev_probe_results)
    if results is not None:
        answered = [ev for ev in evs if results.get(ev) is not None]
        bench.check(answered == evs, "an answer for both EVs", f"the target knows of {len(answered)}")
