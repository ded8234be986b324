# SPDX-License-Identifier: BSD-2-Clause
"""Arguments of operations as arrays: numpy arrays, buffers, and objects that share their memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrc.errors import CallerError
from mrc.records import record

Bytes = NDArray[np.uint8]


def array_over(given: Any, name: str, *, written: bool) -> NDArray[Any]:
    """Return an array over the memory of a numpy array, a buffer, or an object with `__array_interface__` or DLPack.

    Raises CallerError for anything else, for an array that is not contiguous, and for a read-only one that is to be
    `written`.
    """
    array = _shared(given, name)
    if not array.flags.c_contiguous:
        raise CallerError(
            f"{name} is not contiguous (shape {array.shape}, strides {array.strides}): pass a contiguous one, "
            f"for example numpy.ascontiguousarray({name}), and copy the result back if you need it there"
        )
    if array.dtype.hasobject:
        raise CallerError(f"{name} holds Python objects ({array.dtype}), which cannot be sent: pass numbers")
    if written and not array.flags.writeable:
        raise CallerError(f"{name} is read-only, and the result goes there: pass a writable array")
    return array


def _shared(given: Any, name: str) -> NDArray[Any]:
    if isinstance(given, np.ndarray):
        return given
    try:
        if isinstance(given, (memoryview, bytearray, bytes)) or hasattr(given, "__array_interface__"):
            return np.asarray(given)
        if hasattr(given, "__dlpack__"):
            return np.from_dlpack(given)
        return np.asarray(memoryview(given))
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise CallerError(
            f"{name} must be a numpy array, a buffer, or something with __array_interface__ or __dlpack__, got "
            f"{type(given).__name__}: {error}"
        ) from None


@record(frozen=True, slots=True)
class Part:
    """A part of an array: `size` values from `start` on."""

    array: NDArray[Any]
    start: int
    size: int

    @property
    def values(self) -> NDArray[Any]:
        return self.array.reshape(-1)[self.start : self.start + self.size]

    @property
    def offset(self) -> int:
        """Byte offset of the first value."""
        return self.start * self.array.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.array.itemsize


def parts_of(given: Any, name: str, parts: int, *, written: bool) -> list[Part]:
    """Return a part for each rank: the arrays of a list, or equal parts of one array.

    Raises CallerError as `array_over` does, and for a wrong number or size of parts.
    """
    if isinstance(given, (list, tuple)):
        if len(given) != parts:
            raise CallerError(f"{name} must be {parts} arrays, one for each rank, got {len(given)}")
        arrays = [array_over(each, f"{name}[{place}]", written=written) for place, each in enumerate(given)]
        if len({(each.size, each.dtype) for each in arrays}) != 1:
            raise CallerError(f"the arrays of {name} must be of one size and type")
        return [Part(each, 0, each.size) for each in arrays]
    array = array_over(given, name, written=written)
    if array.size % parts:
        raise CallerError(f"{name} has {array.size} values, which is no multiple of the {parts} ranks")
    count = array.size // parts
    return [Part(array, place * count, count) for place in range(parts)]


def split(given: Any, name: str, splits: Sequence[int] | None, parts: int, *, written: bool) -> list[Part]:
    """Return a part for each rank: as many rows of the first axis as `splits` says, or equal parts without splits."""
    if splits is None:
        return parts_of(given, name, parts, written=written)
    array = array_over(given, name, written=written)
    if len(splits) != parts or any(type(each) is not int or each < 0 for each in splits):
        raise CallerError(f"{name}_splits must be {parts} numbers of rows, one for each rank, got {list(splits)}")
    rows = array.shape[0] if array.ndim else 1
    if sum(splits) != rows:
        raise CallerError(f"{name}_splits come to {sum(splits)} rows, {name} has {rows}")
    row = array.size // rows if rows else 0
    found, at = [], 0
    for each in splits:
        found.append(Part(array, at, each * row))
        at += each * row
    return found


def bytes_of(array: NDArray[Any]) -> Bytes:
    """Return the bytes of a contiguous array without a copy."""
    return array.reshape(-1).view(np.uint8)


def check_parts(parts: Sequence[Part], one: NDArray[Any], name: str, other: str) -> None:
    part = parts[0]
    if part.array.dtype != one.dtype:
        raise CallerError(f"{name} is of {part.array.dtype}, {other} of {one.dtype}")
    if part.size != one.size:
        raise CallerError(f"{name} has room for {part.size} values of each rank, {other} has {one.size}")


def check_apart(one: NDArray[Any], parts: Sequence[Part], own: int) -> None:
    """Raise CallerError if the array shares memory with another rank's part."""
    for rank, part in enumerate(parts):
        if rank != own and np.may_share_memory(one, part.values):
            raise CallerError(f"the array shares memory with rank {rank}'s part: pass another, or this rank's own part")


def copy(source: Part | None, target: Part | None) -> None:
    if source is not None and target is not None:
        np.copyto(target.values, source.values)
