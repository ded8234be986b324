# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""What a request may do, checked before anything is written: room for it, its length, its R_Key and its range."""

from __future__ import annotations

from mrc.endpoint.config import ResponderConfig
from mrc.endpoint.memory import ADDRESS, LENGTH, VA, VA_LIMIT, MemoryTable
from mrc.endpoint.refusals import Refusal, Verdict
from mrc.endpoint.responder.peer_request import PeerRequest
from mrc.wire.compiled import unsigned
from mrc.wire.names import NackReason

_VA_LIMIT: unsigned = VA_LIMIT
_VA, _LENGTH, _ADDRESS = VA, LENGTH, ADDRESS
_RIGHT, _WRONG_LENGTH = int(Verdict.RIGHT), int(Verdict.WRONG_LENGTH)
_NO_ADDRESS, _NO_REGION = int(Verdict.NO_ADDRESS), int(Verdict.NO_REGION)
_OUTSIDE_REGION = int(Verdict.OUTSIDE_REGION)
_UNLIMITED = 1 << 62
_NOTHING = 0
_NO_BITMAP, _NO_PKT_BUFFER, _NO_RESOURCE = (
    int(NackReason.NO_BITMAP),
    int(NackReason.NO_PKT_BUFFER),
    int(NackReason.NO_RESOURCE),
)


class ResourceLimits:
    """Which new packets there is room for, by a ResponderConfig: NO_BITMAP, NO_PKT_BUFFER, NO_RESOURCE (wire.md section
    7). The packet that closes the hole is let through whatever they say."""

    _held: int
    _span: int
    _stashed: int

    __slots__ = tuple(__annotations__)

    def __init__(self, config: ResponderConfig) -> None:
        limits = (config.max_span, config.max_held_packets, config.max_stashed_immediates)
        self._span, self._held, self._stashed = (_UNLIMITED if limit is None else limit for limit in limits)

    def lacking(self, distance: int, held: int, stashed: int) -> int:
        """The NackReason of a new packet there is no room for, or 0. It is `distance` PSNs above epsn while `held`
        packets and `stashed` immediates wait above a hole; `stashed` is -1 for one without an immediate."""
        if distance == 0:
            return _NOTHING
        if distance + 1 > self._span:
            return _NO_BITMAP
        if held >= self._held:
            return _NO_PKT_BUFFER
        if stashed >= self._stashed:
            return _NO_RESOURCE
        return _NOTHING


class RequestChecks:
    """What a peer may write on one QP. The checks give back verdicts; `refusal` receives the request that one
    refuses. `address` is where the payload goes of the request that `check_range` found right last."""

    _memory: MemoryTable
    _refusal: Refusal
    _path_mtu: int
    address: int

    __slots__ = tuple(__annotations__)

    def __init__(self, memory: MemoryTable, path_mtu: int, refusal: Refusal) -> None:
        self._memory = memory
        self._path_mtu = path_mtu
        self._refusal = refusal
        self.address = 0

    def check_length(self, request: PeerRequest) -> int:
        """The payload of a First or Middle is one path MTU, of a Last what is left of DMALen after whole ones, of an
        Only all of it."""
        mtu, size, dmalen = self._path_mtu, request.size, request.dmalen
        if request.starts and request.ends:
            right = size == dmalen and size <= mtu
        elif request.ends:
            right = dmalen > mtu and size == (dmalen - 1) % mtu + 1
        else:
            right = dmalen > (mtu if request.starts else 2 * mtu) and size == mtu
        return _RIGHT if right else self._refusal.of(_WRONG_LENGTH, request.psn, size, dmalen)

    def check_range(self, request: PeerRequest) -> int:
        """Whether a request with payload may be written at its VA. The whole of its message has to lie in the
        region."""
        if request.va >= _VA_LIMIT:
            return self._refusal.of(_NO_ADDRESS, request.psn, 0, 0)
        row = self._memory.row(request.rkey)
        if row < 0:
            return self._refusal.of(_NO_REGION, request.psn, request.rkey, 0)
        start = request.va  # as a signed number: it may lie below the region
        offset = start - self._memory.open.cells[row + _VA]
        if self._is_outside(request, self._memory.open.cells[row + _LENGTH], offset):
            return self._refusal.of(_OUTSIDE_REGION, request.psn, 0, 0)
        self.address = self._memory.open.cells[row + _ADDRESS] + offset
        return _RIGHT

    def _is_outside(self, request: PeerRequest, length: int, offset: int) -> bool:
        """Whether a packet's message cannot lie in a region of `length` bytes, given the packet's offset in it.

        So many packets of its message come before one: none before a First or Only, all before a Last, and before a
        Middle at least one and not all. There has to be room for these in front, and for what is left of DMALen behind.
        """
        if offset < 0:
            return True
        mtu, dmalen = self._path_mtu, request.dmalen
        if request.starts:
            return offset + dmalen > length
        others = (dmalen - 1) // mtu
        least = others if request.ends else 1
        most = others if request.ends else others - 1
        room = offset + dmalen - length
        if room > 0 and (room + mtu - 1) // mtu > least:
            least = (room + mtu - 1) // mtu
        if offset // mtu < most:
            most = offset // mtu
        return least > most
