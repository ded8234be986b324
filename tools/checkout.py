# SPDX-License-Identifier: BSD-2-Clause
"""For the tools beside it that need more than Python: they run in the checkout's virtual environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STARTED = "MRC_TOOL_STARTED_AGAIN"
_START = 'set -euo pipefail; source "$1/tools/setup.sh"; setup "$2"; shift 2; exec "$venv/bin/python" "$@"'


def use_environment(extra: str = "test") -> None:
    """Start the tool again in the environment of the checkout, made if need be, unless it runs there already. With an
    `extra` of its own it always starts again: what the extra brings may be missing there."""
    started_again = os.environ.pop(STARTED, None)
    if started_again or (extra == "test" and Path(sys.prefix) == ROOT / ".venv"):
        return
    os.environ[STARTED] = "1"
    os.execvp("bash", ["bash", "-c", _START, sys.argv[0], str(ROOT), extra, *sys.argv])
