"""For the tools beside it that need more than Python: they run in the checkout's virtual environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_STARTED = "MRC_TOOL_STARTED_AGAIN"
_START = 'set -euo pipefail; source "$1/tools/setup.sh"; setup test; shift; exec "$venv/bin/python" "$@"'


def use_environment() -> None:
    """Start the tool again in the environment of the checkout, made if need be, unless it runs there already."""
    started_again = os.environ.pop(_STARTED, None)
    if started_again or Path(sys.prefix) == ROOT / ".venv":
        return
    os.environ[_STARTED] = "1"
    os.execvp("bash", ["bash", "-c", _START, sys.argv[0], str(ROOT), *sys.argv])
