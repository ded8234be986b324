"""Which packets for DQP 2 are looked at: those of peer nodes, and of each kind no more than its rate allows."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mrc.endpoint.counters import Counters
from mrc.endpoint.rate_limit import RateLimit
from mrc.wire.batch import ReceivedBatch
from mrc.wire.opcodes import Op
from mrc.wire.rows import COMMON, ENDPOINT_REQUEST

I64 = npt.NDArray[np.int64]
U8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

_LOW_HALF = (1 << 64) - 1
# Of packets with one source address so many at once, and so many a second, by operation of a request: what a peer
# needs many times over. A status that is over the rate is not answered, so that its sender repeats it.
_RESPONSE, _OTHER = 4, 5
_RATES = {0: (64, 100), 1: (4096, 2000), 2: (64, 100), 3: (64, 100), _RESPONSE: (8192, 5000), _OTHER: (64, 100)}
_OPERATION_BITS = 3
# Plain numbers, which arrays are compared with at a tenth of the price of a member of an enum.
_REQUEST_OPCODE, _RESPONSE_OPCODE = int(Op.ENDPOINT_REQUEST), int(Op.ENDPOINT_RESPONSE)
# Up to so many packets are sorted one by one.
_FEW = 16


class OperationRates:
    """What has come from each of `addresses`, those of the peer nodes. `changed` is called when they are others."""

    __slots__ = ("_addresses", "_counters", "_limits", "_lows", "_stale")

    def __init__(self, addresses: Iterable[int], counters: Counters) -> None:
        self._addresses = addresses
        self._counters = counters
        # By the low half of an address what may come from it, by kind.
        self._limits: dict[int, dict[int, RateLimit]] = {}
        self._lows: U64 = np.zeros(0, np.uint64)
        self._stale = True

    def changed(self) -> None:
        """There are other peer nodes."""
        self._stale = True

    def _look_again(self) -> None:
        self._stale = False
        lows = {address & _LOW_HALF for address in self._addresses}
        self._limits = {low: self._limits.get(low) or _limits() for low in lows}
        self._lows = np.array(list(lows), np.uint64)

    def welcome(self, batch: ReceivedBatch, rows: I64, opcodes: U8, now: int) -> tuple[list[int], list[int]]:
        """Of these packets for DQP 2 those that are looked at one by one, and their opcodes: no strangers', and of each
        peer's no more of a kind than its rate allows, the latest. The others are counted."""
        if self._stale:
            self._look_again()
        lows = batch.fields(COMMON)["src_low"][rows].astype(np.uint64)
        operations = batch.fields(ENDPOINT_REQUEST)["erth_word"][rows].astype(np.int64) & _OPERATION_BITS
        if len(rows) > _FEW:
            welcome = self._welcome_by_column(opcodes, lows, operations, now)
            return rows[welcome].tolist(), opcodes[welcome].tolist()
        of_kind: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for row, opcode, low, operation in zip(
            rows.tolist(), opcodes.tolist(), lows.tolist(), operations.tolist(), strict=True
        ):
            if low not in self._limits:
                self._counters.unknown_peer += 1
                continue
            kind = operation if opcode == _REQUEST_OPCODE else _RESPONSE if opcode == _RESPONSE_OPCODE else _OTHER
            of_kind.setdefault((low, kind), []).append((row, opcode))
        chosen: list[tuple[int, int]] = []
        for (low, kind), packets in of_kind.items():
            granted = self._limits[low][kind].take_counted(len(packets), now, self._counters)
            chosen += packets[len(packets) - granted :]
        chosen.sort()
        return [row for row, _ in chosen], [opcode for _, opcode in chosen]

    def _welcome_by_column(self, opcodes: U8, lows: U64, operations: I64, now: int) -> Bools:
        """The same for many, as a flood brings: whether each is looked at."""
        welcome = np.isin(lows, self._lows)
        known = int(np.count_nonzero(welcome))
        self._counters.unknown_peer += len(lows) - known
        kinds = np.where(opcodes == _REQUEST_OPCODE, operations, _OTHER)
        kinds[opcodes == _RESPONSE_OPCODE] = _RESPONSE
        for low in set(lows[welcome].tolist()):
            for kind, limit in self._limits[low].items():
                chosen = np.flatnonzero((lows == low) & (kinds == kind))
                welcome[chosen[: len(chosen) - limit.take(len(chosen), now)]] = False
        self._counters.over_rate += known - int(np.count_nonzero(welcome))
        return welcome


def _limits() -> dict[int, RateLimit]:
    return {kind: RateLimit(*rate) for kind, rate in _RATES.items()}
