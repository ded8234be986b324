# SPDX-License-Identifier: BSD-2-Clause
"""The out-of-band exchange of queue pair parameters: TLS 1.3 over TCP, pinned by a ticket.

MRC has no in-band handshake (wire.md section 2): what two endpoints must know of each other before the first write,
R_Keys among it, passes here, between the `ExchangeServer` of a receiver and the `ExchangeClient` of a sender.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.lazy import lazy_names

if TYPE_CHECKING:
    from mrc.net.exchange.client import ExchangeClient, SessionRefused
    from mrc.net.exchange.config import DEFAULT_EXCHANGE_CONFIG, ExchangeConfig
    from mrc.net.exchange.server import ExchangeServer
    from mrc.net.exchange.session import SessionInfo

__all__ = [
    "DEFAULT_EXCHANGE_CONFIG",
    "ExchangeClient",
    "ExchangeConfig",
    "ExchangeServer",
    "SessionInfo",
    "SessionRefused",
]

__getattr__ = lazy_names(
    __name__,
    {
        "client": ("ExchangeClient", "SessionRefused"),
        "config": ("DEFAULT_EXCHANGE_CONFIG", "ExchangeConfig"),
        "server": ("ExchangeServer",),
        "session": ("SessionInfo",),
    },
)
