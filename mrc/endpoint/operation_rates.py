"""Which packets for DQP 2 are looked at: those of peer nodes, and of each kind no more than its rate allows."""

from __future__ import annotations

from collections.abc import Iterable

from mrc.endpoint.counters import Counters
from mrc.endpoint.rate_limit import RateLimit
from mrc.wire import octets
from mrc.wire.opcodes import Op
from mrc.wire.received_batch import ReceivedBatch

_LOW_HALF = (1 << 64) - 1
_SOURCE_LOW_AT, _ERTH_AT = 16, 60
# Of packets with one source address so many at once, and so many a second, by operation of a request: what a peer
# needs many times over. A status that is over the rate is not answered, so that its sender repeats it.
_RESPONSE, _OTHER = 4, 5
_RATES = {0: (64, 100), 1: (4096, 2000), 2: (64, 100), 3: (64, 100), _RESPONSE: (8192, 5000), _OTHER: (64, 100)}
_OPERATION_BITS = 3


class OperationRates:
    """What has come from each of `addresses`, those of the peer nodes. `changed` is called when they are others."""

    __slots__ = ("_addresses", "_counters", "_limits", "_stale")

    def __init__(self, addresses: Iterable[int], counters: Counters) -> None:
        self._addresses = addresses
        self._counters = counters
        # By the low half of an address what may come from it, by kind.
        self._limits: dict[int, dict[int, RateLimit]] = {}
        self._stale = True

    def changed(self) -> None:
        """There are other peer nodes."""
        self._stale = True

    def _look_again(self) -> None:
        self._stale = False
        lows = {address & _LOW_HALF for address in self._addresses}
        self._limits = {low: self._limits.get(low) or _limits() for low in lows}

    def is_welcome(self, batch: ReceivedBatch, row: int, opcode: int, now: int) -> bool:
        """Whether a packet for DQP 2 is looked at: no stranger's, and of each peer's no more of a kind than its rate
        allows. The others are counted."""
        if self._stale:
            self._look_again()
        base = batch.row(row)
        limits = self._limits.get(octets.u64(batch.flat, base + _SOURCE_LOW_AT))
        if limits is None:
            self._counters.unknown_peer += 1
            return False
        kind = _OTHER
        if opcode == Op.ENDPOINT_REQUEST:
            kind = octets.u16(batch.flat, base + _ERTH_AT) & _OPERATION_BITS
        elif opcode == Op.ENDPOINT_RESPONSE:
            kind = _RESPONSE
        return limits[kind].take_counted(1, now, self._counters) == 1


def _limits() -> dict[int, RateLimit]:
    return {kind: RateLimit(*rate) for kind, rate in _RATES.items()}
