# SPDX-License-Identifier: BSD-2-Clause
"""What a failed operation raises in torch: a RuntimeError, as those of other backends."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist

from mrc.collectives import GroupError
from mrc.errors import MrcError

__all__ = ["MrcBackendError"]


class MrcBackendError(dist.DistBackendError):  # type: ignore[misc]
    """A process group has failed.

    `rank` is the rank of the job that it is about, None where it is about no single one.
    """

    rank: int | None = None


def as_torch_raises(error: MrcError, ranks: Sequence[int]) -> MrcBackendError:
    """`ranks`: those in the whole job of the ranks of the group."""
    text, rank = str(error), None
    if isinstance(error, GroupError) and error.rank is not None:
        rank = ranks[error.rank]
        if rank != error.rank:
            text = f"{text}; rank {error.rank} of this group is rank {rank} of the job"
    raised = MrcBackendError(text)
    raised.rank = rank
    raised.__cause__ = error
    return raised
