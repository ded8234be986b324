# SPDX-License-Identifier: BSD-2-Clause
"""A store that one rank serves to the others, over TLS pinned by a ticket.

The ticket is all the others need: where to connect, whose certificate to expect, the secret that admits. It travels
like a password: a reader of it learns how each rank's memory is reached.
"""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections.abc import Sequence
from typing import Any

from mrc.errors import CallerError, PeerError
from mrc.net.exchange import ExchangeClient, ExchangeConfig, ExchangeServer, SessionInfo
from mrc.net.hosts import own_addresses
from mrc.net.ticket import MAX_ADDRESSES, Ticket

# For as many ranks as a group may have, and some connections that are about to end.
_CONFIG = ExchangeConfig(max_connections=1100, max_sessions=1100)
_MOST_KEYS = 1 << 20
# The longest wait of one request; a client that waits longer repeats it.
_LONGEST_GET_S = 5.0
_ANSWER_S = 10.0


class TicketServer:
    """A store served to other processes, which open it as `TicketStore(server.ticket)`.

    `addresses` are what the ticket names, all of this host's where none are given. Use it as a context manager, and
    keep it as long as any rank joins a group or makes a subgroup. Raises SystemRefused where nobody may listen,
    CallerError for a host without addresses.
    """

    def __init__(self, addresses: Sequence[str] = ()) -> None:
        advertised = list(addresses) or [each.address for each in own_addresses() if each.useful]
        if not advertised:
            raise CallerError("this host has no address that others could reach: name one")
        self._values: dict[str, bytes] = {}
        self._changed = threading.Condition()
        self._server = ExchangeServer((), self._handle, advertised=advertised[:MAX_ADDRESSES], config=_CONFIG)
        self._server.start()

    @property
    def ticket(self) -> str:
        """The ticket, one line of text. Give it to the other ranks only."""
        return self._server.ticket.text

    def set(self, key: str, value: bytes) -> None:
        """Set the value of a key. Raises CallerError when the store is full."""
        with self._changed:
            if len(self._values) >= _MOST_KEYS:
                raise CallerError(f"the store has {_MOST_KEYS} keys: use a new one for each job")
            self._values[key] = bytes(value)
            self._changed.notify_all()

    def get(self, key: str, timeout: float) -> bytes:
        """Return the value of a key. Waits until it is set; raises TimeoutError after `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._values, timeout):
                raise TimeoutError(f"nobody has set {key!r} within {timeout:g} s")
            return self._values[key]

    def _handle(self, _: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        key = body.get("key")
        if not isinstance(key, str):
            raise PeerError("a request for the store names no key")
        if kind == "set":
            self.set(key, _decoded(body.get("value")))
            return {}
        if kind != "get":
            raise PeerError(f"the store knows no {kind!r}")
        wait = body.get("wait_s")
        patience = min(float(wait), _LONGEST_GET_S) if isinstance(wait, (int, float)) else 0.0
        try:
            return {"value": base64.b64encode(self.get(key, patience)).decode()}
        except TimeoutError:
            return {}

    def close(self) -> None:
        """End the server. Ranks that still ask get PeerError."""
        self._server.close()

    def __enter__(self) -> TicketServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class TicketStore:
    """A client of a TicketServer. Close it after the group.

    Raises CallerError for a text that is no ticket; `set` and `get` raise PeerError when the server is not reached.
    """

    def __init__(self, ticket: str) -> None:
        self._client = ExchangeClient(Ticket.parse(ticket), config=_CONFIG)

    def set(self, key: str, value: bytes) -> None:
        """Set the value of a key. Raises PeerError when the server has gone or refuses it."""
        self._client.request("set", {"key": key, "value": base64.b64encode(value).decode()}, _ANSWER_S)

    def get(self, key: str, timeout: float) -> bytes:
        """Return the value of a key. Waits until it is set; raises TimeoutError after `timeout` seconds, PeerError when
        the server has gone.
        """
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.0, min(deadline - time.monotonic(), _LONGEST_GET_S))
            answer = self._client.request("get", {"key": key, "wait_s": left}, left + _ANSWER_S)
            if "value" in answer:
                return _decoded(answer["value"])
            if time.monotonic() >= deadline:
                raise TimeoutError(f"nobody has set {key!r} within {timeout:g} s")

    def close(self) -> None:
        """Close the connection to the server."""
        self._client.close()

    def __enter__(self) -> TicketStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _decoded(value: object) -> bytes:
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except binascii.Error:
        pass
    raise PeerError("the store's other end sent no value")
