# SPDX-License-Identifier: BSD-2-Clause
"""Ranks that joined: how a group of them begins, what groups are made of some of them, and how it ends."""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from mrc.collectives.config import DEFAULT_GROUP_CONFIG, GroupConfig
from mrc.collectives.engine import Engine
from mrc.collectives.errors import GroupError, OperationTimeout
from mrc.collectives.membership import Membership, Place
from mrc.collectives.operations.point import Points
from mrc.collectives.stores import Store
from mrc.collectives.work import Work
from mrc.errors import CallerError
from mrc.verbs import VerbsError
from mrc.verbs.bells import Bells, Deadline
from mrc.verbs.device import Device

MOST_RANKS = 1024


class JoinedRanks:
    """What a `mrc.collectives.Group` is before it has operations."""

    def __init__(
        self,
        device: Device,
        store: Store,
        rank: int,
        size: int,
        config: GroupConfig = DEFAULT_GROUP_CONFIG,
        *,
        within: Place | None = None,
    ) -> None:
        """`within` is for `subgroup`."""
        if type(size) is not int or not 1 <= size <= MOST_RANKS:
            raise CallerError(f"size is 1..{MOST_RANKS}, got {size!r}")
        if type(rank) is not int or not 0 <= rank < size:
            raise CallerError(f"rank is 0..{size - 1} in a group of {size}, got {rank!r}")
        self.device = device
        self.rank = rank
        self.size = size
        self.config = config
        self._lock = threading.RLock()
        self._sequence = 0
        self._subgroups: list[JoinedRanks] = []
        self._made: Counter[tuple[int, ...]] = Counter()
        self._closed = self._forked = False
        self._bells = Bells(device)
        self._engine = Engine(device, rank, size, config)
        self._engine.calls.points = Points(self._engine)
        self._membership = Membership(device, store, self._engine, config, self._keeps, within)
        _groups.add(self)
        try:
            self._membership.join()
        except BaseException as error:
            self._give_up(f"it could not join: {error}")
            raise

    def subgroup(self, ranks: Sequence[int]) -> Self | None:
        """Make a group of some of these ranks, in this order. Returns None at other ranks.

        All its ranks call it, in the same order if they make several of the same ranks. It does not wait for them:
        operations do. It has its own QPs and scratch memory, once it moves something. It may be closed before this
        group, and is closed with it.
        """
        chosen = tuple(ranks)
        for each in chosen:
            self._check_rank(each, "a subgroup's rank")
        if not chosen or len(set(chosen)) != len(chosen):
            raise CallerError(f"a subgroup has one rank or more, each once, got {list(chosen)}")
        if self.rank not in chosen:
            return None
        with self._lock:
            self._check_open("subgroup")
            number = self._made[chosen]
            self._subgroups = [each for each in self._subgroups if not each._closed]  # noqa: SLF001
            place = Place(self._membership, chosen, _name(chosen, number))
            made = type(self)(
                self.device,
                self._membership.store,
                chosen.index(self.rank),
                len(chosen),
                self.config,
                within=place,
            )
            # It listens: what was kept for it until now has another place.
            self._made[chosen] += 1
            self._subgroups.append(made)
        return made

    def _keeps(self, inner: str) -> bool:
        """Whether a subgroup with that name may still be made: what other ranks say in it is kept for it."""
        ranks, _, number = inner.rpartition(".")
        try:
            chosen = tuple(map(int, ranks.split("-")))
            return self.rank in chosen and int(number) >= self._made[chosen] and not self._closed
        except ValueError:
            return False

    def _check_rank(self, rank: int, name: str) -> None:
        if type(rank) is not int or not 0 <= rank < self.size:
            raise CallerError(f"{name} is 0..{self.size - 1} in a group of {self.size}, got {rank!r}")

    def _check_open(self, call: Work | str) -> None:
        if self._forked:
            raise CallerError("the group is of the process that this one was forked from: make another in this process")
        if self._closed:
            raise CallerError("the group is closed")
        if self._engine.error is not None:
            raise self._engine.error.during(call if isinstance(call, str) else call.name)

    # ------------------------------------------------------------------ end

    def abort(self, why: str) -> None:
        """Fail the group without waiting: pending and later operations raise `why`, at the other ranks too."""
        engine = self._engine
        engine.ask(lambda: engine.fail(GroupError(why, self.rank)))

    @property
    def is_idle(self) -> bool:
        """Whether all operations that were called here are done."""
        return self._engine.is_idle

    def drain(self, timeout: float | None = None) -> None:
        """Return when all operations are done and every other rank has received everything from this one.

        Raises OperationTimeout after `timeout` seconds, and the group's error.
        """
        deadline = Deadline(self.device, timeout)
        work = Work(self._bells, "drain")
        engine = self._engine
        engine.ask(lambda: engine.when_idle(work.finish))
        work.wait(timeout)
        for link in list(engine.links.values()):
            try:
                link.drain(deadline.left_s())
            except VerbsError as error:
                if engine.error is None:
                    raise OperationTimeout(f"rank {link.rank} has not received everything: {error}") from None
            if engine.error is not None:
                raise engine.error.during("drain")

    def close(self) -> None:
        """Drain, then release everything; subgroups first. A group that has failed is released at once.

        Other ranks may close later: everything they need from this one has arrived.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for each in self._subgroups:
            each.close()
        try:
            if self._engine.error is None and self.size > 1:
                self.drain()
                self._membership.say_bye(self._sequence)
        except GroupError:
            # The waiters of the operations in progress get this error.
            pass
        finally:
            self._end()

    def _give_up(self, why: str) -> None:
        """Close without waiting, and report the failure to the other ranks."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for each in self._subgroups:
            each._give_up(why)  # noqa: SLF001
        work = Work(self._bells, "close")
        error = GroupError(why, self.rank)

        def fail() -> None:
            self._engine.fail(error)
            work.finish()

        self._engine.ask(fail)
        work.wait()
        self._end()

    def _end(self) -> None:
        self._membership.leave()
        work = Work(self._bells, "close")

        def close() -> None:
            self._engine.close()
            work.finish()

        self._engine.ask(close)
        work.wait()
        self._bells.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._give_up(f"{type(error).__name__}: {error}")

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"failed: {self._engine.error}" if self._engine.error else "open"
        return f"<Group rank {self.rank} of {self.size} on {self.device.name}: {state}>"


def _name(ranks: Sequence[int], number: int) -> str:
    """The name of a subgroup, the same at all its ranks: which one of these ranks it is."""
    return f"{'-'.join(map(str, ranks))}.{number}"


def _after_fork() -> None:
    for group in list(_groups):
        group._closed = group._forked = True  # noqa: SLF001


_groups: weakref.WeakSet[JoinedRanks] = weakref.WeakSet()
# A child has no thread that runs the device, and would send on the sockets of its parent.
os.register_at_fork(after_in_child=_after_fork)
