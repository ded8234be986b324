# SPDX-License-Identifier: BSD-2-Clause
"""RC endpoints that are wrong on purpose, each in one small part: the suite has to fail every one of them.

`mrc conformance run --transport rc --target mutant:gaps_are_silent` runs against one; every table in this folder is
found by itself.
"""

from __future__ import annotations

from pathlib import Path

from mrc.rc.conformance.in_process import target
from mutants.mutant import Mutant, check_interpreted, read_tables

_PACKAGES = ("mrc.rc", "mrc.endpoint", "mrc.wire")


def rc_mutants() -> dict[str, Mutant]:
    """All of them by name, in order of the tables and of the places in them. Raises CallerError where the datapath is
    compiled: its code cannot be changed."""
    check_interpreted()
    return read_tables(Path(__file__).parent, _PACKAGES, target)
