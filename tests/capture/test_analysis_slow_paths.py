# SPDX-License-Identifier: BSD-2-Clause
"""Paths that take longer than others, and clocks that are apart: what copies at two places show of both."""

from __future__ import annotations

import re

import numpy as np
import pytest
from analyzing import found_in, only_direction, path_of
from crafted_ends import ONE_WAY, PATHS, both_ends
from crafted_flows import MICROSECOND
from drawn_captures import SLOWER_US, drawn
from drawn_faults import slower_shows
from drawn_truth import judged
from draws import draws

from mrc.capture.analysis.one_way import compared


@pytest.mark.parametrize("offset_us", [0, -700, 700, 20_000])
def test_a_path_that_is_slower_by_less_than_any_round_trip_shows_is_named(offset_us: int) -> None:
    """35 us on 40: less than twice the round trip of the others, and the clocks may be anywhere."""
    capture = both_ends({PATHS[1]: 35 * MICROSECOND}, offset=offset_us * MICROSECOND)
    found = found_in(capture)
    (slow,) = found["slow-path"]
    assert slow.ev == PATHS[1]
    assert re.search(r"take 35(\.1)? us longer than those on the 3 other paths from the sender to the rec", slow.text)
    assert slow.place == "between the sender and the receiver"
    assert slow.packet == 2 or offset_us
    later = {path.ev: path.one_way_later_ns for path in only_direction(capture).figures.paths}
    assert later[PATHS[1]] == pytest.approx(35_000, abs=600)
    assert all(abs(ns or 0) <= 600 for ev, ns in later.items() if ev != PATHS[1])


def test_clocks_that_drift_make_no_path_slow_and_hide_none() -> None:
    found = found_in(both_ends({PATHS[2]: 30 * MICROSECOND}, drift=60 * MICROSECOND))
    assert [each.ev for each in found["slow-path"]] == [PATHS[2]]
    assert "slow-path" not in found_in(both_ends({}, drift=60 * MICROSECOND))


def test_a_plane_whose_paths_are_slow_is_named_as_one() -> None:
    found = found_in(both_ends(dict.fromkeys(PATHS[2:], 25 * MICROSECOND)))
    (slow,) = found["slow-plane"]
    assert set(slow.evs) == set(PATHS[2:])
    assert slow.text.startswith("plane 1 is slow: packets on its 2 paths take 25 us longer than those on the 2 other")
    assert "slow-path" not in found


@pytest.mark.parametrize(("later_us", "jitter_us"), [(1, 1), (3, 0), (20, 60)])
def test_a_difference_that_is_small_or_no_larger_than_the_spread_is_none(later_us: int, jitter_us: int) -> None:
    capture = both_ends({PATHS[1]: later_us * MICROSECOND}, jitter=jitter_us * MICROSECOND)
    assert "slow-path" not in found_in(capture)


def test_a_path_that_is_used_only_while_all_are_slow_is_not_slow() -> None:
    """All ways grow longer and shorter again; one EV is used in the middle third alone, where they are longest."""
    time = np.arange(0, 3_000_000, 5_000)
    gap = 20_000 + np.where((time > 1_000_000) & (time < 2_000_000), 90_000, 0)
    ev = np.where((time > 1_200_000) & (time < 1_800_000) & (np.arange(len(time)) % 2 > 0), 7, 3)
    assert {each: later.is_slower for each, later in compared(ev, gap, time).items()} == {3: False, 7: False}
    gap = gap + np.where(ev == 7, 9_000, 0)
    found = compared(ev, gap, time)
    assert (found[7].later, found[7].is_slower, found[3].later) == (9_000, True, 0)
    assert compared(ev[:30], gap[:30], time[:30]) == {}


@pytest.mark.parametrize("harm", ["none", "offset", "drift", "twice", "missing", "begun", "step"])
@pytest.mark.parametrize("seed", range(draws(5)))
def test_drawn_paths_that_are_slower_at_both_ends(harm: str, seed: int) -> None:
    made = drawn(700 + seed, transport="mrc", place="ends", fault="slower", harm=harm, hosts=1)
    said = judged(made)
    assert said.wrong == [], made.draw.words
    assert said.found is not False, (made.draw.words, made.draw.slower_ns)


def test_the_drawn_ones_show_in_many_files() -> None:
    made = [drawn(700 + seed, transport="mrc", place="ends", fault="slower", harm="none", hosts=1) for seed in range(8)]
    assert sum(slower_shows(each) for each in made) >= 3
    assert {each.draw.slower_ns // MICROSECOND for each in made} <= set(SLOWER_US)


# ------------------------------------------------------------------ clocks


@pytest.mark.parametrize("offset_us", [-700, 700, 20_000])
def test_the_clocks_are_apart_by_something_between_two_bounds(offset_us: int) -> None:
    """One path is slow: what the packets in the middle show is off, what the quickest show is not."""
    capture = both_ends(dict.fromkeys(PATHS[:3], 60 * MICROSECOND), offset=offset_us * MICROSECOND)
    figures = only_direction(capture).figures
    least, most = figures.clock_offset_least_ns, figures.clock_offset_most_ns
    assert least is not None
    assert most is not None
    assert least <= offset_us * MICROSECOND <= most
    assert most - least == pytest.approx(2 * ONE_WAY, abs=2 * MICROSECOND)
    assert figures.clock_offset_ns == pytest.approx(offset_us * MICROSECOND, abs=MICROSECOND)
    (said,) = found_in(capture)["clocks-apart"]
    words = "20 ms ahead of" if offset_us == 20_000 else f"700 us {'behind' if offset_us < 0 else 'ahead of'}"
    assert f"is about {words} the other, give or take 20" in said.text


# ------------------------------------------------------------------ routes


@pytest.mark.parametrize("offset_us", [-700, 0])
def test_the_route_is_the_sender_s_whichever_end_stands_first_in_the_file(offset_us: int) -> None:
    direction = only_direction(both_ends({}, offset=offset_us * MICROSECOND))
    assert path_of(direction, PATHS[1]).route == "p0l0>p0s1>p0l1>p0h1"
