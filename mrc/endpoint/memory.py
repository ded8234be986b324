"""Memory regions: what a peer may write, checked for every packet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mrc.endpoint.parts.tables import Table
from mrc.errors import CallerError
from mrc.wire.columns import array_of
from mrc.wire.memory import address_of

if TYPE_CHECKING:
    from mrc.wire.fields import U8

VA_LIMIT = 1 << 62  # keeps every address computation inside a signed 64-bit integer
# What follows the R_Key in a row of `MemoryTable.open`.
VA, LENGTH, ADDRESS = 1, 2, 3
_COLUMNS = 4


class MemoryRegion:
    """A registered buffer: `length` bytes at virtual address `va`, opened by `rkey`.

    `buffer` is anything writable that speaks the buffer protocol (bytearray, mmap, numpy array); the region keeps
    it alive. `address` is where its first byte really lies. Raises
    CallerError for a read-only or non-contiguous buffer unless `remote_write` is off, which makes a region that is only
    read from.
    """

    __slots__ = ("address", "length", "remote_write", "rkey", "va", "view")

    def __init__(self, buffer: Any, rkey: int, va: int | None = None, *, remote_write: bool = True) -> None:
        view = memoryview(buffer)
        if not view.c_contiguous:
            raise CallerError("a memory region needs one contiguous buffer")
        if remote_write and view.readonly:
            raise CallerError("a region open to remote writes needs a writable buffer: bytearray, mmap, numpy")
        self.view = view.cast("B") if view.nbytes else memoryview(b"")
        self.length = view.nbytes
        self.address = address_of(self.view)
        self.va = self.address if va is None else va
        if not 0 <= self.va < VA_LIMIT - self.length:
            raise CallerError(f"va must be 0..{VA_LIMIT - self.length}, got {self.va}")
        if not 0 <= rkey < 1 << 32:
            raise CallerError(f"rkey must fit 32 bits, got {rkey:#x}")
        self.rkey = rkey
        self.remote_write = remote_write

    @property
    def array(self) -> U8:
        """The buffer as one of numpy's arrays."""
        return array_of(self.view)


class MemoryTable:
    """The regions of one endpoint by R_Key. `draw_rkey` gives the 32-bit numbers they get; 0 is not used.

    `open` has those that a peer may write to. The regions themselves are kept beside it: while one is registered its
    buffer stays where it is.
    """

    __slots__ = ("_draw_rkey", "_regions", "open")

    def __init__(self, draw_rkey: Callable[[], int]) -> None:
        self._draw_rkey = draw_rkey
        self._regions: dict[int, MemoryRegion] = {}
        self.open = Table(_COLUMNS)

    def register(self, buffer: Any, *, va: int | None = None, remote_write: bool = True) -> MemoryRegion:
        """Open a buffer. Raises CallerError as MemoryRegion does."""
        rkey = self._draw_rkey()
        while rkey == 0 or rkey in self._regions:
            rkey = self._draw_rkey()
        region = MemoryRegion(buffer, rkey, va, remote_write=remote_write)
        self._regions[rkey] = region
        if remote_write:
            row = self.open.put(rkey)
            cells = self.open.cells
            cells[row + VA], cells[row + LENGTH], cells[row + ADDRESS] = region.va, region.length, region.address
        return region

    def deregister(self, region: MemoryRegion) -> None:
        """Close a region. Packets that still name it are answered with a remote access error."""
        if self._regions.get(region.rkey) is not region:
            raise CallerError(f"no region with R_Key {region.rkey:#010x} is registered here")
        if region.remote_write:
            self.open.remove(self.open.find(region.rkey))
        del self._regions[region.rkey]

    def find(self, rkey: int) -> MemoryRegion | None:
        return self._regions.get(rkey)

    def row(self, rkey: int) -> int:
        """Where in `open` the region of this R_Key is that a peer may write to, -1 where there is none."""
        return self.open.find(rkey)

    def __iter__(self) -> Iterator[MemoryRegion]:
        return iter(self._regions.values())
