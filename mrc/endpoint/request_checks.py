"""What a request may do: its length, its R_Key and its range, checked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.memory import VA_LIMIT, MemoryRegion, MemoryTable, place
from mrc.endpoint.received_requests import ENDS, LAST, ONLY, STARTS, ReceivedRequests
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

_STARTS, _LAST, _ONLY = STARTS.tolist(), LAST.tolist(), ONLY.tolist()
# By opcode: DMALen is more than so many path MTUs. An Only may carry nothing at all.
_MORE_THAN_MTUS: I64 = np.where(ONLY, -1, 2 - (STARTS | ENDS).astype(np.int64))


class RefusedRequest(Exception):
    """A request that ends its QP: the offending (unbounded) PSN, the NAK's syndrome and the counter it counts under."""

    def __init__(self, psn: int, syndrome: int, what: str, counter: str = "invalid_request") -> None:
        super().__init__(f"the peer's request with PSN {psn & PSN_BITS_MASK} {what}")
        self.psn = psn
        self.syndrome = syndrome
        self.counter = counter


class NotTogether(Exception):
    """These packets cannot be judged in one: one of them may end the QP, or move the window's edge under another.

    Nothing has happened. They are to be taken in smaller groups, in order of arrival (MRC-RESP-20).
    """


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


@dataclass(frozen=True, slots=True)
class Shapes:
    """Of requests at the positions `chosen`: where in its row the payload of each begins, its `sizes`, and DMALen."""

    chosen: I64
    payload_at: I64
    sizes: I64
    dmalen: I64


def shapes(requests: ReceivedRequests, chosen: I64, psns: I64, path_mtu: int) -> Shapes:
    """The lengths of the requests at `chosen`; `psns` are those of all. Raises RefusedRequest where one contradicts its
    opcode: a First or Middle is one path MTU, a Last what is left of DMALen after whole ones, an Only all of it."""
    opcodes = requests.opcodes[chosen]
    payload_at = requests.payload_at(chosen)
    sizes = requests.payload_lengths(chosen, payload_at)
    dmalen = requests.extension("dmalen", chosen).astype(np.int64)
    wrong = (sizes > path_mtu) | (dmalen <= _MORE_THAN_MTUS[opcodes] * path_mtu)
    if ONLY[opcodes].all():
        wrong |= sizes != dmalen
    else:
        due = np.where(LAST[opcodes], (dmalen - 1) % path_mtu + 1, path_mtu)
        wrong |= sizes != np.where(ONLY[opcodes], dmalen, due)
    if wrong.any():
        at = int(wrong.argmax())
        raise RefusedRequest(
            int(psns[chosen[at]]),
            NAK_INVALID_REQUEST,
            f"carries {sizes[at]} bytes of {dmalen[at]}, which contradicts its opcode",
            "bad_request_length",
        )
    return Shapes(chosen, payload_at, sizes, dmalen)


def placements(
    requests: ReceivedRequests, found: Shapes, psns: I64, path_mtu: int, memory: MemoryTable
) -> list[Placement]:
    """What to write where for these requests; `psns` are those of all the requests. Raises RefusedRequest for one that
    may not be written: the whole of its message has to lie in the region."""
    chosen, payload_at, sizes, dmalen = found.chosen, found.payload_at, found.sizes, found.dmalen
    # A zero-length write places nothing and its R_Key is not checked.
    carrying = sizes > 0
    if not carrying.all():
        chosen, sizes, payload_at, dmalen = chosen[carrying], sizes[carrying], payload_at[carrying], dmalen[carrying]
        if not len(chosen):
            return []
    va = requests.extension("va", chosen)
    beyond = va >= VA_LIMIT
    if beyond.any():
        raise RefusedRequest(
            int(psns[chosen[beyond][0]]), NAK_REMOTE_ACCESS, "names an address no region can have", "bad_address"
        )
    addresses = va.astype(np.int64)
    rkeys = requests.extension("rkey", chosen).astype(np.int64)
    rows, opcodes = requests.rows[chosen], requests.opcodes[chosen]
    regions: dict[int, MemoryRegion] = {}
    for rkey in distinct(rkeys).tolist():
        mine = np.flatnonzero(rkeys == rkey)
        region = memory.find(rkey)
        if region is None or not region.remote_write:
            raise RefusedRequest(
                int(psns[chosen[mine[0]]]),
                NAK_REMOTE_ACCESS,
                f"names R_Key {rkey:#010x}, which opens no region",
                "bad_rkey",
            )
        outside = _outside(region.length, addresses[mine] - region.va, dmalen[mine], opcodes[mine], path_mtu)
        if outside.any():
            raise RefusedRequest(
                int(psns[chosen[mine[outside][0]]]),
                NAK_REMOTE_ACCESS,
                "belongs to a message that does not lie in the region",
                "bad_address",
            )
        regions[rkey] = region
    # In order of arrival: where two packets write the same bytes the later one counts (MRC-RESP-20).
    turns = np.flatnonzero((rkeys[1:] != rkeys[:-1]) | (payload_at[1:] != payload_at[:-1])) + 1
    placed = []
    for first, stop in pairwise((0, *turns.tolist(), len(chosen))):
        region, run = regions[int(rkeys[first])], slice(first, stop)
        placed.append(Placement(region, addresses[run] - region.va, sizes[run], rows[run], int(payload_at[first])))
    return placed


def _outside(
    length: int, offsets: I64, dmalen: I64, opcodes: npt.NDArray[np.uint8], path_mtu: int
) -> npt.NDArray[np.bool_]:
    """Whose message cannot lie in a region of `length` bytes, given the offset of each packet in it.

    So many packets of its message come before one: none before a First or Only, all before a Last, and before a Middle
    at least one and not all. There has to be room for these in front, and for what is left of DMALen behind.
    """
    starts = STARTS[opcodes]
    if starts.all():
        return np.asarray((offsets < 0) | (offsets + dmalen > length))
    others = (dmalen - 1) // path_mtu
    last = LAST[opcodes]
    least = np.where(last, others, ~starts)
    most = np.where(starts, 0, others - ~last)
    least = np.maximum(least, -((length - offsets - dmalen) // path_mtu))
    most = np.minimum(most, offsets // path_mtu)
    return np.asarray((offsets < 0) | (least > most))


def placement(
    opcode: int, size: int, va: int, rkey: int, dmalen: int, path_mtu: int, memory: MemoryTable
) -> tuple[MemoryRegion, int] | None:
    """(region, offset in it) for the payload of one request, `size` bytes.

    None where `shapes` or `placements` has to say what is wrong with it, or that there is no payload.
    """
    if not 0 < size <= path_mtu:
        return None
    region = memory.find(rkey)
    if region is None or not region.remote_write or va < region.va:
        return None
    offset = va - region.va
    if _ONLY[opcode]:
        return (region, offset) if size == dmalen and offset + size <= region.length else None
    if dmalen <= path_mtu:
        return None
    others, left = divmod(dmalen - 1, path_mtu)
    if _LAST[opcode]:
        least = most = others
        due = left + 1
    else:
        due = path_mtu
        least, most = (0, 0) if _STARTS[opcode] else (1, others - 1)
    least = max(least, -((region.length - offset - dmalen) // path_mtu))
    return (region, offset) if size == due and least <= min(most, offset // path_mtu) else None
