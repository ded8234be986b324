# SPDX-License-Identifier: BSD-2-Clause
"""A child that leaves the `with` block of its parent's lab takes nothing down."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from patience import PATIENCE_S

PROGRAM = """
import os, sys
from mrc.fabric import Clos
from mrc.lab import Lab

with Lab.up(sys.argv[1], Clos(planes=1, spines=1)) as lab:
    child = os.fork()
    if not child:
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), lab.differences(), len(lab.status().links))
"""


@pytest.mark.root
def test_a_child_leaves_the_lab_of_its_parent(lab_name: Callable[[str], str]) -> None:
    argv = [sys.executable, "-c", PROGRAM, lab_name("fork")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (0, "3 () 4\n"), done.stderr
