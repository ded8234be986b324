# SPDX-License-Identifier: BSD-2-Clause
"""What one rank of a job does, as a program: torch_rank.py JOB FOLDER. RANK and the like are in the environment.

Each job leaves what it found in FOLDER, for the test to judge.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch_rank_outputs
from torch import nn
from torch_backend_reference import given

BACKEND = os.environ.get("TEST_BACKEND", "mrc")
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TIMEOUT_S = float(os.environ.get("TEST_TIMEOUT_S", "120"))
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8)
COUNTS = (1, 7, 1000, 33_333)
MANY = 300_001  # more than is sent at once; what is done to each is known from fewer


def reductions(folder: Path) -> None:
    """All-reduce of every type, size and reduction, and sums of many elements."""
    found = {}
    ops = {
        "SUM": dist.ReduceOp.SUM,
        "MIN": dist.ReduceOp.MIN,
        "MAX": dist.ReduceOp.MAX,
        "PRODUCT": dist.ReduceOp.PRODUCT,
    }
    for dtype in DTYPES:
        for count, name in (*product(COUNTS, ops), (MANY, "SUM")):
            tensor = given(RANK, count, dtype)
            dist.all_reduce(tensor, ops[name])
            found[f"{dtype} {count} {name}"] = tensor
    torch.save(found, folder / f"{BACKEND}-{RANK}.pt")
    if BACKEND == "mrc":
        for dtype in (torch.float32, torch.bfloat16):
            tensor = torch.full((1000,), float(RANK), dtype=dtype)
            dist.all_reduce(tensor, dist.ReduceOp.AVG)
            assert torch.equal(tensor, torch.full_like(tensor, (SIZE - 1) / 2))


def operations(_: Path) -> None:
    """Every other call, each held to what it has to leave."""
    ranks = torch.arange(SIZE, dtype=torch.float32)
    left, right = (RANK - 1) % SIZE, (RANK + 1) % SIZE
    for count in (3, 50_000):
        mine = torch.full((count,), float(RANK))
        every = ranks.repeat_interleave(count)
        gathered = torch.empty(SIZE * count)
        dist.all_gather_into_tensor(gathered, mine)
        assert torch.equal(gathered, every)
        parts = [torch.empty(count) for _ in range(SIZE)]
        dist.all_gather(parts, mine)
        assert torch.equal(torch.cat(parts), every)
        output = torch.empty(count)
        dist.reduce_scatter_tensor(output, every * (RANK + 1))
        assert torch.equal(output, torch.full((count,), float(RANK * SIZE * (SIZE + 1) // 2)))
        dist.reduce_scatter(output, list((every * (RANK + 1)).chunk(SIZE)))
        assert torch.equal(output, torch.full((count,), float(RANK * SIZE * (SIZE + 1) // 2)))
        dist.all_to_all_single(gathered, (every + 100 * RANK).contiguous())
        assert torch.equal(gathered, (RANK + 100 * ranks).repeat_interleave(count))
        sent = [torch.full((count + rank,), float(RANK)) for rank in range(SIZE)]
        got = [torch.empty(count + RANK) for _ in range(SIZE)]
        dist.all_to_all(got, sent)
        assert all(torch.equal(tensor, torch.full((count + RANK,), float(rank))) for rank, tensor in enumerate(got))
        # Rank r sends rank s r + s rows.
        rows = [RANK + rank for rank in range(SIZE)]
        source, target = torch.full((sum(rows), 2), RANK), torch.empty((sum(rows), 2), dtype=torch.int64)
        dist.all_to_all_single(target, source, rows, rows)
        assert torch.equal(target[:, 0], torch.cat([torch.full((RANK + rank,), rank) for rank in range(SIZE)]))
        for root in range(SIZE):
            tensor = mine.clone()
            dist.broadcast(tensor, root)
            assert torch.equal(tensor, torch.full((count,), float(root)))
            tensor = mine.clone()
            dist.reduce(tensor, root)
            assert root != RANK or torch.equal(tensor, torch.full((count,), float(ranks.sum())))
            dist.gather(mine, parts if root == RANK else None, root)
            assert root != RANK or torch.equal(torch.cat(parts), every)
            dist.scatter(output, list(every.chunk(SIZE)) if root == RANK else None, root)
            assert torch.equal(output, mine)
        sending = dist.isend(mine, right, tag=3)
        assert dist.irecv(output, left, tag=3).wait()
        sending.wait()
        assert torch.equal(output, torch.full((count,), float(left)))
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, left), dist.P2POp(dist.irecv, output, right)])
        for work in works:
            work.wait()
        assert torch.equal(output, torch.full((count,), float(right)))
    dist.barrier()
    objects: list[Any] = [{"from": 0, "text": "x" * 5000} if RANK == 0 else None]
    dist.broadcast_object_list(objects, src=0)
    assert objects[0]["from"] == 0
    gathered_objects: list[Any] = [None] * SIZE
    dist.all_gather_object(gathered_objects, {"rank": RANK, "list": list(range(RANK))})
    assert [each["rank"] for each in gathered_objects] == list(range(SIZE))
    groups()
    futures()


def groups() -> None:
    """A group of the last two ranks, beside that of all."""
    chosen = [SIZE - 2, SIZE - 1]
    group = dist.new_group(chosen)
    if RANK in chosen:
        tensor = torch.tensor([float(RANK)])
        dist.all_reduce(tensor, group=group)
        assert tensor.item() == sum(chosen)
        tensor = torch.tensor([float(RANK)])
        dist.broadcast(tensor, src=SIZE - 1, group=group)
        assert tensor.item() == SIZE - 1
        dist.destroy_process_group(group)
    dist.barrier()


def futures() -> None:
    """Operations chained to a future may wait for operations of their own, as PowerSGD's hook does."""
    tensor = torch.ones(100_000)
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None

    def again(future: torch.futures.Future[Any]) -> torch.Tensor:
        found: torch.Tensor = future.value()[0]
        inner = dist.all_reduce(found, async_op=True)
        assert inner is not None
        return inner.get_future().wait()[0]

    assert torch.equal(work.get_future().then(again).wait(), torch.full((100_000,), float(SIZE**2)))
    with dist._coalescing_manager():  # what FSDP and DTensor use
        tensors = [torch.full((count,), float(RANK)) for count in (3, 1000)]
        for each in tensors:
            dist.all_reduce(each)
    assert all(torch.equal(each, torch.full_like(each, SIZE * (SIZE - 1) / 2)) for each in tensors)


def model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Linear(32, 256), nn.ReLU(), nn.BatchNorm1d(256), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4)
    )


def train(wrapped: nn.Module, steps: int, begin: int = 0) -> list[float]:
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(begin, begin + steps):
        random = torch.Generator().manual_seed(100_000 * RANK + step)
        inputs, wanted = torch.randn(16, 32, generator=random), torch.randn(16, 4, generator=random)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(wrapped(inputs), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def ddp(folder: Path) -> None:
    """DistributedDataParallel over a hundred steps, in several buckets."""
    wrapped = nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.1)
    losses = train(wrapped, 100)
    torch.save({"losses": losses, "weights": wrapped.module.state_dict()}, folder / f"{BACKEND}-{RANK}.pt")


def hooked(folder: Path) -> None:
    """DistributedDataParallel with gradient hooks in Python."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    wrapped = nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.1)
    wrapped.register_comm_hook(None, default_hooks.fp16_compress_hook)
    train(wrapped, 5)
    # One bucket: with more, which one's hook calls first is a race, over any backend that runs hooks in threads.
    other = nn.parallel.DistributedDataParallel(model())
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    other.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    train(other, 5)
    torch.save(
        {"fp16": wrapped.module.state_dict(), "powersgd": other.module.state_dict()}, folder / f"{BACKEND}-{RANK}.pt"
    )


def fsdp(folder: Path) -> None:
    """fully_shard, and a checkpoint that is saved, loaded elsewhere and trained on."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (SIZE,))

    def sharded() -> nn.Module:
        made = nn.Sequential(*(each for each in model() if not isinstance(each, nn.BatchNorm1d)))
        for each in made:
            if isinstance(each, nn.Linear):
                fully_shard(each, mesh=mesh)
        return fully_shard(made, mesh=mesh)

    first = sharded()
    losses = train(first, 20)
    state = get_model_state_dict(first)
    checkpoint.save(state, checkpoint_id=folder / f"checkpoint-{BACKEND}")
    second = sharded()
    with torch.no_grad():
        for parameter in second.parameters():
            parameter.zero_()
    loaded = get_model_state_dict(second)
    checkpoint.load(loaded, checkpoint_id=folder / f"checkpoint-{BACKEND}")
    set_model_state_dict(second, loaded)
    whole = [{name: tensor.full_tensor() for name, tensor in each.state_dict().items()} for each in (first, second)]
    assert all(torch.equal(whole[0][name], whole[1][name]) for name in whole[0])
    torch.save({"losses": losses, "weights": whole[0]}, folder / f"{BACKEND}-{RANK}.pt")


def die_once_all_are_there(folder: Path) -> None:
    """The last rank ends, when the others have done what comes before."""
    (folder / f"{RANK} is there").touch()
    if RANK == SIZE - 1:
        while not all((folder / f"{rank} is there").exists() for rank in range(SIZE)):
            time.sleep(0.01)
        os._exit(9)


def dies(folder: Path) -> None:
    """The last rank ends in the middle of the job, without a word."""
    tensor = torch.ones(1 << 20)
    dist.all_reduce(tensor)
    die_once_all_are_there(folder)
    began = time.monotonic()
    try:
        while True:
            dist.all_reduce(tensor)
    except RuntimeError as error:
        found = {"text": str(error), "rank": getattr(error, "rank", None), "seconds": time.monotonic() - began}
    (folder / f"{RANK}.json").write_text(json.dumps(found))


def dies_in_ddp(folder: Path) -> None:
    """The same where torch's own C++ waits for the futures of gradients."""
    wrapped = nn.parallel.DistributedDataParallel(model())
    train(wrapped, 2)
    die_once_all_are_there(folder)
    try:
        train(wrapped, 1000)
    except RuntimeError as error:
        (folder / f"{RANK}.json").write_text(json.dumps({"text": str(error)}))


def late(folder: Path) -> None:
    """Rank 1 does not come to an operation in time."""
    dist.barrier()
    if RANK == 1:
        time.sleep(8)
    try:
        dist.barrier(timeout=timedelta(seconds=3) if RANK == 0 else None)
    except RuntimeError as error:
        (folder / f"{RANK}.json").write_text(json.dumps({"text": str(error)}))


def never_joined(_: Path) -> None:
    """No destroy_process_group: what was sent last still arrives."""
    tensor = torch.full((200_000,), float(RANK))
    dist.broadcast(tensor, 0)
    assert not tensor.any()


JOBS: dict[str, Callable[[Path], None]] = torch_rank_outputs.JOBS | {
    job.__name__: job for job in (reductions, operations, ddp, hooked, fsdp, dies, dies_in_ddp, late, never_joined)
}
LEFT_OPEN = {"never_joined"}
# They end as a program does. The others leave out the end of the interpreter: it takes as long as most jobs.
WHOLE = LEFT_OPEN | {"ddp"}


def main(job: str, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(BACKEND, timeout=timedelta(seconds=TIMEOUT_S))
    # A thread of gloo's that lets go of the group last would wait for itself, and abort: here none ever is the last.
    kept = dist.group.WORLD
    JOBS[job](Path(folder))
    if job not in LEFT_OPEN:
        dist.destroy_process_group()
    if (BACKEND == "gloo" and kept is not None) or job not in WHOLE:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
