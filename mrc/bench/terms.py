# SPDX-License-Identifier: BSD-2-Clause
"""What both ends of a measurement agree on, sent by the client through the out-of-band exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mrc.endpoint.config import PATH_MTUS
from mrc.errors import CallerError, PeerError
from mrc.net.negotiation import integer, text

BENCH_FEATURE = "bench/2"  # bench/1 knew no writes back
WRITE, WRITE_IMM, LATENCY = "write", "write-imm", "latency"
FORWARD, REVERSE, BOTH = "forward", "reverse", "both"
DIRECTIONS = (FORWARD, REVERSE, BOTH)
TESTS = (WRITE, WRITE_IMM, LATENCY)
MAX_QPS = 256
MAX_IDLE_QPS = 16384
MAX_DEPTH = 4096
MAX_SIZE = 1 << 30
MAX_REGION = 1 << 30
LEAST_LATENCY_SIZE = 2
# Connected in one request of the exchange.
QPS_PER_REQUEST = 64

_SMALL_WRITES_DEPTH = 128
_LEAST_DEPTH = 4
_BYTES_IN_FLIGHT = 8 << 20


@dataclass(frozen=True, slots=True)
class Terms:
    """One measurement: writes of `size` bytes, `depth` of them outstanding on each of `qps` QPs.

    Raises CallerError for a number out of range, and for a latency test whose write takes more than one packet: MRC
    places packets as they come, so the last byte of a longer write says nothing about the others.
    """

    test: str
    size: int
    qps: int = 1
    depth: int = 1
    path_mtu: int = 4096

    def __post_init__(self) -> None:
        if self.test not in TESTS:
            raise CallerError(f"there is no test {self.test!r}: there are {', '.join(TESTS)}")
        if self.path_mtu not in PATH_MTUS:
            raise CallerError(f"the path MTU must be one of {PATH_MTUS}, got {self.path_mtu}")
        least, most = (LEAST_LATENCY_SIZE, self.path_mtu) if self.test == LATENCY else (1, MAX_SIZE)
        for name, low, high in (("size", least, most), ("qps", 1, MAX_QPS), ("depth", 1, MAX_DEPTH)):
            value = getattr(self, name)
            if not low <= value <= high:
                raise CallerError(f"{name} of a {self.test} test must be {low}..{high}, got {value}")
        if self.size * self.qps > MAX_REGION:
            raise CallerError(f"{self.qps} QPs x {self.size} bytes is more than the {MAX_REGION} the server gives")

    @property
    def packets_per_write(self) -> int:
        return -(-self.size // self.path_mtu)

    def to_json(self) -> dict[str, Any]:
        return {
            "test": self.test,
            "size": self.size,
            "qps": self.qps,
            "depth": self.depth,
            "path_mtu": self.path_mtu,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Terms:
        """Raises PeerError for anything but such a document."""
        try:
            return cls(
                text(body, "test"),
                integer(body, "size", 1, MAX_SIZE + 1),
                integer(body, "qps", 1, MAX_QPS + 1),
                integer(body, "depth", 1, MAX_DEPTH + 1),
                integer(body, "path_mtu", 1, max(PATH_MTUS) + 1),
            )
        except CallerError as error:
            raise PeerError(str(error)) from None


def default_depth(size: int) -> int:
    """Writes outstanding on a QP where nobody says: 128 small ones, of large ones about 8 MiB and no fewer than 4."""
    return max(_LEAST_DEPTH, min(_SMALL_WRITES_DEPTH, _BYTES_IN_FLIGHT // size))


def default_cq_mod(depth: int) -> int:
    """Of so many writes one makes a completion, as perftest's --cq-mod: every one of a few, one in eight of many."""
    return max(1, depth // 8)
