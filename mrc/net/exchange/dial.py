# SPDX-License-Identifier: BSD-2-Clause
"""Reaching a host at whichever of its addresses answers."""

from __future__ import annotations

import errno
import ipaddress
import os
import selectors
import socket
import time
from collections.abc import Generator, Sequence

REFUSED = "connection refused, nobody listens there"


def dial(
    addresses: Sequence[str], port: int, stagger_s: float, timeout_s: float, failures: dict[str, str]
) -> Generator[tuple[str, socket.socket], None, None]:
    """TCP connections to `addresses`, each as soon as it stands, as (address, blocking socket).

    The addresses are tried in their order, the next one `stagger_s` seconds after the last or at once when that has
    failed, and each for `timeout_s` seconds, since the plane of any of them may be down without a word. Why one failed
    goes into `failures` by address. Closing the generator ends the tries still under way; the caller owns what it was
    given.
    """
    waiting = list(addresses)
    under_way: dict[socket.socket, tuple[str, float]] = {}
    next_start = time.monotonic()
    with selectors.DefaultSelector() as selector:
        try:
            while waiting or under_way:
                now = time.monotonic()
                if waiting and (now >= next_start or not under_way):
                    address = waiting.pop(0)
                    started = _start(address, port, failures)
                    if started is None:
                        next_start = now
                        continue
                    under_way[started] = (address, now + timeout_s)
                    selector.register(started, selectors.EVENT_WRITE, data=started)
                    next_start = now + stagger_s
                wake = min((by for _, by in under_way.values()), default=now)
                if waiting:
                    wake = min(wake, next_start)
                # A try that has stood while the caller was busy with another counts, so look before giving any up.
                for key, _ in selector.select(max(wake - time.monotonic(), 0)):
                    connection = key.data
                    selector.unregister(connection)
                    address, _ = under_way.pop(connection)
                    code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if code:
                        connection.close()
                        failures[address] = _reason(code)
                        next_start = time.monotonic()
                    else:
                        connection.setblocking(True)
                        yield address, connection
                now = time.monotonic()
                for connection, (address, by) in list(under_way.items()):
                    if now >= by:
                        selector.unregister(connection)
                        del under_way[connection]
                        connection.close()
                        failures[address] = f"no answer within {timeout_s:g} s"
        finally:
            for connection in under_way:
                connection.close()


def _start(address: str, port: int, failures: dict[str, str]) -> socket.socket | None:
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    try:
        connection = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        failures[address] = error.strerror or str(error)
        return None
    connection.setblocking(False)
    code = connection.connect_ex((address, port))
    if code in (0, errno.EINPROGRESS):
        return connection
    connection.close()
    failures[address] = _reason(code)
    return None


def _reason(code: int) -> str:
    return REFUSED if code == errno.ECONNREFUSED else os.strerror(code).lower()
