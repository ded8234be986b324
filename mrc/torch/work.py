# SPDX-License-Identifier: BSD-2-Clause
"""An operation of torch.distributed under way: one or several of a group's."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from mrc.collectives import OperationTimeout
from mrc.collectives import Work as GroupWork
from mrc.errors import MrcError

Raised = Callable[[MrcError], Exception]

# Where futures end and what was chained to them runs: gradient hooks may take long there and wait for operations of
# their own, which the thread of the endpoint must not.
_futures = ThreadPoolExecutor(16, thread_name_prefix="mrc torch futures")


class MrcWork(dist.Work):  # type: ignore[misc]
    """Done once all `works` are. `result` is what its future holds; `deadline` is of time.monotonic.

    `raised` makes what is raised of what ended a group's operation.
    `late` is called when it is not done in time. `after` is done once, before anybody hears of the end, however they
    ask.
    """

    def __init__(
        self,
        works: Sequence[GroupWork],
        result: Sequence[Tensor],
        deadline: float,
        raised: Raised,
        late: Callable[[GroupWork], None],
        after: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self.works = tuple(works)
        self.deadline = deadline
        self._result = list(result)
        self._raised = raised
        self._late = late
        self._after = after
        self._lock = threading.Lock()
        self._future: Future[Any] | None = None
        if after is not None:
            # The outputs are filled also for those who learn from another operation that this one is done.
            self._when_done(self._settle)

    # ------------------------------------------------------------------ what torch calls

    def wait(self, timeout: timedelta | None = None) -> bool:
        """True once it is done. Raises what ended it, or that it is not done after `timeout`."""
        seconds = timeout.total_seconds() if timeout is not None else 0.0
        ends = time.monotonic() + seconds
        try:
            for work in self.works:
                work.wait(max(0.0, ends - time.monotonic()) if seconds > 0 else None)
        except OperationTimeout as error:
            raise self._raised(error) from error
        except MrcError:
            pass
        self._outcome()
        return True

    def is_completed(self) -> bool:
        if not self.works_done:
            return False
        self._settle()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        error = next((error for work in self.works if (error := work.exception()) is not None), None)
        return None if error is None else self._raised(error)

    def result(self) -> list[Tensor]:
        return self._outcome()

    def source_rank(self) -> int:
        """The rank in its group that a receive was from, -1 where it is not known yet or this is none."""
        source = self.works[0].source if self.works else None
        return -1 if source is None else source

    _source_rank = source_rank

    def synchronize(self) -> None:
        self._outcome()

    def get_future(self) -> Future[Any]:
        """A future of the resulting tensors. What is chained to it runs in a thread of its own."""
        with self._lock:
            if self._future is not None:
                return self._future
            done: Future[None] = Future()
            # Only an error raised by what is chained is an error to torch's own C++, too.
            self._future = done.then(lambda _: self._outcome())
            future = self._future
        self._when_done(lambda: _end(done))
        return future

    # ------------------------------------------------------------------ what its deadline asks

    @property
    def works_done(self) -> bool:
        """Whether all works are done, whatever is to be done after them."""
        return all(work.done for work in self.works)

    def expire(self) -> None:
        work = next((work for work in self.works if not work.done), None)
        if work is not None:
            self._late(work)

    # ------------------------------------------------------------------ within

    def _when_done(self, action: Callable[[], None]) -> None:
        """Call `action` once all works are done, where the endpoint's loop runs, or here and now."""
        left = len(self.works)
        lock = threading.Lock()

        def one(_: GroupWork) -> None:
            nonlocal left
            with lock:
                left -= 1
                last = not left
            if last:
                action()

        if not self.works:
            action()
        for work in self.works:
            work.add_done_callback(one)

    def _outcome(self) -> list[Tensor]:
        """The tensors of what is done. Raises what ended it."""
        error = self.exception()
        if error is not None:
            raise error
        self._settle()
        return self._result

    def _settle(self) -> None:
        """Do what is to be done after the works, once, unless they failed. Returns when that is done."""
        if self._after is None:
            return
        with self._lock:
            if self._after is not None and all(work.exception() is None for work in self.works):
                self._after()
            self._after = None


def _end(done: Future[None]) -> None:
    with contextlib.suppress(RuntimeError):
        _futures.submit(_set, done)
        return
    # No thread begins any more: the interpreter ends, or the system has none left.
    _set(done)


def _set(done: Future[None]) -> None:
    # Where a thread could not begin, one that is there takes what was submitted all the same.
    with contextlib.suppress(RuntimeError):
        if not done.done():
            done.set_result(None)
