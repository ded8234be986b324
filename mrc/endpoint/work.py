"""Posted work: RDMA writes."""

from __future__ import annotations

from mrc.endpoint.memory import VA_LIMIT, MemoryRegion
from mrc.errors import CallerError
from mrc.records import record

MAX_MESSAGE = (1 << 31) - 1


@record(slots=True)
class WriteRequest:
    """An RDMA write: `length` bytes from `offset` in the local region `source` to `remote_va` under `rkey`.

    `length` 0..2^31-1 bytes. With `immediate`, a 32-bit number, the peer gets a completion that carries it. Raises
    CallerError when the range leaves the local region or a field its width.
    """

    wr_id: int
    source: MemoryRegion
    offset: int
    length: int
    remote_va: int
    rkey: int
    immediate: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.length <= MAX_MESSAGE:
            raise CallerError(f"a write is 0..{MAX_MESSAGE} bytes long, got {self.length}")
        if self.offset < 0 or self.offset + self.length > self.source.length:
            raise CallerError(
                f"bytes {self.offset}..{self.offset + self.length} leave the local region of {self.source.length}"
            )
        if not 0 <= self.remote_va < VA_LIMIT or not 0 <= self.rkey < 1 << 32:
            raise CallerError("remote_va must fit 62 bits and rkey 32")
        if self.immediate is not None and not 0 <= self.immediate < 1 << 32:
            raise CallerError(f"an immediate is a 32-bit number, got {self.immediate}")
