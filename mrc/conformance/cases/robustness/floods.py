# SPDX-License-Identifier: BSD-2-Clause
"""More of something than anybody needs: replays and floods (behaviour.md, Errors)."""

from __future__ import annotations

import random

from mrc.conformance.cases.robustness.hostile import case, expect_unharmed, send_all
from mrc.conformance.script import TRIM_NACK, Bench, ms, pattern, us, wire

BURSTS, AT_ONCE = 3, 200
FLOOD = BURSTS * AT_ONCE


@case("MRC-ERR-02/replayed", immediates=10, look_at="what a packet does that has been taken before")
def requests_that_are_replayed(bench: Bench) -> None:
    """Forty writes, ten of them with immediate, of which each pair goes to one place, are taken, and then come again
    six times, in random order: memory stays as the later of each pair left it, no receive is consumed twice, and the
    QP goes on at PSN 40."""
    dice = random.Random(18)
    receives = bench.post_receives(20)
    sent = []
    for psn in range(40):
        immediate = psn if psn % 4 == 3 else None
        rqmsn = 0 if immediate is None else psn // 4
        place = 64 * (psn // 2)
        sent.append(bench.make.request(psn, pattern(64, psn), offset=place, immediate=immediate, rqmsn=rqmsn))
    send_all(bench, sent)
    bench.wait(us(10))
    for number in range(10):
        bench.expect_completion("RECEIVE", wr_id=receives[number], immediate=4 * number + 3)
    for place in range(20):
        bench.expect_memory(64 * place, pattern(64, 2 * place + 1))
    for _ in range(6):
        dice.shuffle(sent)
        send_all(bench, sent)
    bench.expect_nothing_written()
    bench.expect_no_completion()
    bench.expect_works(40)


@case("MRC-ERR-02/answers-replayed", look_at="what an answer does that has been taken before")
def answers_that_are_replayed(bench: Bench) -> None:
    """The SACKs and ACKs of thirty writes come again five times, in random order, while another write is out: it
    neither completes nor is sent again, and nothing completes twice."""
    dice = random.Random(19)
    answers = []
    for psn in range(30):
        wr_id = bench.post_write(pattern(16))
        write = bench.expect("WRITE", psn=psn)
        bench.wait(us(20))
        answers += [bench.make.sack(psn, to=write), bench.make.ack(psn, msn=psn + 1)]
        bench.send(*answers[-2:])
        bench.wait(us(1))
        bench.expect_completion("WRITE", wr_id=wr_id)
    last = bench.post_write(pattern(16))
    write = bench.expect("WRITE", psn=30)
    for _ in range(5):
        dice.shuffle(answers)
        send_all(bench, answers)
    bench.check(not bench.read("WRITE"), "nothing sent again", "PSN 30 was")
    bench.expect_no_completion()
    bench.sack(30, to=write)
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=last)
    bench.expect_works(0)


@case("MRC-ERR-02/other-ones-packets", connections=2, look_at="whether a packet that is another QP's changes a QP")
def packets_of_another_connection(bench: Bench) -> None:
    """What was taken on one connection comes again with the DQP of another that has sent and received nothing, and from
    an address that is none of the peer's: those of the stranger are dropped and counted."""
    other = bench.another()
    send_all(bench, [bench.make.request(psn, pattern(16), offset=16 * psn) for psn in range(8)])
    bench.expect_memory(0, 8 * pattern(16))
    strange = [
        other.make.request(psn, pattern(16, 9), offset=16 * psn).but(src=bench.make.probe().carriage.src ^ 1)
        for psn in range(8)
    ]
    bench.mark_counters()
    send_all(bench, strange)
    bench.expect_counted(8)
    bench.expect_nothing_written()
    other.expect_works(0)
    bench.expect_works(8)


@case("MRC-ERR-01/probe-flood", look_at="what is kept for each probe, and what waits behind them")
def a_flood_of_probes(bench: Bench) -> None:
    """Probes come in three bursts of two hundred, a write in each: no more answers than probes leave, the
    writes are acknowledged, and afterwards probes are answered as ever."""
    answered = 0
    half = AT_ONCE // 2
    for burst in range(BURSTS):
        probes = [bench.make.probe(burst * AT_ONCE + number) for number in range(AT_ONCE)]
        bench.send(*probes[:half], bench.make.request(burst, pattern(8), offset=8 * burst), *probes[half:])
        bench.expect("ACK", psn=burst)
        bench.expect_memory(8 * burst, pattern(8))
        bench.wait(us(100))
        answered += len(bench.read("SACK"))
    bench.check(0 < answered <= FLOOD, f"1 to {FLOOD} answers", f"{answered} came")
    bench.probe(9)
    bench.expect("SACK", probe_id=9, cack_psn=2)
    expect_unharmed(bench, 3, write_out=False)


@case("MRC-ERR-01/operation-flood", look_at="what is kept for each endpoint request")
def a_flood_of_endpoint_requests(bench: Bench) -> None:
    """Endpoint requests come in three bursts of two hundred, PORT_STATUS_UPDATEs that take one port down and up among
    them: no more answers than requests. Who cannot take so many may leave some; an update that is repeated every 10 ms
    afterwards, as peers repeat it, is answered within 1 s, and then data works."""
    up, one = bench.all_up, bench.port_mask(bench.planes[0].number)
    for burst in range(BURSTS):
        first = burst * AT_ONCE
        bench.send(
            *(
                bench.make.endpoint_request(
                    first + number,
                    op=wire.PORT_STATUS_UPDATE if number % 3 == 0 else wire.EV_PROBE,
                    mask=up ^ one if number % 2 else up,
                )
                for number in range(AT_ONCE)
            )
        )
        bench.wait(us(100))
    answers = len(bench.read("ENDPOINT_RESPONSE"))
    bench.check(0 < answers <= FLOOD, f"1 to {FLOOD} answers", f"{answers} came")
    for _ in range(100):
        bench.endpoint_request(5000, op=wire.PORT_STATUS_UPDATE, mask=up)
        bench.wait(ms(10))
        if bench.read("ENDPOINT_RESPONSE"):
            break
    else:
        bench.check(False, "an update answered in the end", "none of a hundred is")
    expect_unharmed(bench, write_out=False)


@case("MRC-RESP-08/flood", look_at="what is kept for each PSN that does not fit the window")
def a_flood_beyond_the_window(bench: Bench) -> None:
    """Six hundred requests at and beyond the end of the window, each PSN another up to 2^23 - 1 away: none is written,
    at most one NACK comes for each, and PSN 0 is still the next."""
    dice = random.Random(20)
    psns = [bench.window + dice.randrange((1 << 23) - bench.window) for _ in range(600)]
    send_all(bench, [bench.make.request(psn, pattern(8)) for psn in psns])
    bench.check(not bench.read("ACK", "SACK", "NAK"), "neither ACK nor SACK nor NAK", "there is one")
    nacks = len(bench.read("NACK"))
    bench.check(nacks <= 600, "at most 600 NACKs", f"{nacks} came")
    expect_unharmed(bench, write_out=False)


@case("MRC-TRIM-07/flood", agreed=[TRIM_NACK], look_at="what a trimmed packet is trusted with")
def a_flood_of_trimmed_packets(bench: Bench) -> None:
    """Four hundred trimmed packets, of PSNs everywhere, of which nothing can be verified: nothing arrives by them,
    nothing is written, at most one NACK comes for each, and PSN 0 is still the next."""
    dice = random.Random(21)
    psns = [dice.randrange(-(1 << 22), 1 << 22) for _ in range(400)]
    send_all(bench, [bench.make.request(psn, pattern(64)).trimmed(lasthop=psn % 2 == 0) for psn in psns])
    bench.check(not bench.read("ACK", "SACK", "NAK"), "neither ACK nor SACK nor NAK", "there is one")
    nacks = len(bench.read("NACK"))
    bench.check(nacks <= 400, "at most 400 NACKs", f"{nacks} came")
    expect_unharmed(bench, write_out=False)
