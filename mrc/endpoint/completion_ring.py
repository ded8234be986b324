"""Work of one QP that has ended: written down on the packet's path, made into completions when Python comes."""

from __future__ import annotations

from collections.abc import Callable

from mrc.endpoint.completions import Completion, WorkKind, WorkStatus
from mrc.endpoint.parts.numbers import column, longer

_LEAST_ROOM = 16
NO_IMMEDIATE = -1
_64_BITS = 0xFFFFFFFFFFFFFFFF
# A dictionary finds a member in a tenth of the time that the enumeration needs.
_STATUSES = {int(status): status for status in WorkStatus}
_KINDS = {int(kind): kind for kind in WorkKind}


class CompletionRing:
    """`count` pieces of work wait here, in the order in which they ended, until `drain`."""

    __slots__ = (
        "_byte_lens",
        "_complete",
        "_expected",
        "_immediates",
        "_kinds",
        "_qpn",
        "_room",
        "_statuses",
        "_wr_ids",
        "count",
    )

    def __init__(self, qpn: int, complete: Callable[[Completion], None]) -> None:
        self._qpn = qpn
        self._complete = complete
        self.count = self._room = 0
        self._expected = 0  # posted, and neither ended nor forgotten
        self._wr_ids = self._statuses = self._byte_lens = self._kinds = self._immediates = column(0)

    def expect(self) -> None:
        """Reserve room for the completion of a piece of work that is posted: when it ends Python may be away."""
        self._expected += 1
        if self.count + self._expected > self._room:
            self._grow()

    def add(self, wr_id: int, status: int, byte_len: int, kind: int, immediate: int) -> None:
        """A piece of work has ended. Numbers as in Completion; `wr_id` is one of 64 bits, with or without a sign, and
        `immediate` -1 where there is none."""
        place = self.count
        if place == self._room:
            self._grow()
        self._expected -= 1
        self.count = place + 1
        self._wr_ids[place] = wr_id
        self._statuses[place] = status
        self._byte_lens[place] = byte_len
        self._kinds[place] = kind
        self._immediates[place] = immediate

    def _grow(self) -> None:
        self._room = max(_LEAST_ROOM, 2 * self._room, self.count + self._expected)
        self._wr_ids = longer(self._wr_ids, self._room)
        self._statuses = longer(self._statuses, self._room)
        self._byte_lens = longer(self._byte_lens, self._room)
        self._kinds = longer(self._kinds, self._room)
        self._immediates = longer(self._immediates, self._room)

    def drain(self) -> None:
        """Hand over what waits, oldest first."""
        done, at = [], 0
        while at < self.count:
            immediate = self._immediates[at]
            done.append(
                Completion(
                    self._wr_ids[at] & _64_BITS,
                    self._qpn,
                    _STATUSES[self._statuses[at]],
                    self._byte_lens[at],
                    _KINDS[self._kinds[at]],
                    None if immediate == NO_IMMEDIATE else immediate,
                )
            )
            at += 1
        self.count = 0
        for completion in done:
            self._complete(completion)
