"""Flags that one part sets and another looks at without the interpreter."""

from __future__ import annotations


class Flag:
    """`up` says whether there is something to do."""

    __slots__ = ("up",)

    def __init__(self) -> None:
        self.up = False


class Away:
    """Whether Python may be away (`up`): then nothing waits for the interpreter that can be done later. `waits` says
    that something is left for it, `urgent` that it is wanted for that at once."""

    __slots__ = ("up", "urgent", "waits")

    def __init__(self) -> None:
        self.up = self.urgent = self.waits = False
