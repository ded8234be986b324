# SPDX-License-Identifier: BSD-2-Clause
"""How an RC requestor goes back and resends: NAKs of sequence errors, timeouts, receivers that are not ready. And when
it gives up."""

from __future__ import annotations

from mrc.rc.conformance.script import Heard, RcBench, ms, pattern, rc_case, seconds, us, wire

T = 4096 << 14  # ns, the local ACK timeout of t 14: 67.1 ms
T14 = {"timeout": 14}
_RNR_12 = wire.RNR_NAK | 12  # 0.64 ms


def _sent(bench: RcBench, packets: int) -> list[Heard]:
    """A message of so many full packets, each as it left."""
    bench.post_write(pattern(packets * bench.mtu))
    return [bench.expect("WRITE", psn=psn) for psn in range(packets)]


def _expect_again(bench: RcBench, first: list[Heard], back: int, **when: int) -> None:
    """The packets of `first` from `back` on come once more, in order, and no other."""
    for number, psn in enumerate(range(back, len(first))):
        again = bench.expect("WRITE", **(when if number == 0 else {}))
        bench.check(again.psn == psn, f"PSN {psn} again", f"{again}")


@rc_case("RC-LOSS-01", look_at="where a requestor goes back to: to the PSN of the NAK, with everything behind it")
def back_to_the_gap(bench: RcBench) -> None:
    """Of eight packets PSN 3 is NAKed: PSNs 3 to 7 leave again at once, in order, and 0 to 2 do not."""
    first = _sent(bench, 8)
    bench.nak(3, wire.SEQUENCE_ERROR)
    _expect_again(bench, first, 3, within=us(100))
    bench.ack(7, msn=1)
    bench.expect_completion("WRITE")
    bench.expect_silence(seconds(1))


@rc_case("RC-LOSS-01/acknowledges", look_at="what a NAK says of the PSNs before its own")
def a_nak_acknowledges(bench: RcBench) -> None:
    """Three writes of one packet, PSN 2 is NAKed: the first two complete."""
    ids = [bench.post_write(pattern(8)) for _ in range(3)]
    for psn in range(3):
        bench.expect("WRITE", psn=psn)
    bench.nak(2, wire.SEQUENCE_ERROR)
    for wr_id in ids[:2]:
        bench.expect_completion("WRITE", wr_id=wr_id)
    bench.expect_no_completion()
    bench.expect("WRITE", psn=2)


@rc_case("RC-LOSS-02", look_at="what is sent the second time: the same packets, not a message cut anew")
def the_same_packets(bench: RcBench) -> None:
    """A message with immediate of 4.5 path MTUs is NAKed at PSN 1 and at PSN 4: each packet comes again byte for byte,
    but for its AckReq and what IP puts in front."""
    bench.post_write(pattern(4 * bench.mtu + 100), immediate=0xABCD)
    first = [bench.expect("WRITE", psn=psn) for psn in range(5)]
    for back in (1, 4):
        bench.nak(back, wire.SEQUENCE_ERROR)
        for psn in range(back, 5):
            again = bench.expect("WRITE", psn=psn)
            before, after = (
                {**each.layers, "bth": {**each.layers["bth"], "ackreq": 0}} for each in (first[psn], again)
            )
            bench.check(before == after and first[psn].payload == again.payload, f"{first[psn]} once more", f"{again}")


@rc_case("RC-LOSS-03", options=T14, look_at="the local ACK timeout, 4.096 us x 2^t, and what is sent when it ends")
def silence_is_a_loss(bench: RcBench) -> None:
    """With t 14 and no answer at all, four packets leave again after 67.1 ms to 268 ms, the oldest first."""
    first = _sent(bench, 4)
    _expect_again(bench, first, 0, after=T, within=4 * T, since=first[-1].at)


@rc_case("RC-LOSS-03/partly", options=T14, look_at="which packet a timeout goes back to: the oldest not acknowledged")
def back_to_the_oldest(bench: RcBench) -> None:
    """PSNs 0 and 1 of four are acknowledged, then there is silence: PSNs 2 and 3 leave again."""
    first = _sent(bench, 4)
    bench.ack(1, msn=0)
    _expect_again(bench, first, 2, after=T, within=4 * T)


@rc_case("RC-LOSS-03/other", options={"timeout": 16}, look_at="t: each one more doubles the timeout")
def another_timeout(bench: RcBench) -> None:
    """With t 16 it takes 268 ms to 1.07 s."""
    first = _sent(bench, 1)
    _expect_again(bench, first, 0, after=4096 << 16, within=4 * (4096 << 16), since=first[-1].at)


@rc_case("RC-LOSS-04", options={"timeout": 18}, look_at="what starts the local ACK timeout afresh")
def progress_starts_the_timeout_afresh(bench: RcBench) -> None:
    """With a timeout of 1.07 s, five packets and one ACK more every 0.7 s: nothing is sent again, although the last
    waits for 3.5 s."""
    _sent(bench, 5)
    for psn in range(4):
        bench.wait(ms(700))
        bench.ack(psn, msn=0)
    bench.expect_silence(ms(700))
    bench.ack(4, msn=1)
    bench.expect_completion("WRITE")


def _gives_up_after(bench: RcBench, retries: int) -> None:
    failed, flushed = bench.post_write(pattern(8)), bench.post_write(pattern(8))
    for _ in range(1 + retries):
        for psn in range(2):
            bench.expect("WRITE", psn=psn, within=4 * T)
    bench.expect_no_completion()
    bench.wait(4 * T)
    bench.expect_completion("WRITE", wr_id=failed, status="RETRY_EXCEEDED")
    bench.expect_completion("WRITE", wr_id=flushed, status="FLUSHED")
    bench.expect_state("ERROR")
    bench.expect_silence(seconds(1))


@rc_case("RC-LOSS-05", options={**T14, "retry_count": 3}, look_at="how often is tried, and what it ends with")
def it_gives_up(bench: RcBench) -> None:
    """With retry_count 3 and a dead peer: sent once, then three times again; RETRY_EXCEEDED, FLUSHED, and silence."""
    _gives_up_after(bench, 3)


@rc_case("RC-LOSS-05/none", options={**T14, "retry_count": 0}, look_at="a retry_count of 0")
def it_gives_up_at_once(bench: RcBench) -> None:
    """With retry_count 0 nothing is sent again at all."""
    _gives_up_after(bench, 0)


@rc_case("RC-LOSS-05/seven", options={**T14, "retry_count": 7}, look_at="a retry_count of 7, which is a number")
def seven_retries_are_seven(bench: RcBench) -> None:
    """With retry_count 7 there are seven."""
    _gives_up_after(bench, 7)


@rc_case("RC-LOSS-06", options={**T14, "retry_count": 2}, look_at="what counts as a retry: a NAK like a timeout")
def naks_count(bench: RcBench) -> None:
    """With retry_count 2 the third NAK for the same PSN ends the QP."""
    wr_id = bench.post_write(pattern(8))
    for _ in range(3):
        bench.expect("WRITE", psn=0)
        bench.nak(0, wire.SEQUENCE_ERROR)
    bench.expect_completion("WRITE", wr_id=wr_id, status="RETRY_EXCEEDED")
    bench.expect_state("ERROR")
    bench.expect_silence(seconds(1))


@rc_case("RC-LOSS-07", options={**T14, "retry_count": 2}, look_at="what progress does to the retries that were used")
def progress_gives_retries_back(bench: RcBench) -> None:
    """With retry_count 2, each of five packets is NAKed twice, then acknowledged: the message completes."""
    first = _sent(bench, 5)
    for psn in range(5):
        for _ in range(2):
            bench.nak(psn, wire.SEQUENCE_ERROR)
            _expect_again(bench, first, psn)
        bench.ack(psn, msn=0)
    bench.expect_completion("WRITE")
    bench.expect_state("RTS")


def _waits(bench: RcBench, code: int) -> None:
    delay = wire.RNR_HUNDREDTHS_OF_MS[code] * 10_000
    bench.post_write(pattern(8), immediate=1)
    bench.post_write(pattern(8))
    for psn in range(2):
        bench.expect("WRITE", psn=psn)
    bench.nak(0, wire.RNR_NAK | code)
    began = bench.now
    for psn in range(2):
        bench.expect("WRITE", psn=psn, after=delay, within=4 * delay, since=began)
    bench.ack(1, msn=2)
    bench.expect_completion("WRITE")
    bench.expect_completion("WRITE")


@rc_case("RC-LOSS-08", look_at="the table of times behind an RNR NAK's code, and what is sent when one is over")
def a_receiver_asks_for_time(bench: RcBench) -> None:
    """Code 12 is 0.64 ms: then the immediate and the write behind it leave again, and not before."""
    _waits(bench, 12)


@rc_case("RC-LOSS-08/shortest", look_at="code 1, the shortest time")
def the_shortest_time(bench: RcBench) -> None:
    """Code 1 is 10 us."""
    _waits(bench, 1)


@rc_case("RC-LOSS-08/longest", look_at="code 0, the longest time")
def the_longest_time(bench: RcBench) -> None:
    """Code 0 is 655.36 ms."""
    _waits(bench, 0)


@rc_case("RC-LOSS-08/last", look_at="code 31, the last of the table")
def the_last_time(bench: RcBench) -> None:
    """Code 31 is 491.52 ms."""
    _waits(bench, 31)


@rc_case("RC-LOSS-08/new-work", look_at="work that is posted while the receiver is given time")
def new_work_waits_too(bench: RcBench) -> None:
    """A write posted while the receiver is given 0.64 ms does not leave before that."""
    bench.written(0, pattern(8), immediate=1)
    bench.nak(0, _RNR_12)
    began = bench.now
    bench.wait(us(100))
    bench.written(0, pattern(8), after=us(640), within=4 * us(640), since=began)
    later = bench.expect("WRITE", psn=1, within=ms(3))
    bench.check(
        later.at >= began + us(640), "PSN 1 not before PSN 0", f"{later} came {later.at - began} ns after the NAK"
    )


@rc_case("RC-LOSS-09", options={"rnr_retry": 2}, look_at="how often a receiver may say that it is not ready")
def a_receiver_that_is_never_ready(bench: RcBench) -> None:
    """With rnr_retry 2 the third RNR NAK ends the QP with RNR_RETRY_EXCEEDED."""
    wr_id = bench.post_write(pattern(8), immediate=1)
    for _ in range(3):
        bench.expect("WRITE", psn=0, within=ms(3))
        bench.nak(0, _RNR_12)
    bench.expect_completion("WRITE", wr_id=wr_id, status="RNR_RETRY_EXCEEDED")
    bench.expect_state("ERROR")
    bench.expect_silence(seconds(1))


@rc_case("RC-LOSS-10", options={"rnr_retry": 7}, look_at="rnr_retry 7: no number, but without end")
def without_end(bench: RcBench) -> None:
    """With rnr_retry 7, thirty RNR NAKs and then an ACK: the write succeeds."""
    wr_id = bench.post_write(pattern(8), immediate=1)
    for _ in range(30):
        bench.expect("WRITE", psn=0, within=ms(3))
        bench.nak(0, _RNR_12)
    bench.expect("WRITE", psn=0, within=ms(3))
    bench.ack(0, msn=1)
    bench.expect_completion("WRITE", wr_id=wr_id)


@rc_case("RC-LOSS-11", options={"retry_count": 0, "rnr_retry": 6}, look_at="the two budgets of retries: they are two")
def rnr_naks_are_no_retries(bench: RcBench) -> None:
    """With retry_count 0 and rnr_retry 6, five RNR NAKs and then an ACK: the write succeeds."""
    wr_id = bench.post_write(pattern(8), immediate=1)
    for _ in range(5):
        bench.expect("WRITE", psn=0, within=ms(3))
        bench.nak(0, _RNR_12)
    bench.expect("WRITE", psn=0, within=ms(3))
    bench.ack(0, msn=1)
    bench.expect_completion("WRITE", wr_id=wr_id)


@rc_case("RC-LOSS-12", options={**T14, "retry_count": 0}, look_at="the local ACK timeout while a receiver has time")
def waiting_is_no_silence(bench: RcBench) -> None:
    """With a timeout of 67.1 ms and retry_count 0 a receiver asks for 163.84 ms (code 28): the QP is there after it."""
    bench.written(0, pattern(8), immediate=1)
    bench.nak(0, wire.RNR_NAK | 28)
    bench.expect("WRITE", psn=0, after=us(163_840), within=4 * us(163_840))
    bench.expect_state("RTS")
