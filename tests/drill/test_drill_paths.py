# SPDX-License-Identifier: BSD-2-Clause
"""How the drills of single paths judge, on traffic made by hand: lossy, dead from the start, shared, and an incast."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from recordings import MS, Rates, at, flow, paths, recording

from mrc.drill.catalogue import DRILLS
from mrc.drill.drill import Judgement, Verdict
from mrc.drill.incast import SENDERS, VICTIM
from mrc.drill.recording import EvChange, FlowRecord, Happening, Recording
from mrc.drill.startup import HURT, WHOLE

FULL = 115.0


def failed(judgement: Judgement) -> set[str]:
    return {check.expectation.figure for check in judgement.failed}


# ---------------------------------------------------------------------- a lossy path

LOSSY, RESERVE, ELSEWHERE = (0, 3), (0, 7), (1, 7)
ACTIVE = {(plane, spine): 300.0 for plane in range(2) for spine in range(6)}


def lossy(
    *,
    left_s: float | None = 0.05,
    then: dict[tuple[int, int], float] | None = None,
    lost: int = 4,
    kept: float = 1.0,
    counters: dict[str, int] | None = None,
) -> Recording:
    """The path of spine 3 in plane 0 loses from 1.5 to 5 s; `then` is what is used instead from 1.6 s on."""
    then = {path: rate for path, rate in ACTIVE.items() if path != LOSSY} | {RESERVE: 300.0} if then is None else then
    used = paths(2, 8, [(1.55, ACTIVE), (6.5, then)])
    changes = [] if left_s is None else [EvChange(at(1.5 + left_s), 3, "GOOD", "ASSUMED_BAD", "LOST")]
    losses = [lost if ev == 3 else 0 for ev in used.evs]
    record = flow(
        [(1.5, FULL), (5.0, FULL * kept), (6.5, FULL)], used=used, changes=changes, lost=losses, counters=counters
    )
    happened = [(0.0, "begin", "mrc"), (1.5, "impair", "p0l0-p0s3"), (5.0, "clear", "p0l0-p0s3"), (6.5, "end", "mrc")]
    return recording(record, happened)


def test_a_lossy_path_that_is_replaced_in_its_plane_passes() -> None:
    judgement = DRILLS["lossy-path"].judge(lossy())
    assert judgement.verdict is Verdict.PASSED
    assert judgement.figures["left_after_ms"] == 50
    assert judgement.figures["share_its_replacement_gained_of_fair"] == pytest.approx(1.0, abs=0.02)
    assert judgement.figures["share_of_its_plane"] == pytest.approx(0.5, abs=0.01)


def test_a_path_that_is_never_left_fails() -> None:
    judgement = DRILLS["lossy-path"].judge(lossy(left_s=None, then=ACTIVE, lost=210))
    assert {"left_after_ms", "packets_lost_on_it", "share_on_it_of_fair"} <= failed(judgement)
    assert judgement.figures["left_after_ms"] is None


def test_a_path_that_is_left_too_late_fails() -> None:
    assert failed(DRILLS["lossy-path"].judge(lossy(left_s=0.4))) == {"left_after_ms"}


def test_a_path_that_is_left_while_the_kernel_still_answers_was_left_in_time() -> None:
    """A busy machine returned from making the path lossy 70 ms after it lost its first packets."""
    made = lossy(left_s=-0.03)
    happenings = [replace(each, took_ns=70 * MS) if each.what == "impair" else each for each in made.happenings]
    judgement = DRILLS["lossy-path"].judge(replace(made, happenings=happenings))
    assert judgement.figures["left_after_ms"] == pytest.approx(40)
    assert judgement.verdict is Verdict.PASSED


def test_a_path_that_turned_out_to_be_unused_does_not_count() -> None:
    """The first EV chosen had just gone into the reserve: the one after it is judged."""
    made = lossy()
    tried = [Happening(at(1.0), "impair", "p1l0-p1s2"), Happening(at(1.3), "clear", "p1l0-p1s2")]
    judgement = DRILLS["lossy-path"].judge(replace(made, happenings=[made.happenings[0], *tried, *made.happenings[1:]]))
    assert judgement.verdict is Verdict.PASSED
    assert judgement.figures["left_after_ms"] == 50


class _Script:
    """A stage in virtual time. An EV in use gets 250 packets a second and loses its 8th on a lossy path.

    With `loses_use` the first EV whose path is made lossy goes into the reserve at that moment.
    """

    def __init__(self, loses_use: bool) -> None:
        self.seed = 1
        self.at_s = 0.0
        self.done: list[tuple[str, str]] = []
        self._use = {plane << 24 | spine: 0.0 for plane in range(2) for spine in range(6)}
        self._unused = {plane << 24 | spine: 0.0 for plane in range(2) for spine in (6, 7)}
        self._loses_use = loses_use
        self._lossy: dict[int, float] = {}

    def limit_hosts(self, **impairment: int) -> None: ...
    def open(self, plans: object) -> None: ...
    def begin(self) -> None: ...

    def until(self, seconds: float) -> None:
        for ev in self._use:
            self._use[ev] += 250 * (seconds - self.at_s)
        self.at_s = seconds

    def packets(self, flow: str) -> dict[int, int]:
        return {ev: int(count) for ev, count in (self._use | self._unused).items()}

    def lost(self, flow: str) -> dict[int, int]:
        return {ev: int(count >= self._lossy.get(ev, 1e9) + 8) for ev, count in (self._use | self._unused).items()}

    def impair(self, link: str, *, loss: float, toward: str) -> None:
        plane, spine = (int(number) for number in toward[1:].split("s"))
        ev = plane << 24 | spine
        if self.done or not self._loses_use:
            self._lossy[ev] = self._use[ev]
        else:
            self._unused[ev] = self._use.pop(ev)
        self.done.append(("impair", link))

    def clear(self, link: str, toward: str) -> None:
        self.done.append(("clear", link))


def test_the_script_keeps_to_an_ev_that_loses_packets() -> None:
    stage = _Script(loses_use=False)
    DRILLS["lossy-path"].perform(stage)  # type: ignore[arg-type]
    assert [what for what, _ in stage.done] == ["impair", "clear"]
    assert stage.at_s == pytest.approx(6.5)


def test_the_script_chooses_again_where_the_chosen_ev_carries_nothing() -> None:
    stage = _Script(loses_use=True)
    DRILLS["lossy-path"].perform(stage)  # type: ignore[arg-type]
    assert [what for what, _ in stage.done] == ["impair", "clear", "impair", "clear"]
    (_, first), _, (_, second), _ = stage.done
    assert first != second
    # 0.4 s to see that nothing came, 0.4 s to see which EVs are in use, then as ever.
    assert stage.at_s == pytest.approx(6.5 + 0.8)


def test_a_path_nobody_takes_the_place_of_fails() -> None:
    rest = {path: rate for path, rate in ACTIVE.items() if path != LOSSY}
    assert "share_its_replacement_gained_of_fair" in failed(DRILLS["lossy-path"].judge(lossy(then=rest)))


def test_goodput_and_coarse_timers_count_too() -> None:
    assert failed(DRILLS["lossy-path"].judge(lossy(kept=0.95))) == {"least_share_kept"}
    assert failed(DRILLS["lossy-path"].judge(lossy(counters={"local_ack_timeouts": 1}))) == {"local_ack_timeouts"}


# ---------------------------------------------------------------------- dead from the start

DEAD = [(0, 2), (1, 9), (2, 0), (3, 4)]


def startup(hurt: Rates, used_s: float = 0.02, dead: list[tuple[int, int]] = DEAD) -> Recording:
    every = {(p, s): 100.0 for p in range(4) for s in range(10)}
    alive = {path: rate for path, rate in every.items() if path not in DEAD}
    used = paths(4, 10, [(2.0, {}), (2.0 + used_s, every), (3.5, alive)])
    flows = {
        WHOLE: flow([(1.5, FULL), (3.5, 0.0)], name=WHOLE),
        HURT: flow([(2.0, 0.0), *hurt], name=HURT, used=used),
    }
    cuts = [(1.8, "cut", f"p{plane}l0-p{plane}s{spine}") for plane, spine in dead]
    happened = [(0.0, "begin", WHOLE), (1.5, "end", WHOLE), *cuts, (2.0, "begin", HURT), (3.5, "end", HURT)]
    return recording(flows, happened)


def test_a_start_on_dead_paths_that_is_hardly_slower_passes() -> None:
    judgement = DRILLS["startup"].judge(startup([(2.03, 0.0), (3.5, FULL)]))
    assert judgement.verdict is Verdict.PASSED
    # 4 MiB at 115 Mbit/s are 292 ms; 30 ms later is 1.10 times that.
    assert judgement.figures["first_4mib_whole_ms"] == pytest.approx(292, abs=2)
    assert judgement.figures["slowdown_of_first_4mib"] == pytest.approx(1.10, abs=0.01)


def test_a_start_that_waits_too_long_or_never_gets_there_fails() -> None:
    assert "slowdown_of_first_4mib" in failed(DRILLS["startup"].judge(startup([(2.3, 0.0), (3.5, FULL)])))
    never = DRILLS["startup"].judge(startup([(3.5, FULL / 10)]))
    assert never.figures["slowdown_of_first_4mib"] is None
    assert {"slowdown_of_first_4mib", "share_kept"} <= failed(never)


def test_dead_paths_that_stay_in_use_fail() -> None:
    judgement = DRILLS["startup"].judge(startup([(3.5, FULL)], used_s=0.5))
    assert failed(judgement) == {"latest_use_of_a_dead_path_ms"}
    assert judgement.figures["latest_use_of_a_dead_path_ms"] == pytest.approx(500, abs=10)


def test_it_must_have_been_a_tenth() -> None:
    assert failed(DRILLS["startup"].judge(startup([(3.5, FULL)], dead=DEAD[:3]))) == {"dead_paths"}


# ---------------------------------------------------------------------- a shared path

EVERY = {(plane, spine): 150.0 for plane in range(2) for spine in range(8)}
LINK = {"marked_packets": 900, "queue_dropped_packets": 0}


def balance(meanwhile: float, afterwards: float = 1.0, kept: float = 1.0, link: dict[str, int] = LINK) -> Recording:
    shared = (0, 3)
    used = paths(
        2,
        8,
        [(1.5, EVERY), (4.5, EVERY | {shared: 150.0 * meanwhile}), (6.5, EVERY | {shared: 150.0 * afterwards})],
    )
    flows = {
        "sprayed": flow([(1.5, 77.0), (4.5, 77.0 * kept), (6.5, 77.0)], name="sprayed", used=used),
        "forced": flow([(1.5, 0.0), (4.5, 16.5), (6.5, 0.0)], name="forced"),
    }
    happened = [(0.0, "begin", "sprayed"), (1.5, "begin", "forced"), (4.5, "end", "forced"), (6.5, "end", "sprayed")]
    return recording(flows, happened, extra={"busy_link": link})


def test_a_flow_that_makes_room_and_comes_back_passes() -> None:
    judgement = DRILLS["balance"].judge(balance(0.5))
    assert judgement.verdict is Verdict.PASSED
    assert judgement.figures["load_before_of_fair"] == pytest.approx(1.0, abs=0.02)
    assert judgement.figures["load_meanwhile_of_fair"] == pytest.approx(0.516, abs=0.02)
    assert judgement.figures["forced_goodput_of_uplink"] == pytest.approx(0.825, abs=0.01)


@pytest.mark.parametrize(
    ("made", "figure"),
    [
        ({"meanwhile": 1.0}, "load_meanwhile_of_fair"),
        ({"meanwhile": 0.5, "afterwards": 0.5}, "load_afterwards_of_fair"),
        ({"meanwhile": 0.5, "kept": 0.93}, "share_kept"),
        ({"meanwhile": 0.5, "link": {"marked_packets": 0, "queue_dropped_packets": 0}}, "marked_packets"),
        ({"meanwhile": 0.5, "link": {"marked_packets": 9, "queue_dropped_packets": 2}}, "dropped_packets"),
    ],
)
def test_a_flow_that_does_not_fails(made: dict[str, Any], figure: str) -> None:
    assert failed(DRILLS["balance"].judge(balance(**made))) == {figure}


# ---------------------------------------------------------------------- seven to one


def incast(
    *,
    victim: float = 1.0,
    seven: float = 5.3,
    nacks: int = 200,
    heard: int = 200,
    counters: dict[str, int] | None = None,
    extra: dict[str, int] | None = None,
) -> Recording:
    """Seven flows of `seven` Mbit/s each; all 1400 trims, and NACKs, are dealt to them evenly."""

    def sender(name: str) -> FlowRecord:
        counted = {"nacks_received": heard, "losses_by_nack": 200, "retransmitted_packets": 200} | (counters or {})
        rates = [(1.5, 0.0), (6.5, seven)]
        return flow(rates, name=name, counters=counted, target={"counters": {"nacks_sent": nacks}})

    flows = {VICTIM: flow([(1.5, 38.0), (6.5, 38.0 * victim)], name=VICTIM)} | {name: sender(name) for name in SENDERS}
    happened = [(0.0, "begin", VICTIM), *((1.5, "begin", name) for name in SENDERS), (6.5, "end", VICTIM)]
    return recording(flows, happened, extra={"trimmed_packets": 1400, "dropped_packets": 0} | (extra or {}))


def test_an_incast_whose_every_trim_is_told_and_mended_passes() -> None:
    judgement = DRILLS["incast"].judge(incast())
    assert judgement.verdict is Verdict.PASSED
    assert judgement.figures["receiver_share_of_links"] == pytest.approx(7 * 5.3 / 40, abs=0.01)


@pytest.mark.parametrize(
    ("made", "figures"),
    [
        ({"victim": 0.9}, {"victim_share_kept"}),
        ({"seven": 4.0}, {"receiver_share_of_links"}),
        ({"nacks": 199, "heard": 199}, {"trims_without_nack"}),
        ({"heard": 199}, {"nacks_that_did_not_arrive"}),
        # A probe a sender misses was trimmed: then one packet of data was not, and one NACK is too many.
        ({"counters": {"tail_probes_sent": 1}}, {"trims_without_nack"}),
        ({"counters": {"retransmitted_packets": 150}}, {"nacked_packets_not_resent"}),
        ({"counters": {"local_ack_timeouts": 1}}, {"local_ack_timeouts"}),
        ({"extra": {"dropped_packets": 3}}, {"dropped_packets"}),
        ({"extra": {"trimmed_packets": 0}, "nacks": 0, "heard": 0}, {"trimmed_packets"}),
    ],
)
def test_an_incast_that_falls_short_fails_by_name(made: dict[str, Any], figures: set[str]) -> None:
    assert failed(DRILLS["incast"].judge(incast(**made))) == figures
