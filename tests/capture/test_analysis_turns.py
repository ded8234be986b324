# SPDX-License-Identifier: BSD-2-Clause
"""At the receiver: on which path packets were lost that never came, from how many came on each."""

from __future__ import annotations

import pytest
from analyzing import analysis_of, found_in
from crafted_flows import FIRST, MICROSECOND, MIDDLE, Crafted, ev_of
from drawn_captures import drawn
from drawn_truth import judged

from mrc.capture.analysis.figures import PathFigures
from mrc.capture.analysis.finding import Finding
from mrc.capture.analysis.findings import findings
from mrc.capture.analysis.turns import came_short, in_turn

PATHS = [ev_of(plane, spine) for plane in range(2) for spine in range(2)]


@pytest.mark.parametrize(
    ("packets", "missing", "short"),
    [
        ([76, 76, 58, 76, 76, 75], 17, {2: 18}),
        ([100, 100, 80, 80], 41, {2: 20, 3: 20}),
        ([100, 70], 30, {1: 30}),
        # Nothing is missing of those that came short: they were left out of their turns.
        ([76, 76, 58, 76, 76, 75], 0, {}),
        ([76, 76, 58, 76, 76, 75], 60, {}),
        # The others differ by as much.
        ([76, 70, 58, 76, 64, 75], 18, {}),
        ([76, 76, 75, 76, 76, 75], 3, {}),
        ([10, 10, 7], 3, {}),
    ],
)
def test_a_path_that_came_short_by_what_is_missing(packets: list[int], missing: int, short: dict[int, int]) -> None:
    paths = [PathFigures(ev, "", None, packets=count) for ev, count in enumerate(packets)]
    assert came_short(paths, missing) == short


def test_the_path_that_lost_them_is_named_with_what_that_rests_on() -> None:
    """The draw has a path that loses, and is captured at the receiver, where nothing lost is seen."""
    made = drawn(9001, transport="mrc", place="receiver", harm="none", fault="path", form="plain")
    (said,) = (each for each in findings(analysis_of(made.capture)) if each.kind == "loss-before-capture")
    assert [said.ev] == made.draw.culprit
    assert said.text.endswith("all on path EV 0x00000002, if paths are taken in turn: fewer packets came there")


def test_where_all_paths_lose_none_is_named() -> None:
    made = drawn(9001, transport="mrc", place="receiver", harm="none", fault="loss", form="plain")
    said = [each for each in findings(analysis_of(made.capture)) if each.kind == "loss-before-capture"]
    assert said
    assert all(each.ev is None and "in turn" not in each.text for each in said)


# ------------------------------------------------------------------ where the file itself lacks packets


@pytest.mark.parametrize(
    ("came", "sent", "short"),
    [
        ([136, 110, 140], 471, {1}),
        ([136, 138, 140], 471, set()),
        # One carried more than its turns: it took another's, which was not used.
        ([160, 110, 160], 450, set()),
        # Both paths of a plane, neither more than the other.
        ([120, 121, 150, 149], 620, {0, 1}),
        ([10, 8, 10], 30, set()),
    ],
)
def test_a_path_that_lacks_more_of_its_turns_than_chance_gives(came: list[int], sent: int, short: set[int]) -> None:
    paths = [PathFigures(ev, "", ev // 2, packets=count) for ev, count in enumerate(came)]
    found = in_turn(paths, dict(enumerate(came)), sent)
    assert set(found.short) == short
    assert (found.why_not == "") == bool(short)


@pytest.mark.parametrize("seed", [9001, 9003, 9010, 9015])
def test_frames_that_the_file_lacks_accuse_no_path(seed: int) -> None:
    """Every path loses alike, and so does the capture."""
    made = drawn(seed, transport="mrc", place="receiver", harm="missing", fault="loss", form="plain", hosts=1)
    for each in findings(analysis_of(made.capture)):
        assert each.kind != "loss-before-capture" or (each.ev is None and "is not known: " in each.text)


def test_the_path_that_loses_is_named_though_the_file_lacks_frames() -> None:
    named = 0
    for seed in range(9000, 9012):
        made = drawn(seed, transport="mrc", place="receiver", harm="missing", fault="path", form="plain", hosts=1)
        assert judged(made).wrong == [], made.draw.words
        said = [each for each in findings(analysis_of(made.capture)) if each.kind == "loss-before-capture"]
        assert all(each.ev in (None, *made.draw.culprit) for each in said)
        named += any(each.ev is not None for each in said)
    assert named >= 5


# ------------------------------------------------------------------ what a sender does about a path


def at_the_receiver(*, dead: tuple[int, ...] = (), from_psn: int = 200, probed: int = -1, count: int = 400) -> Finding:
    """A flow whose packets on the `dead` EVs are lost from a PSN on; after eight losses on each the sender goes on
    without them. Or one EV that loses one in eight, and of which the sender asks again and again."""
    crafted = Crafted(at="receiver", payload=64)
    have, lost = set[int](), 0
    turn = 0
    for psn in range(count):
        while PATHS[turn % 4] in dead and psn >= from_psn and lost >= 8 * len(dead):
            turn += 1
        ev = PATHS[turn % 4]
        turn += 1
        gone = (ev in dead and psn >= from_psn) or (ev == probed and turn % 32 == PATHS.index(probed) + 1)
        lost += gone
        now = 10 * MICROSECOND * psn
        if not gone:
            crafted.data(now, psn, ev, opcode=MIDDLE if psn else FIRST)
            have.add(psn)
        if gone and ev == probed:
            # Its next two turns are another's.
            turn += 8
            for number in range(3):
                crafted.probe(now + number, ev, psn + number)
        cack = next(each for each in range(count + 1) if each not in have) - 1
        above = tuple(each for each in sorted(have) if cack < each <= cack + 64)
        if not gone:
            crafted.sack(now + 100, cack, psn, ev, received=above)
        missing = psn - 8
        if missing >= 0 and missing not in have:
            again = next(each for each in PATHS if each not in dead and each != probed)
            crafted.data(now + 200, missing, again, rtx=True)
            have.add(missing)
            crafted.sack(now + 300, cack, missing, again, rtx=True)
    (said,) = found_in(crafted.pcap())["loss-before-capture"]
    return said


def test_a_path_that_fell_silent_is_named() -> None:
    said = at_the_receiver(dead=(PATHS[1],))
    assert said.ev == PATHS[1]
    assert "on path EV 0x00000001 (p0h1) nothing came any more behind packet " in said.text
    assert said.place == "before the place of capture"


def test_a_plane_that_fell_silent_is_named_as_one() -> None:
    said = at_the_receiver(dead=tuple(PATHS[2:]))
    assert "; on plane 1 nothing came any more behind packet " in said.text


def test_a_path_that_the_sender_asks_about_is_named() -> None:
    said = at_the_receiver(probed=PATHS[2])
    assert said.ev == PATHS[2]
    assert "the sender asked " in said.text
