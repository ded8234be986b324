# SPDX-License-Identifier: BSD-2-Clause
"""The endpoints `mrc top` looks at: asked again and again, their events kept, an EV of theirs denied or allowed."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from mrc.control.errors import ControlError
from mrc.errors import SystemRefused
from mrc.net.control.client import ControlClient, FoundEndpoint
from mrc.top.figures import PathFigures, Picture, Status, picture

_KEPT_EVENTS = 64
_MOST_QPS = 256
_ANSWER_S = 2.0


class Watched:
    """One endpoint. Raises SystemRefused when it does not answer, ControlError for what it refuses."""

    def __init__(self, found: FoundEndpoint) -> None:
        self.found = found
        self.events: deque[str] = deque(maxlen=_KEPT_EVENTS)
        self._client = ControlClient(found.path, _ANSWER_S)
        self._before: Status | None = None
        self._now: Status | None = None
        self._began_ns: int | None = None
        self._client.request("subscribe", states="all", limit=1024)

    def look(self) -> Picture:
        """Ask for its state. The first picture has no rates."""
        self._before, self._now = self._now, self._client.request("status", most_qps=_MOST_QPS)
        if self._began_ns is None:
            self._began_ns = self._now["at_ns"]
        self.events.extend(event_text(event, self._began_ns) for event in self._client.events(0.0))
        return picture(self._now, self._before)

    def set_ev(self, path: PathFigures, *, denied: bool) -> None:
        """Deny or allow an EV towards its peer. Raises ControlError where the endpoint refuses."""
        do = "deny" if denied else "allow"
        (result,) = self._client.request("ev_ops", batch=[{"do": do, "ev": path.ev, "peer": path.peer}])
        if result["errno"]:
            raise ControlError(errno.EIO, result["message"] or result["errno"])

    def close(self) -> None:
        self._client.close()


def event_text(event: dict[str, Any], began_ns: int) -> str:
    """`+12.345 s  EV 0x01000002 of plane 1 towards h1: assumed_bad`, seconds from `began_ns` on."""
    at = f"{(event.get('at_ns', began_ns) - began_ns) / 1e9:+.3f} s"
    if event["event"] == "ev":
        return f"{at}  EV {event['ev']:#010x} of plane {event['plane']} towards {event['peer']}: {event['state']}"
    if event["event"] == "port":
        whose = "our port" if event["side"] == "local" else "the peer's port"
        return f"{at}  {whose} on plane {event['plane']} is {'up' if event['up'] else 'down'}"
    if event["event"] == "dropped":
        return f"{event['dropped']} events in all found no room and are missing"
    return f"{at}  QP {event['qp_num']:#x} failed: {event['reason']}"


class Watch:
    """All of them: `search` finds what runs, whenever it is called."""

    def __init__(self, search: Callable[[], Sequence[FoundEndpoint]]) -> None:
        self._search = search
        self.watched: list[Watched] = []
        self.message = ""

    def search(self) -> None:
        """Take up endpoints that are new."""
        known = {each.found.path: each.found.pid for each in self.watched}
        for found in self._search():
            if known.get(found.path) != found.pid:
                try:
                    self.watched.append(Watched(found))
                except (SystemRefused, ControlError) as error:
                    self.message = str(error)

    def look(self) -> list[Picture]:
        """A picture of each; one that has gone is left out from now on."""
        pictures = []
        for each in list(self.watched):
            try:
                pictures.append(each.look())
            except (SystemRefused, ControlError) as error:
                self.message = str(error)
                each.close()
                self.watched.remove(each)
        return pictures

    def close(self) -> None:
        for each in self.watched:
            each.close()
