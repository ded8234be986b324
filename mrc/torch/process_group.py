"""A process group of torch.distributed over a group of `mrc.collectives`."""

from __future__ import annotations

import atexit
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import torch.distributed as dist
from torch import Tensor

from mrc.collectives import DEFAULT_GROUP_CONFIG, Group, GroupConfig
from mrc.collectives import Work as GroupWork
from mrc.errors import CallerError, MrcError, PeerError
from mrc.torch.compat import BACKEND, under_all_names
from mrc.torch.deadlines import Deadlines
from mrc.torch.device import give_back_device, take_device
from mrc.torch.errors import as_torch_raises
from mrc.torch.store import TorchStore
from mrc.torch.tensors import all_bytes, bytes_of, only, reduction_of, rows_of, values_of
from mrc.torch.work import MrcWork

Tensors = Sequence[Tensor]
_open: weakref.WeakSet[MrcProcessGroup] = weakref.WeakSet()


@under_all_names
class MrcProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """The ranks of `global_ranks`, or all of the job where that is empty. `timeout` is that of joining and of each
    operation.

    Operations return at once; each raises CallerError for tensors it cannot move. Once the group has failed all raise
    MrcBackendError.
    """

    def __init__(
        self,
        store: dist.Store,
        rank: int,
        size: int,
        timeout: timedelta,
        global_ranks: Sequence[int] = (),
        config: GroupConfig | None = None,
    ) -> None:
        super().__init__(rank, size)
        if config is not None and not isinstance(config, GroupConfig):
            raise CallerError(
                f"pg_options of the backend mrc is a mrc.collectives.GroupConfig, got {type(config).__name__}"
            )
        self._ranks = list(global_ranks) or list(range(size))
        self._timeout_s = timeout.total_seconds()
        config = replace(config or DEFAULT_GROUP_CONFIG, join_timeout_s=self._timeout_s)
        self._name = self._description = ""
        self._closed = False
        device = take_device()
        try:
            self._group = Group(device, TorchStore(store), rank, size, config)
        except PeerError as error:
            give_back_device()
            raise self._raised(error) from error
        except BaseException:
            give_back_device()
            raise
        self._deadlines = Deadlines(self._expired, f"mrc torch deadlines of rank {rank}")
        _open.add(self)

    # ------------------------------------------------------------------ what torch asks

    def getBackendName(self) -> str:  # noqa: N802
        return BACKEND

    def name(self) -> str:
        return BACKEND

    # torch's own class keeps these two with its backends, of which this group has none.
    def _set_group_name(self, name: str) -> None:
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802
        return self._name

    group_name = property(getGroupName)

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._description

    group_desc = property(getGroupDesc)

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout_s = timeout.total_seconds()

    def __repr__(self) -> str:
        return f"<MrcProcessGroup of ranks {self._ranks}: {self._group!r}>"

    # ------------------------------------------------------------------ reductions

    def allreduce(self, tensors: Tensors, opts: Any = None) -> MrcWork:
        return self._allreduce([only(tensors, "all_reduce")], opts or dist.AllreduceOptions())

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> MrcWork:
        return self._allreduce(tensors, opts or dist.AllreduceCoalescedOptions())

    def _allreduce(self, tensors: Tensors, opts: Any) -> MrcWork:
        op = reduction_of(opts.reduceOp)
        return self._start([partial(self._group.all_reduce, values_of(each), op) for each in tensors], tensors, opts)

    def reduce(self, tensors: Tensors, opts: Any) -> MrcWork:
        tensor, op = only(tensors, "reduce"), reduction_of(opts.reduceOp)
        return self._start([partial(self._group.reduce, values_of(tensor), opts.rootRank, op)], [tensor], opts)

    def reduce_scatter(self, output_tensors: Tensors, input_tensors: Sequence[Tensors], opts: Any = None) -> MrcWork:
        opts = opts or dist.ReduceScatterOptions()
        output, op = only(output_tensors, "reduce_scatter"), reduction_of(opts.reduceOp)
        parts = [values_of(each) for each in _only_list(input_tensors, "reduce_scatter")]
        return self._start([partial(self._group.reduce_scatter, values_of(output), parts, op)], [output], opts)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> MrcWork:
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> MrcWork:
        opts = opts or dist.ReduceScatterOptions()
        op = reduction_of(opts.reduceOp)
        return self._start(
            [
                partial(self._group.reduce_scatter, values_of(output), values_of(given), op)
                for output, given in zip(outputs, inputs, strict=True)
            ],
            outputs,
            opts,
        )

    # ------------------------------------------------------------------ what moves as it is

    def broadcast(self, tensors: Tensors, opts: Any = None) -> MrcWork:
        opts = opts or dist.BroadcastOptions()
        tensor = only(tensors, "broadcast")
        return self._start([partial(self._group.broadcast, bytes_of(tensor), opts.rootRank)], [tensor], opts)

    def allgather(self, output_tensors: Sequence[Tensors], input_tensors: Tensors, opts: Any = None) -> MrcWork:
        only(input_tensors, "all_gather")
        return self.allgather_coalesced(output_tensors, input_tensors, opts)

    def allgather_coalesced(self, output_lists: Sequence[Tensors], input_list: Tensors, opts: Any = None) -> MrcWork:
        return self._start(
            [
                partial(self._group.all_gather, all_bytes(outputs), bytes_of(given))
                for outputs, given in zip(output_lists, input_list, strict=True)
            ],
            [output for outputs in output_lists for output in outputs],
            opts,
        )

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> MrcWork:
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> MrcWork:
        return self._start(
            [
                partial(self._group.all_gather, bytes_of(output), bytes_of(given))
                for output, given in zip(outputs, inputs, strict=True)
            ],
            outputs,
            opts,
        )

    def gather(self, output_tensors: Sequence[Tensors], input_tensors: Tensors, opts: Any) -> MrcWork:
        given = only(input_tensors, "gather")
        outputs = _only_list(output_tensors, "gather") if self.rank() == opts.rootRank else []
        return self._start(
            [partial(self._group.gather, bytes_of(given), all_bytes(outputs) or None, opts.rootRank)], outputs, opts
        )

    def scatter(self, output_tensors: Tensors, input_tensors: Sequence[Tensors], opts: Any) -> MrcWork:
        output = only(output_tensors, "scatter")
        inputs = _only_list(input_tensors, "scatter") if self.rank() == opts.rootRank else []
        return self._start(
            [partial(self._group.scatter, bytes_of(output), all_bytes(inputs) or None, opts.rootRank)], [output], opts
        )

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> MrcWork:
        splits = list(output_split_sizes) or None, list(input_split_sizes) or None
        if splits == (None, None):
            return self._start([partial(self._group.all_to_all, bytes_of(output), bytes_of(input))], [output], opts)
        # A side without splits has equal ones.
        outs, ins = (
            given or [tensor.shape[0] // self.size()] * self.size()
            for given, tensor in zip(splits, (output, input), strict=True)
        )
        return self._start(
            [partial(self._group.all_to_all, rows_of(output), rows_of(input), outs, ins)], [output], opts
        )

    def alltoall(self, output_tensors: Tensors, input_tensors: Tensors, opts: Any = None) -> MrcWork:
        """Tensors of any sizes go by way of one array for all of them."""
        outputs, inputs = all_bytes(output_tensors), all_bytes(input_tensors)
        given, got = np.concatenate(inputs), np.empty(sum(each.size for each in outputs), np.uint8)
        outs, ins = [each.size for each in outputs], [each.size for each in inputs]

        def hand_out() -> None:
            for output, values in zip(outputs, np.split(got, np.cumsum(outs)[:-1]), strict=True):
                np.copyto(output, values)

        return self._start(
            [partial(self._group.all_to_all, got, given, outs, ins)], output_tensors, opts, after=hand_out
        )

    def barrier(self, opts: Any = None) -> MrcWork:
        return self._start([self._group.barrier], [], opts)

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> MrcWork:
        tensor = only(tensors, "send")
        return self._start([partial(self._group.send, bytes_of(tensor), dst, tag)], [tensor], None)

    def recv(self, tensors: Tensors, src: int, tag: int = 0) -> MrcWork:
        tensor = only(tensors, "recv")
        return self._start([partial(self._group.recv, bytes_of(tensor), src, tag)], [tensor], None, source=src)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> MrcWork:
        raise CallerError("the backend mrc receives from one rank: name it, as in dist.recv(tensor, src=1)")

    # ------------------------------------------------------------------ how they run

    def _start(
        self,
        calls: Sequence[Callable[[], GroupWork]],
        result: Tensors,
        opts: Any,
        *,
        after: Callable[[], None] | None = None,
        source: int = -1,
    ) -> MrcWork:
        given = opts.timeout.total_seconds() if opts is not None else 0.0
        deadline = time.monotonic() + (given if given > 0 else self._timeout_s)
        try:
            works = [call() for call in calls]
        except PeerError as error:
            raise self._raised(error) from error
        work = MrcWork(works, result, deadline, self._raised, after, source)
        if not work.is_completed():
            self._deadlines.add(work)
        return work

    def _raised(self, error: MrcError) -> Exception:
        return as_torch_raises(error, self._ranks)

    def _expired(self, late: Any) -> None:
        """As with other backends of torch, an operation that is not done in time ends the group."""
        work = next((work for work in late.works if not work.done), None)
        if work is not None:
            self._group.abort(
                f"{work.name} is not done in the time it was given{work.waited_for()}: see whether the ranks it waits "
                "for run, or give a longer timeout to init_process_group"
            )

    # ------------------------------------------------------------------ the end

    def shutdown(self) -> None:
        """Wait until every other rank has what this one sent, and close. destroy_process_group calls it."""
        self._end(lambda: None)

    def abort(self) -> None:
        """Close without waiting: what is under way here and at the other ranks raises."""
        self._end(lambda: self._group.abort("its process group was aborted"))

    def _end(self, first: Callable[[], None]) -> None:
        if self._closed:
            return
        self._closed = True
        try:
            first()
            self._group.close()
        finally:
            self._deadlines.close()
            give_back_device()

    def end_with_the_process(self) -> None:
        """The script has ended without destroy_process_group: what is under way nobody waits for any more."""
        if self._deadlines.under_way:
            self.abort()
        else:
            self.shutdown()


def _only_list(lists: Sequence[Tensors], operation: str) -> Tensors:
    if len(lists) != 1:
        raise CallerError(f"{operation} takes one list of tensors of each process, got {len(lists)}")
    return lists[0]


@atexit.register
def _end_all() -> None:
    for group in list(_open):
        group.end_with_the_process()
