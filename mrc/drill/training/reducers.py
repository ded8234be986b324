# SPDX-License-Identifier: BSD-2-Clause
"""How the ranks of a job sum their gradients: over MRC, or with torch's gloo over the kernel's TCP or MPTCP."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any, Protocol

from mrc.collectives import FileStore, Group, ReduceOp
from mrc.drill.training.learners import F32
from mrc.drill.training.plan import MRC, RankPlan
from mrc.errors import PeerError
from mrc.fabric.host_view import Fabric
from mrc.net.device import open_device


class Pending(Protocol):
    """A sum under way."""

    def wait(self) -> object: ...


class Reducer(Protocol):
    """Sums an array over all ranks, in place."""

    def start(self, array: F32) -> Pending: ...


class MrcReducer:
    def __init__(self, group: Group) -> None:
        self._group = group

    def start(self, array: F32) -> Pending:
        return self._group.all_reduce(array, ReduceOp.SUM)


class GlooReducer:
    """Two ranks sum in whichever order: a + b and b + a are the same bits."""

    def __init__(self, plan: RankPlan) -> None:
        torch, dist = import_module("torch"), import_module("torch.distributed")
        torch.set_num_threads(1)
        self._from_numpy = torch.from_numpy
        gloo = dist.ProcessGroupGloo
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname=plan.address)]  # noqa: SLF001
        options._timeout = timedelta(seconds=plan.timeout_s)  # noqa: SLF001
        store = dist.FileStore(os.path.join(plan.store, "gloo"), plan.ranks)
        self._group: Any = gloo(store, plan.rank, plan.ranks, options)

    def start(self, array: F32) -> Pending:
        pending: Pending = self._group.allreduce([self._from_numpy(array)])
        return pending


@contextmanager
def reducer(plan: RankPlan) -> Iterator[Reducer]:
    """Joins the other ranks; returns once all are there. Raises MrcError, and PeerError for what gloo raises."""
    if plan.transport != MRC:
        try:
            made = GlooReducer(plan)
        except RuntimeError as error:
            raise PeerError(f"gloo: {first_line(error)}") from None
        yield made
        return
    with (
        open_device(Fabric.load(os.environ["MRC_FABRIC"])) as device,
        Group(device, FileStore(plan.store), plan.rank, plan.ranks) as group,
    ):
        yield MrcReducer(group)


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
