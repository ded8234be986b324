# SPDX-License-Identifier: BSD-2-Clause
"""A server for those who hold its ticket: what `mrc recv`, `mrc bench serve` and `mrc conformance serve` share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from mrc.errors import PeerError
from mrc.fabric.host_view import Fabric
from mrc.net.exchange.server import ExchangeServer
from mrc.net.exchange.session import SessionInfo
from mrc.net.ticket import Ticket
from mrc.opened import Closing
from mrc.untrusted import quoted

H = TypeVar("H")


class SessionServer(Closing, ABC):
    """Answers the requests of its clients over the exchange. Close it, or use it as a context manager.

    `feature` is what a client has to know to be served here. The methods with an underscore are called in threads of
    the exchange, at any time between `start` and the end of `close`.
    """

    feature: ClassVar[str]

    def __init__(self, fabric: Fabric) -> None:
        """The ticket will name the addresses of `fabric`'s host."""
        self._exchange = ExchangeServer(
            [],
            self._handle,
            advertised=[port.address for port in fabric.ports],
            features=(self.feature,),
            on_session_closed=self._session_closed,
        )

    def start(self) -> Ticket:
        """Listen, and return the ticket that lets clients in. Raises SystemRefused."""
        return self._exchange.start().ticket

    @abstractmethod
    def close(self) -> None:
        """Stop serving. Safe to call twice."""

    @abstractmethod
    def _handle(self, session: SessionInfo, kind: str, body: dict[str, Any], /) -> dict[str, Any]:
        """Answer one request. Raises MrcError: the client gets its text."""

    @abstractmethod
    def _session_closed(self, session: SessionInfo, /) -> None:
        """Let go of what a client has here. Called once for each session."""


def handler_of(kind: str, handlers: Mapping[str, H]) -> H:
    """What answers a request of this kind. Raises PeerError for one that this release does not know."""
    if kind not in handlers:
        raise PeerError(f"this end knows no request {quoted(kind)}: are both ends the same release of mrc?")
    return handlers[kind]
