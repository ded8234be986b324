# SPDX-License-Identifier: BSD-2-Clause
"""`mrc map serve` without its command line: collector, history, page and deny list kept together."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mrc.fabric import Shape
from mrc.fabric.events import wall_clock_offset_ns
from mrc.map.collector import Collector
from mrc.map.deny import deny_list
from mrc.map.faults import SECOND, Fault
from mrc.map.history import History
from mrc.map.picture import fault_document, picture
from mrc.map.server import MapServer
from mrc.whole_files import write_whole

_PICTURE_NS = SECOND // 4
_KEEP_NS = SECOND
_FORGET_NS = 600 * SECOND
_PAST_SHOWN = 50


class MapService:
    """The map of the fabric `shape`, called `name`: agents at `socket_path`, history in `history_path`.

    `is_on_host(pid, host)` says who may report for a host. `listen` is where the page is. `deny_path` is rewritten
    whenever the faults change. `keep_s` is how long history is kept. Raises CallerError and SystemRefused as its parts
    do.
    """

    def __init__(
        self,
        name: str,
        shape: Shape,
        socket_path: Path,
        history_path: Path,
        listen: tuple[str, int],
        *,
        deny_path: Path | None = None,
        keep_s: float = 7 * 86400.0,
        is_on_host: Callable[[int, int], bool] = lambda pid, host: True,
        on_change: Callable[[dict[str, Any]], None] = lambda fault: None,
    ) -> None:
        self._name, self._shape, self._deny_path, self._keep_s = name, shape, deny_path, keep_s
        self._on_change = on_change
        self._named = 0
        self._due = dict.fromkeys(("picture", "keep", "forget"), 0)
        self._denied: list[Any] | None = None
        self.collector = Collector(socket_path, name, shape, is_on_host)
        try:
            self._history = History(history_path)
            try:
                self._offset = wall_clock_offset_ns()
                self._past = self._history.past(_PAST_SHOWN)
                self._document = self._drawn(time.monotonic_ns())
                self.http = MapServer(*listen, self._latest)
            except BaseException:
                self._history.close()
                raise
        except BaseException:
            self.collector.close()
            raise

    def run(self, is_over: Callable[[], bool]) -> None:
        """Serve until `is_over`. Raises SystemRefused when the history or the deny list can no longer be written."""
        self.collector.run(is_over, self._changed)

    def close(self) -> None:
        self.http.close()
        self.collector.close()
        self._history.close()

    def _latest(self) -> tuple[dict[str, Any], int]:
        return self._document, self._named

    def _changed(self, changed: list[Fault]) -> None:
        now = time.monotonic_ns()
        for fault in changed:
            self._named += fault.until_ns is None
        if changed:
            documents = [fault_document(fault, self._offset) for fault in changed]
            self._history.record(documents)
            self._past = self._history.past(_PAST_SHOWN)
            for document in documents:
                self._on_change(document)
        if changed or self._is_due("picture", now, _PICTURE_NS):
            self._document = self._drawn(now)
            self._write_deny_list()
        if changed or self._is_due("keep", now, _KEEP_NS):
            self._history.record(self._document["faults"])
            counts = {
                (host, plane): (count.back, count.lost)
                for host, agent in self.collector.agents.items()
                for plane, count in agent.planes.items()
            }
            self._history.keep(self._document, counts)
        if self._is_due("forget", now, _FORGET_NS):
            self._history.forget(now + self._offset - round(self._keep_s * SECOND))

    def _is_due(self, what: str, now: int, every_ns: int) -> bool:
        if now < self._due[what]:
            return False
        self._due[what] = now + every_ns
        return True

    def _drawn(self, now: int) -> dict[str, Any]:
        return {**picture(self._name, self._shape, self.collector, now, self._offset), "past": self._past}

    def _write_deny_list(self) -> None:
        if self._deny_path is None:
            return
        document = self._document
        wanted = deny_list(self._shape, document["faults"], self._name, document["at_unix_ns"])
        # The figures in sentences change with every measurement, the paths do not.
        paths = [{key: value for key, value in entry.items() if key != "reason"} for entry in wanted["deny"]]
        if paths == self._denied:
            return
        self._denied = paths
        write_whole(self._deny_path, json.dumps(wanted, indent=1) + "\n")
