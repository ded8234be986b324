# SPDX-License-Identifier: BSD-2-Clause
"""What has threads, sockets, files or namespaces, as endpoints, traces and labs do: it is closed behind the block of a
`with` statement, and a child that is forked leaves it to its parent.
"""

from __future__ import annotations

import os
from typing import Protocol, Self
from weakref import WeakSet


class Closing:
    """A context manager that is itself in the block, and is closed behind it."""

    __slots__ = ()

    def close(self) -> None:
        """Give back what it has."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Abandoned(Protocol):
    """What a process has and its child has not."""

    def _abandon(self) -> None:
        """In the child: touch nothing of it any more."""


_open: WeakSet[Abandoned] = WeakSet()


def not_in_a_child(it: Abandoned) -> None:
    """From now on a child that is forked abandons this."""
    _open.add(it)


def _in_the_child() -> None:
    for each in list(_open):
        each._abandon()  # noqa: SLF001


os.register_at_fork(after_in_child=_in_the_child)
