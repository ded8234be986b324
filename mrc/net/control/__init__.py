# SPDX-License-Identifier: BSD-2-Clause
"""The local socket on which a running endpoint can be seen and steered, and the way to it (docs/control.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.lazy import lazy_names

if TYPE_CHECKING:
    from mrc.net.control.client import ControlClient, endpoints
    from mrc.net.control.server import ControlServer

__all__ = ["ControlClient", "ControlServer", "endpoints"]

__getattr__ = lazy_names(
    __name__,
    {
        "client": ("ControlClient", "endpoints"),
        "server": ("ControlServer",),
    },
)
