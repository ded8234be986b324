# SPDX-License-Identifier: BSD-2-Clause
"""Connection matrices of htsim, the reference simulator, as flows.

    Nodes 128
    Connections 2
    Triggers 1
    0->5 id 1 start 0 size 2000000 send_done_trigger 1
    5->9 id 2 trigger 1 size 2000000
    trigger id 1 oneshot

Times are picoseconds. A trigger starts flows when another one is done; htsim tells apart whether the sender or the
receiver is done, here both are the moment all has arrived. `prio` is ignored: all flows are alike.
"""

from __future__ import annotations

import re

import numpy as np

from mrc.errors import CallerError
from mrc.sim.experiment.workloads.flows import JobFlows, few_enough

_ENDS = re.compile(r"([0-9]+)->([0-9]+)")
_HEADER = ("Nodes", "Connections", "Triggers", "Failures")
_NUMBERED = ("id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio")


class _Flow:
    def __init__(self, line: int, source: int, destination: int, said: dict[str, int]) -> None:
        self.line = line
        self.ends = source, destination
        self.said = said


class Matrix:
    """A matrix read from text. `name` stands for its file in errors, each of which has the line: CallerError."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._header: dict[str, int] = {}
        self._flows: list[_Flow] = []
        self._triggers: dict[int, tuple[int, str, int]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if words and not words[0].startswith("#"):
                self._read(number, words)
        self._check()

    @property
    def nodes(self) -> int:
        return self._header["Nodes"]

    def flows(self) -> JobFlows:
        """Rows in the order of the file."""
        done: dict[int, list[int]] = {}
        for row, flow in enumerate(self._flows):
            for key in ("send_done_trigger", "recv_done_trigger"):
                if key in flow.said:
                    done.setdefault(flow.said[key], []).append(row)
        pairs = [
            (row, other)
            for row, flow in enumerate(self._flows)
            if "trigger" in flow.said
            for other in self._fires(flow, done)
        ]
        waits = np.array(pairs, np.int64).reshape(-1, 2)
        return JobFlows(
            np.array([flow.ends[0] for flow in self._flows], np.int64),
            np.array([flow.ends[1] for flow in self._flows], np.int64),
            np.array([flow.said["size"] for flow in self._flows], np.int64),
            np.array([flow.said.get("start", 0) // 1000 for flow in self._flows], np.int64),
            np.ascontiguousarray(waits[:, 0]),
            np.ascontiguousarray(waits[:, 1]),
        )

    def _read(self, number: int, words: list[str]) -> None:
        if words[0] in _HEADER:
            self._header[words[0]] = self._count(number, words[1:2], words[0])
        elif ends := _ENDS.fullmatch(words[0]):
            self._flows.append(_Flow(number, int(ends[1]), int(ends[2]), self._said(number, words[1:])))
            few_enough(len(self._flows))
        elif words[0] == "trigger":
            self._trigger(number, words[1:])
        elif words[0] == "failure":
            raise self._wrong(number, "failures of a matrix are not read: write them under failures")
        else:
            raise self._wrong(number, f"{words[0]!r} is neither a flow such as 0->5, a trigger nor a header")

    def _said(self, number: int, words: list[str]) -> dict[str, int]:
        said = {}
        for key, value in zip(words[::2], [*words[1::2], ""], strict=False):
            if key not in _NUMBERED:
                raise self._wrong(number, f"{key!r} is not one of {', '.join(_NUMBERED)}")
            said[key] = self._count(number, [value], key)
        if "size" not in said or said["size"] < 1:
            raise self._wrong(number, "a flow needs a size of at least 1 byte")
        if ("start" in said) == ("trigger" in said):
            raise self._wrong(number, "a flow needs either a start or a trigger")
        return said

    def _trigger(self, number: int, words: list[str]) -> None:
        kinds = [word for word in words if word in ("oneshot", "multishot", "barrier")]
        rest = [word for word in words if word not in kinds]
        said = dict(zip(rest[::2], rest[1::2], strict=False))
        if len(kinds) != 1 or len(rest) % 2 or not said.keys() <= {"id", "count"} or "id" not in said:
            raise self._wrong(number, "a trigger is: trigger id NUMBER oneshot|barrier [count NUMBER]")
        identity = self._count(number, [said["id"]], "id")
        count = self._count(number, [said["count"]], "count") if "count" in said else 0
        self._triggers[identity] = number, kinds[0], count

    def _fires(self, flow: _Flow, done: dict[int, list[int]]) -> list[int]:
        identity = flow.said["trigger"]
        if identity not in self._triggers:
            raise self._wrong(flow.line, f"no trigger {identity} in this file")
        line, kind, count = self._triggers[identity]
        before = done.get(identity, [])
        if not before:
            raise self._wrong(flow.line, f"no flow fires trigger {identity}: this one would never start")
        if kind == "barrier" and count != len(before):
            raise self._wrong(line, f"the barrier counts {count}, but {len(before)} flows fire it")
        if kind != "barrier" and len(before) > 1:
            raise self._wrong(line, f"{len(before)} flows fire this trigger: only a barrier may have several")
        return before

    def _check(self) -> None:
        if "Nodes" not in self._header:
            raise self._wrong(1, "lacks the header Nodes")
        for key, found in (("Connections", len(self._flows)), ("Triggers", len(self._triggers))):
            if key in self._header and self._header[key] != found:
                raise self._wrong(1, f"the header says {key} {self._header[key]}, there are {found}")
        if not self._flows:
            raise self._wrong(1, "has no flows")
        for flow in self._flows:
            if max(flow.ends) >= self.nodes or flow.ends[0] == flow.ends[1]:
                raise self._wrong(flow.line, f"a flow leads from one of {self.nodes} nodes to another")

    def _count(self, number: int, words: list[str], key: str) -> int:
        text = words[0] if words else ""
        try:
            value = int(float(text)) if key == "start" else int(text)
        except (ValueError, OverflowError):
            value = -1
        if not 0 <= value < 1 << 62:
            raise self._wrong(number, f"{key} needs a number, got {text[:40]!r}")
        return value

    def _wrong(self, number: int, message: str) -> CallerError:
        return CallerError(f"{self._name}:{number}: {message}")
