# SPDX-License-Identifier: BSD-2-Clause
"""The loop of `mrc top`: look, draw, take keys."""

from __future__ import annotations

import time

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from mrc.control.errors import ControlError
from mrc.errors import SystemRefused
from mrc.top.figures import Picture
from mrc.top.keys import Keys
from mrc.top.screen import View, describe_path, screen
from mrc.top.watching import Watch

_SEARCH_EVERY_S = 2.0
_PAGE = 10
_WAITING = "no endpoint runs here (mrc recv, mrc send, mrc bench serve are some): waiting for one   q quit"
_ALL = 1 << 30
# Arrows, and what vi has: Ctrl-F and Ctrl-B a page, Ctrl-D and Ctrl-U half of one, g and G the first and the last.
_STEPS = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "page up": -_PAGE,
    "\x02": -_PAGE,
    "page down": _PAGE,
    "\x06": _PAGE,
    "\x15": -_PAGE // 2,
    "\x04": _PAGE // 2,
    "home": -_ALL,
    "g": -_ALL,
    "end": _ALL,
    "G": _ALL,
}


class LiveView:
    """What is on the screen, and what the keys do to it. `key` is True when the view is to end."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._view = View()
        self._pictures: list[Picture] = []
        self._shown_pid: int | None = None
        self._key_taken = False

    @property
    def _shown(self) -> int:
        """Which of the pictures: the endpoint chosen, as long as it is there, else the one that sends most.

        Until a key is taken it is chosen anew while it has no QPs, or no rates yet.
        """
        pids = [each.pid for each in self._pictures]
        if self._shown_pid in pids:
            place = pids.index(self._shown_pid)
            shown = self._pictures[place]
            if self._key_taken or (shown.qps and shown.sent_gbps is not None):
                return place
        return max(range(len(pids)), key=lambda place: _activity(self._pictures[place]))

    def look(self) -> None:
        if self._view.paused:
            return
        self._pictures = self._watch.look()
        if self._watch.message:
            self._view.message, self._watch.message = self._watch.message, ""

    def drawn(self, height: int) -> RenderableType:
        if not self._pictures:
            return Text(f"{self._view.message}\n{_WAITING}" if self._view.message else _WAITING)
        self._shown_pid = self._pictures[self._shown].pid
        watched = [each for each in self._watch.watched if each.found.pid == self._shown_pid]
        self._view.events = list(watched[0].events) if watched else []
        return screen(self._pictures, self._shown, self._view, height)

    def key(self, key: str) -> bool:
        view = self._view
        if key in ("q", "escape"):
            return True
        if key in _STEPS or key in ("tab", "d", "a"):
            self._key_taken = True
        if key == "p":
            view.paused = not view.paused
        elif key == "tab" and self._pictures:
            self._shown_pid = self._pictures[(self._shown + 1) % len(self._pictures)].pid
            view.chosen = view.top = 0
        elif key in _STEPS:
            view.chosen = max(0, view.chosen + _STEPS[key])
        elif key in ("d", "a"):
            self._set_ev(denied=key == "d")
        return False

    def _set_ev(self, *, denied: bool) -> None:
        view = self._view
        if not self._pictures or not self._pictures[self._shown].paths:
            view.message = "there is no EV to deny or allow"
            return
        paths = self._pictures[self._shown].paths
        path = paths[min(view.chosen, len(paths) - 1)]
        for each in self._watch.watched:
            if each.found.pid == self._pictures[self._shown].pid:
                try:
                    each.set_ev(path, denied=denied)
                    view.message = f"{'denied' if denied else 'allowed'}: {describe_path(path)}"
                except ControlError as error:
                    view.message = f"{describe_path(path)}: {error.reason}"
                except SystemRefused as error:
                    view.message = str(error)


def _activity(picture: Picture) -> tuple[bool, float]:
    return bool(picture.qps), picture.sent_gbps or 0.0


def run(watch: Watch, console: Console, interval_s: float) -> None:
    """Until `q` or Ctrl-C. The screen is given back as it was."""
    view = LiveView(watch)
    with Keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        next_search = next_look = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= next_search:
                watch.search()
                next_search = now + _SEARCH_EVERY_S
            if now >= next_look:
                view.look()
                next_look = now + interval_s
            live.update(view.drawn(console.size.height), refresh=True)
            key = keys.wait(min(next_look, next_search) - time.monotonic())
            if key is not None and view.key(key):
                return
