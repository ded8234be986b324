"""What a request may do: its length, its R_Key and its range, checked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.counters import Counters
from mrc.endpoint.memory import VA_LIMIT, MemoryRegion, MemoryTable, place
from mrc.endpoint.received_requests import FULL, LAST, ONLY, ReceivedRequests
from mrc.wire.arrays import distinct
from mrc.wire.rows import PSN_BITS_MASK

I64 = npt.NDArray[np.int64]

ACK_SYNDROME = 0x1F  # an ACK without credit flow control
NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, NAK_REMOTE_OPERATION = 0x61, 0x62, 0x63
NAK_STATUS = {
    NAK_INVALID_REQUEST: WorkStatus.REMOTE_INVALID_REQUEST,
    NAK_REMOTE_ACCESS: WorkStatus.REMOTE_ACCESS_ERROR,
    NAK_REMOTE_OPERATION: WorkStatus.REMOTE_OPERATION_ERROR,
}


class RefusedRequest(Exception):
    """A request that ends its QP: the offending (unbounded) PSN and the NAK's syndrome."""

    def __init__(self, psn: int, syndrome: int, what: str) -> None:
        super().__init__(f"the peer's request with PSN {psn & PSN_BITS_MASK} {what}")
        self.psn = psn
        self.syndrome = syndrome


@dataclass(frozen=True, slots=True)
class Placement:
    """Payload to copy: bytes from `start` of each of `rows` to `offsets` in the region, `lengths` each."""

    region: MemoryRegion
    offsets: I64
    lengths: I64
    rows: I64
    start: int

    def execute(self, data: npt.NDArray[np.uint8]) -> int:
        """Copy it. Returns how many bytes that was."""
        place(self.region, self.offsets, self.lengths, data, self.rows, self.start)
        return int(self.lengths.sum())


def placements(
    requests: ReceivedRequests, chosen: I64, psns: I64, path_mtu: int, memory: MemoryTable, counters: Counters
) -> list[Placement]:
    """What to write where for the requests at `chosen`; `psns` are those of all. Raises RefusedRequest for the first
    that may not be."""
    opcodes = requests.opcodes[chosen]
    payload_at = requests.payload_at(chosen)
    sizes = requests.payload_lengths(chosen, payload_at)
    dmalen = requests.extension("dmalen", chosen).astype(np.int64)
    wrong = (sizes < 0) | (sizes > path_mtu) | (sizes > dmalen)
    wrong |= FULL[opcodes] & (sizes != path_mtu) | LAST[opcodes] & (sizes < 1) | ONLY[opcodes] & (sizes != dmalen)
    if wrong.any():
        counters.bad_request_length += int(wrong.sum())
        raise RefusedRequest(
            int(psns[chosen[wrong][0]]), NAK_INVALID_REQUEST, "has a length that contradicts the opcode"
        )
    # A zero-length write places nothing and its R_Key is not checked.
    carrying = sizes > 0
    if not carrying.all():
        chosen, sizes, payload_at, dmalen = chosen[carrying], sizes[carrying], payload_at[carrying], dmalen[carrying]
        if not len(chosen):
            return []
    va = requests.extension("va", chosen)
    beyond = va >= VA_LIMIT
    if beyond.any():
        counters.bad_address += int(beyond.sum())
        raise RefusedRequest(int(psns[chosen[beyond][0]]), NAK_REMOTE_ACCESS, "names an address no region can have")
    addresses = va.astype(np.int64)
    rkeys = requests.extension("rkey", chosen).astype(np.int64)
    rows = requests.rows[chosen]
    found = []
    for rkey in distinct(rkeys).tolist():
        mine = np.flatnonzero(rkeys == rkey)
        region = memory.find(rkey)
        if region is None or not region.remote_write:
            counters.bad_rkey += len(mine)
            raise RefusedRequest(
                int(psns[chosen[mine[0]]]), NAK_REMOTE_ACCESS, f"names R_Key {rkey:#010x}, which opens no region"
            )
        # A message longer than the region cannot lie in it, whatever this packet of it does.
        outside = ~region.contains(addresses[mine], sizes[mine]) | (dmalen[mine] > region.length)
        if outside.any():
            counters.bad_address += int(outside.sum())
            raise RefusedRequest(
                int(psns[chosen[mine[outside][0]]]), NAK_REMOTE_ACCESS, "names a range outside the region"
            )
        starts = payload_at[mine]
        for start in distinct(starts).tolist():
            group = mine[starts == start]
            found.append(Placement(region, addresses[group] - region.va, sizes[group], rows[group], start))
    return found


def placement(
    opcode: int, size: int, va: int, rkey: int, dmalen: int, path_mtu: int, memory: MemoryTable
) -> tuple[MemoryRegion, int] | None:
    """(region, offset in it) for the payload of one request, `size` bytes, or None where `placements` has to say what
    is wrong with it, or that there is none."""
    if not 0 < size <= path_mtu or size > dmalen or (FULL[opcode] and size != path_mtu):
        return None
    if ONLY[opcode] and size != dmalen:
        return None
    region = memory.find(rkey)
    if region is None or not region.remote_write or not region.va <= va <= region.va + region.length - size:
        return None
    if dmalen > region.length:
        return None
    return region, va - region.va
