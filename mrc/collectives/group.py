# SPDX-License-Identifier: BSD-2-Clause
"""A group of ranks and its operations. How it begins and ends: joined.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.collectives.arrays import Part, array_over, check_apart, check_parts, copy, parts_of, split
from mrc.collectives.joined import JoinedRanks
from mrc.collectives.messages import Call, Signature, dtype_number, signature_of
from mrc.collectives.operations.all_reduce import DoublingAllReduce, HalvingAllReduce, RingAllReduce, fits_halving
from mrc.collectives.operations.base import Posted
from mrc.collectives.operations.exchange import Exchange, ReduceScatter
from mrc.collectives.operations.point import MOST_TAGS, Receive, Send
from mrc.collectives.operations.trees import Barrier, ChainBroadcast, ChainReduce, TreeBroadcast, TreeReduce
from mrc.collectives.posts import Collective
from mrc.collectives.reduction import ReduceOp, reduction_of
from mrc.collectives.work import Work
from mrc.errors import CallerError


class Group(JoinedRanks):
    """A group of `size` processes that call the same operations in the same order; this process is number `rank`.

    `device` runs the endpoint: `mrc.net.device.open_device`, or a host in virtual time (`mrc.sim.device.SimDevice`).
    The ranks meet through the `store`, which an earlier group of them may have used. The constructor waits for all
    ranks; over a MemoryStore it does not, operations do. Two ranks connect their QPs when the first operation moves
    something between them.

    Raises CallerError for a rank out of range, PeerError when not all ranks come within `join_timeout_s`.

    In virtual time the ranks are of one process:

    >>> import numpy as np
    >>> from mrc.collectives import MemoryStore
    >>> from mrc.fabric import Clos
    >>> from mrc.sim import SimFabric
    >>> from mrc.sim.device import SimDevice
    >>> fabric, store = SimFabric(Clos(planes=2), seed=1), MemoryStore()
    >>> ranks = [Group(SimDevice(fabric, f"h{rank}"), store, rank, 2) for rank in range(2)]
    >>> arrays = [np.full(3, rank + 1.0) for rank in range(2)]
    >>> works = [group.all_reduce(array) for group, array in zip(ranks, arrays)]
    >>> works[0].wait()
    >>> arrays[0].tolist()
    [3.0, 3.0, 3.0]
    """

    def all_reduce(self, array: Any, op: ReduceOp = ReduceOp.SUM) -> Work:
        """Reduce the arrays of all ranks, value by value, into every rank's array. All ranks get the same bits."""
        mine = array_over(array, "array", written=True)
        reduction = reduction_of(op, mine.dtype)
        signature = _signature(Call.ALL_REDUCE, mine, op)
        config = self.config
        kind: type[DoublingAllReduce | HalvingAllReduce | RingAllReduce] = RingAllReduce
        if mine.nbytes <= config.doubling_bytes:
            kind = DoublingAllReduce
        elif mine.nbytes <= config.halving_bytes and fits_halving(self.size, config.window):
            kind = HalvingAllReduce
        return self._start(
            signature,
            mine.nbytes,
            lambda posted: kind(posted, mine, reduction),
            lambda: None,
        )

    def reduce_scatter(self, output: Any, input: Any, op: ReduceOp = ReduceOp.SUM) -> Work:
        """Reduce the inputs of all ranks, and put this rank's part of the result into `output`.

        `input` is an array of size x output's values, or a list of as many arrays. It stays as it is. `output` may be
        this rank's own part of it, and no other memory of it.
        """
        mine = array_over(output, "output", written=True)
        parts = parts_of(input, "input", self.size, written=False)
        check_parts(parts, mine, "input", "output")
        check_apart(mine, parts, self.rank)
        reduction = reduction_of(op, mine.dtype)
        signature = _signature(Call.REDUCE_SCATTER, mine, op)
        return self._start(
            signature,
            mine.nbytes,
            lambda posted: ReduceScatter(posted, mine, parts, reduction, eager=self._is_short(mine.nbytes)),
            lambda: copy(parts[self.rank], Part(mine, 0, mine.size)),
        )

    def all_gather(self, output: Any, input: Any) -> Work:
        """Put the inputs of all ranks into every rank's `output`, in the order of ranks.

        `output` is an array of size x input's values, or a list of as many arrays. `input` may be this rank's own part
        of it.
        """
        mine = array_over(input, "input", written=False)
        parts = parts_of(output, "output", self.size, written=True)
        check_parts(parts, mine, "output", "input")
        check_apart(mine, parts, self.rank)
        own = Part(mine, 0, mine.size)
        return self._exchange(_signature(Call.ALL_GATHER, mine), mine.nbytes, [own] * self.size, list(parts))

    def all_to_all(
        self,
        output: Any,
        input: Any,
        output_splits: Sequence[int] | None = None,
        input_splits: Sequence[int] | None = None,
    ) -> Work:
        """Send each rank its part of `input`, and put what comes from each into its part of `output`.

        Parts are equal, or as many rows of the first axis as the splits say: what a rank sends another has to be what
        that one expects of it. Both may be lists of arrays of one size. They may not share memory.
        """
        sends = split(input, "input", input_splits, self.size, written=False)
        receives = split(output, "output", output_splits, self.size, written=True)
        if sends[0].array.dtype != receives[0].array.dtype:
            raise CallerError(f"input is of {sends[0].array.dtype}, output of {receives[0].array.dtype}")
        if any(np.may_share_memory(sent.values, got.values) for sent in sends for got in receives):
            raise CallerError("input and output of all_to_all share memory: pass another array for one of them")
        uneven = input_splits is not None or output_splits is not None
        if sends[self.rank].nbytes != receives[self.rank].nbytes:
            raise CallerError(
                f"this rank sends itself {sends[self.rank].size} values and expects "
                f"{receives[self.rank].size} of itself"
            )
        nbytes = 0 if uneven else sends[0].nbytes
        signature = signature_of(Call.ALL_TO_ALL, nbytes, dtype_number(sends[0].array.dtype))
        most = max(part.nbytes for part in (*sends, *receives))
        # Uneven parts never go through slots: their lengths are compared before anything is written.
        return self._exchange(signature, most, list(sends), list(receives), eager=not uneven and self._is_short(most))

    def broadcast(self, array: Any, root: int = 0) -> Work:
        """Copy the root's array into every rank's array."""
        self._check_rank(root, "root")
        mine = array_over(array, "array", written=self.rank != root)
        signature = _signature(Call.BROADCAST, mine, root=root)
        kind: type[TreeBroadcast | ChainBroadcast] = TreeBroadcast if self._is_short(mine.nbytes) else ChainBroadcast
        return self._start(
            signature,
            mine.nbytes,
            lambda posted: kind(posted, mine, root),
            lambda: None,
        )

    def reduce(self, array: Any, root: int = 0, op: ReduceOp = ReduceOp.SUM) -> Work:
        """Reduce the arrays of all ranks into the root's array. The others are not changed."""
        self._check_rank(root, "root")
        mine = array_over(array, "array", written=self.rank == root)
        reduction = reduction_of(op, mine.dtype)
        signature = _signature(Call.REDUCE, mine, op, root)
        kind: type[TreeReduce | ChainReduce] = TreeReduce if self._is_short(mine.nbytes) else ChainReduce
        return self._start(
            signature,
            mine.nbytes,
            lambda posted: kind(posted, mine, root, reduction),
            lambda: None,
        )

    def gather(self, array: Any, outputs: Any = None, root: int = 0) -> Work:
        """Put the arrays of all ranks into the root's `outputs`: one array for all, or a list with one for each
        rank."""
        self._check_rank(root, "root")
        mine = array_over(array, "array", written=False)
        signature = _signature(Call.GATHER, mine, root=root)
        sends: list[Part | None] = [None] * self.size
        receives: list[Part | None] = [None] * self.size
        sends[root] = Part(mine, 0, mine.size)
        if self.rank == root:
            parts = parts_of(_given(outputs, "outputs", "gather"), "outputs", self.size, written=True)
            check_parts(parts, mine, "outputs", "array")
            check_apart(mine, parts, self.rank)
            receives = list(parts)
        return self._exchange(signature, mine.nbytes, sends, receives)

    def scatter(self, array: Any, inputs: Any = None, root: int = 0) -> Work:
        """Put into each rank's array its part of the root's `inputs`: one array for all, or a list with one for each
        rank."""
        self._check_rank(root, "root")
        mine = array_over(array, "array", written=True)
        signature = _signature(Call.SCATTER, mine, root=root)
        sends: list[Part | None] = [None] * self.size
        receives: list[Part | None] = [None] * self.size
        receives[root] = Part(mine, 0, mine.size)
        if self.rank == root:
            parts = parts_of(_given(inputs, "inputs", "scatter"), "inputs", self.size, written=False)
            check_parts(parts, mine, "inputs", "array")
            check_apart(mine, parts, self.rank)
            sends = list(parts)
        return self._exchange(signature, mine.nbytes, sends, receives)

    def barrier(self) -> Work:
        """Wait for all ranks: done when every rank has called it."""
        signature = signature_of(Call.BARRIER)
        return self._start(signature, 1, lambda posted: Barrier(posted), lambda: None)

    def send(self, array: Any, to: int, tag: int = 0) -> Work:
        """Send an array to one rank. Sends with one tag, 0..2^32-1, are received in order.

        Done when the array has arrived, so it waits for the `recv`.
        """
        return self._point(Send, array_over(array, "array", written=False), to, tag, f"send to rank {to}")

    def recv(self, array: Any, source: int | None, tag: int = 0) -> Work:
        """Receive an array of as many bytes as the other rank sends. `source` None: from any rank, the first that has a
        send with this tag; `source` of the Work says which it was.
        """
        mine = array_over(array, "array", written=True)
        if source is None and not mine.nbytes:
            raise CallerError("an empty array comes from no rank: name the source")
        name = "any rank" if source is None else f"rank {source}"
        return self._point(Receive, mine, source, tag, f"recv from {name}")

    def _point(self, kind: type[Send | Receive], array: NDArray[Any], other: int | None, tag: int, name: str) -> Work:
        if other is not None:
            self._check_rank(other, "the other rank")
        if other == self.rank or self.size == 1:
            raise CallerError("a rank cannot send to itself: copy the array")
        if type(tag) is not int or not 0 <= tag < MOST_TAGS:
            raise CallerError(f"tag is 0..{MOST_TAGS - 1}, got {tag!r}")
        work = Work(self._bells, f"{name} ({array.nbytes:,} bytes, tag {tag})")
        work.source = other
        with self._lock:
            self._check_open(work)
            if array.nbytes:
                self._engine.post_point(kind(self._engine, other, work, array, tag))
                return work
        work.finish()
        return work

    def _is_short(self, nbytes: int) -> bool:
        return nbytes <= self.config.eager_bytes

    def _exchange(
        self,
        signature: Signature,
        nbytes: int,
        sends: Sequence[Part | None],
        receives: Sequence[Part | None],
        *,
        eager: bool | None = None,
    ) -> Work:
        short = self._is_short(nbytes) if eager is None else eager
        return self._start(
            signature,
            nbytes,
            lambda posted: Exchange(posted, sends, receives, eager=short),
            lambda: copy(sends[self.rank], receives[self.rank]),
        )

    def _start(
        self, signature: Signature, nbytes: int, make: Callable[[Posted], Collective], alone: Callable[[], None]
    ) -> Work:
        """Start an operation. `alone`: what it does in a group of one."""
        work = Work(self._bells, signature)
        with self._lock:
            self._check_open(work)
            sequence = self._sequence
            self._sequence = sequence + 1 & 0xFFFFFFFF
            if self.size > 1 and nbytes:
                self._engine.post(make(Posted(self._engine, sequence, signature, work)))
                return work
        alone()
        work.finish()
        return work


def _signature(call: Call, array: NDArray[Any], op: ReduceOp | None = None, root: int = 0) -> Signature:
    return signature_of(call, array.nbytes, dtype_number(array.dtype), 0 if op is None else int(op), root)


def _given(value: Any, name: str, call: str) -> Any:
    if value is None:
        raise CallerError(f"the root of {call} needs {name}")
    return value
