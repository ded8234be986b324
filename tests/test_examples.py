# SPDX-License-Identifier: BSD-2-Clause
"""The programs in examples/ run, and print what is expected of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
PRINTS = {
    "credits.py": [
        "100 taken in order: True; both QPs: RTS RTS",
        "92 waited for a receive",
        "sender:   REMOTE_INVALID_REQUEST: ",
        "receiver: the peer's request with PSN ",
    ],
}


def test_each_runs() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == PRINTS.keys()
    for name, expected in PRINTS.items():
        ran = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=120)
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
        lines = ran.stdout.splitlines()
        assert [line[: len(each)] for line, each in zip(lines, expected, strict=True)] == expected
