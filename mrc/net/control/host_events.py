# SPDX-License-Identifier: BSD-2-Clause
"""EV events of all endpoints of a host's device: those that run, and those that start later.

A thread of its own listens to their control sockets.
"""

from __future__ import annotations

import logging
import os
import selectors
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mrc.control.errors import ControlError
from mrc.errors import SystemRefused
from mrc.net.control.client import ControlClient
from mrc.net.control.places import SocketDirectory, directories
from mrc.threads import start_thread

# An endpoint that starts is heard of after so long. Those that did not answer are asked again later.
_LOOK_EVERY_S = 0.1
_ASK_AGAIN_S = 5.0
_HELLO_S = 1.0
_MOST_AT_AN_ENDPOINT = 65536

_log = logging.getLogger("mrc.control")
# A socket's file, and which one it is: another process may have the same number later.
_Place = tuple[Path, int]


Put = Callable[[dict[str, Any]], None]


class HostEvents:
    """Gives each change of an EV, as the control socket has it (docs/control.md, Events), to all who listen, in one
    thread.

    `device` is that of the endpoints (`HostStore.path`). Those that run have been asked when it is made. One that is
    heard of later, because it started or had no processor, first tells which of its EVs are no longer GOOD: nobody
    heard how they came to that. There is one connection to each, however many listen: an endpoint has few.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._puts: list[Put] = []
        self._putting = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._wake, selectors.EVENT_READ)
        # Until when a socket is not asked again.
        self._passed: dict[_Place, float] = {}
        self._heard: dict[_Place, ControlClient] = {}
        self._closing = False
        self._look(standing=False)
        self._thread = start_thread(self._run, name="mrc EV events")

    def _run(self) -> None:
        look_at = time.monotonic() + _LOOK_EVERY_S
        while not self._closing:
            for key, _ in self._selector.select(max(0.0, look_at - time.monotonic())):
                if key.data is not None:
                    self._hear(key.data)
            if time.monotonic() >= look_at:
                self._look(standing=True)
                look_at = time.monotonic() + _LOOK_EVERY_S
        for client in self._heard.values():
            client.close()
        self._selector.close()
        os.close(self._wake)

    def _hear(self, place: _Place) -> None:
        client = self._heard[place]
        try:
            for event in client.arrived():
                if event["event"] == "ev":
                    with self._putting:
                        for put in self._puts:
                            put(event)
        except SystemRefused as error:
            _log.warning("%s", error)
            client.gone = True
        if client.gone:
            self._selector.unregister(client)
            client.close()
            del self._heard[place]

    # ------------------------------------------------------------------ finding them

    def _look(self, *, standing: bool) -> None:
        """Listen to the endpoints that are not known yet."""
        seen: set[_Place] = set()
        now = time.monotonic()
        for directory in directories():
            try:
                with SocketDirectory(directory) as opened:
                    for name in opened.names():
                        place = _place(directory / name)
                        if place is not None:
                            seen.add(place)
            except SystemRefused:
                continue
        self._passed = {place: until for place, until in self._passed.items() if place in seen}
        for place in seen:
            if place not in self._heard and self._passed.get(place, 0.0) <= now:
                self._ask(place, standing)

    def _ask(self, place: _Place, standing: bool) -> None:
        try:
            client = ControlClient(place[0], _HELLO_S)
        except SystemRefused:
            self._passed[place] = time.monotonic() + _ASK_AGAIN_S
            return
        try:
            if client.request("hello").get("device") == self._device:
                client.request("subscribe", limit=_MOST_AT_AN_ENDPOINT, ev_only=True, standing=standing)
                self._heard[place] = client
                self._selector.register(client, selectors.EVENT_READ, place)
                self._hear(place)  # what came with the answer
                return
            self._passed[place] = float("inf")
        except (SystemRefused, ControlError) as error:
            _log.warning("%s: %s: its EV events are not heard", place[0], error)
            self._passed[place] = time.monotonic() + _ASK_AGAIN_S
        client.close()

    # ------------------------------------------------------------------ who listens

    def listen(self, put: Put) -> Listener:
        """Have `put` called with each event from now on."""
        with self._putting:
            self._puts.append(put)
        return Listener(self, put)

    def forget(self, put: Put) -> None:
        """Nothing is put there any more when it returns."""
        with self._putting:
            self._puts.remove(put)

    def close(self) -> None:
        """End it."""
        self._closing = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()


class Listener:
    """One who listens, until it is closed."""

    def __init__(self, events: HostEvents, put: Put) -> None:
        self._events, self._put = events, put

    def close(self) -> None:
        """Nothing is put any more when it returns."""
        self._events.forget(self._put)


def _place(path: Path) -> _Place | None:
    try:
        return path, os.stat(path, follow_symlinks=False).st_ino
    except OSError:
        return None
