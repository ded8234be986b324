# SPDX-License-Identifier: BSD-2-Clause
"""Every drill's plot of traffic made by hand: it is drawn, says what is what, and comes out the same twice."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest
from recordings import flow, recording, series, whole
from test_drill_failures import FULL, STEPS, cables, flapping, flaps, leaf, ports, spine
from test_drill_paths import balance, incast, lossy, startup
from test_drill_training import recorded

from mrc.drill.catalogue import DRILLS
from mrc.drill.plots import draw_goodput
from mrc.drill.recording import Recording

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

pytest.importorskip("matplotlib")

from mrc.report.plots import svg  # needs matplotlib only when it draws

MADE: dict[str, tuple[Callable[[], Recording], tuple[str, ...]]] = {
    "nic-link-fail": (
        lambda: ports([(until, FULL * share) for until, share in STEPS]),
        ("cut h0-p1l0", "heal h0-p2l0"),
    ),
    "nic-link-flap": (lambda: flaps([0.5, 0.5, 0.5]), ("cut h0-p0l0", "what the links carry")),
    "fabric-link-fail": (lambda: cables(0.05), ("cut p1l0-p1s3", "heal p0l0-p0s0")),
    "fabric-link-flap": (lambda: flapping(0.97, 100.0), ("cut p0l0-p0s0",)),
    "leaf-fail": (lambda: leaf([(2.0, FULL), (4.0, FULL * 3 / 4), (6.0, FULL)]), ("MPTCP", "TCP", "MRC")),
    "spine-fail": (lambda: spine([(6.0, FULL)]), ("cut p0s0",)),
    "lossy-path": (lossy, ("the lossy EV", "its replacement", "ASSUMED_BAD")),
    "balance": (lambda: balance(0.5), ("the shared path", "the others, mean", "forced")),
    "incast": (incast, ("victim", "the seven", "window, kB")),
    "training": (recorded, ("MRC", "MPTCP, nothing breaks", "ms a step", "steps done", "cut p0s0")),
    "startup": (lambda: startup([(3.5, FULL)]), ("a tenth dead", "dead EV 0x00000002")),
}


def test_every_drill_is_drawn_here() -> None:
    assert set(MADE) == set(DRILLS)


@pytest.mark.parametrize("name", MADE)
def test_a_plot_says_what_is_what(name: str) -> None:
    (_, texts), drill = MADE[name], DRILLS[name]
    seen, (_, plot) = made(name), drawn_once(name)
    assert svg(_title(name), lambda figure: drill.draw(seen, figure)).decode() == plot
    for text in (*texts, drill.summary):
        assert text in plot, f"{text!r} is not in the plot of {name}"


def _title(name: str) -> str:
    return f"{name}: {DRILLS[name].summary}"


@cache
def made(name: str) -> Recording:
    return MADE[name][0]()


@cache
def drawn_once(name: str) -> tuple[Figure, str]:
    """The plot of a drill as `drawn` gives it."""
    seen = made(name)
    return drawn(lambda figure: DRILLS[name].draw(seen, figure), _title(name))


def drawn(draw: Callable[[Figure], None], title: str = "a title") -> tuple[Figure, str]:
    """A figure as `svg` lays it out, and the file."""
    kept: list[Figure] = []

    def keep(figure: Figure) -> None:
        draw(figure)
        kept.append(figure)

    content = svg(title, keep).decode()
    return kept[0], content


def names_above(figure: Figure) -> dict[str, Bbox]:
    """Names of moments above the first axes, with their boxes in pixels."""
    axes = figure.axes[0]
    top = axes.get_window_extent().y1
    boxes = {text.get_text(): text.get_window_extent() for text in axes.texts}
    return {name: box for name, box in boxes.items() if box.y0 >= top}


@pytest.mark.parametrize("name", sorted(set(MADE) - {"startup", "training"}))
def test_moments_are_named_above_the_plot_without_overlapping(name: str) -> None:
    figure, _ = drawn_once(name)
    names = names_above(figure)
    assert names
    for (one, box), (other, beside) in combinations(names.items(), 2):
        assert not box.overlaps(beside), f"{one!r} overlaps {other!r}"
    assert all(box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in names.values())


def test_a_name_begins_at_the_moment_it_names() -> None:
    seen = leaf([(2.0, FULL), (4.0, FULL * 3 / 4), (6.0, FULL)])
    figure, _ = drawn(lambda figure: DRILLS["leaf-fail"].draw(seen, figure))
    axes = figure.axes[0]
    cut, heal = (each.at_ns for each in seen.happenings if each.what in ("cut", "heal"))
    at = {name.split()[0]: box.x0 for name, box in names_above(figure).items()}
    for what, at_ns in (("cut", cut), ("heal", heal)):
        pixel = axes.transData.transform(((at_ns - seen.began_ns) / 1e9, 0.0))[0]
        assert at[what] == pytest.approx(pixel, abs=2)


def test_moments_close_to_each_other_are_named_in_rows() -> None:
    """Twelve things within two seconds of eight."""
    happened = [(3.0 + 0.16 * number, "cut", f"p0l0-p0s{number}") for number in range(12)]
    seen = recording(flow([(8.0, 100.0)]), whole(0.0, 8.0, *happened))
    names = names_above(drawn(lambda figure: draw_goodput(seen, figure))[0])
    assert len(names) == 12
    for box, beside in combinations(names.values(), 2):
        assert not box.overlaps(beside)


def test_a_rival_above_the_links_is_clipped_and_the_note_says_so() -> None:
    """TCP delivers 0.2 s of what waited within 50 ms: 600 Mbit/s where MRC, and the links, have 100."""
    burst = series([(2.0, 80.0), (3.0, 0.0), (3.05, 600.0), (6.0, 80.0)])
    seen = recording(flow([(6.0, 100.0)]), whole(0.0, 6.0, (2.0, "cut", "p0l0-p0s0")), streams={"tcp": burst})
    figure, content = drawn(lambda figure: draw_goodput(seen, figure))
    assert "clipped where bytes that had waited behind a hole came at once, at most TCP 600 Mbit/s" in content
    lines = figure.axes[0].get_lines()
    (marks,) = (line for line in lines if line.get_marker() == "^")
    assert np.asarray(marks.get_xdata()) == pytest.approx([3.025])
    assert np.asarray(marks.get_ydata()) == pytest.approx([100.0])
    (tcp,) = (line for line in lines if line.get_label() == "TCP")
    assert np.asarray(tcp.get_ydata()).max() == pytest.approx(100.0)


def test_a_rival_that_stays_below_has_no_note() -> None:
    seen = recording(flow([(6.0, 100.0)]), whole(0.0, 6.0), streams={"tcp": series([(6.0, 80.0)])})
    figure, content = drawn(lambda figure: draw_goodput(seen, figure))
    assert "clipped" not in content
    assert not [line for line in figure.axes[0].get_lines() if line.get_marker() == "^"]
