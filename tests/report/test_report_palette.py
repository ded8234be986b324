# SPDX-License-Identifier: BSD-2-Clause
"""Colours of plots stay distinct for people with protanopia and deuteranopia."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from mrc.report import palette

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009),
# severity 1.0, of linear RGB.
SIGHTS = {
    "trichromacy": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
# CIE 1931 XYZ of linear sRGB, and the white point D65.
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = XYZ.sum(axis=1)
# In CIE L*a*b* a difference of 2.3 is just noticeable side by side. Lines of a plot lie apart: six times that.
LEAST = 15.0

SETS = {
    "lines": palette.LINES,
    "transports": (*palette.TRANSPORTS.values(), palette.BLACK),
    "EV states": tuple(palette.EV_STATES.values()),
    "moments": (palette.BROKEN[0], palette.MENDED[0], palette.OTHER[0]),
}


def lab(colour: str, sight: str) -> npt.NDArray[np.float64]:
    """L*, a*, b* of a colour as seen."""
    encoded = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    ratio = XYZ @ np.clip(SIGHTS[sight] @ linear, 0, 1) / WHITE
    root = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def least_difference(colours: tuple[str, ...], sight: str) -> float:
    return min(float(np.linalg.norm(lab(a, sight) - lab(b, sight))) for a, b in combinations(colours, 2))


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("name", SETS)
def test_colours_that_are_drawn_together_are_distinct(name: str, sight: str) -> None:
    assert least_difference(SETS[name], sight) >= LEAST


def test_the_simulation_finds_red_and_green_of_one_lightness_alike() -> None:
    """The control: pure red and a green that deuteranopes are known to take for it."""
    assert least_difference(("#b3261e", "#5a6b00"), "trichromacy") > 40
    assert least_difference(("#b3261e", "#5a6b00"), "deuteranopia") < LEAST


def test_white_paper_shows_every_line() -> None:
    """Each differs from white by more than pale yellow does."""
    for colour in palette.LINES:
        assert np.linalg.norm(lab(colour, "trichromacy") - lab("#ffffff", "trichromacy")) > 40
