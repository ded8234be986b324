# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints that are wrong on purpose, each in one small part: the suite has to fail every one of them.

They are paragraphs of the tables in this folder, whose form `mutants.table` says; every table is found by itself. `mrc
conformance run --target mutant:sack_echoes_another_ev` runs against one.
"""

from __future__ import annotations

from pathlib import Path

from mrc.conformance.targets.in_process import target
from mutants.mutant import Mutant, check_interpreted, read_tables

_PACKAGES = ("mrc.endpoint", "mrc.wire", "mrc.conformance.targets.in_process_paths")


def mutants() -> dict[str, Mutant]:
    """All of them by name, in order of the tables and of the places in them. Raises CallerError where the datapath is
    compiled: its code cannot be changed."""
    check_interpreted()
    return read_tables(Path(__file__).parent, _PACKAGES, target)
