# SPDX-License-Identifier: BSD-2-Clause
"""Errors of the verbs: the caller's, each with the errno its C function would return."""

from __future__ import annotations

import errno

from mrc.errors import CallerError


class VerbsError(CallerError):
    """A verb refused. `errno` says why in the verbs' own terms, the text says it in words.

    EINVAL: an argument or a state does not allow it. ENOMEM: a queue is full. EBUSY: something still uses the object.
    ENOENT: no such profile or port. ENOTSUP: this transport has no such thing. EAGAIN: nothing there, and the caller
    did not want to wait. ETIMEDOUT: nothing came in time. EIO: the object has failed.
    """

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"{errno.errorcode[number]}: {text}")
        self.errno = number
