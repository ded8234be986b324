# SPDX-License-Identifier: BSD-2-Clause
"""Errors of the controller API, each with the errno its C function would return."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EINVAL

from mrc.errors import CallerError
from mrc.verbs.errors import VerbsError


class ControlError(VerbsError):
    """A call of the controller refused; nothing has changed.

    EINVAL: an argument or a state does not allow it. E2BIG: too many or too wide, `needed` is the size that it takes.
    ENOENT: no such profile, port, EV or peer. EBUSY: something uses the profile. EPERM: not to be changed, or not by
    this user. EIO: the port is down, or the endpoint has failed. ETIMEDOUT: no answer in time. ENOTSUP: this device
    has no such thing.
    """

    def __init__(self, number: int, text: str, needed: int | None = None) -> None:
        super().__init__(number, text)
        self.needed = needed
        # Without the errno in front, for those who show it in their own way.
        self.reason = text


@contextmanager
def arguments() -> Iterator[None]:
    """What the endpoint finds wrong with what the caller gave is EINVAL."""
    try:
        yield
    except VerbsError:
        raise
    except CallerError as error:
        raise ControlError(EINVAL, str(error)) from None
