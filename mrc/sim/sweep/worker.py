# SPDX-License-Identifier: BSD-2-Clause
"""A process that simulates one cell after another: `python -m mrc.sim.sweep.worker`, started by a sweep.

Jobs come on stdin and results go to stdout, each a line of JSON; the files of a result follow its line as they are.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import IO, Any

from mrc.child import Child
from mrc.errors import MrcError
from mrc.sim.cluster import Progress
from mrc.sim.experiment import ExperimentFile
from mrc.sim.results.execute import execute
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


def write_result(stream: IO[bytes], files: dict[str, bytes], problem: str) -> None:
    header = {"problem": problem, "files": {name: len(content) for name, content in files.items()}}
    stream.write(json.dumps(header).encode() + b"\n")
    for content in files.values():
        stream.write(content)
    stream.flush()


def read_result(worker: Child) -> tuple[dict[str, bytes], str]:
    """What `write_result` has written. Raises PeerError where the worker has gone before it had written all."""
    header = worker.hear(None)
    return {name: worker.exactly(size) for name, size in header["files"].items()}, header["problem"]


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
