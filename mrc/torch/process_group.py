# SPDX-License-Identifier: BSD-2-Clause
"""A process group of torch.distributed over a group of `mrc.collectives`."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from mrc.collectives import DEFAULT_GROUP_CONFIG, Group, GroupConfig
from mrc.collectives import Work as GroupWork
from mrc.errors import CallerError, MrcError, PeerError
from mrc.torch import deadlines
from mrc.torch.compat import BACKEND, under_all_names
from mrc.torch.device import give_back_device, take_device
from mrc.torch.errors import as_torch_raises
from mrc.torch.monitored import pass_barrier
from mrc.torch.sparse import all_reduce_sparse
from mrc.torch.store import TorchStore
from mrc.torch.tensors import Arguments, bytes_of, only, reduction_of, rows_of
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
        deadlines.deadlines.begin()
        device = take_device()
        try:
            self._group = Group(device, TorchStore(store), rank, size, config)
        except PeerError as error:
            give_back_device()
            raise self._raised(error) from error
        except BaseException:
            give_back_device()
            raise
        _open.add(self)

    # ------------------------------------------------------------------ what torch asks

    def getBackendName(self) -> str:  # noqa: N802
        return BACKEND

    def name(self) -> str:
        return BACKEND

    # What torch keeps of a group's backends: this group is its own, for tensors of the CPU.
    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")]

    def _get_backend(self, device: torch.device) -> MrcProcessGroup:
        if torch.device(device).type != "cpu":
            raise CallerError(f"the backend mrc moves CPU tensors: this group has no backend for {device}")
        return self

    supports_splitting = supports_shrinking = supports_coalescing = supports_time_estimate = False

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        return False

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
        tensor, opts = only(tensors, "all_reduce"), opts or dist.AllreduceOptions()
        if tensor.layout is torch.sparse_coo:
            return self._allreduce_sparse(tensor, opts)
        return self._allreduce([tensor], opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> MrcWork:
        return self._allreduce(tensors, opts or dist.AllreduceCoalescedOptions())

    def _allreduce(self, tensors: Tensors, opts: Any) -> MrcWork:
        op, within = reduction_of(opts.reduceOp), Arguments()
        calls = [partial(self._group.all_reduce, within.written_values(each), op) for each in tensors]
        return self._start(calls, tensors, opts, within.hand_back)

    def _allreduce_sparse(self, tensor: Tensor, opts: Any) -> MrcWork:
        """Done when it returns: what the ranks send depends on how many values each of them has."""
        if opts.reduceOp != dist.ReduceOp.SUM:
            raise CallerError(f"sparse tensors are reduced by SUM, not by {opts.reduceOp}: pass tensor.to_dense()")

        def gather(outputs: Tensors, given: Tensor) -> None:
            self.allgather([list(outputs)], [given], opts).wait()

        all_reduce_sparse(tensor, self.size(), gather)
        return self._start([], [tensor], opts)

    def reduce(self, tensors: Tensors, opts: Any) -> MrcWork:
        tensor, op, within = only(tensors, "reduce"), reduction_of(opts.reduceOp), Arguments()
        values = within.written_values if self.rank() == opts.rootRank else within.read_values
        return self._start(
            [partial(self._group.reduce, values(tensor), opts.rootRank, op)], [tensor], opts, within.hand_back
        )

    def reduce_scatter(self, output_tensors: Tensors, input_tensors: Sequence[Tensors], opts: Any = None) -> MrcWork:
        opts, within = opts or dist.ReduceScatterOptions(), Arguments()
        output, op = only(output_tensors, "reduce_scatter"), reduction_of(opts.reduceOp)
        parts = [within.read_values(each) for each in _only_list(input_tensors, "reduce_scatter")]
        call = partial(self._group.reduce_scatter, within.written_values(output), parts, op)
        return self._start([call], [output], opts, within.hand_back)

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> MrcWork:
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> MrcWork:
        opts, within = opts or dist.ReduceScatterOptions(), Arguments()
        op = reduction_of(opts.reduceOp)
        calls = [
            partial(self._group.reduce_scatter, within.written_values(output), within.read_values(given), op)
            for output, given in zip(outputs, inputs, strict=True)
        ]
        return self._start(calls, outputs, opts, within.hand_back)

    # ------------------------------------------------------------------ what moves as it is

    def broadcast(self, tensors: Tensors, opts: Any = None) -> MrcWork:
        opts, within = opts or dist.BroadcastOptions(), Arguments()
        tensor = only(tensors, "broadcast")
        array = within.reads(tensor) if self.rank() == opts.rootRank else within.writes(tensor)
        return self._start([partial(self._group.broadcast, array, opts.rootRank)], [tensor], opts, within.hand_back)

    def allgather(self, output_tensors: Sequence[Tensors], input_tensors: Tensors, opts: Any = None) -> MrcWork:
        given, outputs = only(input_tensors, "all_gather"), _only_list(output_tensors, "all_gather")
        return self._allgather([outputs], [given], outputs, opts)

    def allgather_coalesced(self, output_lists: Sequence[Tensors], input_list: Tensors, opts: Any = None) -> MrcWork:
        """`output_lists` has a list for each rank, with a tensor for each of `input_list`."""
        if len(output_lists) != self.size() or any(len(each) != len(input_list) for each in output_lists):
            raise CallerError(
                f"all_gather_coalesced puts {len(input_list)} tensors of each of {self.size()} ranks into as many "
                f"lists of as many, got lists of {[len(each) for each in output_lists]}"
            )
        of_inputs = [[of_rank[place] for of_rank in output_lists] for place in range(len(input_list))]
        return self._allgather(of_inputs, input_list, [each for outputs in output_lists for each in outputs], opts)

    def _allgather(self, output_lists: Sequence[Tensors], inputs: Tensors, result: Tensors, opts: Any) -> MrcWork:
        """`output_lists` has a list for each of `inputs`, with a tensor for each rank."""
        within = Arguments()
        calls = [
            partial(self._group.all_gather, within.all_written(outputs), within.reads(given))
            for outputs, given in zip(output_lists, inputs, strict=True)
        ]
        return self._start(calls, result, opts, within.hand_back)

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> MrcWork:
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> MrcWork:
        within = Arguments()
        calls = [
            partial(self._group.all_gather, within.writes(output), within.reads(given))
            for output, given in zip(outputs, inputs, strict=True)
        ]
        return self._start(calls, outputs, opts, within.hand_back)

    def gather(self, output_tensors: Sequence[Tensors], input_tensors: Tensors, opts: Any) -> MrcWork:
        given, within = only(input_tensors, "gather"), Arguments()
        outputs = _only_list(output_tensors, "gather") if self.rank() == opts.rootRank else []
        call = partial(self._group.gather, within.reads(given), within.all_written(outputs) or None, opts.rootRank)
        return self._start([call], outputs, opts, within.hand_back)

    def scatter(self, output_tensors: Tensors, input_tensors: Sequence[Tensors], opts: Any) -> MrcWork:
        output, within = only(output_tensors, "scatter"), Arguments()
        inputs = _only_list(input_tensors, "scatter") if self.rank() == opts.rootRank else []
        call = partial(self._group.scatter, within.writes(output), within.all_read(inputs) or None, opts.rootRank)
        return self._start([call], [output], opts, within.hand_back)

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> MrcWork:
        splits, within = (list(output_split_sizes) or None, list(input_split_sizes) or None), Arguments()
        got, given = within.writes(output), within.reads(input)
        if splits == (None, None):
            call = partial(self._group.all_to_all, got, given)
        else:
            # A side without splits has equal ones.
            outs, ins = (rows or self._equal_rows(tensor) for rows, tensor in zip(splits, (output, input), strict=True))
            call = partial(self._group.all_to_all, rows_of(got, output), rows_of(given, input), outs, ins)
        return self._start([call], [output], opts, within.hand_back)

    def _equal_rows(self, tensor: Tensor) -> list[int]:
        return [(tensor.shape[0] if tensor.dim() else 1) // self.size()] * self.size()

    def alltoall(self, output_tensors: Tensors, input_tensors: Tensors, opts: Any = None) -> MrcWork:
        """Tensors of any sizes go by way of one array for all of them."""
        within = Arguments()
        outputs = [bytes_of(each) for each in within.all_written(output_tensors)]
        inputs = [bytes_of(each) for each in within.all_read(input_tensors)]
        given, got = np.concatenate(inputs), np.empty(sum(each.size for each in outputs), np.uint8)
        outs, ins = [each.size for each in outputs], [each.size for each in inputs]

        def hand_out() -> None:
            for output, values in zip(outputs, np.split(got, np.cumsum(outs)[:-1]), strict=True):
                np.copyto(output, values)
            if within.hand_back is not None:
                within.hand_back()

        return self._start([partial(self._group.all_to_all, got, given, outs, ins)], output_tensors, opts, hand_out)

    def barrier(self, opts: Any = None) -> MrcWork:
        return self._start([self._group.barrier], [], opts)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """A barrier after which rank 0 names the ranks that did not come in time: the first, or with `wait_all_ranks`
        all of them.

        torch.distributed.monitored_barrier refuses every backend but gloo: call this one of the group. A failure ends
        the group.
        """
        given_s = timeout.total_seconds() if timeout is not None else 0.0
        pass_barrier(self._group, given_s if given_s > 0 else self._timeout_s, wait_all_ranks, self._raised)

    def send(self, tensors: Tensors, dst: int, tag: int = 0) -> MrcWork:
        tensor, within = only(tensors, "send"), Arguments()
        return self._start([partial(self._group.send, within.reads(tensor), dst, tag)], [tensor], None)

    def recv(self, tensors: Tensors, src: int | None, tag: int = 0) -> MrcWork:
        tensor, within = only(tensors, "recv"), Arguments()
        call = partial(self._group.recv, within.writes(tensor), src, tag)
        return self._start([call], [tensor], None, within.hand_back)

    def recv_anysource(self, tensors: Tensors, tag: int = 0) -> MrcWork:
        return self.recv(tensors, None, tag)

    # ------------------------------------------------------------------ how they run

    def _start(
        self,
        calls: Sequence[Callable[[], GroupWork]],
        result: Tensors,
        opts: Any,
        after: Callable[[], None] | None = None,
    ) -> MrcWork:
        given = opts.timeout.total_seconds() if opts is not None else 0.0
        deadline = time.monotonic() + (given if given > 0 else self._timeout_s)
        try:
            works = [call() for call in calls]
        except PeerError as error:
            raise self._raised(error) from error
        work = MrcWork(works, result, deadline, self._raised, self._expired, after)
        if not work.is_completed():
            deadlines.deadlines.add(work)
        return work

    def _raised(self, error: MrcError) -> Exception:
        return as_torch_raises(error, self._ranks)

    def _expired(self, work: GroupWork) -> None:
        """As with other backends of torch, an operation that is not done in time ends the group."""
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
            give_back_device()

    def end_with_the_process(self) -> None:
        """The script has ended without destroy_process_group: what is under way nobody waits for any more."""
        if self._group.is_idle:
            self.shutdown()
        else:
            self.abort()


def _only_list(lists: Sequence[Tensors], operation: str) -> Tensors:
    if len(lists) != 1:
        raise CallerError(f"{operation} takes one list of tensors of each process, got {len(lists)}")
    return lists[0]


@atexit.register
def _end_all() -> None:
    for group in list(_open):
        group.end_with_the_process()


def _after_fork() -> None:
    """A child's groups are its parent's: it must not end them, by itself or with itself."""
    for group in list(_open):
        group._closed = True  # noqa: SLF001
    _open.clear()


os.register_at_fork(after_in_child=_after_fork)
