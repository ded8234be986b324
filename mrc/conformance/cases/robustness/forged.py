# SPDX-License-Identifier: BSD-2-Clause
"""Answers to what was never sent, and contradictions in them (behaviour.md, Requestor and Errors)."""

from __future__ import annotations

import random
from collections.abc import Iterable

from mrc.conformance.cases.robustness.hostile import (
    case,
    expect_dropped,
    expect_unharmed,
    know_ordinary_counters,
    send_all,
)
from mrc.conformance.script import DYNAMIC_MPR, Bench, Crafted, Heard, ms, pattern, us, wire

HALF = 1 << 23


def _busy(bench: Bench) -> tuple[int, list[Heard]]:
    """Of six packets of the target's PSN 0 to 2 have been acknowledged, 3 to 5 are out: the id of the write of those
    three, and all six."""
    know_ordinary_counters(bench)
    done, out = bench.post_write(pattern(3 * bench.mtu)), bench.post_write(pattern(3 * bench.mtu))
    writes = [bench.expect("WRITE", psn=psn) for psn in range(6)]
    bench.wait(us(100))
    bench.sack(2, to=writes[2])
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=done)
    return out, writes


def _expect_untouched(bench: Bench, out: int, writes: list[Heard]) -> None:
    """PSN 3 to 5 are still out, none was sent again; they complete with the SACK that is theirs."""
    found = [write.psn for write in bench.read("WRITE")]
    bench.check(not found, "nothing sent again", f"PSNs {found} were")
    bench.expect_state("RTS")
    bench.expect_no_completion()
    bench.sack(5, to=writes[5])
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=out)
    bench.expect_works(0)


def _unsent_sacks(bench: Bench, to: Heard) -> Iterable[Crafted]:
    make = bench.make
    for beyond in (6, 7, 100, 1 << 16, HALF - 1):
        yield make.sack(beyond, to=to, ack_psn=beyond)
    for trigger in (6, 7, 1000, 2 + 0x7FFF):
        yield make.sack(2, to=to, ack_psn=trigger)
    for bit in (6, 10, 63, 66):
        yield make.sack(2, [bit], to=to)
    for offset in (4, 60, 1000, 0x7FFF):
        yield make.sack(2, to=to, sack_offset=offset, bitmap=(1 << 64) - 1)
    for probe_id in (0, 77):
        yield make.sack(6, probe_id=probe_id)


@case("MRC-SEND-09/forged", connections=2, look_at="which PSN of a SACK is not compared with what was sent")
def sacks_for_what_was_never_sent(bench: Bench) -> None:
    """PSN 3 to 5 are out. SACKs whose cack_psn, whose ack_psn or one of whose bits is of a PSN never sent, by one or by
    far: each is dropped and counted; nothing completes and nothing is sent again."""
    out, writes = _busy(bench)
    expect_dropped(bench, _unsent_sacks(bench, writes[5]))
    _expect_untouched(bench, out, writes)


@case("MRC-SEND-09/idle", connections=2, look_at="what a requestor that never sent anything makes of answers")
def answers_to_a_requestor_that_sent_nothing(bench: Bench) -> None:
    """The target has sent nothing: SACKs, ACKs and NAKs for 20 PSNs, near and far, are dropped and counted; its first
    write leaves as PSN 0 and completes when it is acknowledged."""
    make = bench.make
    know_ordinary_counters(bench)
    psns = [0, 1, 2, 127, 128, 1 << 10, 1 << 16, 1 << 20, HALF - 3, HALF - 2]
    expect_dropped(bench, [make.sack(psn, ack_psn=psn) for psn in psns])
    expect_dropped(bench, [make.ack(psn) for psn in psns])
    expect_dropped(bench, [make.aeth(psn, wire.INVALID_REQUEST) for psn in psns])
    expect_unharmed(bench, write_out=False)


@case("MRC-ERR-02/forged-nacks", connections=2, look_at="which NACKs are taken for PSNs that were never sent")
def nacks_for_what_was_never_sent(bench: Bench) -> None:
    """PSN 3 to 5 are out. NACKs of every reason, UNEXP_EVENT among them, and NAKs for PSNs never sent: each is dropped
    and counted."""
    out, writes = _busy(bench)
    first = bench.target.first_psn
    beyond = [first + psn & 0xFFFFFF for psn in (6, 7, 500, HALF - 1)]
    expect_dropped(
        bench,
        [bench.make.nack(writes[3], reason, nack_psn=psn, psn=psn) for reason in wire.NACK_REASONS for psn in beyond],
    )
    expect_dropped(
        bench,
        [bench.make.aeth(psn, syndrome) for syndrome in (0x61, 0x62, 0x63) for psn in (6, 7, 500, HALF - 1)],
    )
    _expect_untouched(bench, out, writes)


@case("MRC-ERR-02/codes", connections=2, look_at="what an unknown code is taken for")
def codes_that_nobody_defined(bench: Bench) -> None:
    """PSN 3 to 5 are out. AETHs of PSN 5 with each syndrome that has no meaning, and endpoint requests with op 2 and 3:
    each is dropped and counted; nothing changes. A NACK with a reason that has none is another matter, MRC-NACK-23."""
    out, writes = _busy(bench)
    make = bench.make
    syndromes = [each for each in range(0x20, 256) if not 0x60 <= each <= 0x63]
    expect_dropped(bench, [make.aeth(5, each) for each in syndromes])
    expect_dropped(bench, [make.endpoint_request(9, op=op, mask=0) for op in (2, 3)])
    _expect_untouched(bench, out, writes)


@case("MRC-ERR-02/responses", look_at="whether an endpoint response is compared with what was asked")
def responses_that_nobody_asked_for(bench: Bench) -> None:
    """An EV probe of the target's is out. Responses with other ids, and one with its id and the other op, are dropped
    and counted, and the probe goes on waiting for its own."""
    bench.wait(ms(100))
    bench.read()
    bench.answer_after = None
    ev = bench.planes[0].target_evs[0]
    bench.probe_ev(ev)
    probe = bench.expect("ENDPOINT_REQUEST", op=wire.EV_PROBE)
    others = [probe.request_id ^ bit for bit in (1, 2, 0x80, 0x4000, 0x8000)]
    expect_dropped(bench, [bench.make.endpoint_response(probe, psn=each) for each in others])
    bench.mark_counters()
    bench.send(bench.make.endpoint_response(probe, eeth_op=wire.PORT_STATUS_UPDATE))
    bench.expect_dropped(1)
    bench.wait(us(50))
    sent_at = probe.at
    bench.endpoint_response(probe)
    bench.wait(us(1))
    results = bench.ask(bench.network.session.ev_probe_results)
    took = bench.now - us(1) - sent_at
    off = abs((results.get(ev) or 0) - took)
    bench.check(off <= bench.slack // 10, f"{took} ns measured", f"the result is {results.get(ev)}")
    expect_unharmed(bench, write_out=False)


@case(
    "MRC-PORT-03/forged",
    connections=2,
    planes=2,
    look_at="whose port status is believed: only that of the address's owner",
)
def port_status_of_a_stranger(bench: Bench) -> None:
    """PORT_STATUS_UPDATEs that say all ports are down come from addresses that are none of a peer's, from a peer's in
    another plane than its own, and from the target's own: none is answered, each is counted, and data goes on by all
    planes."""
    know_ordinary_counters(bench)
    good = bench.make.endpoint_request(4, op=wire.PORT_STATUS_UPDATE, mask=0)
    stranger = good.but(src=good.carriage.src ^ 0xFF)
    elsewhere = bench.make.endpoint_request(4, op=wire.PORT_STATUS_UPDATE, mask=0, plane=1).but(src=good.carriage.src)
    mirrored = good.but(src=good.carriage.dst)
    expect_dropped(bench, [stranger, elsewhere, mirrored])
    bench.post_write(pattern(64 * bench.mtu))
    bench.wait(us(10))
    planes = {write.plane for write in bench.read("WRITE")}
    bench.check(len(planes) == len(bench.planes), "data on all planes", f"it is on {sorted(planes)}")


@case("MRC-PORT-03/all-down", look_at="whether a node sends again to a peer whose ports were all down")
def a_peer_without_ports_comes_back(bench: Bench) -> None:
    """The tester says that all its ports are down, 20 times, which is answered; then, that they are up: a write posted
    meanwhile leaves within 100 ms, and everything works."""
    for number in range(20):
        bench.endpoint_request(number, op=wire.PORT_STATUS_UPDATE, mask=0)
    bench.post_write(pattern(16))
    bench.wait(ms(1))
    bench.endpoint_request(50, op=wire.PORT_STATUS_UPDATE, mask=bench.all_up)
    bench.expect("ENDPOINT_RESPONSE", request_id=50)
    write = bench.expect("WRITE", psn=0, within=ms(100))
    bench.sack(0, to=write)
    bench.wait(us(10))
    bench.expect_completion("WRITE")
    expect_unharmed(bench, write_out=False)


@case(
    "MRC-MPR-05/shrinks",
    planes=1,
    agreed=[DYNAMIC_MPR],
    mpr=2,
    look_at="whether a smaller mpr takes back what was sent, or moves the edge with each SACK",
)
def a_peer_that_shrinks_its_mpr(bench: Bench) -> None:
    """256 PSNs were granted and are out. SACKs for the same PSN with mpr 1, 0 and 1 again and again take nothing back
    and give nothing: of what is waiting nothing leaves, nothing is lost; when PSN 0 to 199 have arrived, with mpr 1,
    PSN 256 to 327 leave."""
    bench.post_write(600 * pattern(bench.mtu))
    bench.wait(us(100))
    writes = bench.read("WRITE")
    bench.check(len(writes) == 256, "256 packets", f"{len(writes)} came")
    send_all(bench, [bench.make.sack(-1, to=writes[0], ack_psn=-1, mpr=mpr) for mpr in (1, 0, 1, 0, 1) * 8])
    bench.check(not bench.read("WRITE"), "nothing more", "something left")
    bench.sack(199, to=writes[199], mpr=1)
    bench.wait(us(10))
    found = [write.psn for write in bench.read("WRITE")]
    bench.check(found == list(range(256, 328)), "PSN 256 to 327", f"PSNs {found[:1]} to {found[-1:]} came")
    bench.expect_works(0)


@case("MRC-MPR-03/only-zeros", agreed=[DYNAMIC_MPR], mpr=2, look_at="whether an mpr of 0 shuts the window")
def a_peer_whose_mpr_is_always_zero(bench: Bench) -> None:
    """Every SACK has an mpr of 0: a write of 600 packets goes out and completes, 256 at a time at most."""
    wr_id = bench.post_write(600 * pattern(bench.mtu))
    cack = -1
    while cack < 599:
        bench.wait(us(20))
        writes = bench.read("WRITE")
        bench.check(bool(writes), f"packets behind PSN {cack}", "none came")
        beyond = max(write.psn for write in writes)
        bench.check(beyond <= cack + 256, f"nothing beyond PSN {cack + 256}", f"PSN {beyond} came")
        cack = beyond
        bench.sack(cack, to=writes[-1], mpr=0)
    bench.wait(us(10))
    bench.expect_completion("WRITE", wr_id=wr_id)


@case("MRC-ERR-01/random-answers", look_at="which value of a field is used before it is checked")
def answers_with_random_fields(bench: Bench) -> None:
    """The target has sent nothing. 300 SACKs, ACKs, NACKs, probes and endpoint responses whose headers are random but
    for opcode, DQP, lengths and ICRC: nothing is raised, and it works."""
    dice = random.Random(20260)
    make = bench.make
    bodies = ((wire.SACK, 36), (wire.ACK, 4), (wire.NACK, 20), (wire.PROBE, 16), (wire.ENDPOINT_RESPONSE, 36))
    sent = []
    for opcode, length in bodies * 60:
        qpn = wire.ENDPOINT_QPN if opcode == wire.ENDPOINT_RESPONSE else bench.target.qpn
        # Of byte 8 ackreq and rtx only: ts and the reserved bits make no other packet of it.
        flags, psn = dice.choice((0, 0x80, 0x20, 0xA0)), dice.randbytes(3)
        head = bytes([opcode, dice.choice((0, 0x80, 0x40)), 0xFF, 0xFF, dice.randrange(256)])
        body = head + qpn.to_bytes(3, "big") + bytes([flags]) + psn + dice.randbytes(length)
        sent.append(make.probe().but(body=body, ev=dice.choice(bench.evs(0))))
    send_all(bench, sent)
    expect_unharmed(bench, write_out=False)
