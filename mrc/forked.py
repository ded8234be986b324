# SPDX-License-Identifier: BSD-2-Clause
"""A child that is forked leaves its parent what has threads, sockets, files or namespaces: endpoints, traces, labs."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


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
