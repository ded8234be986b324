"""Memory regions: what a peer may write, checked for every packet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mrc.errors import CallerError
from mrc.wire.payload import Payload

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]

VA_LIMIT = 1 << 62  # keeps every address computation inside a signed 64-bit integer


class MemoryRegion:
    """A registered buffer: `length` bytes at virtual address `va`, opened by `rkey`.

    `buffer` is anything writable that speaks the buffer protocol (bytearray, mmap, numpy array); the region keeps
    it alive. `address` is where its first byte really lies; `payload` is what packets sent out of it name. Raises
    CallerError for a read-only or non-contiguous buffer unless `remote_write` is off, which makes a region that is only
    read from.
    """

    __slots__ = ("address", "array", "length", "payload", "remote_write", "rkey", "va", "view")

    def __init__(self, buffer: Any, rkey: int, va: int | None = None, *, remote_write: bool = True) -> None:
        view = memoryview(buffer)
        if not view.c_contiguous:
            raise CallerError("a memory region needs one contiguous buffer")
        if remote_write and view.readonly:
            raise CallerError("a region open to remote writes needs a writable buffer: bytearray, mmap, numpy")
        self.view = view.cast("B") if view.nbytes else memoryview(b"")
        self.length = view.nbytes
        self.array: U8 = np.frombuffer(self.view, np.uint8) if self.length else np.zeros(0, np.uint8)
        self.payload = Payload(self.view)
        self.address = self.payload.address
        self.va = self.address if va is None else va
        if not 0 <= self.va < VA_LIMIT - self.length:
            raise CallerError(f"va must be 0..{VA_LIMIT - self.length}, got {self.va}")
        if not 0 <= rkey < 1 << 32:
            raise CallerError(f"rkey must fit 32 bits, got {rkey:#x}")
        self.rkey = rkey
        self.remote_write = remote_write

    def contains(self, va: I64, length: I64) -> npt.NDArray[np.bool_]:
        """Which ranges [va, va + length) lie wholly inside the region."""
        offset = va - self.va
        return np.asarray((offset >= 0) & (offset + length <= self.length))


class MemoryTable:
    """The regions of one endpoint by R_Key. `draw_rkey` gives the 32-bit numbers they get; 0 is not used."""

    __slots__ = ("_draw_rkey", "_regions")

    def __init__(self, draw_rkey: Callable[[], int]) -> None:
        self._draw_rkey = draw_rkey
        self._regions: dict[int, MemoryRegion] = {}

    def register(self, buffer: Any, *, va: int | None = None, remote_write: bool = True) -> MemoryRegion:
        """Open a buffer. Raises CallerError as MemoryRegion does."""
        rkey = self._draw_rkey()
        while rkey == 0 or rkey in self._regions:
            rkey = self._draw_rkey()
        region = MemoryRegion(buffer, rkey, va, remote_write=remote_write)
        self._regions[rkey] = region
        return region

    def deregister(self, region: MemoryRegion) -> None:
        """Close a region. Packets that still name it are answered with a remote access error."""
        if self._regions.get(region.rkey) is not region:
            raise CallerError(f"no region with R_Key {region.rkey:#010x} is registered here")
        del self._regions[region.rkey]

    def find(self, rkey: int) -> MemoryRegion | None:
        return self._regions.get(rkey)

    def __iter__(self) -> Iterator[MemoryRegion]:
        return iter(self._regions.values())


def place(region: MemoryRegion, offsets: I64, lengths: I64, data: U8, rows: I64, start: int) -> None:
    """Copy the payload of `rows` (bytes from `start` on in each row of `data`, rows rising) to `offsets` in the region.

    Whole runs of equally long packets whose offsets agree modulo that length go in one indexed copy: the
    region is seen as an array of such blocks. What is left goes packet by packet.
    """
    if not len(rows):
        return
    length = int(lengths[0])
    phase = int(offsets[0]) % length if length else 0
    if length >= _BLOCK_MIN and len(rows) > 1 and bool((lengths == length).all()):
        blocks, rest = np.divmod(offsets - phase, length)
        if not rest.any():
            count = (region.length - phase) // length
            grid = region.array[phase : phase + count * length].reshape(count, length)
            first = int(rows[0])
            if int(rows[-1]) - first == len(rows) - 1:
                grid[blocks] = data[first : first + len(rows), start : start + length]
            else:
                grid[blocks] = data[rows, start : start + length]
            return
    array = region.array
    for row, offset, size in zip(rows.tolist(), offsets.tolist(), lengths.tolist(), strict=True):
        array[offset : offset + size] = data[row, start : start + size]


_BLOCK_MIN = 64  # bytes; below it the grid's set-up costs more than it saves
