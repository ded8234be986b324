# SPDX-License-Identifier: BSD-2-Clause
"""PyTorch, which is no part of this package: whether it is here, and what to say where it is not."""

from __future__ import annotations

import errno
from importlib.util import find_spec

from mrc.errors import SystemRefused

_HOW = "pip install torch --index-url https://download.pytorch.org/whl/cpu"


def why_no_torch(who: str) -> str | None:
    """Why `who` cannot run here and what to install, in words; None with PyTorch."""
    return None if find_spec("torch") is not None else f"{who} needs PyTorch: {_HOW}"


def need_torch(who: str) -> None:
    """Raise SystemRefused without PyTorch."""
    if (reason := why_no_torch(who)) is not None:
        raise SystemRefused(errno.ENOENT, reason)
