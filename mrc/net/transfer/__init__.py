# SPDX-License-Identifier: BSD-2-Clause
"""Files over MRC: `Receiver` takes them in, `send_files` sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.lazy import lazy_names

if TYPE_CHECKING:
    from mrc.net.transfer.receiver import Receiver
    from mrc.net.transfer.report import TransferReport
    from mrc.net.transfer.sender import SendOptions, send_files

__all__ = ["Receiver", "SendOptions", "TransferReport", "send_files"]

__getattr__ = lazy_names(
    __name__,
    {
        "receiver": ("Receiver",),
        "report": ("TransferReport",),
        "sender": ("SendOptions", "send_files"),
    },
)
