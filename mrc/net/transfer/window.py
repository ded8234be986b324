# SPDX-License-Identifier: BSD-2-Clause
"""The parts of a file that are open to writes at a time: the next are opened while those before them are on their way.

So the receiver can sum a part and put it away while others arrive, and no write waits for a request.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from mrc.errors import PeerError, SystemRefused
from mrc.net.negotiation import integer
from mrc.net.transfer.terms import PART_BYTES, PARTS_AT_ONCE, PARTS_OPEN
from mrc.threads import start_thread
from mrc.verbs import RemoteMemory


@dataclass(slots=True)
class Part:
    """Memory of the receiver that is open to what lies at `begin` of what is sent; `acked` bytes of it have arrived."""

    begin: int
    target: RemoteMemory
    acked: int = 0


class Parts(Protocol):
    """Parts to write to, in order."""

    @property
    def exhausted(self) -> bool:
        """Whether `next` has given the last one."""

    def next(self) -> Part | None:
        """The next part. None: it is not open yet, and the loop is woken when it is. Raises MrcError."""

    def finished(self) -> None:
        """The oldest part that is not finished is acknowledged, all of it."""


def opened_memory(opened: dict[str, Any], most: int) -> RemoteMemory:
    """What the receiver opened to writes. Raises PeerError for more than was asked for, or nothing."""
    length = integer(opened, "length", 1, most + 1)
    return RemoteMemory(integer(opened, "va", 0, 1 << 62), length, integer(opened, "rkey", 0, 1 << 32))


class OnePart:
    """A part that is open already, and no other."""

    def __init__(self, part: Part) -> None:
        self._part: Part | None = part

    @property
    def exhausted(self) -> bool:
        return self._part is None

    def next(self) -> Part | None:
        part, self._part = self._part, None
        return part

    def finished(self) -> None:
        """Nothing follows."""


class Window:
    """Opens `stretches` of a file (offset, length), a few parts at a time, ahead of the writes. Close it.

    `extend` asks the receiver for parts; it may come from a thread of the window. When all are open it says which are
    done, so that the receiver stores them while the last ones are on their way. `first` is what the receiver opened
    when the file was announced, if it did. `wake` is called when a part is open.
    """

    def __init__(
        self,
        stretches: Iterable[tuple[int, int]],
        extend: Callable[[dict[str, Any]], dict[str, Any]],
        wake: Callable[[], None],
        first: dict[str, Any] | None,
    ) -> None:
        self._left = deque(stretches)
        self._extend = extend
        self._wake = wake
        self._ready: deque[Part] = deque()
        self._changed = threading.Condition()
        self._opened = self._done = 0
        # Whether this receiver opens several parts by one request. Such a one also takes requests that open none.
        self._opens_several = False
        self._over = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if first is not None:
            self._take(first, self._left[0][1])
        if self._left:
            # Without a thread each part is opened when those before it are written.
            try:
                self._thread = start_thread(self._run, name="mrc open parts")
            except SystemRefused:
                self._thread = None

    @property
    def exhausted(self) -> bool:
        return not self._left and not self._ready

    def next(self) -> Part | None:
        if self._error is not None:
            raise self._error
        if self._thread is None and not self._ready and self._left and self._opened == self._done:
            self._open()
        return self._ready.popleft() if self._ready else None

    def finished(self) -> None:
        with self._changed:
            self._done += 1
            self._changed.notify()

    def settle(self) -> None:
        """All is written: wait until nothing is asked for any more."""
        self.close()
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Open no more. A request that is under way ends by itself, or with the exchange. Safe to call twice."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def _run(self) -> None:
        try:
            while self._left:
                with self._changed:
                    self._changed.wait_for(lambda: self._over or self._opened - self._done <= self._open_at_most())
                    if self._over:
                        return
                    done = self._done
                if not self._open():
                    with self._changed:
                        self._changed.wait_for(lambda: self._over or self._done > done)  # noqa: B023 used at once
                self._wake()
            if self._opens_several:
                self._say_what_is_done()
        except BaseException as error:
            self._error = error
            self._wake()

    def _open_at_most(self) -> int:
        """More than so many are not open when others are asked for."""
        return PARTS_OPEN - (PARTS_AT_ONCE if self._opens_several else 1)

    def _say_what_is_done(self) -> None:
        """Until the last part is done: what comes after that says it, too."""
        said = self._done
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._done > said)  # noqa: B023 used at once
                said = self._done
                if self._over or said == self._opened:
                    return
            self._extend({"done": said, "parts": 0})

    def _open(self) -> bool:
        """Ask for the next parts. False: the receiver has no room until one of those before them is finished."""
        offset, length = self._left[0]
        done = self._done
        parts = max(1, min(PARTS_AT_ONCE, PARTS_OPEN - (self._opened - done)))
        wanted = min(length, parts * PART_BYTES)
        opened = self._extend({"offset": offset, "length": wanted, "done": done, "parts": parts})
        if opened.get("length") == 0:
            if done == self._opened:
                raise PeerError("the receiver opens nothing to writes: use the same mrc release at both ends")
            return False
        self._take(opened, wanted)
        return True

    def _take(self, opened: dict[str, Any], wanted: int) -> None:
        """What was opened of the `wanted` bytes that come next."""
        more = opened.get("more")
        self._opens_several = isinstance(more, list)
        for each in (opened, *(more if isinstance(more, list) else ())):
            if not isinstance(each, dict) or not wanted:
                raise PeerError("the receiver opened more than it was asked for: use the same mrc release at both ends")
            wanted -= self._take_part(each, wanted)

    def _take_part(self, opened: dict[str, Any], wanted: int) -> int:
        offset, length = self._left[0]
        target = opened_memory(opened, min(wanted, PART_BYTES))
        self._opened += 1
        # What is ready is there before what is left is less: together they say whether there is more.
        self._ready.append(Part(offset, target))
        if target.length == length:
            self._left.popleft()
        else:
            self._left[0] = (offset + target.length, length - target.length)
        return target.length
