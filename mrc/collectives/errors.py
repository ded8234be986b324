"""What ends a group: each names the rank and the operation."""

from __future__ import annotations

from mrc.errors import PeerError


class GroupError(PeerError):
    """A group has failed: what was pending and what comes later raises this, or one of its kinds.

    `rank` is the one it is about, None where it is about no single one; `operation` what this rank was doing.
    """

    def __init__(self, text: str, rank: int | None = None, operation: str = "") -> None:
        super().__init__(f"{text} (in {operation})" if operation else text)
        self.text = text
        self.rank = rank
        self.operation = operation

    def during(self, operation: str) -> GroupError:
        """The same, for another operation that it ended."""
        return type(self)(self.text, self.rank, operation)


class RankLost(GroupError):
    """A rank is gone: its process ended, or it left the group before this operation."""


class RankUnreachable(GroupError):
    """A rank did not answer for as long as the retries last, and nothing says that it has ended."""


class CallMismatch(GroupError):
    """Another rank called something else than this one, or with another size, type or root."""


class OperationTimeout(PeerError, TimeoutError):
    """An operation is not done in the time its caller gave it. It goes on: wait again, or close the group."""
