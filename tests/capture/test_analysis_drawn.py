# SPDX-License-Identifier: BSD-2-Clause
"""Drawn captures with known truth: the analysis is held against what the fabric did."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from drawn_captures import HARMS, MORE_HARMS, PLACES, Drawn, drawn
from drawn_forms import FORMS
from drawn_shrunk import shrunk
from drawn_truth import judged, wrongs
from draws import draws

_DRAWS = draws(120)
# Two in a thousand draws have it: a test of its own asks for it.
RARE = {"drift"}


@cache
def many() -> list[Drawn]:
    return [drawn(seed) for seed in range(_DRAWS)]


def _at(transport: str, fault: str, place: str) -> dict[str, Any]:
    """One flow of a kind, for `drawn`."""
    return {"transport": transport, "fault": fault, "place": place, "hosts": 1}


def _rc(fault: str, place: str, harm: str, form: str = "plain") -> dict[str, Any]:
    return {**_at("rc", fault, place), "harm": harm, "form": form}


def test_of_drawn_captures_nothing_is_wrong_and_nearly_all_faults_are_found() -> None:
    made = many()
    said = {each.draw.words: judged(each) for each in made}
    assert [shrunk(each, wrong).words for each in made if (wrong := said[each.draw.words].wrong)] == []
    knowable = [each.found for each in said.values() if each.found is not None]
    assert knowable.count(True) >= 0.9 * len(knowable)
    # Saying nothing is never wrong, and no help.
    assert sum(bool(each.unknown) for each in said.values()) <= _DRAWS / 3


@pytest.mark.parametrize("place", ["sender", "receiver", "middle"])
@pytest.mark.parametrize("seed", range(draws(8)))
def test_of_mrc_at_one_place_nothing_is_wrong(place: str, seed: int) -> None:
    """No frame missing, one clock, begun with the flow: every fault, from each side."""
    made = drawn(seed, transport="mrc", place=place, harm="none")
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("seed", range(draws(14)))
def test_of_rc_at_the_sender_nothing_is_wrong(seed: int) -> None:
    made = drawn(seed, transport="rc", place="sender", harm="none")
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("place", ["sender", "receiver", "ends"])
@pytest.mark.parametrize("seed", range(draws(7)))
def test_a_capture_that_has_everything_twice_says_what_it_says_once(place: str, seed: int) -> None:
    made = drawn(seed, transport="mrc", place=place, harm="twice")
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("seed", range(draws(7)))
def test_two_places_with_clocks_apart(seed: int) -> None:
    made = drawn(seed, transport="mrc", place="ends", harm="offset")
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize(
    ("fault", "seed"),
    [
        ("slower", 50),
        ("", 7791),
        ("slower-back", 94),
        ("slower-back", 120),
        ("slower-back", 5),
        ("slower-back", 56),
    ],
)
def test_two_places_with_clocks_further_apart_than_some_paths_take(fault: str, seed: int) -> None:
    """On these the other place saw a packet first. Of few answers some paths have one, seen twice as all others are."""
    made = drawn(seed, transport="mrc", place="ends", harm="offset", form="plain", fault=fault, count=60, hosts=1)
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize(
    ("count", "seed"),
    [
        (5, 4),
        (5, 26),
        (5, 48),
        (5, 54),
        (5, 307),
        (12, 41),
        (12, 64),
        (12, 121),
        (12, 20012),
        (12, 20192),
        (12, 30255),
        (12, 30306),
        (30, 20389),
        (30, 64),
        (30, 30110),
        (30, 69),
        (30, 164),
        (30, 223),
        (30, 337),
    ],
)
def test_a_file_of_few_packets_that_ends_early_or_begins_late(count: int, seed: int) -> None:
    """It ends before an answer comes, or has one end's packets only."""
    made = drawn(seed, count=count)
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize(
    ("count", "seed"),
    [
        pytest.param(12, 312, id="sent again or twice in the file: all answers are there more than once"),
        pytest.param(12, 20214, id="the same, clocks are not known to be apart"),
        pytest.param(12, 20241, id="sent again or twice in the file: no answer tells"),
        pytest.param(5, 20073, id="no answer tells, doubled"),
        pytest.param(5, 20076, id="every packet twice besides"),
        pytest.param(30, 20184, id="answers are there once: sent again"),
        pytest.param(30, 20360, id="answers are there once: sent again without a receive"),
        pytest.param(30, 106, id="answers of two places are there twice: sent again"),
        pytest.param(30, 244, id="answers of two places are there twice, doubled: sent again"),
        pytest.param(12, 20257, id="late: a NAK of one further on comes before what is sent again can have come"),
        pytest.param(12, 30361, id="the same, of a file that begins late"),
        pytest.param(30, 20343, id="late: an answer acknowledges no more than the NAK did"),
        pytest.param(12, 20351, id="late: the one answer that comes twice is no copy"),
        pytest.param(12, 20343, id="late: the file ends before an answer tells"),
        pytest.param(0, 211, id="lost, every packet twice: the second copy of a NAK names nothing new"),
    ],
)
def test_short_files_of_rc(count: int, seed: int) -> None:
    """What was sent again is told from what the file has twice, and what came late from what was lost."""
    made = drawn(seed, count=count)
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(draws(7)))
def test_a_clock_set_forward_is_found_or_the_pause_is_named(place: str, seed: int) -> None:
    made = drawn(seed, place=place, harm="step")
    assert wrongs(made) == [], made.draw.words


def test_the_draws_cover_every_place_and_harm() -> None:
    made = [each.draw for each in many()]
    assert {draw.place for draw in made} == set(PLACES)
    assert {draw.harm for draw in made} - RARE == {*HARMS, *MORE_HARMS} - RARE


@pytest.mark.parametrize("seed", range(draws(7)))
def test_two_places_whose_clocks_drift_apart(seed: int) -> None:
    made = drawn(seed, transport="mrc", place="ends", harm="drift")
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("seed", range(draws(2)))
def test_what_a_capture_is_wrapped_in_changes_nothing(form: str, seed: int) -> None:
    made = drawn(seed, form=form, harm="none")
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("transport", ["mrc", "rc"])
@pytest.mark.parametrize("seed", range(draws(5)))
def test_several_hosts_in_one_capture(transport: str, seed: int) -> None:
    made = drawn(seed, transport=transport, hosts=3, harm="none", place="sender")
    assert len(made.beside) == 2
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("seed", range(draws(10)))
def test_a_snaplen(seed: int) -> None:
    made = drawn(seed, harm="snaplen")
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(draws(5)))
def test_marks_and_trims(place: str, seed: int) -> None:
    made = drawn(seed, transport="mrc", fault="congested", place=place, harm="none")
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("place", ["sender", "middle", "receiver"])
@pytest.mark.parametrize("seed", range(draws(5)))
def test_rc_that_the_network_doubles(place: str, seed: int) -> None:
    made = drawn(seed, transport="rc", fault="doubled", place=place, harm="none", hosts=1)
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("harm", ["twice", "missing", "begun", "cut", "step"])
@pytest.mark.parametrize("place", ["receiver", "ends"])
@pytest.mark.parametrize("seed", range(4))
def test_rc_that_the_network_doubles_in_a_capture_that_lacks_or_doubles_something(
    place: str, harm: str, seed: int
) -> None:
    made = drawn(seed, transport="rc", fault="doubled", place=place, harm=harm, hosts=1)
    assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(draws(4)))
def test_rc_over_a_fabric_that_reorders(place: str, seed: int) -> None:
    """What comes late is no loss, and RC goes back for it all the same."""
    made = drawn(seed, transport="rc", fault="late", place=place, harm="none", hosts=1)
    assert wrongs(made) == [], made.draw.words
    assert judged(made).found is not False


@pytest.mark.parametrize("harm", ["twice", "missing", "begun", "cut", "step", "snaplen"])
@pytest.mark.parametrize("place", PLACES)
def test_rc_over_a_fabric_that_reorders_in_a_capture_that_lacks_or_doubles_something(place: str, harm: str) -> None:
    for seed in range(draws(1)):
        made = drawn(seed, transport="rc", fault="late", place=place, harm=harm, hosts=1)
        assert wrongs(made) == [], made.draw.words


@pytest.mark.parametrize("harm", ["drift", "offset"])
@pytest.mark.parametrize("fault", ["late", "loss", "doubled"])
def test_rc_at_two_places_with_two_clocks(fault: str, harm: str) -> None:
    for seed in range(draws(2)):
        made = drawn(seed, transport="rc", fault=fault, place="ends", harm=harm, hosts=1)
        assert wrongs(made) == [], made.draw.words


def test_a_wrong_draw_shrinks_to_a_small_one_that_is_wrong_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held against a truth that has no loss."""
    monkeypatch.setattr("drawn_truth._Said.lost", lambda said: 0)
    given = {"transport": "mrc", "fault": "path", "place": "sender", "harm": "none"}
    made = drawn(2, **given)
    small = shrunk(made, wrongs(made), **given)
    assert "lost" in {each.partition(":")[0] for each in small.wrong}
    assert len(small.made.capture) < len(made.capture) // 2
    again = drawn(2, **small.given)
    assert again.capture == small.made.capture


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(94, id="RC: an answer to the next time that the requestor goes back is none to this"),
        pytest.param(484, id="RC: one of forty NAKs is followed by an answer to what had come"),
        pytest.param(601, id="sent again twice, once seen at the far place alone"),
        pytest.param(1304, id="sent again twice, at two places that look alike and have two clocks"),
        pytest.param(1607, id="a NACK, not the SACK that shows the hole, had it sent again"),
        pytest.param(1704, id="RC of two places beside frames that are missing is not out of order"),
        pytest.param(1803, id="RC sent again on both sides of a clock set forward"),
        pytest.param(5463, id="a retransmission that the capture lacks"),
        pytest.param(5500, id="two places of which one has fewer than half of the requests"),
        pytest.param(5745, id="a slow path whose late packets are not all answered in the file"),
        pytest.param(6417, id="RC: a clock set forward by a little less than the pause beside it"),
        pytest.param(20093, id="lone retransmission of the far place"),
        pytest.param(20158, id="RC that goes back again before it comes to what is behind"),
        pytest.param(20520, id="lost behind the capture at the end of a burst"),
        pytest.param(20562, id="slow path that is avoided, no drift"),
        pytest.param(20578, id="lone answer of the far place"),
        pytest.param(20678, id="between two switches that look alike, cut"),
        pytest.param(20919, id="between two switches that look alike, frames missing"),
        pytest.param(40128, id="RC that goes back again, every packet twice"),
        pytest.param(50291, id="came again only, begun among packets that overtake each other"),
        pytest.param(50883, id="lost behind the receiver's capture, and nothing answered before it came again"),
        pytest.param(50937, id="RC: the answer to a timer says nothing yet of what is on its way"),
        pytest.param(70030, id="overtook the first packet of the file"),
        pytest.param(70424, id="RC: the file begins while the requestor goes back"),
        pytest.param(70886, id="receiver's answers missing from a flow that nothing but times places"),
        pytest.param(70572, id="at both ends, each of which has all twice: which answer is whose is not known"),
        pytest.param(70703, id="sent before the file begins, seen at the far place alone, and sent again"),
        pytest.param(80180, id="the same, of two planes"),
    ],
)
def test_draws_that_were_wrong(seed: int) -> None:
    assert judged(drawn(seed)).wrong == []


@pytest.mark.parametrize(
    ("seed", "given"),
    [
        pytest.param(200002, _at("rc", "timeouts", "middle"), id="a timer is no reaction to a NAK"),
        pytest.param(200020, _at("rc", "rnr", "middle"), id="RC: the file ends before an answer tells"),
        pytest.param(200057, _at("rc", "rnr", "middle"), id="RC: nobody answers while a NAK holds the requestor"),
        pytest.param(32008, _at("rc", "rnr", "middle"), id="RC: the file ends before the requestor is there again"),
        pytest.param(200006, {**_at("mrc", "slow", "receiver"), "harm": "missing"}, id="its SACK shows the original"),
        pytest.param(31093, {"transport": "rc", "place": "ends", "harm": "step", "hosts": 1}, id="torn by a pause"),
        pytest.param(310002, _rc("late", "sender", "cut"), id="RC: sent in vain since anything was acknowledged"),
        pytest.param(310001, _rc("late", "middle", "missing"), id="RC out of order in a capture that lacks packets"),
        pytest.param(
            310011, _rc("late", "sender", "begun"), id="RC: a NAK between the two is why it was sent twice in a row"
        ),
        pytest.param(
            310001, _rc("late", "ends", "offset"), id="RC out of order: clocks apart are no beginning of a file"
        ),
        pytest.param(
            310001, _rc("late", "ends", "drift"), id="RC out of order: what two places saw once each is not doubled"
        ),
        pytest.param(
            311029, _rc("late", "sender", "none"), id="RC: more answers to what had come than to anything else"
        ),
        pytest.param(
            311010,
            _rc("late", "receiver", "none"),
            id="RC: what came late, one behind the other with what was sent for it",
        ),
        pytest.param(311016, _rc("late", "ends", "twice"), id="RC out of order at two places that have all twice"),
        pytest.param(400016, _rc("late", "receiver", "twice"), id="RC out of order: copies at one place fill no hole"),
        pytest.param(
            311023, _rc("late", "receiver", "begun"), id="RC out of order: begun behind what overtook its first packet"
        ),
        pytest.param(
            311025,
            _rc("late", "receiver", "begun"),
            id="RC: answers that say the same again are not ahead of what they answer",
        ),
        pytest.param(
            312005,
            _rc("late", "receiver", "begun", "gre"),
            id="RC out of order: begun behind a few that overtook its first packet",
        ),
        pytest.param(
            311012, _rc("late", "ends", "offset"), id="RC out of order, two clocks, a pair that a NAK stands between"
        ),
        pytest.param(
            400005,
            _rc("late", "sender", "missing"),
            id="RC out of order: what is sent again stands alone beside missing frames",
        ),
        pytest.param(320008, _rc("doubled", "receiver", "step"), id="RC: doubled across a clock set forward"),
        pytest.param(
            320009, _rc("doubled", "ends", "begun"), id="RC: doubled at the far place before the near one saw anything"
        ),
        pytest.param(
            330007, _rc("loss", "ends", "begun"), id="RC: a far sighting and what is sent again soon behind it"
        ),
        pytest.param(
            340004,
            _rc("loss", "ends", "begun"),
            id="RC: a near sighting that follows the one before is not the far place's",
        ),
        pytest.param(330010, _rc("timeouts", "ends", "begun"), id="RC: sent again at two places before both saw it"),
        pytest.param(330007, _rc("rnr", "ends", "begun"), id="RC: refused at two places before both saw it"),
        pytest.param(
            400001, _rc("host-loss", "ends", "begun"), id="RC: what is sent again and a far sighting soon behind it"
        ),
        pytest.param(
            400001,
            _rc("loss", "receiver", "missing"),
            id="RC: acknowledged before it came, in a capture that has it later",
        ),
        pytest.param(400002, _rc("none", "sender", "step"), id="RC: a clock set forward within a message"),
        pytest.param(400001, _rc("rnr", "ends", "missing"), id="RC: what was sent twice is no pair of sightings"),
        pytest.param(300014, _rc("doubled", "ends", "offset"), id="RC: doubled, by the other of two clocks"),
    ],
)
def test_draws_of_a_kind_that_were_wrong(seed: int, given: dict[str, Any]) -> None:
    assert judged(drawn(seed, **given)).wrong == []
