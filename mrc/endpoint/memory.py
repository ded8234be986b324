# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Memory regions: what a peer may write, checked for every packet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mrc.endpoint.parts.numbers import Table
from mrc.errors import CallerError
from mrc.wire import octets
from mrc.wire.columns import array_of
from mrc.wire.compiled import any_int, public, python
from mrc.wire.memory import address_of

if TYPE_CHECKING:
    from mrc.wire.fields import U8

VA_LIMIT = 1 << 62  # keeps every address computation inside a signed 64-bit integer
# What follows the R_Key in a row of `MemoryTable.open`.
VA, LENGTH, ADDRESS = 1, 2, 3
_COLUMNS = 4
_WIDTH = _COLUMNS
# Regions that the ring of a MemoryTable holds, and the places of its two counts.
NEW_REGIONS = 256
_NEW_MASK = NEW_REGIONS - 1
_REGISTERED, _TAKEN, _MARKS = 0, 1, 2


class MemoryRegion:
    """A registered buffer: `length` bytes at virtual address `va`, opened by `rkey`.

    `buffer` is anything writable that speaks the buffer protocol (bytearray, mmap, numpy array); the region keeps
    it alive. `address` is where its first byte really lies. Raises
    CallerError for a read-only or non-contiguous buffer unless `remote_write` is off, which makes a region that is only
    read from.

    `without_memory` makes a region of any length that nothing lies behind: for packets that are simulated and carry no
    payload (`ReceivedBatch.headers_only`).
    """

    def __init__(self, buffer: Any, rkey: int, va: int | None = None, *, remote_write: bool = True) -> None:
        view = memoryview(buffer)
        if not view.c_contiguous:
            raise CallerError("a memory region needs one contiguous buffer")
        if remote_write and view.readonly:
            raise CallerError("a region open to remote writes needs a writable buffer: bytearray, mmap, numpy")
        self.view: memoryview = view.cast("B") if view.nbytes else memoryview(b"")
        self.length: public[int] = view.nbytes
        self.address: any_int = address_of(self.view)
        self.va: int = self.address if va is None else va
        if not 0 <= self.va < VA_LIMIT - self.length:
            raise CallerError(f"va must be 0..{VA_LIMIT - self.length}, got {self.va}")
        if not 0 <= rkey < 1 << 32:
            raise CallerError(f"rkey must fit 32 bits, got {rkey:#x}")
        self.rkey: any_int = rkey
        self.remote_write = remote_write

    @classmethod
    def without_memory(cls, length: int, rkey: int = 0) -> MemoryRegion:
        """`length` bytes from VA 0 on. Raises CallerError for a length that no region can have."""
        if not 0 <= length < VA_LIMIT:
            raise CallerError(f"a region has 0..{VA_LIMIT - 1} bytes, got {length}")
        region = cls(bytearray(), rkey, 0)
        region.length = length
        return region

    @property
    def array(self) -> U8:
        """The buffer as one of numpy's arrays."""
        return array_of(self.view)


class MemoryTable:
    """The regions of one endpoint by R_Key. `draw_rkey` gives the 32-bit numbers they get; 0 is not used.

    `open` has those that a peer may write to. The regions themselves are kept beside it: while one is registered its
    buffer stays where it is.

    A thread that has the endpoint may call everything here. Another thread may call `register` unless the table
    `is_full`; one such thread at a time. It puts the region into a ring. The first packet with an unknown R_Key has the
    ring taken into `open`, so the R_Key is valid once `register` has returned.
    """

    def __init__(self, draw_rkey: Callable[[], int]) -> None:
        self._draw_rkey = draw_rkey
        self._regions: dict[int, MemoryRegion] = {}
        self.open = Table(_COLUMNS)
        # It comes with the first region: who only sends has none.
        self._new = octets.words(0)
        self._marks = octets.words(_MARKS)

    def __dealloc__(self) -> None:
        octets.free_words(self._new)
        octets.free_words(self._marks)

    def register(self, buffer: Any, *, va: int | None = None, remote_write: bool = True) -> python[MemoryRegion]:
        """Open a buffer. Raises CallerError as MemoryRegion does."""
        return self._keep(MemoryRegion(buffer, self._new_rkey(), va, remote_write=remote_write))

    def register_without_memory(self, length: int) -> python[MemoryRegion]:
        """Open a region that nothing lies behind (`MemoryRegion.without_memory`), for who has the endpoint."""
        region = MemoryRegion.without_memory(length, self._new_rkey())
        self._regions[region.rkey] = region
        row = self.open.put(region.rkey)
        self.open.cells[row + VA], self.open.cells[row + LENGTH], self.open.cells[row + ADDRESS] = 0, length, 0
        return region

    def _new_rkey(self) -> python[int]:
        rkey = self._draw_rkey()
        while rkey == 0 or rkey in self._regions:
            rkey = self._draw_rkey()
        return rkey

    def _keep(self, region: MemoryRegion) -> python[MemoryRegion]:
        self._regions[region.rkey] = region
        if region.remote_write:
            if self.is_full():
                self.take_new()
            self._add(region.rkey, region.va, region.length, region.address)
        return region

    def _add(self, rkey: int, va: int, length: int, address: int) -> None:
        registered = octets.published(self._marks, _REGISTERED)
        if not registered:
            self._new = octets.longer_words(self._new, 0, NEW_REGIONS * _WIDTH)
        at = (registered & _NEW_MASK) * _WIDTH
        self._new[at] = rkey
        self._new[at + VA], self._new[at + LENGTH], self._new[at + ADDRESS] = va, length, address
        octets.publish(self._marks, _REGISTERED, registered + 1)

    def is_full(self) -> bool:
        """Whether the ring is full. A thread with the endpoint then calls `take_new` before the next `register`."""
        return octets.published(self._marks, _REGISTERED) - octets.published(self._marks, _TAKEN) >= NEW_REGIONS

    def take_new(self) -> None:
        """Move the regions of the ring into `open`."""
        registered, taken = octets.published(self._marks, _REGISTERED), octets.published(self._marks, _TAKEN)
        while taken < registered:
            at = (taken & _NEW_MASK) * _WIDTH
            row = self.open.put(self._new[at])
            for column in range(1, _WIDTH):
                self.open.cells[row + column] = self._new[at + column]
            taken += 1
        octets.publish(self._marks, _TAKEN, taken)

    def deregister(self, region: MemoryRegion) -> python[None]:
        """Close a region. Packets that still name it are answered with a remote access error."""
        if self._regions.get(region.rkey) is not region:
            raise CallerError(f"no region with R_Key {region.rkey:#010x} is registered here")
        if region.remote_write:
            self.open.remove(self.row(region.rkey))
        del self._regions[region.rkey]

    def find(self, rkey: int) -> python[MemoryRegion | None]:
        return self._regions.get(rkey)

    def row(self, rkey: int) -> int:
        """Where in `open` the region of this R_Key is that a peer may write to, -1 where there is none."""
        at = self.open.find(rkey)
        if at < 0 and octets.published(self._marks, _REGISTERED) != octets.published(self._marks, _TAKEN):
            self.take_new()
            at = self.open.find(rkey)
        return at

    def __iter__(self) -> Iterator[MemoryRegion]:
        return iter(self._regions.values())
