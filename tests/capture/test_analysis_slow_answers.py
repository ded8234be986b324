# SPDX-License-Identifier: BSD-2-Clause
"""Paths on which answers take longer than on others: at both ends, and at the sender alone."""

from __future__ import annotations

import re

import pytest
from analyzing import found_in, only_direction
from crafted_ends import PATHS, both_ends
from crafted_flows import MICROSECOND
from drawn_captures import drawn
from drawn_faults import slower_back_shows
from drawn_truth import judged, wrongs
from draws import draws


@pytest.mark.parametrize("offset_us", [0, -700, 700, 20_000])
def test_a_path_on_which_answers_take_longer_is_named_with_their_route(offset_us: int) -> None:
    capture = both_ends({}, later_back={PATHS[1]: 35 * MICROSECOND}, offset=offset_us * MICROSECOND)
    found = found_in(capture)
    (slow,) = found["slow-answers"]
    assert slow.evs == (PATHS[1],)
    assert slow.text.startswith("answers on path EV 0x00000001 (p0l1>p0s1>p0l0>p0h0) are slow: the ")
    assert re.search(
        r"take 3[45](\.\d)? us longer than those on the 3 other paths from the receiver to the se", slow.text
    )
    assert "requests take no longer on any path; on the link p0l1>p0s1 or p0s1>p0l0" in slow.text
    assert slow.links == ("p0l1>p0s1", "p0s1>p0l0")
    assert slow.place == "between the receiver and the sender, on the way back"
    assert "slow-path" not in found
    paths = {path.ev: path for path in only_direction(capture).figures.answer_paths}
    assert sum(path.packets for path in paths.values()) == 240
    assert paths[PATHS[1]].one_way_later_ns == pytest.approx(35_000, abs=600)
    assert all(abs(path.one_way_later_ns or 0) <= 600 for ev, path in paths.items() if ev != PATHS[1])


def test_clocks_that_drift_make_no_answers_slow_and_hide_none() -> None:
    found = found_in(both_ends({}, later_back={PATHS[2]: 30 * MICROSECOND}, drift=60 * MICROSECOND))
    assert [each.evs for each in found["slow-answers"]] == [(PATHS[2],)]
    assert "slow-answers" not in found_in(both_ends({}, drift=60 * MICROSECOND))


def test_a_plane_on_which_answers_are_slow_is_named_as_one() -> None:
    found = found_in(both_ends({}, later_back=dict.fromkeys(PATHS[2:], 25 * MICROSECOND)))
    (slow,) = found["slow-answers"]
    assert set(slow.evs) == set(PATHS[2:])
    assert re.match(
        r"answers through plane 1 are slow: the \d+ on its 2 paths take 24.9 us to 25 us longer than those", slow.text
    )


def test_requests_that_are_slow_too_are_told_of() -> None:
    capture = both_ends({PATHS[3]: 30 * MICROSECOND}, later_back={PATHS[1]: 60 * MICROSECOND})
    found = found_in(capture)
    assert [each.ev for each in found["slow-path"]] == [PATHS[3]]
    (slow,) = found["slow-answers"]
    assert slow.evs == (PATHS[1],)
    assert "; requests take longer too, on path EV 0x01000001 (p1l0>p1s1>p1l1>p1h1)" in slow.text


def test_of_slow_requests_the_links_are_named_that_no_quicker_path_takes() -> None:
    (slow,) = found_in(both_ends({PATHS[3]: 30 * MICROSECOND}))["slow-path"]
    assert slow.links == ("p1l0>p1s1", "p1s1>p1l1")
    (slow,) = found_in(both_ends(dict.fromkeys(PATHS[2:], 25 * MICROSECOND)))["slow-plane"]
    assert slow.links == (">p1l0", "p1l1>p1h1")


@pytest.mark.parametrize(("later_us", "jitter_us"), [(1, 1), (3, 0), (20, 60)])
def test_a_difference_that_is_small_or_no_larger_than_the_spread_is_none(later_us: int, jitter_us: int) -> None:
    capture = both_ends({}, later_back={PATHS[1]: later_us * MICROSECOND}, jitter=jitter_us * MICROSECOND)
    assert "slow-answers" not in found_in(capture)


# ------------------------------------------------------------------ at the sender alone


def test_at_the_sender_the_shortest_round_trip_shows_answers_that_take_much_longer() -> None:
    capture = both_ends({}, later_back={PATHS[1]: 150 * MICROSECOND}, ends=("sender",))
    found = found_in(capture)
    (slow,) = found["slow-answers"]
    assert slow.evs == (PATHS[1],)
    assert re.search(r"none of the \d+ round trips that end there takes less than 191 us; of those that end", slow.text)
    assert "on other paths 100.0 % do, and the shortest takes 41" in slow.text
    assert slow.place == "behind the place of capture, on the way back to it"
    assert "slow-path" not in found


@pytest.mark.parametrize("later_us", [0, 35])
def test_at_the_sender_less_than_twice_is_not_named(later_us: int) -> None:
    capture = both_ends({}, later_back={PATHS[1]: later_us * MICROSECOND}, ends=("sender",))
    assert "slow-answers" not in found_in(capture)


def test_at_the_sender_the_quick_answers_of_a_busy_receiver_may_all_fall_to_other_evs() -> None:
    """Nearly all answers wait in the receiver, and none of those that do not are sent on the first EV."""
    at_once = {ev: 0.0 if ev == PATHS[0] else 0.15 for ev in PATHS}
    found = found_in(both_ends({}, at_once=at_once, count=1200, ends=("sender",)))
    assert "slow-answers" not in found


def test_at_the_sender_slow_answers_show_beside_a_busy_receiver() -> None:
    at_once = dict.fromkeys(PATHS, 0.15)
    capture = both_ends({}, later_back={PATHS[1]: 700 * MICROSECOND}, at_once=at_once, count=1200, ends=("sender",))
    (slow,) = found_in(capture)["slow-answers"]
    assert slow.evs == (PATHS[1],)


def test_at_the_sender_a_slow_path_of_requests_is_not_taken_for_one_of_answers() -> None:
    capture = both_ends({PATHS[1]: 150 * MICROSECOND}, ends=("sender",))
    found = found_in(capture)
    assert [each.ev for each in found["slow-path"]] == [PATHS[1]]
    assert "slow-answers" not in found


def test_where_answers_take_the_path_of_their_request_the_sender_cannot_tell_which_is_slow() -> None:
    capture = both_ends({}, later_back={PATHS[1]: 150 * MICROSECOND}, mirrored=True, ends=("sender",))
    found = found_in(capture)
    assert "slow-answers" not in found
    assert [each.ev for each in found["slow-path"]] == [PATHS[1]]


# ------------------------------------------------------------------ drawn


@pytest.mark.parametrize("harm", ["none", "offset", "drift", "twice", "missing", "begun", "step"])
@pytest.mark.parametrize("seed", range(draws(5)))
def test_drawn_paths_on_which_answers_are_slower_at_both_ends(harm: str, seed: int) -> None:
    made = drawn(700 + seed, transport="mrc", place="ends", fault="slower-back", harm=harm, hosts=1)
    said = judged(made)
    assert said.wrong == [], made.draw.words
    assert said.found is not False, (made.draw.words, made.draw.slower_ns)


@pytest.mark.parametrize("place", ["sender", "middle", "receiver"])
@pytest.mark.parametrize("seed", [*range(draws(5)), 13, 31, 34])
def test_drawn_paths_on_which_answers_are_slower_at_one_place(place: str, seed: int) -> None:
    """Of seeds 13, 31 and 34 half of the paths are slow: by chance those of some requests more than of others."""
    made = drawn(seed, transport="mrc", place=place, fault="slower-back", harm="none", hosts=1)
    said = judged(made)
    assert said.wrong == [], made.draw.words
    assert said.found is not False, (made.draw.words, made.draw.slower_ns)


@pytest.mark.parametrize(("seed", "harm"), [(0, "none"), (13, "none"), (19, "offset"), (22, "missing"), (2, "twice")])
def test_at_two_places_answers_that_are_slower_on_one_path_count_once(seed: int, harm: str) -> None:
    """Their copies are further apart than those of others; but for the last, no hop limit tells the places apart."""
    assert wrongs(drawn(seed, transport="mrc", place="ends", fault="slower-back", harm=harm, hosts=1)) == []


def test_the_drawn_ones_show_in_many_files() -> None:
    ends = [drawn(700 + seed, transport="mrc", place="ends", fault="slower-back", harm="none") for seed in range(20)]
    assert sum(slower_back_shows(each) for each in ends) >= 3
    sender = [drawn(seed, transport="mrc", place="sender", fault="slower-back", harm="none") for seed in range(24)]
    assert sum(slower_back_shows(each) for each in sender) >= 1
