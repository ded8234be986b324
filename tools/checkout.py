"""For the tools beside it that need more than Python: they run in the checkout's virtual environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_RUN = f'source "{ROOT}/tools/setup.sh"; setup test; exec "$venv/bin/python" "$@"'


def use_environment() -> None:
    """Start the tool again in the environment of the checkout, made if need be, unless it runs there already."""
    if Path(sys.prefix) != ROOT / ".venv":
        os.execvp("bash", ["bash", "-c", f"set -euo pipefail; {_RUN}", sys.argv[0], *sys.argv])
