# SPDX-License-Identifier: BSD-2-Clause
"""The operations that are measured: their counts, and the factors between algorithm and bus bandwidth.

Both are those of nccl-tests (https://github.com/NVIDIA/nccl-tests, commit a0b82b2): doc/PERFORMANCE.md, and the
functions `GetCollByteCount` and `GetBw` in each of src/*.cu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

OUT_OF_PLACE, IN_PLACE = "out_of_place", "in_place"
# A rank's part of what is scattered or gathered is a multiple of so many bytes, as in nccl-tests.
ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Kind:
    """One operation. `places`: the forms that a group's method has.

    `in_parts`: the size is that of the parts of all ranks together, the count that of one part. `same`: all ranks end
    with the same bits. `factor(ranks)` times the algorithm bandwidth is the bus bandwidth.
    """

    name: str
    says: str
    factor: Callable[[int], float]
    places: tuple[str, ...]
    in_parts: bool = False
    reduces: bool = False
    has_root: bool = False
    same: bool = False

    def count(self, size: int, itemsize: int, ranks: int) -> int:
        """Values in the call of one rank for at most `size` bytes."""
        if not self.in_parts:
            return size // itemsize
        return size // ranks // ALIGNMENT * ALIGNMENT // itemsize

    def size(self, count: int, itemsize: int, ranks: int) -> int:
        """Bytes that `count` values a call stand for."""
        return count * itemsize * (ranks if self.in_parts else 1)

    def least_size(self, itemsize: int, ranks: int) -> int:
        """The fewest bytes that are at least one value for each rank."""
        return ALIGNMENT * ranks if self.in_parts else itemsize


def _one(ranks: int) -> float:
    return 1.0


def _all_but_one(ranks: int) -> float:
    return (ranks - 1) / ranks


def _there_and_back(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


BOTH = (OUT_OF_PLACE, IN_PLACE)
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("allreduce", "All-reduce", _there_and_back, (IN_PLACE,), reduces=True, same=True),
        Kind("reducescatter", "Reduce-scatter", _all_but_one, BOTH, in_parts=True, reduces=True),
        Kind("allgather", "All-gather", _all_but_one, BOTH, in_parts=True, same=True),
        Kind("alltoall", "All-to-all", _all_but_one, (OUT_OF_PLACE,), in_parts=True),
        Kind("broadcast", "Broadcast", _one, (IN_PLACE,), has_root=True, same=True),
        Kind("reduce", "Reduce", _one, (IN_PLACE,), reduces=True, has_root=True),
        Kind("sendrecv", "Send to the right and receive from the left", _one, (OUT_OF_PLACE,)),
    )
}
# nccl-tests' names, and numpy's.
DTYPES: Mapping[str, str] = {
    "int8": "int8",
    "uint8": "uint8",
    "int32": "int32",
    "uint32": "uint32",
    "int64": "int64",
    "uint64": "uint64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
}
FLOATS = ("half", "float", "double")
REDOPS = ("sum", "prod", "min", "max", "avg")
