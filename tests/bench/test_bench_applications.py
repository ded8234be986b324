# SPDX-License-Identifier: BSD-2-Clause
"""What benchmarks/busy-application and benchmarks/ring make of what the processes saw."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from applications import busy, command, ring
from applications.busy import CASES, Case, Times, plan_of
from applications.command import BEFORE, Application, Measured, document, table
from applications.ends import resent
from applications.timeline import Timeline

from mrc.bench.rounds import Rounds
from mrc.bench.subject import RECEIVER, SENDER
from mrc.errors import PeerError
from mrc.lab import Lab

MS = 1_000_000
MIB = 1 << 20
TIMES = Times(seconds=2.0, hold_s=10.0, first=256)


def case(name: str) -> Case:
    return next(each for each in CASES if each.name == name)


def seen(**changes: Any) -> dict[str, Any]:
    """What an end tells that saw nothing special."""
    counters = {"packets_sent": 0, "retransmitted_packets": 0, "noticed_spurious": 0, "duplicates": 0}
    return {"began": 0, "ended": 0, "completed": 0, "hold": [], "placed": [], "lost": None} | counters | changes


class TestTimeline:
    def test_bytes_count_as_placed_steadily_between_samples(self) -> None:
        timeline = Timeline([(0, 0), (10 * MS, 1000), (20 * MS, 1000)])
        assert timeline.placed(5 * MS) == 500
        assert timeline.during((5 * MS, 15 * MS)) == 500

    def test_nothing_is_known_before_the_first_sample_and_after_the_last(self) -> None:
        timeline = Timeline([(10 * MS, 7), (20 * MS, 9)])
        assert (timeline.placed(0), timeline.placed(10 * MS), timeline.placed(99 * MS)) == (7, 7, 9)

    def test_samples_of_two_threads_come_in_any_order(self) -> None:
        assert Timeline([(20, 200), (0, 0), (10, 100)]).placed(15) == 150

    def test_goodput_leaves_a_span_out_with_what_came_in_it(self) -> None:
        timeline = Timeline([(0, 0), (1000, 1000), (11_000, 1500), (12_000, 2500)])
        assert timeline.gbps((0, 12_000), (1000, 11_000)) == 8.0
        assert timeline.gbps((0, 12_000)) == pytest.approx(2500 * 8 / 12_000)

    def test_only_what_lies_in_the_span_is_left_out(self) -> None:
        timeline = Timeline([(0, 0), (1000, 1000), (11_000, 1000)])
        assert timeline.gbps((0, 2000), (1000, 11_000)) == 8.0
        assert timeline.gbps((0, 1000), (2000, 11_000)) == 8.0
        assert timeline.gbps((2000, 3000), (1000, 11_000)) == 0.0

    def test_back_after(self) -> None:
        timeline = Timeline([(0, 5), (10 * MS, 6), (20 * MS, 6), (35 * MS, 7)])
        assert timeline.back_after_ms(10 * MS) == 25
        # What the first sample shows may have come before.
        assert timeline.back_after_ms(2 * MS) == 33
        assert timeline.back_after_ms(36 * MS) is None


class TestBusy:
    def test_the_lock_is_held_in_the_middle_of_what_counts(self) -> None:
        sender, receiver = (plan_of(case("receiver-held"), host, TIMES) for host in (SENDER, RECEIVER))
        assert (sender.hold_s, receiver.hold_s) == (0.0, 10.0)
        # The sender goes on writing for as long before it as after it.
        assert sender.seconds - receiver.hold_at - receiver.hold_s == pytest.approx(TIMES.seconds / 2)

    def test_posted_at_once_is_what_the_sender_posts(self) -> None:
        plans = {host: plan_of(case("posted-held"), host, TIMES) for host in (SENDER, RECEIVER)}
        assert (plans[SENDER].first, plans[RECEIVER].first) == (256, 0)
        assert plan_of(case("idle"), SENDER, TIMES).first == 0

    def test_goodput_is_what_was_placed_after_the_beginning(self) -> None:
        # 300 ms that do not count, then 8 Gbit/s for two seconds.
        placed = [(0, 0), (300 * MS, 77), (2300 * MS, 77 + 2 * 10**9), (2400 * MS, 3 * 10**9)]
        saw = [seen(ended=2300 * MS, packets_sent=1000), seen(placed=placed)]
        found = busy.figures(saw, case("idle"), TIMES)
        assert found["goodput_gbps"] == 8.0
        assert "held_gbps" not in found
        assert found["lost"] == []

    def test_what_came_while_a_lock_was_held_is_told_apart(self) -> None:
        placed = [(0, 0), (300 * MS, 0), (1300 * MS, 10**9), (11_300 * MS, 10**9 + 50 * MIB), (11_320 * MS, 2 * 10**9)]
        hold = [1300 * MS, 11_300 * MS]
        saw = [seen(ended=11_320 * MS), seen(placed=placed, hold=hold)]
        found = busy.figures(saw, case("receiver-held"), TIMES)
        assert found["held_mib"] == 50.0
        assert found["held_gbps"] == round(50 * MIB * 8 / 10**10, 4)
        assert found["back_ms"] == 20.0
        assert found["held_share"] is None

    def test_of_posted_writes_the_share_that_came_while_the_lock_was_held(self) -> None:
        placed = [(0, 0), (10_000 * MS, 64 * MIB)]
        saw = [seen(ended=20_000 * MS, hold=[0, 10_000 * MS]), seen(placed=placed)]
        found = busy.figures(saw, case("posted-held"), TIMES)
        assert found["held_share"] == 0.25
        assert found["goodput_gbps"] is None

    def test_a_lost_qp_is_told_with_its_time(self) -> None:
        saw = [
            seen(ended=5000 * MS, lost="RETRY_EXCEEDED: gone"),
            seen(placed=[(0, 0), (1000 * MS, 0), (11_000 * MS, 0)], hold=[1000 * MS, 11_000 * MS]),
        ]
        found = busy.figures(saw, case("receiver-held"), TIMES)
        assert found["lost"] == ["RETRY_EXCEEDED: gone"]
        assert found["lost_after_s"] == 4.0


def test_a_ring_moves_all_blocks_in_the_time_of_the_slowest() -> None:
    saw = [seen(began=100 * MS, ended=1000 * MS, completed=2), seen(began=0, ended=900 * MS, completed=2)]
    assert ring.figures(saw, 125_000_000)["goodput_gbps"] == 4.0


def test_spurious_are_the_duplicates_but_no_more_than_was_sent_again() -> None:
    both = [
        seen(packets_sent=1000, retransmitted_packets=20, noticed_spurious=2),
        seen(duplicates=5, packets_sent=0),
    ]
    assert resent(both)["spurious_share"] == 0.005
    assert resent([seen(packets_sent=100, retransmitted_packets=1, duplicates=9)])["spurious_retransmissions"] == 1
    assert resent([seen()])["spurious_share"] == 0.0


class TestDocument:
    @staticmethod
    def of(applications: list[Application], runs: dict[str, list[float | None]], **options: bool) -> dict[str, Any]:
        documents = {
            name: [{"goodput_gbps": goodput, "lost": []} for goodput in goodputs] for name, goodputs in runs.items()
        }
        return document(Rounds(documents), applications, **({"before": False} | options))

    @staticmethod
    def named(name: str, beside: str | None = None) -> Application:
        return Application(name, lambda lab, tree: {}, beside)

    def test_ratios_are_those_of_the_rounds(self) -> None:
        both = [self.named("idle"), self.named("computing", "idle")]
        found = self.of(both, {"idle": [1.0, 2.0, 4.0], "computing": [1.0, 1.0, 1.0]})
        assert found["computing"]["ratio"] == {"median": 0.5, "min": 0.25, "max": 1.0}
        assert "ratio" not in found["idle"]

    def test_each_tree_is_compared_with_itself_and_with_the_other(self) -> None:
        both = [self.named("idle"), self.named("computing", "idle")]
        runs: dict[str, list[float | None]] = {
            "idle": [2.0],
            "idle" + BEFORE: [1.0],
            "computing": [1.0],
            "computing" + BEFORE: [0.25],
        }
        found = self.of(both, runs, before=True)
        assert found["computing"]["ratio"]["median"] == 0.5
        assert found["computing" + BEFORE]["ratio"]["median"] == 0.25
        assert found["computing"]["of_before"]["median"] == 4.0
        assert "of_before" not in found["computing" + BEFORE]

    def test_a_case_without_goodput_has_no_ratio(self) -> None:
        found = self.of([self.named("posted")], {"posted": [None], "posted" + BEFORE: [None]}, before=True)
        assert found["posted"].keys().isdisjoint({"ratio", "of_before", "goodput_gbps"})

    def test_the_table_has_the_columns_that_a_case_has(self) -> None:
        both = [self.named("idle"), self.named("computing", "idle")]
        lines = table(self.of(both, {"idle": [2.0, 1.0], "computing": [0.5, 0.5]}))
        assert lines[0].split() == ["Gbit/s", "ratio", "lost"]
        assert lines[2].split() == ["computing", "0.50", "(0.50..0.50)", "0.38", "(0.25..0.50)", "0"]


def test_a_run_that_breaks_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    def broken(lab: Lab, tree: Path) -> dict[str, Any]:
        raise PeerError("the process on h0 ended: exit status 1")

    run = Measured(Application("idle", broken, None), tmp_path, "").run(Lab.__new__(Lab))
    assert run == {"goodput_gbps": 0.0, "lost": ["the process on h0 ended: exit status 1"]}


def test_a_tree_without_verbs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = Namespace(before=tmp_path, rounds=1, json=False)
    assert command.measure("never-up", [], options) == 1
    assert "there is no mrc/verbs in it" in capsys.readouterr().err
