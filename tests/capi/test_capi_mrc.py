# SPDX-License-Identifier: BSD-2-Clause
"""C programs over mrc.h: what they write arrives, and what they may not do is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from c_programs import PROGRAMS, compiled, run_one, runs_programs
from loopback import Inside

pytestmark = runs_programs


@pytest.mark.parametrize("program", ["mrc_pointers", "mrc_states", "mrc_writes"])
def test_a_program_of_mrc_that_checks_by_itself(inside: Inside, tmp_path: Path, program: str) -> None:
    """Each prints what it finds wrong and ends with 1 then: see the sources."""
    done = run_one(inside, str(compiled(PROGRAMS / f"{program}.c", tmp_path)))
    assert (done.returncode, done.stdout) == (0, ""), done
