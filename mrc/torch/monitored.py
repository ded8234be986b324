# SPDX-License-Identifier: BSD-2-Clause
"""A barrier that says who did not come."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from mrc.collectives import Group, GroupError, OperationTimeout
from mrc.errors import MrcError

# The last of a group's tags, which programs that count theirs from 0 do not use.
_TAG = (1 << 32) - 1


def pass_barrier(group: Group, timeout_s: float, wait_all_ranks: bool, raised: Callable[[MrcError], Exception]) -> None:
    """Every rank tells rank 0 that it came, and rank 0 tells all that everybody did. `raised` makes what is raised."""
    deadline = time.monotonic() + timeout_s
    try:
        if group.rank:
            word = np.zeros(1, np.uint8)
            group.send(word, 0, _TAG).wait(timeout_s)
            group.recv(word, 0, _TAG).wait(max(0.001, deadline - time.monotonic()))
            return
        missing = _missing(group, deadline, wait_all_ranks)
    except OperationTimeout as error:
        why = f"rank 0 has not passed the monitored barrier within {timeout_s:g} s, or did not let this rank pass"
        group.abort(why)
        raise raised(GroupError(why, 0)) from error
    except MrcError as error:
        raise raised(error) from error
    if missing:
        named = ", ".join(map(str, missing))
        why = f"rank{'s' * (len(missing) > 1)} {named} did not come to the monitored barrier within {timeout_s:g} s"
        group.abort(why)
        raise raised(GroupError(why, missing[0]))
    works = [group.send(np.zeros(1, np.uint8), rank, _TAG) for rank in range(1, group.size)]
    for work in works:
        work.wait(timeout_s)


def _missing(group: Group, deadline: float, wait_all_ranks: bool) -> list[int]:
    works = [group.recv(np.zeros(1, np.uint8), rank, _TAG) for rank in range(1, group.size)]
    missing = []
    for rank, work in enumerate(works, 1):
        try:
            work.wait(max(0.001, deadline - time.monotonic()))
        except OperationTimeout:
            missing.append(rank)
            if not wait_all_ranks:
                break
    return missing
