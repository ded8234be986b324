# SPDX-License-Identifier: BSD-2-Clause
"""The colours of all plots: those of Okabe and Ito, which deuteranopia and protanopia leave distinct.

Masataka Okabe and Kei Ito, *Color Universal Design* (2008). A dash, a shape or a name says the same as each colour.
"""

from __future__ import annotations

BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
YELLOW, BLUE, VERMILLION, PURPLE = "#f0e442", "#0072b2", "#d55e00", "#cc79a7"
GREY = "#7a7a7a"

# The lines of one plot, in turn. Yellow is too faint for a line on white, black is for what is not measured.
LINES = (BLUE, ORANGE, GREEN, VERMILLION, SKY, PURPLE)
# Once the colours are used up they come again with the next dash.
DASHES = ("-", "--", ":", "-.")

TRANSPORTS = {"mrc": BLUE, "mptcp": ORANGE, "tcp": GREY}
EV_STATES = {"GOOD": SKY, "SKIP": YELLOW, "ASSUMED_BAD": VERMILLION, "DENIED": BLACK}
# What was done to a fabric: colour and dash.
BROKEN, MENDED, OTHER = (VERMILLION, "-"), (GREEN, "--"), (BLACK, ":")
