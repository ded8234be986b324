# SPDX-License-Identifier: BSD-2-Clause
"""Protection domains and memory regions."""

from __future__ import annotations

import threading
from errno import EBUSY, EINVAL, ENOMEM
from typing import Any, Protocol

from mrc.endpoint.memory import MemoryRegion
from mrc.errors import CallerError
from mrc.verbs.enums import AccessFlag
from mrc.verbs.errors import VerbsError
from mrc.verbs.owner import Owner
from mrc.verbs.remote import RemoteMemory
from mrc.verbs.tables import brief, flags, table
from mrc.verbs.work import MAX_SGE, SGE

NO_BYTES = MemoryRegion(b"", 0, 0, remote_write=False)


class Reader(Protocol):
    """A QP, as its protection domain sees it."""

    def uses(self, mr: MR) -> bool:
        """Whether a send that has not completed reads from this region."""


class PD:
    """A protection domain: its QPs write from, and are written to, its own regions only.

    Closing it while it has regions or QPs raises VerbsError EBUSY. EINVAL on a closed Context.
    """

    def __init__(self, context: Owner) -> None:
        context.check_open()
        self.context = context
        self.memory = context.device.endpoint.create_memory()
        self.qps: set[Reader] = set()
        self._mrs: dict[int, MR] = {}
        self._registering = threading.Lock()
        # Held for a moment only: a region enters, or the PD closes.
        self._entering = threading.Lock()
        self._closed = False
        context.pds.add(self)

    def mr(
        self,
        buffer: Any,
        access: AccessFlag = AccessFlag.LOCAL_WRITE | AccessFlag.REMOTE_WRITE,
        *,
        iova: int | None = None,
    ) -> MR:
        """Register a buffer: `MR(self, buffer, access, iova=iova)`."""
        return MR(self, buffer, access, iova=iova)

    def region(self, lkey: int) -> MR | None:
        return self._mrs.get(lkey)

    @property
    def mrs(self) -> list[MR]:
        """The memory regions that are registered in it."""
        return list(self._mrs.values())

    def check_open(self) -> None:
        if self._closed:
            raise VerbsError(EINVAL, "the protection domain is closed")

    def register(self, buffer: Any, va: int | None, remote_write: bool) -> MemoryRegion:
        """Open a buffer to the network without waiting for the endpoint: under load its turns take milliseconds.

        Raises CallerError as MemoryRegion does.
        """
        device = self.context.device
        with self._registering:
            device.check_open()
            if self.memory.is_full():
                device.call(self.memory.take_new)
            return self.memory.register(buffer, va=va, remote_write=remote_write)

    def _add(self, mr: MR) -> None:
        """Raises VerbsError EINVAL where the PD was closed meanwhile."""
        with self._entering:
            self.check_open()
            self._mrs[mr.lkey] = mr

    def _remove(self, mr: MR) -> None:
        del self._mrs[mr.lkey]

    def close(self) -> None:
        """Close it. Raises VerbsError EBUSY while it has memory regions or QPs."""
        with self._entering:
            if self._closed:
                return
            if self._mrs or self.qps:
                raise VerbsError(EBUSY, f"the protection domain has {len(self._mrs)} regions and {len(self.qps)} QPs")
            self._closed = True
        self.context.pds.discard(self)

    def __enter__(self) -> PD:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        says = f"{len(self._mrs)} MRs, {len(self.qps)} QPs"
        return brief("PD", f"of {self.context.device.name}", closed=self._closed, says=says)

    def __str__(self) -> str:
        return table("PD", [("context", self.context.device.name), ("MRs", len(self._mrs)), ("QPs", len(self.qps))])


class MR:
    """A memory region: the bytes of a buffer, open to the network as `access` says.

    `buffer` is anything contiguous that speaks the buffer protocol: bytearray, mmap, numpy array; bytes with no access.
    The region keeps it alive. `addr` is the address of its first byte, for SGEs and for peers: where it really lies,
    or `iova` (0..2^62-1). `lkey` and `rkey` name it; the rkey is of use to peers only with REMOTE_WRITE. Peers may
    write to it as soon as the region exists. Registering copies nothing, pages nothing in and waits for no traffic.

    Raises VerbsError EINVAL for a buffer that is not contiguous, or read-only though something may write to it; for
    REMOTE_WRITE without LOCAL_WRITE.
    """

    def __init__(self, pd: PD, buffer: Any, access: AccessFlag, *, iova: int | None = None) -> None:
        self.pd = pd
        self.access = access
        self.addr = self.length = self.lkey = self.rkey = 0
        self._lock = threading.Lock()
        # A refused one stays so.
        self._closed = True
        pd.check_open()
        if AccessFlag.REMOTE_WRITE in access and AccessFlag.LOCAL_WRITE not in access:
            raise VerbsError(EINVAL, "REMOTE_WRITE needs LOCAL_WRITE too")
        remote_write = AccessFlag.REMOTE_WRITE in access
        try:
            if AccessFlag.LOCAL_WRITE in access and memoryview(buffer).readonly:
                raise VerbsError(EINVAL, "the buffer is read-only: register it with no access, or a copy of it")
            self.region: MemoryRegion = pd.register(buffer, iova, remote_write)
        except VerbsError:
            raise
        except (CallerError, TypeError) as error:
            raise VerbsError(EINVAL, str(error)) from None
        self.addr = self.region.va
        self.length = self.region.length
        self.lkey = self.rkey = self.region.rkey
        self._closed = False
        try:
            pd._add(self)  # noqa: SLF001
        except VerbsError:
            pd.context.device.call(lambda: pd.memory.deregister(self.region))
            raise

    @property
    def remote(self) -> RemoteMemory:
        """What a peer has to know to write here."""
        return RemoteMemory(self.addr, self.length, self.rkey)

    def sge(self, offset: int = 0, length: int | None = None) -> SGE:
        """`length` bytes from `offset` on; without a length all from there. EINVAL when that leaves the region."""
        length = self.length - offset if length is None else length
        if offset < 0 or length < 0 or offset + length > self.length:
            raise VerbsError(EINVAL, f"bytes {offset}..{offset + length} leave the region of {self.length}")
        return SGE(self.addr + offset, length, self.lkey)

    def close(self) -> None:
        """Deregister. Raises VerbsError EBUSY while posted work that has not completed reads from it.

        Afterwards nothing of a peer's is written to the buffer any more, and nothing here holds it.
        """
        if self.pd.context.is_the_parents():
            return
        with self._lock:
            if self._closed:
                return
            # First no packet may find it any more. Then look which QPs use it already.
            self.pd._remove(self)  # noqa: SLF001
            if any(qp.uses(self) for qp in list(self.pd.qps)):
                self.pd._add(self)  # noqa: SLF001
                raise VerbsError(EBUSY, f"posted work still reads from the region {self.lkey:#010x}")
            self._closed = True
        region, self.region = self.region, NO_BYTES
        self.pd.context.device.call(lambda: self.pd.memory.deregister(region))

    def __enter__(self) -> MR:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        says = f"{self.length} bytes at {self.addr:#x}, {flags(self.access)}"
        return brief("MR", f"{self.lkey:#010x}", closed=self._closed, says=says)

    def __str__(self) -> str:
        return table(
            "MR",
            [
                ("addr", f"{self.addr:#x}"),
                ("length", self.length),
                ("lkey", f"{self.lkey:#010x}"),
                ("rkey", f"{self.rkey:#010x}"),
                ("access", self.access),
            ],
        )


def gather(
    pd: PD, sge: SGE | tuple[SGE, ...] | None, most_inline: int | None
) -> tuple[MR | None, MemoryRegion, int, int]:
    """What a work request writes: the registered region to hold, where the bytes are, from which offset, how many.

    `most_inline`: INLINE copies so many bytes at most, and no region is to be held; None: nothing is copied. Raises
    VerbsError EINVAL for memory that is not the PD's, ENOMEM for too many bytes INLINE.
    """
    if isinstance(sge, tuple):
        if len(sge) > MAX_SGE:
            raise VerbsError(EINVAL, f"a work request has at most {MAX_SGE} SGE (max_sge), got {len(sge)}")
        sge = sge[0] if sge else None
    if sge is None or sge.length == 0:
        return None, NO_BYTES, 0, 0
    mr = pd.region(sge.lkey)
    if mr is None:
        raise VerbsError(EINVAL, f"lkey {sge.lkey:#010x} names no region of this protection domain")
    length, offset = sge.length, sge.addr - mr.addr
    if length < 0 or offset < 0 or offset + length > mr.length:
        raise VerbsError(EINVAL, f"{length} bytes at {sge.addr:#x} leave the region of {mr.length}")
    if most_inline is None:
        return mr, mr.region, offset, length
    if length > most_inline:
        raise VerbsError(ENOMEM, f"{length} bytes INLINE, the QP takes {most_inline}")
    copy = bytes(mr.region.view[offset : offset + length])
    return None, MemoryRegion(copy, 0, 0, remote_write=False), 0, length
