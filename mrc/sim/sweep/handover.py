# SPDX-License-Identifier: BSD-2-Clause
"""The result of a cell on its way from a worker to the sweep: a line of JSON, then the files as they are."""

from __future__ import annotations

import json
from typing import IO

from mrc.child import Child


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
