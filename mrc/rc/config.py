# SPDX-License-Identifier: BSD-2-Clause
"""Every tunable of an RC queue pair."""

from __future__ import annotations

from dataclasses import dataclass, field

from mrc.endpoint.config import PATH_MTUS
from mrc.errors import CallerError
from mrc.rc.syndromes import RNR_DELAYS_NS
from mrc.wire.profile import WireProfile

RETRY_FOREVER = 7


@dataclass(frozen=True, slots=True)
class RcConfig:
    """One QP's parameters. Names and codes are those of the verbs' `ibv_qp_attr`.

    `path_mtu` in bytes; `timeout` t (1..31) gives a local ACK timeout of 4.096 us x 2^t; `retry_count` (0..7) is how
    often in a row it may expire, or a sequence error be told, without progress; `rnr_retry` (0..7, 7: without end)
    the same for a receiver that is not ready; `min_rnr_timer` (0..31) is the code of the delay our responder asks
    for where no receive is posted.

    >>> RcConfig(timeout=14).local_ack_timeout_ns
    67108864
    """

    path_mtu: int = 1024
    timeout: int = 14
    retry_count: int = 7
    rnr_retry: int = RETRY_FOREVER
    min_rnr_timer: int = 12
    # Unacknowledged packets, at most.
    window_packets: int = 128
    # An acknowledgement is asked for at the end of a message, and within it after so many packets.
    ack_every_packets: int = 32
    traffic_class: int = 0

    def __post_init__(self) -> None:
        if self.path_mtu not in PATH_MTUS:
            raise CallerError(f"path_mtu must be one of {PATH_MTUS} bytes, got {self.path_mtu}")
        for name, low, high in (
            ("timeout", 1, 31),
            ("retry_count", 0, 7),
            ("rnr_retry", 0, RETRY_FOREVER),
            ("min_rnr_timer", 0, len(RNR_DELAYS_NS) - 1),
            ("window_packets", 1, 1 << 15),
            ("ack_every_packets", 1, 1 << 15),
            ("traffic_class", 0, 255),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise CallerError(f"{name} must be {low}..{high}, got {value}")

    @property
    def local_ack_timeout_ns(self) -> int:
        """The local ACK timeout, ns: 4.096 us x 2^timeout."""
        return 4096 << self.timeout


@dataclass(frozen=True, slots=True)
class RcEndpointConfig:
    """What all QPs of one RC endpoint share. Of `wire` only the UDP ports play a part."""

    wire: WireProfile = field(default_factory=WireProfile)
    transmit_batch: int = 128
    # Packets one QP may put into a batch before the next QP has its turn.
    fair_share: int = 64
    seed: int = 0
