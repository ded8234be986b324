# SPDX-License-Identifier: BSD-2-Clause
"""Running other programs: what they print is kept, and shown only when they fail."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mrc.errors import SystemRefused

LINES = 25
NOBODY = 65534


def run(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    as_ordinary_user: bool = False,
) -> str:
    """What `command` prints, errors among it. `env` comes on top of this process's environment.

    Raises SystemRefused, with the last lines, when it cannot be started or does not end with 0.
    """
    who: dict[str, Any] = {}
    if as_ordinary_user and os.geteuid() == 0:
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    try:
        done = subprocess.run(
            [str(each) for each in command],
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **who,
        )
    except OSError as error:
        raise SystemRefused(f"{command[0]} cannot be started: {error.strerror}") from None
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-LINES:])
        raise SystemRefused(f"`{' '.join(map(str, command))}` ended with {done.returncode}:\n{last}")
    return done.stdout
