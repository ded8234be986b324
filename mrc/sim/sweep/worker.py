# SPDX-License-Identifier: BSD-2-Clause
"""A process that simulates one cell after another: `python -m mrc.sim.sweep.worker`, started by a sweep.

Jobs come on stdin and results go to stdout, each a line of JSON; the files of a result follow its line as they are.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from mrc.errors import MrcError
from mrc.sim.cluster import Progress
from mrc.sim.experiment import ExperimentFile
from mrc.sim.results.execute import execute
from mrc.sim.sweep.handover import write_result
from mrc.untrusted import own_json


def simulate(said: dict[str, Any]) -> tuple[dict[str, bytes], str]:
    """The files of a cell, or none and what went wrong with it. `said` is what ExperimentFile.to_json gives."""
    parent = os.getppid()

    def look(_: Progress) -> None:
        if os.getppid() != parent:
            # The sweep has gone.
            os._exit(1)

    try:
        return execute(ExperimentFile.from_json(said), progress=look).files, ""
    except MrcError as error:
        return {}, str(error)


def main() -> None:
    # What a function of the user's prints must not end up among the results.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(BrokenPipeError):  # the sweep has gone
        for line in sys.stdin.buffer:
            files, problem = simulate(own_json(line))
            write_result(out, files, problem)


if __name__ == "__main__":
    main()
