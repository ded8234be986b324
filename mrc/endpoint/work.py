# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Posted work: RDMA writes."""

from __future__ import annotations

from mrc.endpoint.memory import VA_LIMIT, MemoryRegion
from mrc.errors import CallerError
from mrc.wire.compiled import any_int

__all__ = ["WriteRequest"]

MAX_MESSAGE = (1 << 31) - 1
# Above the 32 bits of an immediate, where it and this travel as one number: its receiver asked to be woken.
SOLICITED = 1 << 32


class WriteRequest:
    """An RDMA write: `length` bytes from `offset` in the local region `source` to `remote_va` under `rkey`.

    `length` 0..2^31-1 bytes. With `immediate`, a 32-bit number, the peer gets a completion that carries it; `solicited`
    marks that as one that who waits at the peer wants to be woken for. Raises CallerError when the range leaves the
    local region or a field its width.
    """

    def __init__(
        self,
        wr_id: int,
        source: MemoryRegion,
        offset: int,
        length: int,
        remote_va: int,
        rkey: int,
        immediate: int | None = None,
        solicited: bool = False,
    ) -> None:
        if not 0 <= length <= MAX_MESSAGE:
            raise CallerError(f"a write is 0..{MAX_MESSAGE} bytes long, got {length}")
        if offset < 0 or offset + length > source.length:
            raise CallerError(f"bytes {offset}..{offset + length} leave the local region of {source.length}")
        if not 0 <= remote_va < VA_LIMIT or not 0 <= rkey < 1 << 32:
            raise CallerError("remote_va must fit 62 bits and rkey 32")
        if immediate is not None and not 0 <= immediate < 1 << 32:
            raise CallerError(f"an immediate is a 32-bit number, got {immediate}")
        self.wr_id: any_int = wr_id
        self.source = source
        self.offset = offset
        self.length = length
        self.remote_va = remote_va
        self.rkey = rkey
        self.immediate = immediate
        self.solicited = solicited
