# SPDX-License-Identifier: BSD-2-Clause
"""Errors that end a group. Each names the rank at fault and the operation that it ended."""

from __future__ import annotations

from mrc.errors import PeerError


class GroupError(PeerError):
    """The group has failed. Pending and later operations raise this or a subclass.

    `rank`: the rank at fault, None if it is not a single one. `operation`: the operation of this rank that ended.
    """

    def __init__(self, text: str, rank: int | None = None, operation: str = "") -> None:
        super().__init__(f"{text} (in {operation})" if operation else text)
        self.text = text
        self.rank = rank
        self.operation = operation

    def during(self, operation: str) -> GroupError:
        """Return the error for another operation that the same failure ended."""
        return type(self)(self.text, self.rank, operation)


class RankLost(GroupError):
    """A rank's process has ended, or the rank closed the group before this operation."""


class RankUnreachable(GroupError):
    """A rank did not answer until the QP's retries were exhausted. Its process has not ended as far as is known."""


class CallMismatch(GroupError):
    """Another rank called another operation than this one, or with another size, type or root."""


class OperationTimeout(PeerError, TimeoutError):
    """An operation is not done within the timeout. It goes on: wait again, or close the group."""
