# SPDX-License-Identifier: BSD-2-Clause
"""Jobs of torch_rank.py about what outputs hold, and when: layouts, types, groups that come and go."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
BACKEND = os.environ.get("TEST_BACKEND", "mrc")


def until_completed(work: Any) -> None:
    """Ask, and never wait."""
    while not work.is_completed():
        time.sleep(0.001)
    assert work.is_success()


def coalesced(_: Path) -> None:
    """outputs[r][i] is tensor i of rank r, of whatever sizes the tensors are."""
    outputs = [[torch.zeros(1), torch.zeros(1)] for _ in range(SIZE)]
    dist.all_gather_coalesced(outputs, [torch.tensor([10.0 * RANK]), torch.tensor([10.0 * RANK + 1])])
    assert [[int(each) for each in row] for row in outputs] == [[10 * r, 10 * r + 1] for r in range(SIZE)]
    sizes = [(3,), (0,), (2, 5), (20_000,)]
    outputs = [[torch.zeros(size) for size in sizes] for _ in range(SIZE)]
    given = [torch.full(size, 100.0 * RANK + place) for place, size in enumerate(sizes)]
    work = dist.distributed_c10d._get_default_group().allgather_coalesced(outputs, given)
    until_completed(work)
    for rank, row in enumerate(outputs):
        for place, (tensor, size) in enumerate(zip(row, sizes, strict=True)):
            assert torch.equal(tensor, torch.full(size, 100.0 * rank + place))
    with pytest.raises(ValueError, match="2 tensors of each of"):
        dist.distributed_c10d._get_default_group().allgather_coalesced(outputs, given[:2])
    # The other coalesced ones have a tensor of each rank in every output.
    inputs, wholes = [torch.full((2,), 10.0 * RANK + i) for i in range(3)], [torch.zeros(2 * SIZE) for _ in range(3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for whole, each in zip(wholes, inputs, strict=True):
            dist.all_gather_into_tensor(whole, each)
    manager.wait()
    for i, whole in enumerate(wholes):
        assert whole.view(SIZE, 2)[:, 0].tolist() == [10.0 * r + i for r in range(SIZE)]
    parts, sums = [torch.arange(2.0 * SIZE) + i for i in range(3)], [torch.zeros(2) for _ in range(3)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for out, each in zip(sums, parts, strict=True):
            dist.reduce_scatter_tensor(out, each)
    manager.wait()
    for i, out in enumerate(sums):
        assert out.tolist() == [SIZE * (2.0 * RANK + place + i) for place in range(2)]


def polled(_: Path) -> None:
    """What is completed has its outputs, however one asks: is_completed, a future, a later operation."""
    for count in (3, 50_000):
        expected = [10 * rank + RANK for rank in range(SIZE)]

        def exchange(count: int = count) -> tuple[list[Tensor], Any]:
            outputs = [torch.full((count,), -1.0) for _ in range(SIZE)]
            given = [torch.full((count,), float(10 * RANK + k)) for k in range(SIZE)]
            return outputs, dist.all_to_all(outputs, given, async_op=True)

        outputs, work = exchange()
        until_completed(work)
        assert [int(each[0]) for each in outputs] == [int(each[-1]) for each in outputs] == expected
        outputs, work = exchange()
        future = work.get_future()
        while not future.done():
            time.sleep(0.001)
        assert [int(each[0]) for each in outputs] == expected
        outputs, work = exchange()
        works = dist.all_reduce(torch.ones(1), async_op=True)
        assert works is not None
        until_completed(works)
        dist.barrier()
        assert [int(each[-1]) for each in outputs] == expected
        # Of layouts that go by way of copies.
        columns = torch.full((count, 2), float(RANK))[:, 1]
        work = dist.all_reduce(columns, async_op=True)
        until_completed(work)
        assert columns.tolist() == [SIZE * (SIZE - 1) / 2] * count
        across = torch.full((2, count), -1.0).t()
        work = dist.broadcast(torch.full((2, count), 7.0).t() if RANK == 0 else across, 0, async_op=True)
        until_completed(work)
        assert RANK == 0 or bool((across == 7.0).all())
        work = (
            dist.isend(torch.arange(2.0 * count)[::2], 1)
            if RANK == 0
            else dist.irecv(got := torch.zeros(count, 2)[:, 0], 0)
            if RANK == 1
            else None
        )
        if work is not None:
            until_completed(work)
        assert RANK != 1 or torch.equal(got, torch.arange(count) * 2.0)


def shapes(values: Tensor) -> dict[str, Tensor]:
    """The same values, laid out in all ways that a tensor of four dimensions may be."""
    wide = torch.zeros(*values.shape[:-1], 2 * values.shape[-1], dtype=values.dtype)
    wide[..., ::2] = values
    rolled = values.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0)
    return {
        "contiguous": values.clone(),
        "channels_last": values.clone().contiguous(memory_format=torch.channels_last),
        "every other": wide[..., ::2],
        "permuted": rolled,
        "a part": torch.cat([values, values])[: len(values)],
    }


def layouts(_: Path) -> None:
    """Results go by index: ranks may have laid out their tensors differently."""
    values = [torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(rank)) for rank in range(SIZE)]
    total = torch.stack(values).sum(0)
    names = list(shapes(values[0]))
    for turn in range(len(names)):
        # Another one at each rank.
        mine = shapes(values[RANK])[names[(turn + RANK) % len(names)]]

        def empty(turn: int = turn) -> Tensor:
            return shapes(torch.zeros_like(values[0]))[names[(turn + 2 * RANK) % len(names)]]

        tensor = mine.clone(memory_format=torch.preserve_format)
        dist.all_reduce(tensor)
        assert torch.allclose(tensor, total)
        tensor = shapes(values[RANK])[names[(turn + RANK) % len(names)]]
        before = tensor.clone()
        dist.reduce(tensor, 0)
        assert torch.allclose(tensor, total) if RANK == 0 else torch.equal(tensor, before)
        outputs = [empty() for _ in range(SIZE)]
        dist.all_gather(outputs, mine)
        assert all(map(torch.equal, outputs, values))
        tensor = mine if RANK == 1 else empty()
        dist.broadcast(tensor, 1)
        assert torch.equal(tensor, values[1])
        outputs = [empty() for _ in range(SIZE)]
        dist.gather(mine, outputs if RANK == 1 else None, 1)
        assert RANK != 1 or all(map(torch.equal, outputs, values))
        tensor = empty()
        dist.scatter(tensor, [shapes(each)[names[turn]] for each in values] if RANK == 0 else None, 0)
        assert torch.equal(tensor, values[RANK])
        outputs = [empty() for _ in range(SIZE)]
        dist.all_to_all(outputs, [shapes(values[RANK] + other)[names[turn]] for other in range(SIZE)])
        assert all(torch.equal(outputs[other], values[other] + RANK) for other in range(SIZE))
        tensor = empty()
        dist.reduce_scatter(tensor, [mine] * SIZE)
        assert torch.allclose(tensor, total)
        sending = dist.isend(mine, (RANK + 1) % SIZE)
        dist.recv(tensor, (RANK - 1) % SIZE)
        sending.wait()
        assert torch.equal(tensor, values[RANK - 1])
    whole = torch.zeros(4, SIZE * 2).t()
    dist.all_gather_into_tensor(whole, torch.full((4, 2), float(RANK)).t())
    assert whole[:, 0].tolist() == [float(rank) for rank in range(SIZE) for _ in range(2)]
    odd: Tensor = torch.zeros(3 * SIZE, 2).t().contiguous().t()
    dist.all_to_all_single(odd, (torch.arange(3.0 * SIZE) + 100 * RANK).repeat(2, 1).t())
    assert odd[:, 1].tolist() == [100.0 * rank + 3 * RANK + place for rank in range(SIZE) for place in range(3)]
    # Read only: one value everywhere, conjugated, negated.
    outputs = [torch.zeros(3, 2) for _ in range(SIZE)]
    dist.all_gather(outputs, torch.tensor([[float(RANK)]]).expand(3, 2))
    assert [each.tolist() for each in outputs] == [[[float(rank)] * 2] * 3 for rank in range(SIZE)]
    conjugated = [torch.zeros(2, dtype=torch.complex64) for _ in range(SIZE)]
    whole_group = dist.distributed_c10d._get_default_group()
    whole_group.allgather([conjugated], [torch.tensor([1 + 2j, 3 - RANK * 1j]).conj()]).wait()
    assert [each[1].item() for each in conjugated] == [3 + rank * 1j for rank in range(SIZE)]
    tensor = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
    dist.broadcast(tensor, 0)
    assert tensor.tolist() == [-2.0, -4.0]
    with pytest.raises(ValueError, match="several values of the tensor share a place"):
        dist.all_reduce(torch.zeros(1).expand(4))
    with pytest.raises(ValueError, match="no quantized tensors"):
        dist.distributed_c10d._get_default_group().broadcast(
            [torch.quantize_per_tensor(torch.ones(3), 0.1 * (RANK + 1), 0, torch.qint8)]
        )
    parameter = torch.nn.Parameter(torch.full((3, 2), float(RANK)).t().contiguous().t())
    dist.broadcast(parameter, 0)
    assert not parameter.detach().any()
    assert parameter.requires_grad


def kinds(_: Path) -> None:
    """Every reduction of integers and bool, against torch itself."""
    folds: dict[Any, Callable[[Sequence[Tensor]], Tensor]] = {
        dist.ReduceOp.BAND: lambda each: fold(torch.bitwise_and, each),
        dist.ReduceOp.BOR: lambda each: fold(torch.bitwise_or, each),
        dist.ReduceOp.BXOR: lambda each: fold(torch.bitwise_xor, each),
        dist.ReduceOp.SUM: lambda each: fold(torch.add, each),
        dist.ReduceOp.PRODUCT: lambda each: fold(torch.mul, each),
        dist.ReduceOp.MIN: lambda each: fold(torch.minimum, each),
        dist.ReduceOp.MAX: lambda each: fold(torch.maximum, each),
    }
    types = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
    for dtype in types:
        values = [drawn(rank, dtype) for rank in range(SIZE)]
        for op, expected in folds.items():
            tensor = values[RANK].clone()
            dist.all_reduce(tensor, op)
            assert torch.equal(tensor, expected(values)), (dtype, op)
            tensor = values[RANK].clone()
            dist.reduce(tensor, 0, op)
            assert RANK or torch.equal(tensor, expected(values)), (dtype, op)
            out = torch.zeros(1000, dtype=dtype)
            dist.reduce_scatter(out, [each.roll(RANK) for each in values], op)
            parts = [values[RANK].roll(rank) for rank in range(SIZE)]
            assert torch.equal(out, expected(parts)), (dtype, op)
        if dtype is not torch.bool:
            # As Lightning's sync_dist asks for the mean: what is behind the point is dropped.
            tensor = (values[RANK] // SIZE).clone()
            dist.all_reduce(tensor, dist.ReduceOp.AVG)
            mean = torch.stack([each // SIZE for each in values]).double().sum(0) / SIZE
            assert torch.equal(tensor, mean.trunc().to(dtype)), dtype
    for dtype in (torch.float32, torch.bfloat16):
        with pytest.raises(ValueError, match=r"BAND of .*float"):
            dist.all_reduce(torch.ones(2, dtype=dtype), dist.ReduceOp.BAND)
    with pytest.raises(ValueError, match="MEAN of bool"):
        dist.all_reduce(torch.ones(2, dtype=torch.bool), dist.ReduceOp.AVG)
    with pytest.raises(ValueError, match="SUM, AVG, MIN, MAX, PRODUCT, BAND, BOR and BXOR"):
        dist.all_reduce(torch.ones(2), dist._make_nccl_premul_sum(2.0))
    sparse()


def fold(function: Callable[[Tensor, Tensor], Tensor], each: Sequence[Tensor]) -> Tensor:
    found = each[0]
    for other in each[1:]:
        found = function(found, other)
    return found


def drawn(rank: int, dtype: torch.dtype) -> Tensor:
    random = torch.Generator().manual_seed(rank)
    if dtype is torch.bool:
        return torch.rand(1000, generator=random) < 0.6
    low = 0 if dtype is torch.uint8 else -100
    return torch.randint(low, 100, (1000,), generator=random).to(dtype)


def sparse() -> None:
    """Ranks have other indices, and other numbers of them; one has none."""
    for dense in ((), (3,)):
        shape = (5, 4, *dense)
        of_ranks = []
        for rank in range(SIZE):
            random = torch.Generator().manual_seed(rank)
            indices = torch.randint(0, 4, (2, 3 * rank), generator=random)
            of_ranks.append(torch.sparse_coo_tensor(indices, torch.randn(3 * rank, *dense, generator=random), shape))
        tensor = of_ranks[RANK].clone()
        dist.all_reduce(tensor)
        assert tensor.is_sparse
        expected = torch.stack([each.to_dense() for each in of_ranks]).sum(0)
        assert torch.allclose(tensor.to_dense(), expected, atol=1e-6)
    embedding = torch.nn.Embedding(10, 4, sparse=True)
    torch.nn.init.ones_(embedding.weight)
    wrapped = torch.nn.parallel.DistributedDataParallel(embedding)
    wrapped(torch.tensor([RANK, RANK, 5])).sum().backward()
    gradient = embedding.weight.grad
    assert gradient is not None
    counts = gradient.to_dense()[:, 0] * SIZE
    assert counts.tolist() == [2.0 * (place < SIZE) + SIZE * (place == 5) for place in range(10)]
    with pytest.raises(ValueError, match="sparse tensors are reduced by SUM"):
        dist.all_reduce(torch.zeros(3).to_sparse(), dist.ReduceOp.MAX)
    with pytest.raises(ValueError, match=r"pass tensor.to_dense\(\)"):
        dist.broadcast(torch.zeros(3).to_sparse(), 0)
    other = torch.zeros(3 + RANK).to_sparse()
    with pytest.raises(ValueError, match="of another shape than this rank"):
        dist.all_reduce(other)


def between(_: Path) -> None:
    """Receives from any rank, and a barrier that names who did not come."""
    if RANK == 0:
        for count in (3, 50_000):
            sources = []
            for _ in range(2 * (SIZE - 1)):
                tensor = torch.zeros(count)
                source = dist.recv(tensor, tag=count)
                assert source is not None
                assert bool((tensor == source).all())
                sources.append(source)
            assert sorted(sources) == sorted([*range(1, SIZE)] * 2)
    else:
        for count in (3, 50_000):
            for _ in range(2):
                dist.send(torch.full((count,), float(RANK)), 0, tag=count)
    group = dist.new_group(list(range(1, SIZE)))
    if RANK == 1:
        tensor = torch.zeros(1)
        sources = [dist.recv(tensor, group=group) for _ in range(2, SIZE)]
        assert sorted(sources) == list(range(2, SIZE))
    elif RANK:
        dist.send(torch.ones(1), 1, group=group)
    whole = dist.distributed_c10d._get_default_group()
    for _ in range(3):
        whole.monitored_barrier(timedelta(seconds=60))
    with pytest.raises(ValueError, match="only implemented for GLOO"):
        dist.monitored_barrier()
    late = dist.new_group()
    if RANK == SIZE - 1:
        time.sleep(3)
        with pytest.raises(RuntimeError, match=f"rank {RANK} did not come"):
            late.monitored_barrier(timedelta(seconds=60))
        return
    named = f"rank {SIZE - 1} did not come" if RANK == 0 else "did not come|did not let this rank pass"
    with pytest.raises(RuntimeError, match=named):
        late.monitored_barrier(timedelta(seconds=1 if RANK == 0 else 60), wait_all_ranks=True)


def again(_: Path) -> None:
    """Groups of a store that groups before have used, each with results of its own; ranks are of different speed."""
    for turn in range(6):
        if turn:
            dist.init_process_group(BACKEND, timeout=timedelta(seconds=60))
        time.sleep(0.05 * ((RANK + turn) % SIZE))
        tensor = torch.full((4,), float(turn + RANK))
        dist.all_reduce(tensor)
        assert tensor.tolist() == [SIZE * turn + SIZE * (SIZE - 1) / 2] * 4
        for _ in range(3):
            group = dist.new_group([0, 1])
            if RANK < 2 and turn % 2:
                dist.broadcast(tensor, 1, group=group)
            if RANK < 2:
                dist.destroy_process_group(group)
        nested = dist.new_group()
        dist.all_reduce(tensor, group=nested)
        if turn < 5:
            dist.destroy_process_group()


def forks(folder: Path) -> None:
    """The last rank forks a child, which has no group, and is killed: the child that lives on does not hide that."""
    dist.all_reduce(torch.ones(4))
    (folder / f"{RANK} is there").touch()
    if RANK == SIZE - 1:
        child = os.fork()
        if not child:
            try:
                dist.all_reduce(torch.ones(4))
            except ValueError as error:
                (folder / "child.txt").write_text(str(error))
            dist.destroy_process_group()
            (folder / "child ended its group").touch()
            while not (folder / "over").exists():
                time.sleep(0.01)
            os._exit(0)
        while not (folder / "child ended its group").exists():
            time.sleep(0.01)
        # The group is the parent's as before.
        dist.all_reduce(torch.ones(4))
        while not all((folder / f"{rank} goes on").exists() for rank in range(SIZE - 1)):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(4))
    (folder / f"{RANK} goes on").touch()
    with pytest.raises(RuntimeError, match=f"rank {SIZE - 1} is gone"):
        dist.all_reduce(torch.ones(4))
    if RANK == 0:
        (folder / "over").touch()


def mismatched(_: Path) -> None:
    """Ranks whose calls differ: in their type, their shape, their root, their kind."""
    calls: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
        (
            lambda group: dist.broadcast(torch.zeros(4), 0, group=group),
            lambda group: dist.broadcast(torch.zeros(4, dtype=torch.int32), 0, group=group),
        ),
        (
            lambda group: dist.all_gather([torch.zeros(4) for _ in range(SIZE)], torch.zeros(4), group=group),
            lambda group: dist.all_gather(
                [torch.zeros(4, dtype=torch.int32) for _ in range(SIZE)], torch.zeros(4, dtype=torch.int32), group=group
            ),
        ),
        (
            lambda group: dist.all_to_all_single(torch.zeros(SIZE), torch.zeros(SIZE), group=group),
            lambda group: dist.all_to_all_single(
                torch.zeros(SIZE, dtype=torch.int32), torch.zeros(SIZE, dtype=torch.int32), group=group
            ),
        ),
        (
            lambda group: dist.all_reduce(torch.zeros(6), group=group),
            lambda group: dist.all_reduce(torch.zeros(5), group=group),
        ),
        (
            lambda group: dist.all_reduce(torch.zeros(6), group=group),
            lambda group: dist.all_reduce(torch.zeros(6), dist.ReduceOp.MAX, group=group),
        ),
        (
            lambda group: dist.reduce(torch.zeros(6), 0, group=group),
            lambda group: dist.reduce(torch.zeros(6), 1, group=group),
        ),
        (
            lambda group: dist.all_reduce(torch.zeros(6), group=group),
            lambda group: dist.barrier(group=group),
        ),
    ]
    for one, other in calls:
        group = dist.new_group()

        def both(mine: Callable[[Any], Any] = one if RANK == 0 else other, group: Any = group) -> None:
            mine(group)
            # A rank that only sends finds out by the next.
            dist.all_reduce(torch.zeros(1), group=group)

        with pytest.raises(RuntimeError, match=r"called|has given up|expects"):
            both()
    dist.all_reduce(tensor := torch.ones(1))
    assert tensor.item() == SIZE


def libraries(folder: Path) -> None:
    """What libraries ask of a group: checkpoints on the side, accelerate's choice of a backend."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (SIZE,))
    tensor = distribute_tensor(torch.arange(64.0).reshape(8, 8), mesh, [Shard(0)])
    checkpoint.async_save({"tensor": tensor}, checkpoint_id=folder / "async").result()
    loaded = {"tensor": distribute_tensor(torch.zeros(8, 8), mesh, [Shard(0)])}
    checkpoint.load(loaded, checkpoint_id=folder / "async")
    assert torch.equal(loaded["tensor"].full_tensor(), torch.arange(64.0).reshape(8, 8))
    whole = dist.distributed_c10d._get_default_group()
    assert whole._device_types == [torch.device("cpu")]
    assert whole._get_backend(torch.device("cpu")) is whole
    with pytest.raises(ValueError, match="no backend for cuda"):
        whole._get_backend(torch.device("cuda"))
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == SIZE
    assert accelerator.gather(torch.tensor([RANK])).tolist() == list(range(SIZE))
    assert dist.get_backend() == "mrc"


JOBS = {job.__name__: job for job in (coalesced, polled, layouts, kinds, between, again, forks, mismatched, libraries)}
