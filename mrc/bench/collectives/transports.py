# SPDX-License-Identifier: BSD-2-Clause
"""How a rank calls an operation: over a group of mrc.collectives, or over gloo."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from mrc.bench.collectives.buffers import Buffers
from mrc.bench.collectives.plan import Job
from mrc.collectives import FileStore, Group, ReduceOp

MRC, GLOO = "mrc", "gloo"
_GLOO_TIMEOUT = timedelta(minutes=10)
_REDUCE_OPS = {
    "sum": ReduceOp.SUM,
    "prod": ReduceOp.PROD,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "avg": ReduceOp.MEAN,
}


class Transport(Protocol):
    """What is measured. `bound` gives a call that returns when the operation is done at this rank."""

    def bound(self, job: Job, buffers: Buffers) -> Callable[[], None]: ...

    def barrier(self) -> None: ...


def load(transport: str) -> None:
    """Import what a rank over `transport` imports, for ranks that are forks of this process."""
    if transport == GLOO:
        _import_torch()
    else:
        import numpy.random  # noqa: F401

        import mrc.fabric
        import mrc.net.device  # noqa: F401
        from mrc.net.forks import import_for_endpoints

        import_for_endpoints()


def _import_torch() -> None:
    """To look for garbage in its thousands of modules, again and again, is a sixth of what importing them takes."""
    gc.disable()
    try:
        import torch.distributed  # noqa: F401
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def open_transport(job: Job) -> Iterator[Transport]:
    """All ranks have come when the block begins. Raises MrcError where they do not."""
    with (_over_gloo if job.transport == GLOO else _over_mrc)(job) as transport:
        yield transport


@contextmanager
def _over_mrc(job: Job) -> Iterator[Transport]:
    from mrc.fabric import Fabric
    from mrc.net.device import open_device

    fabric = Fabric.load(os.environ["MRC_FABRIC"])
    with open_device(fabric) as device, Group(device, FileStore(job.store), job.rank, job.ranks) as group:
        yield OverMrc(group)


class OverMrc:
    def __init__(self, group: Group) -> None:
        self._group = group

    def barrier(self) -> None:
        self._group.barrier().wait()

    def bound(self, job: Job, buffers: Buffers) -> Callable[[], None]:
        group, source, result = self._group, buffers.source, buffers.result
        op, root = _REDUCE_OPS[job.redop], job.root
        right, left = (job.rank + 1) % job.ranks, (job.rank - 1) % job.ranks

        def sendrecv() -> None:
            coming = group.recv(result, left)
            group.send(source, right).wait()
            coming.wait()

        calls: dict[str, Callable[[], None]] = {
            "allreduce": lambda: group.all_reduce(result, op).wait(),
            "reducescatter": lambda: group.reduce_scatter(result, source, op).wait(),
            "allgather": lambda: group.all_gather(result, source).wait(),
            "alltoall": lambda: group.all_to_all(result, source).wait(),
            "broadcast": lambda: group.broadcast(result, root).wait(),
            "reduce": lambda: group.reduce(result, root, op).wait(),
            "sendrecv": sendrecv,
        }
        return calls[job.kind]


@contextmanager
def _over_gloo(job: Job) -> Iterator[Transport]:
    _import_torch()
    import torch.distributed as dist

    store = dist.FileStore(str(Path(job.store, "gloo")), job.ranks)
    dist.init_process_group("gloo", store=store, rank=job.rank, world_size=job.ranks, timeout=_GLOO_TIMEOUT)
    try:
        yield OverGloo()
    finally:
        dist.destroy_process_group()


class OverGloo:
    """PyTorch's process group of that name, on tensors that share the arrays' memory."""

    def barrier(self) -> None:
        import torch.distributed as dist

        dist.barrier()

    def bound(self, job: Job, buffers: Buffers) -> Callable[[], None]:
        import torch
        import torch.distributed as dist

        source, result = torch.from_numpy(buffers.source), torch.from_numpy(buffers.result)
        # gloo has no mean: who wants one divides, as DistributedDataParallel does.
        divides = job.redop == "avg"
        ops = {
            "sum": dist.ReduceOp.SUM,
            "avg": dist.ReduceOp.SUM,
            "prod": dist.ReduceOp.PRODUCT,
            "min": dist.ReduceOp.MIN,
            "max": dist.ReduceOp.MAX,
        }
        op, root = ops[job.redop], job.root
        right, left = (job.rank + 1) % job.ranks, (job.rank - 1) % job.ranks

        def sendrecv() -> None:
            coming: Any = dist.irecv(result, left)
            dist.isend(source, right).wait()
            coming.wait()

        calls: dict[str, Callable[[], object]] = {
            "allreduce": lambda: dist.all_reduce(result, op),
            "reducescatter": lambda: dist.reduce_scatter_tensor(result, source, op),
            "allgather": lambda: dist.all_gather_into_tensor(result, source),
            "alltoall": lambda: dist.all_to_all_single(result, source),
            "broadcast": lambda: dist.broadcast(result, root),
            "reduce": lambda: dist.reduce(result, root, op),
            "sendrecv": sendrecv,
        }
        call = calls[job.kind]

        def run() -> None:
            call()
            if divides:
                result.div_(job.ranks)

        return run
