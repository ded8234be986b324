# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Flags that one part sets and another looks at without the interpreter."""

from __future__ import annotations

from mrc.wire.compiled import public, python


class Flag:
    """`up` says whether there is something to do."""

    def __init__(self) -> None:
        self.up: public[bool] = False


class Away:
    """Whether Python may be away (`up`): then nothing waits for the interpreter that can be done later. `waits` says
    that something is left for it, `urgent` that it is wanted for that at once.

    `failed`: something went wrong where no error can be raised, in a controller of the user's say, and `failure` is the
    first of these errors. The endpoint raises it when Python is there.
    """

    def __init__(self) -> None:
        self.up: public[bool] = False
        self.urgent: public[bool] = False
        self.waits: public[bool] = False
        self.failed: public[bool] = False
        self.failure: public[BaseException | None] = None

    def fail(self, error: BaseException) -> python[None]:
        """Keep an error until it can be raised, unless there is one."""
        if self.failure is None:
            self.failure = error
        self.failed = self.urgent = True
