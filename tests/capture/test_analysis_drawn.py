# SPDX-License-Identifier: BSD-2-Clause
"""Drawn captures with known truth: the analysis is held against what the fabric did."""

from __future__ import annotations

import pytest
from drawn_captures import HARMS, PLACES, drawn
from drawn_truth import judged, wrongs

_DRAWS = 300


def test_of_drawn_captures_nothing_is_wrong_and_nearly_all_faults_are_found() -> None:
    said = {(made := drawn(seed)).draw.words: judged(made) for seed in range(_DRAWS)}
    assert {words: each.wrong for words, each in said.items() if each.wrong} == {}
    knowable = [each.found for each in said.values() if each.found is not None]
    assert knowable.count(True) >= 0.9 * len(knowable)
    # Saying nothing is never wrong, and no help.
    assert sum(bool(each.unknown) for each in said.values()) <= 0.3 * _DRAWS


@pytest.mark.parametrize("place", ["sender", "receiver", "middle"])
@pytest.mark.parametrize("seed", range(25))
def test_of_mrc_at_one_place_nothing_is_wrong(place: str, seed: int) -> None:
    """No frame missing, one clock, begun with the flow: every fault, from each side."""
    made = drawn(seed, transport="mrc", place=place, harm="none")
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("seed", range(40))
def test_of_rc_at_the_sender_nothing_is_wrong(seed: int) -> None:
    made = drawn(seed, transport="rc", place="sender", harm="none")
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("place", ["sender", "receiver", "ends"])
@pytest.mark.parametrize("seed", range(20))
def test_a_capture_that_has_everything_twice_says_what_it_says_once(place: str, seed: int) -> None:
    made = drawn(seed, transport="mrc", place=place, harm="twice")
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("seed", range(20))
def test_two_places_with_clocks_apart(seed: int) -> None:
    made = drawn(seed, transport="mrc", place="ends", harm="offset")
    assert wrongs(made) == [], made.draw.words


def test_the_draws_cover_every_place_and_harm() -> None:
    draws = [drawn(seed).draw for seed in range(120)]
    assert {draw.place for draw in draws} == set(PLACES)
    assert {draw.harm for draw in draws} == set(HARMS)
