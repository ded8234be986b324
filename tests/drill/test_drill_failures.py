# SPDX-License-Identifier: BSD-2-Clause
"""How the drills of failed ports, cables and switches judge, on traffic made by hand: what passes, what fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from recordings import Rates, at, flow, paths, recording, series, whole

from mrc.drill.catalogue import DRILLS
from mrc.drill.drill import Judgement, Verdict
from mrc.drill.phases import phases_of
from mrc.drill.recording import Recording
from mrc.errors import CallerError

# 120 Mbit/s of links carry 116 of payload.
FULL = 115.0


def failed(judgement: Judgement) -> set[str]:
    return {check.expectation.figure for check in judgement.failed}


# ---------------------------------------------------------------------- one plane of four, and back


def leaf(rates: Rates, in_order: Rates | None = None) -> Recording:
    """A leaf that is down from 2 s to 4 s, until 6 s."""
    happened = whole(0.0, 6.0, (2.0, "cut", "p0l1"), (4.0, "heal", "p0l1"))
    streams = {
        "tcp": series([(2.0, 29.0), (5.2, 0.0), (6.0, 29.0)]),
        "mptcp": series([(2.0, 115.0), (2.4, 0.0), (6.0, 85.0)]),
    }
    return recording(flow(rates, in_order=in_order), happened, streams=streams)


def test_a_plane_that_fails_and_comes_back_in_time_passes() -> None:
    judgement = DRILLS["leaf-fail"].judge(leaf([(2.0, FULL), (4.0, FULL * 3 / 4), (6.0, FULL)]))
    assert judgement.verdict is Verdict.PASSED
    assert judgement.figures["least_share_kept"] == pytest.approx(1.0, abs=0.01)
    assert judgement.figures["share_restored"] == pytest.approx(1.0, abs=0.01)
    assert judgement.figures["tcp_stall_ms"] == pytest.approx(3200, abs=2)
    assert judgement.figures["mptcp_stall_ms"] == pytest.approx(400, abs=2)
    assert judgement.figures["mrc_stall_ms"] == pytest.approx(1, abs=1)


def test_less_than_what_is_left_fails() -> None:
    judgement = DRILLS["leaf-fail"].judge(leaf([(2.0, FULL), (4.0, FULL * 0.75 * 0.94), (6.0, FULL)]))
    assert failed(judgement) == {"least_share_kept", "slowest_recovery_ms"}


def test_recovery_after_more_than_100_ms_fails() -> None:
    slow = DRILLS["leaf-fail"].judge(leaf([(2.0, FULL), (2.13, 40.0), (4.0, FULL * 3 / 4), (6.0, FULL)]))
    assert failed(slow) == {"slowest_recovery_ms"}
    assert slow.figures["slowest_recovery_ms"] == pytest.approx(125, abs=8)
    quick = DRILLS["leaf-fail"].judge(leaf([(2.0, FULL), (2.08, 40.0), (4.0, FULL * 3 / 4), (6.0, FULL)]))
    assert failed(quick) == set()


def test_a_restoration_that_takes_more_than_a_second_fails() -> None:
    judgement = DRILLS["leaf-fail"].judge(leaf([(2.0, FULL), (5.3, FULL * 3 / 4), (6.0, FULL)]))
    assert failed(judgement) == {"slowest_restoration_ms", "share_restored"}


def test_what_never_comes_back_fails_without_a_number() -> None:
    judgement = DRILLS["leaf-fail"].judge(leaf([(2.0, FULL), (6.0, FULL * 3 / 4)]))
    assert failed(judgement) == {"slowest_restoration_ms", "share_restored"}
    assert judgement.figures["slowest_restoration_ms"] is None


def test_a_gap_in_the_order_fails_though_other_bytes_came() -> None:
    rates = [(2.0, FULL), (4.0, FULL * 3 / 4), (6.0, FULL)]
    judgement = DRILLS["leaf-fail"].judge(leaf(rates, in_order=[(2.0, FULL), (2.15, 0.0), (6.0, FULL)]))
    assert failed(judgement) == {"mrc_stall_ms"}


# ---------------------------------------------------------------------- ports one by one, and half at once


def ports(rates: Rates) -> Recording:
    down = [(1.5 + n, "cut", f"h0-p{n}l0") for n in range(3)]
    up = [(4.5 + n, "heal", f"h0-p{n}l0") for n in range(3)]
    return recording(flow(rates), whole(0.0, 8.0, *down, *up))


STEPS = [(1.5, 1.0), (2.5, 0.75), (3.5, 0.5), (4.5, 0.25), (5.5, 0.5), (6.5, 0.75), (8.0, 1.0)]


def test_ports_that_fail_one_by_one_leave_what_the_others_carry() -> None:
    judgement = DRILLS["nic-link-fail"].judge(ports([(until, FULL * share) for until, share in STEPS]))
    assert judgement.verdict is Verdict.PASSED
    assert judgement.figures["least_share_kept"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("step", [1, 2, 3])
def test_one_step_that_falls_short_is_enough_to_fail(step: int) -> None:
    rates = [(until, FULL * share * (0.9 if number == step else 1.0)) for number, (until, share) in enumerate(STEPS)]
    assert "least_share_kept" in failed(DRILLS["nic-link-fail"].judge(ports(rates)))


@pytest.mark.parametrize("step", [4, 5])
def test_a_port_that_is_not_taken_back_fails(step: int) -> None:
    rates = [(until, FULL * (STEPS[step - 1][1] if n == step else share)) for n, (until, share) in enumerate(STEPS)]
    assert failed(DRILLS["nic-link-fail"].judge(ports(rates))) == {"slowest_restoration_ms"}


def flaps(share_down: Sequence[float]) -> Recording:
    happened, rates, now = [], [(1.5, FULL)], 1.5
    for share in share_down:
        happened += [(now, "cut", "h0-p0l0"), (now + 0.001, "cut", "h0-p1l0")]
        happened += [(now + 0.8, "heal", "h0-p0l0"), (now + 0.801, "heal", "h0-p1l0")]
        rates += [(now + 0.8, FULL * share), (now + 2.0, FULL)]
        now += 2.0
    return recording(flow([*rates, (now + 0.8, FULL)]), whole(0.0, now + 0.8, *happened))


def test_half_of_the_ports_may_take_half_and_no_more() -> None:
    assert DRILLS["nic-link-flap"].judge(flaps([0.5, 0.5, 0.5])).verdict is Verdict.PASSED
    assert "least_share_kept" in failed(DRILLS["nic-link-flap"].judge(flaps([0.5, 0.45, 0.5])))


# ---------------------------------------------------------------------- spines and cables


def spine(rates: Rates) -> Recording:
    return recording(flow(rates), whole(0.0, 6.0, (2.0, "cut", "p0s0"), (4.0, "heal", "p0s0")))


def test_a_spine_of_eight_may_cost_two_percent() -> None:
    drill = DRILLS["spine-fail"]
    cheap = drill.judge(spine([(2.0, FULL), (2.1, FULL / 2), (4.0, FULL * 0.985), (6.0, FULL)]))
    assert cheap.verdict is Verdict.PASSED
    assert cheap.figures["share_lost"] == pytest.approx(0.015, abs=0.002)
    assert failed(drill.judge(spine([(2.0, FULL), (4.0, FULL * 0.97), (6.0, FULL)]))) == {"share_lost"}


def cables(dead_after_s: float, rate: float = FULL) -> Recording:
    """Five cables, of which the path over p1s3 is used until so long after its cut."""
    links = ["p0l0-p0s0", "p1l0-p1s3", "p0l1-p0s5", "p1l1-p1s6", "p0l0-p0s7"]
    cuts = [(1.5 + number, "cut", link) for number, link in enumerate(links)]
    dead = {path: 100.0 for path in [(p, s) for p in range(2) for s in range(8)]}
    used = []
    for until, gone in ((1.5, None), (2.5 + dead_after_s, (0, 0)), (8.5, (1, 3))):
        if gone is not None:
            dead = {path: rate for path, rate in dead.items() if path != gone}
        used.append((until, dict(dead)))
    # Those cut later get nothing from their cut on either.
    used = [(until, {p: r for p, r in rates.items() if p not in ((0, 5), (1, 6), (0, 7))}) for until, rates in used]
    rates = [(1.5, FULL), (6.5, rate), (8.5, FULL)]
    heals = [(6.5, "heal", link) for link in links]
    return recording(flow(rates, used=paths(2, 8, used)), whole(0.0, 8.5, *cuts, *heals))


def test_cables_are_left_in_time_or_not() -> None:
    drill = DRILLS["fabric-link-fail"]
    assert drill.judge(cables(0.05)).verdict is Verdict.PASSED
    late = drill.judge(cables(0.3))
    assert failed(late) == {"latest_use_of_a_dead_path_ms"}
    assert late.figures["latest_use_of_a_dead_path_ms"] == pytest.approx(300, abs=10)
    assert failed(drill.judge(cables(0.05, FULL * 0.94))) == {"least_share_kept"}


def flapping(share: float, afterwards: float) -> Recording:
    happened, now = [], 1.5
    for _ in range(5):
        happened += [(now, "cut", "p0l0-p0s0"), (now + 0.3, "heal", "p0l0-p0s0")]
        now += 0.9
    every = {(p, s): 100.0 for p in range(2) for s in range(8)}
    end = now + 1.2
    used = paths(2, 8, [(1.5, every), (now, every | {(0, 0): 20.0}), (end, every | {(0, 0): afterwards})])
    return recording(flow([(1.5, FULL), (now, FULL * share), (end, FULL)], used=used), whole(0.0, end, *happened))


def test_a_cable_that_flaps_may_cost_little_and_must_be_used_again() -> None:
    drill = DRILLS["fabric-link-flap"]
    assert drill.judge(flapping(0.97, 100.0)).verdict is Verdict.PASSED
    assert failed(drill.judge(flapping(0.9, 100.0))) == {"share_while_flapping"}
    assert failed(drill.judge(flapping(0.97, 0.0))) == {"share_on_the_path_restored"}


# ---------------------------------------------------------------------- whatever breaks


def test_a_machine_too_busy_for_the_links_is_no_place_for_a_drill() -> None:
    rates = [(2.0, 90.0), (4.0, 90.0 * 3 / 4), (6.0, 90.0)]
    judgement = DRILLS["leaf-fail"].judge(leaf(rates))
    assert failed(judgement) == {"share_of_links_before"}
    assert judgement.unfit == "before anything happened the flow had 78% of what the links carry"
    assert DRILLS["leaf-fail"].judge(leaf([(2.0, FULL), (4.0, 0.0), (6.0, FULL)])).unfit is None


@pytest.mark.parametrize(
    ("target", "figure"),
    [
        ({"wrong_bytes": 8}, "wrong_bytes"),
        ({"misnumbered_writes": 1}, "misnumbered_writes"),
        ({"delivered_writes": 9}, "undelivered_writes"),
        ({"error": "retry counter exceeded"}, "qp_errors"),
    ],
)
def test_one_wrong_byte_fails_any_drill(target: dict[str, object], figure: str) -> None:
    record = flow([(2.0, FULL), (4.0, FULL * 3 / 4), (6.0, FULL)], target=target)
    broken = recording(record, whole(0.0, 6.0, (2.0, "cut", "p0l1"), (4.0, "heal", "p0l1")))
    assert failed(DRILLS["leaf-fail"].judge(broken)) == {figure}


def test_failures_at_once_are_one_moment_and_a_missing_one_is_noticed() -> None:
    together = [(2.0, "cut", "a"), (2.002, "cut", "b"), (2.9, "cut", "c"), (3.0, "heal", "a")]
    found = phases_of(recording(flow([(4.0, FULL)]), whole(0.0, 4.0, *together)), [0.5, 0.25, 0.5])
    assert [phase.at_ns for phase in found] == [at(2.0), at(2.9), at(3.0)]
    assert found[-1].until_ns == at(4.0)
    with pytest.raises(CallerError, match="3 failures and repairs were recorded, 2"):
        phases_of(recording(flow([(4.0, FULL)]), whole(0.0, 4.0, *together)), [0.5, 0.25])
