# SPDX-License-Identifier: BSD-2-Clause
"""The states of a QP and the attributes it is given on its way up (behaviour.md, QP life; api.md)."""

from __future__ import annotations

from mrc.conformance.script import Bench, case, ms, pattern, us

STEPS = ("INIT", "RTR", "RTS")
# Attributes out of range, by the step that takes them, and the same at the end of their range.
WRONG = {
    "RTS": {"linear_retries": 8, "exponential_retries": 26, "timeout": 25},
    "RTR": {"mpr_dest": 256},
}
AT_THE_END = {
    "RTS": {"linear_retries": 7, "exponential_retries": 25, "timeout": 24},
    "RTR": {"mpr_dest": 255},
}


def _go(bench: Bench, state: str, **attributes: int) -> None:
    bench.ask(lambda: bench.qp.go_to(state, attributes))


def _expect_refused(bench: Bench, state: str, **attributes: int) -> None:
    named = ", ".join(f"{name} {value}" for name, value in attributes.items())
    bench.expect_refused(
        f"the step to {state}{' with ' if named else ''}{named}", lambda: bench.qp.go_to(state, attributes)
    )


@case("MRC-QP-01", state="RESET", look_at="which step is allowed from which state")
def a_qp_goes_up_step_by_step(bench: Bench) -> None:
    """From RESET a QP goes to INIT, from there to RTR, from there to RTS. Each other step is refused, a state left out
    as well as a state it has been in, and the QP stays where it is; in RTS it works."""
    here = "RESET"
    for following in STEPS:
        bench.expect_state(here)
        for state in STEPS:
            if state != following:
                _expect_refused(bench, state)
        bench.expect_state(here)
        _go(bench, following)
        here = following
    for state in STEPS:
        _expect_refused(bench, state)
    bench.expect_state("RTS")
    bench.expect_works(0)


@case("MRC-QP-01/receiving", state="INIT", look_at="in which states a QP takes requests: RTR and RTS")
def a_qp_receives_from_rtr_on(bench: Bench) -> None:
    """In INIT a request is neither written nor answered. In RTR it is written and answered, and nothing can be written
    yet; in RTS a write leaves."""
    bench.request(0, pattern(32), ackreq=1)
    bench.expect_silence(ms(1))
    bench.expect_nothing_written()
    _go(bench, "RTR")
    bench.expect_refused("a write in RTR", lambda: bench.qp.post_write(0, b"x", bench.tester.region_va, 1, None))
    bench.request(0, pattern(32), ackreq=1)
    bench.expect("SACK", ack_psn=0, cack_psn=0)
    bench.expect_memory(0, pattern(32))
    _go(bench, "RTS")
    bench.written(0, pattern(8))


@case("MRC-QP-01/from-error", look_at="what is allowed from ERROR: no step back to INIT, RTR or RTS")
def no_step_leads_from_error_to_work(bench: Bench) -> None:
    """A QP in ERROR goes neither to INIT nor to RTR nor to RTS, and answers no probe after all these attempts."""
    bench.ask(bench.qp.to_error)
    for state in STEPS:
        _expect_refused(bench, state)
    bench.expect_state("ERROR")
    bench.probe(1)
    bench.expect_no("SACK")


def _to_error(bench: Bench, state: str) -> None:
    """A QP in this state goes to ERROR: a receive posted there is flushed, and a request is not written."""
    bench.expect_state(state)
    bench.ask(bench.qp.to_error)
    bench.expect_state("ERROR")
    (wr_id,) = bench.post_receives(1)
    bench.expect_completion("RECEIVE", wr_id=wr_id, status="FLUSHED")
    bench.request(0, pattern(32), ackreq=1)
    bench.expect_no("SACK")
    bench.expect_nothing_written()


@case("MRC-QP-02", look_at="whether ERROR can be reached from RTS")
def from_rts_to_error(bench: Bench) -> None:
    """A QP in RTS goes to ERROR: a receive posted then is flushed, and a request is not written."""
    _to_error(bench, "RTS")


@case("MRC-QP-02/reset", state="RESET", look_at="whether ERROR can be reached from RESET")
def from_reset_to_error(bench: Bench) -> None:
    """A QP in RESET goes to ERROR: a receive posted then is flushed, and a request is not written."""
    _to_error(bench, "RESET")


@case("MRC-QP-02/init", state="INIT", look_at="whether ERROR can be reached from INIT")
def from_init_to_error(bench: Bench) -> None:
    """A QP in INIT goes to ERROR: a receive posted then is flushed, and a request is not written."""
    _to_error(bench, "INIT")


@case("MRC-QP-02/rtr", state="RTR", look_at="whether ERROR can be reached from RTR")
def from_rtr_to_error(bench: Bench) -> None:
    """A QP in RTR goes to ERROR: a receive posted then is flushed, and a request is not written."""
    _to_error(bench, "RTR")


@case("MRC-QP-03", state="RTR", look_at="the ranges of linear and exponential retries and of the timeout")
def what_is_out_of_range_is_refused(bench: Bench) -> None:
    """On the step to RTS 8 linear retries, 26 exponential ones and a timeout of 25 are refused, each by itself, and the
    QP stays in RTR; 7, 25 and 24 are taken, and the QP works."""
    for name, value in WRONG["RTS"].items():
        _expect_refused(bench, "RTS", **{name: value})
        bench.expect_state("RTR")
    _go(bench, "RTS", **AT_THE_END["RTS"])
    bench.expect_works(0)
    bench.written(0, pattern(8))


@case("MRC-QP-03/rtr", state="INIT", look_at="the range of mpr_dest, which has to fit the mpr field: 8 bits")
def what_does_not_fit_the_mpr_field_is_refused(bench: Bench) -> None:
    """On the step to RTR an mpr_dest of 256 is refused, and the QP stays in INIT; 255 is taken: PSN 255 x 128 - 1 is in
    the window, and the one behind it is not."""
    for name, value in WRONG["RTR"].items():
        _expect_refused(bench, "RTR", **{name: value})
        bench.expect_state("INIT")
    _go(bench, "RTR", **AT_THE_END["RTR"])
    bench.request(255 * 128 - 1, ackreq=1)
    bench.expect("SACK", ack_psn=255 * 128 - 1)
    bench.request(255 * 128)
    bench.expect("NACK", nack_psn=255 * 128)


@case("MRC-QP-03/taken", state="INIT", mpr=8, look_at="whether an attribute that was taken is in force")
def attributes_have_the_meaning_of_their_names(bench: Bench) -> None:
    """mpr_dest 2 on the step to RTR: PSN 255 is taken, PSN 256 is not. mpr 1 on the step to RTS: of 200 packets 128
    leave, although the tester granted more."""
    _go(bench, "RTR", mpr_dest=2)
    bench.request(256, ackreq=1)
    bench.expect("NACK", nack_psn=256)
    bench.request(255, ackreq=1)
    bench.expect("SACK", ack_psn=255)
    _go(bench, "RTS", mpr=1)
    bench.post_write(pattern(200 * bench.mtu))
    bench.wait(us(100))
    count = len(bench.read("WRITE"))
    bench.check(count == 128, "128 packets", f"{count} came")
