"""What a QP knows of its peer before it can receive, and which packets are the peer's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mrc.endpoint.config import NO_CAPABILITIES, Capability
from mrc.endpoint.paths import Path
from mrc.endpoint.paths.profiles import EvProfile
from mrc.errors import CallerError
from mrc.wire.batch import ReceivedBatch
from mrc.wire.rows import COMMON

I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MAX_PORTS = 16
_SOURCE = (8, 24)  # where in a packet the source address is


@dataclass(frozen=True, slots=True)
class QpPeer:
    """What a QP must know of its peer before it can receive (behaviour.md, QP life).

    `first_psn` is the peer's first PSN (24 bit); `sources` its inner address (128 bit) by the local port its packets
    come in on; `paths` the EVs towards it; `capabilities` what it can do. `name` is what people call its node;
    `paths_of` gives the EVs of another profile towards it.
    """

    qpn: int
    first_psn: int
    paths: Sequence[Path]
    sources: Mapping[int, int]
    capabilities: Capability = NO_CAPABILITIES
    name: str = ""
    paths_of: Callable[[EvProfile], Sequence[Path]] | None = None


class PeerSources:
    """The peer's inner address (128 bit) by the local port its packets come in on."""

    __slots__ = ("_addresses", "_high", "_known", "_low")

    def __init__(self) -> None:
        self._high = np.zeros(MAX_PORTS, np.uint64)
        self._low = np.zeros(MAX_PORTS, np.uint64)
        self._known = np.zeros(MAX_PORTS, np.bool_)
        self._addresses: dict[int, bytes] = {}

    def add(self, port: int, address: int) -> None:
        """Raises CallerError for a port that cannot be."""
        if not 0 <= port < MAX_PORTS:
            raise CallerError(f"ports are numbered 0..{MAX_PORTS - 1}, got {port}")
        self._high[port], self._low[port] = address >> 64, address & (1 << 64) - 1
        self._known[port] = True
        self._addresses[port] = address.to_bytes(16, "big")

    def has_sent(self, batch: ReceivedBatch, rows: I64) -> Bools:
        """Which of these packets have the peer's address on the port they came in on as their source."""
        fields = batch.fields(COMMON)
        ports = batch.port[rows]
        trusted = self._known[ports] & (fields["src_high"][rows] == self._high[ports])
        return np.asarray(trusted & (fields["src_low"][rows] == self._low[ports]))

    def has_sent_one(self, batch: ReceivedBatch, row: int) -> bool:
        """`has_sent` for one packet."""
        return bytes(batch.view(row, *_SOURCE)) == self._addresses.get(int(batch.port[row]))
