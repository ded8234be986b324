# SPDX-License-Identifier: BSD-2-Clause
"""The programs a measurement in a lab runs: started, read, and ended whatever happens."""

from __future__ import annotations

import errno
import os
import resource
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mrc.errors import PeerError, SystemRefused
from mrc.lab import Lab
from mrc.untrusted import own_json

START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 10.0
_LOOK_S = 0.01
_AWAITING = ("0A", "07")  # a TCP socket that listens, a UDP socket that is not connected
# Where a user's PATH does not lead on Debian.
SYSTEM_PROGRAMS = ("/usr/sbin", "/sbin")


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
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):  # what is left to be written has no reader
                    stream.close()


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
        document = own_json(out)
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("error"), str):
        raise PeerError(f"{what} failed: {document['error']}")
    if process.returncode != code or not isinstance(document, dict):
        raise PeerError(f"{what} failed: {err.strip() or f'exit status {process.returncode}'}")
    return document


def find_program(name: str, who: str, *packages: str) -> str:
    """Where a program is. Raises SystemRefused, with the packages to install, when it is missing."""
    found = shutil.which(name) or next(
        (path for folder in SYSTEM_PROGRAMS if (path := shutil.which(name, path=folder)) is not None), None
    )
    if found is None:
        what = f"the package {packages[0]}" if len(packages) == 1 else f"the packages {' and '.join(packages)}"
        raise SystemRefused(errno.ENOENT, f"{who} needs the program {name}: install {what}")
    return found


def wait_until_bound(process: subprocess.Popen[str], table: str, port: int, what: str) -> None:
    """Wait until a socket of the process's host awaits peers at this port; `table` is one of /proc/net: `tcp6`, `udp6`.

    Raises PeerError when the process ends, or no socket does within START_TIMEOUT_S.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()
        except OSError:  # it has just ended
            continue
        # Connections of the run before may still have the port.
        if any(at.endswith(f":{port:04X}") and state in _AWAITING for _, at, _, state, *_ in map(str.split, lines)):
            return
        time.sleep(_LOOK_S)
    process.terminate()
    out, err = process.communicate(timeout=_END_TIMEOUT_S)
    raise PeerError(f"{what} did not start: {(err or out or '').strip() or 'it said nothing'}")


def children_cpu_seconds() -> float:
    """What the processes that this one started, and that are over, used: all threads, kernel time included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
