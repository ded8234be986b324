# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints that are wrong on purpose run interpreted: compiled parts have no subclasses (contributing/compiled.md)."""

from __future__ import annotations

import os
import sys

from mrc import CORE
from mrc.core import COMPILED, INTERPRETED, VARIABLE


def run_interpreted() -> None:
    """Unless its datapath is interpreted, replace this process, which is an `mrc` command, by one whose is."""
    if CORE.kind == COMPILED:
        sys.stdout.flush()
        sys.stderr.flush()
        command = [sys.executable, "-m", "mrc", *sys.argv[1:]]
        os.execve(command[0], command, {**os.environ, VARIABLE: INTERPRETED})
