# SPDX-License-Identifier: BSD-2-Clause
"""The one family of errors everything in this package raises.

Three questions a caller asks of a failure, three classes: did I do something wrong (`CallerError`), did the
other end (`PeerError`), or did this system refuse (`SystemRefused`)?
"""

from __future__ import annotations

from typing import Any, cast

__all__ = ["CallerError", "Forked", "MalformedPacket", "MrcError", "PeerError", "SystemRefused"]


class MrcError(Exception):
    """Base of every error this package raises. Its text says what happened and what to do about it.

    Copies and pickles are equal: a pool of processes hands them on.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        _, args, *state = cast("tuple[Any, ...]", super().__reduce__())
        return _made_again, (type(self), args), *state


def _made_again(kind: type[MrcError], args: tuple[Any, ...]) -> MrcError:
    """One with these `args`. Its own `__init__` takes others, of which it made them."""
    made = kind.__new__(kind, *args)
    if isinstance(made, OSError):
        OSError.__init__(made, *args)
    return made


class CallerError(MrcError, ValueError):
    """The caller did something wrong: an argument out of range, a call in the wrong state.

    >>> from mrc.fabric import Clos
    >>> try:
    ...     Clos(planes=17)
    ... except CallerError as error:
    ...     print(error)
    planes must be 1..16, got 17
    """


class Forked(CallerError):
    """This process was forked from one with an open endpoint. Threads and sockets are the parent's: open one here."""


class PeerError(MrcError):
    """The peer did something wrong, or stopped answering."""


class SystemRefused(MrcError, OSError):
    """The operating system refused: a missing privilege, a missing program, a full disk."""

    def __str__(self) -> str:
        # OSError would put "[Errno 28]" in front of a sentence that already says what happened.
        return str(self.strerror or (self.args[0] if self.args else ""))


class MalformedPacket(PeerError):
    """Bytes that are not a well-formed packet. `reason` is a short stable name, the one counters use."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
