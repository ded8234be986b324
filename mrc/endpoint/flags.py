"""A flag that one part sets and another looks at without the interpreter."""

from __future__ import annotations


class Flag:
    """`up` says whether there is something to do."""

    __slots__ = ("up",)

    def __init__(self) -> None:
        self.up = False
