# SPDX-License-Identifier: BSD-2-Clause
"""What is posted to the engine of a group, as the engine uses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from mrc.collectives.link import Link
from mrc.collectives.messages import Header, Signature, Token
from mrc.collectives.streams import ReceiveStream
from mrc.collectives.work import Work


class Collective(Protocol):
    """An operation as the engine uses it."""

    sequence: int
    signature: Signature
    token: Token
    work: Work

    def begin(self) -> None:
        """Send and process what is possible at once. Calls `Engine.finish` when the operation is done."""

    def incoming(self, rank: int) -> ReceiveStream | None:
        """Return the stream from a rank."""

    def release(self) -> None:
        """Give back its regions. The operation has ended."""

    def waits_for(self) -> str:
        """Return which ranks it waits for, as the end of a sentence."""


class Point(Protocol):
    """A send or a receive as the engine uses it."""

    work: Work

    def release(self) -> None: ...


class PointToPoint(Protocol):
    """All sends and receives of this rank as the engine uses them."""

    def begin(self, point: Any) -> None: ...

    def on_grant(self, link: Link, header: Header) -> None:
        """A receiver granted a send its place."""

    def on_want(self, link: Link, header: Header) -> None:
        """A rank would receive from any rank."""

    def on_have(self, link: Link, header: Header) -> None:
        """A rank has sends for one that receives from any."""

    def left(self, rank: int) -> None:
        """A rank has closed its group."""

    def take_all(self) -> Sequence[Point]:
        """Remove and return everything unfinished, for a group that failed."""

    def __bool__(self) -> bool: ...
