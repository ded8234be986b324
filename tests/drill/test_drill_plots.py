"""Every drill's plot of traffic made by hand: it is drawn, says what is what, and comes out the same twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_drill_failures import FULL, STEPS, cables, flapping, flaps, leaf, ports, spine
from test_drill_paths import balance, incast, lossy, startup
from test_drill_training import recorded

from mrc.drill.catalogue import DRILLS
from mrc.drill.recording import Recording

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
    make, texts = MADE[name]
    recording, drill = make(), DRILLS[name]
    plots = [svg(f"{name}: {drill.summary}", lambda figure: drill.draw(recording, figure)).decode() for _ in range(2)]
    assert plots[0] == plots[1]
    for text in (*texts, drill.summary):
        assert text in plots[0], f"{text!r} is not in the plot of {name}"
