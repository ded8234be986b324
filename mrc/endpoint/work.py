"""Posted work: RDMA writes, and how far each has got on its way."""

from __future__ import annotations

from dataclasses import dataclass

from mrc.endpoint.memory import VA_LIMIT, MemoryRegion
from mrc.errors import CallerError

MAX_MESSAGE = (1 << 31) - 1


@dataclass(slots=True)
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


class Message:
    """A posted write on its way: message number `msn`, cut into `packets` of up to one path MTU.

    `rqmsn` numbers the writes with immediate; it is 0 in a plain write.
    """

    __slots__ = ("first_psn", "last_psn", "msn", "packets", "request", "rqmsn", "sent_packets")

    def __init__(self, request: WriteRequest, msn: int, path_mtu: int, rqmsn: int = 0) -> None:
        self.request = request
        self.msn = msn
        self.rqmsn = rqmsn
        self.packets = max(1, -(-request.length // path_mtu))
        self.sent_packets = 0
        # Unbounded sequence numbers, known once the first and last packet are sent.
        self.first_psn = -1
        self.last_psn = -1

    def took(self, count: int, psn: int) -> None:
        """Its next `count` packets got the PSNs from `psn` on."""
        if not self.sent_packets:
            self.first_psn = psn
        self.sent_packets += count
        if self.sent_packets == self.packets:
            self.last_psn = psn + count - 1

    def sent(self, psn: int) -> bool:
        """Whether one of its packets went out as `psn`."""
        return self.sent_packets > 0 and self.first_psn <= psn < self.first_psn + self.sent_packets
