"""What a request may do: its length, its R_Key and its range, checked before anything is written."""

from __future__ import annotations

from mrc.endpoint.memory import VA_LIMIT, MemoryRegion, MemoryTable
from mrc.endpoint.opcode_terms import ENDS, STARTS
from mrc.endpoint.refusals import NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS, RefusedRequest

_STARTS, _ENDS = STARTS, ENDS
_VA_LIMIT = VA_LIMIT


class RequestChecks:
    """What a peer may write on one QP."""

    __slots__ = ("_memory", "_path_mtu")

    def __init__(self, memory: MemoryTable, path_mtu: int) -> None:
        self._memory = memory
        self._path_mtu = path_mtu

    def check_length(self, psn: int, opcode: int, size: int, dmalen: int) -> None:
        """`size` bytes of payload of a message of `dmalen`: a First or Middle is one path MTU, a Last what is left of
        DMALen after whole ones, an Only all of it. Raises RefusedRequest where one contradicts its opcode."""
        mtu = self._path_mtu
        starts, ends = _STARTS[opcode], _ENDS[opcode]
        if starts and ends:
            right = size == dmalen and size <= mtu
        elif ends:
            right = dmalen > mtu and size == (dmalen - 1) % mtu + 1
        else:
            right = dmalen > (mtu if starts else 2 * mtu) and size == mtu
        if not right:
            raise RefusedRequest(
                psn,
                NAK_INVALID_REQUEST,
                f"carries {size} bytes of {dmalen}, which contradicts its opcode",
                "bad_request_length",
            )

    def region(self, psn: int, opcode: int, va: int, rkey: int, dmalen: int) -> MemoryRegion:
        """Where a request with payload writes, at `va` less the region's. The whole of its message has to lie in there.
        Raises RefusedRequest for one that may not be written."""
        if va >= _VA_LIMIT:
            raise RefusedRequest(psn, NAK_REMOTE_ACCESS, "names an address no region can have", "bad_address")
        region = self._memory.find(rkey)
        if region is None or not region.remote_write:
            raise RefusedRequest(psn, NAK_REMOTE_ACCESS, f"names R_Key {rkey:#010x}, which opens no region", "bad_rkey")
        if self._is_outside(region.length, va - region.va, dmalen, opcode):
            raise RefusedRequest(
                psn, NAK_REMOTE_ACCESS, "belongs to a message that does not lie in the region", "bad_address"
            )
        return region

    def _is_outside(self, length: int, offset: int, dmalen: int, opcode: int) -> bool:
        """Whether a packet's message cannot lie in a region of `length` bytes, given the packet's offset in it.

        So many packets of its message come before one: none before a First or Only, all before a Last, and before a
        Middle at least one and not all. There has to be room for these in front, and for what is left of DMALen behind.
        """
        if offset < 0:
            return True
        starts, ends, mtu = _STARTS[opcode], _ENDS[opcode], self._path_mtu
        if starts:
            return offset + dmalen > length
        others = (dmalen - 1) // mtu
        least = others if ends else 1
        most = others if ends else others - 1
        room = offset + dmalen - length
        if room > 0 and (room + mtu - 1) // mtu > least:
            least = (room + mtu - 1) // mtu
        if offset // mtu < most:
            most = offset // mtu
        return least > most
