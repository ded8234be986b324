# SPDX-License-Identifier: BSD-2-Clause
"""What brings an EV back that was assumed bad (behaviour.md, Probing)."""

from __future__ import annotations

from mrc.conformance.cases.paths.sending import Sending
from mrc.conformance.script import Bench, case, ms, us

PATH_TIMER = ms(1)  # of a path whose round trips take 10 us: the least there is


def _with_a_bad_ev(bench: Bench) -> tuple[Sending, int]:
    """An EV that has just become ASSUMED_BAD, and no other."""
    sending = Sending(bench, carried=32)
    ev = sending.evs[1]
    sending.condemn(ev)
    sending.expect_ev(ev, "ASSUMED_BAD")
    bench.read()
    return sending, ev


@case("MRC-PATH-11", target_evs=2, look_at="how many answers bring an EV back, and to which state")
def three_answers_bring_an_ev_back(bench: Bench) -> None:
    """Two answered probes leave the EV in ASSUMED_BAD, the third takes it to GOOD. The first two came back marked; it
    is the last that counts."""
    sending, ev = _with_a_bad_ev(bench)
    sending.answer_probes(ev, (1, 1))
    sending.expect_ev(ev, "ASSUMED_BAD")
    sending.answer_probes(ev, (0,))
    sending.expect_ev(ev, "GOOD")
    sending.expect_used(ev)
    if bench.slack:
        bench.read("PROBE")  # one may have been on its way when its EV came back
    bench.expect_no("PROBE", within=ms(50))


@case("MRC-PATH-11/consecutive", target_evs=2, look_at="whether answers before a probe that failed still count")
def the_three_answers_are_consecutive(bench: Bench) -> None:
    """Two probes are answered, the next is not: it takes three more answers."""
    sending, ev = _with_a_bad_ev(bench)
    sending.answer_probes(ev, (0, 0))
    bench.expect("PROBE", ev=ev)
    sending.answer_probes(ev, (0, 0))
    sending.expect_ev(ev, "ASSUMED_BAD")
    sending.answer_probes(ev, (0,))
    sending.expect_ev(ev, "GOOD")


@case("MRC-PATH-12", target_evs=2, look_at="what the mark of the last of three answers does")
def a_marked_last_answer_leads_to_skip(bench: Bench) -> None:
    """Three probes are answered, the last with m=1: the EV is in SKIP."""
    sending, ev = _with_a_bad_ev(bench)
    sending.answer_probes(ev, (0, 0, 1))
    sending.expect_ev(ev, "SKIP")
    sending.expect_used(ev)


@case("MRC-PATH-18", target_evs=2, look_at="when, and on which EV, the first probe goes out")
def the_first_probe_comes_after_a_path_timer(bench: Bench) -> None:
    """Round trips take 10 us, so that the path timer is at its least, 1 ms. So long after the SACK that condemned it
    the EV is probed, on that EV itself."""
    _, ev = _with_a_bad_ev(bench)
    bench.expect("PROBE", ev=ev, after=PATH_TIMER, within=PATH_TIMER + us(1))


@case("MRC-PATH-19", target_evs=2, look_at="the intervals between probes nobody answers")
def failing_probes_come_less_and_less(bench: Bench) -> None:
    """No probe is answered: they come 10, 20, 40, 80, 160 and then 250 ms apart."""
    _, ev = _with_a_bad_ev(bench)
    bench.expect("PROBE", ev=ev, within=ms(2))
    for interval in (10, 20, 40, 80, 160, 250, 250):
        bench.expect("PROBE", ev=ev, after=ms(interval), within=ms(interval) + us(1))


@case("MRC-PATH-19/answered", target_evs=2, look_at="when the next probe follows one that was answered")
def an_answer_brings_the_next_probe_at_once(bench: Bench) -> None:
    """Three probes fail, the fourth is answered: the next follows at once, and another when that one is answered."""
    sending, ev = _with_a_bad_ev(bench)
    for _ in range(3):
        bench.expect("PROBE", ev=ev, within=ms(40))
    sending.answer_probes(ev, (0,))
    for _ in range(2):
        probe = bench.expect("PROBE", ev=ev, within=us(1))
        bench.sack(sending.cack, to=probe)
    sending.expect_ev(ev, "GOOD")
