# SPDX-License-Identifier: BSD-2-Clause
"""What a requestor sends, and what it makes of ACKs."""

from __future__ import annotations

from mrc.rc.conformance.script import RcBench, ms, pattern, rc_case, seconds

PATIENT = {"timeout": 20}  # 4.3 s: nothing is sent again while a script, or a slow target, goes on


@rc_case("RC-REQ-01", look_at="how PSNs go on from packet to packet and from message to message")
def psns_count_up(bench: RcBench) -> None:
    """Messages of 1, 3, 0 and 1.5 path MTUs have PSNs 0, 1 to 3, 4, and 5 to 6."""
    for size in (bench.mtu, 3 * bench.mtu, 0, bench.mtu * 3 // 2):
        bench.post_write(pattern(size))
    lengths = (bench.mtu, bench.mtu, bench.mtu, bench.mtu, 0, bench.mtu, bench.mtu // 2)
    for psn, length in enumerate(lengths):
        write = bench.expect("WRITE", length=length)
        bench.check(write.psn == psn, f"PSN {psn}", f"{write}")


@rc_case("RC-REQ-01/wrap", target_first_psn=(1 << 24) - 2, look_at="the next PSN modulo 2^24, in ACKs too")
def psns_wrap(bench: RcBench) -> None:
    """A message of four packets lies across PSN 0; its ACK, whose PSN is the smaller number, completes it."""
    wr_id = bench.post_write(pattern(4 * bench.mtu))
    for psn in range(4):
        bench.expect("WRITE", psn=psn)
    bench.ack(3, msn=1)
    bench.expect_completion("WRITE", wr_id=wr_id)


@rc_case("RC-REQ-02", look_at="AckReq: without it the responder need not answer, and the write never completes")
def the_last_packet_asks(bench: RcBench) -> None:
    """The last packet of messages of one and of three packets has AckReq."""
    bench.written(0, pattern(8), ackreq=1)
    bench.written(3, pattern(3 * bench.mtu), ackreq=1)


@rc_case("RC-REQ-03", look_at="when a write completes: with its last PSN, not with its first")
def a_write_completes_with_its_last_psn(bench: RcBench) -> None:
    """Two messages of two packets, acknowledged PSN by PSN: they complete with PSN 1 and PSN 3."""
    ids = [bench.post_write(pattern(2 * bench.mtu)) for _ in range(2)]
    for psn in range(4):
        bench.expect("WRITE", psn=psn)
    for number, wr_id in enumerate(ids):
        bench.ack(2 * number, msn=number)
        bench.expect_no_completion()
        bench.ack(2 * number + 1, msn=number + 1)
        bench.expect_completion("WRITE", wr_id=wr_id, length=2 * bench.mtu)


@rc_case("RC-REQ-04", look_at="an ACK that says more than one thing: all ACKs before it may be lost")
def one_ack_for_many(bench: RcBench) -> None:
    """Five writes, one ACK of the last: all five complete, in order, and nothing is sent again."""
    ids = [bench.post_write(pattern(8)) for _ in range(5)]
    for psn in range(5):
        bench.expect("WRITE", psn=psn)
    bench.ack(4, msn=5)
    for wr_id in ids:
        bench.expect_completion("WRITE", wr_id=wr_id)
    bench.expect_silence(seconds(1))


@rc_case("RC-REQ-05", options=PATIENT, look_at="ACKs of PSNs outside what is on its way")
def ghost_acks_change_nothing(bench: RcBench) -> None:
    """With PSN 0 acknowledged and PSN 1 on its way come ACKs of PSN 0, of PSN -1 and of PSN 2, which was never sent:
    nothing completes and nothing is sent; the ACK of PSN 1 still counts."""
    first, second = bench.post_write(pattern(8)), bench.post_write(pattern(8))
    for psn in range(2):
        bench.expect("WRITE", psn=psn)
    bench.ack(0, msn=1)
    bench.expect_completion("WRITE", wr_id=first)
    for psn in (0, -1, 2, 1000, -(1 << 22), 1 << 22):
        bench.ack(psn, msn=1)
    bench.expect_silence(ms(10))
    bench.expect_no_completion()
    bench.ack(1, msn=2)
    bench.expect_completion("WRITE", wr_id=second)


@rc_case("RC-REQ-05/naks", options=PATIENT, look_at="NAKs of PSNs outside what is on its way")
def ghost_naks_change_nothing(bench: RcBench) -> None:
    """NAKs of a sequence error and of a remote access error for PSNs that were acknowledged, or never sent: the QP goes
    on, and nothing is sent again."""
    for number in range(2):
        bench.written(number, pattern(8))
    bench.ack(0, msn=1)
    for syndrome in (0x60, 0x62):
        for psn in (-1, 0, 2):
            bench.nak(psn, syndrome)
    bench.expect_silence(ms(10))
    bench.expect_state("RTS")


@rc_case("RC-REQ-06", look_at="what a credit count holds up: SENDs and immediates, never plain writes")
def credits_do_not_hold_writes_up(bench: RcBench) -> None:
    """Each ACK grants no credits at all (code 0), or some: the next write leaves nevertheless."""
    for psn, credits in enumerate((0, 1, 0x1E, 0x1F, 0)):
        wr_id = bench.post_write(pattern(8))
        bench.expect("WRITE", psn=psn)
        bench.nak(psn, credits, msn=psn + 1)
        bench.expect_completion("WRITE", wr_id=wr_id)


@rc_case("RC-REQ-07", options=PATIENT, look_at="syndromes that mean nothing: 010xxxxx, 1xxxxxxx, NAK codes from 5 on")
def reserved_syndromes_change_nothing(bench: RcBench) -> None:
    """Answers with reserved syndromes for a PSN on its way: it neither completes nor fails, and is not sent again."""
    wr_id = bench.post_write(pattern(8))
    bench.expect("WRITE", psn=0)
    for syndrome in (0x40, 0x5F, 0x65, 0x7F, 0x80, 0xFF):
        bench.nak(0, syndrome)
    bench.expect_silence(ms(10))
    bench.expect_no_completion()
    bench.ack(0, msn=1)
    bench.expect_completion("WRITE", wr_id=wr_id)


@rc_case("RC-REQ-08", options=PATIENT, look_at="the order of messages: RC has one")
def messages_leave_in_order(bench: RcBench) -> None:
    """Ten messages of different sizes: their payload leaves in the order they were posted, none between another's
    packets."""
    datas = [pattern(size, number) for number, size in enumerate((3000, 10, 0, 1024, 2049, 1, 5000, 64, 4096, 7))]
    for data in datas:
        bench.post_write(data)
    for data in datas:
        got = b""
        while True:
            write = bench.expect("WRITE")
            got += write.payload
            if write.opcode in (0x08, 0x0A):
                break
        bench.check(got == data, f"{len(data)} bytes of one message", f"{len(got)} bytes, or others")
