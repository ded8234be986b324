"""The programs a measurement in a lab runs: started, read, and ended whatever happens."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mrc.errors import PeerError
from mrc.lab import Lab

START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 10.0


@contextmanager
def running(lab: Lab, host: str, argv: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """`argv` on `host`, with its output in pipes; over when the block is."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process: subprocess.Popen[str] = lab.popen(host, argv, **(streams | options))
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.communicate(timeout=_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def first_line(process: subprocess.Popen[str], what: str, contains: str = "") -> str:
    """The first line with `contains` that a program prints. Raises PeerError when it prints none."""
    assert process.stdout is not None
    deadline = time.monotonic() + START_TIMEOUT_S
    # Past the stream's own buffer, which select knows nothing of.
    descriptor, seen = process.stdout.fileno(), b""
    while (left := deadline - time.monotonic()) > 0:
        readable, _, _ = select.select([descriptor], (), (), left)
        data = os.read(descriptor, 4096) if readable else b""
        if not data:
            break
        seen += data
        for line in seen.decode(errors="replace").splitlines(keepends=True):
            if line.endswith("\n") and line.strip() and contains in line:
                return line.strip()
    process.terminate()
    said = process.communicate(timeout=_END_TIMEOUT_S)[1].strip()
    raise PeerError(f"{what} did not start: {said or 'it said nothing'}")


def json_output(process: subprocess.Popen[str], what: str, timeout_s: float, code: int = 0) -> dict[str, Any]:
    """Return the JSON document a program prints before it ends with exit status `code`.

    Raises PeerError when it ends otherwise, prints something else, or does not end within `timeout_s` seconds.
    """
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise PeerError(f"{what} did not end within {timeout_s:.0f} s") from None
    try:
        document = json.loads(out)
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("error"), str):
        raise PeerError(f"{what} failed: {document['error']}")
    if process.returncode != code or not isinstance(document, dict):
        raise PeerError(f"{what} failed: {err.strip() or f'exit status {process.returncode}'}")
    return document
