# SPDX-License-Identifier: BSD-2-Clause
"""How an endpoint between processes is set: on a machine that they share with others, and with no word of its links."""

from __future__ import annotations

from mrc.endpoint.config import (
    EXPONENTIAL_RETRIES_FOREVER,
    MILLISECOND,
    MPR_UNIT,
    Capability,
    LossConfig,
    PathConfig,
    QpConfig,
    ResponderConfig,
)
from mrc.endpoint.congestion import NsccConfig

# A QP's turn is a whole batch: each QP in one costs both ends as much as some twenty packets.
BATCH = 256
_MPR = 16
# Two full windows: what waits longer than its reading takes is delay and nothing else.
MOST_ON_THE_WAY = 2 * _MPR * MPR_UNIT
_SACK_THRESHOLD_BYTES = 16 * 1024
# Congestion control between processes: nobody says what the links carry, and what a turn of a loop takes is part of
# every round trip.
USER_SPACE_NSCC = NsccConfig(
    measure_line_rate=True, least_base_rtt=3 * MILLISECOND, ack_gap_bytes=_SACK_THRESHOLD_BYTES
)


def transfer_config(*, path_mtu: int) -> QpConfig:
    """QP parameters for processes that share a machine: coarse timers far above what a stalled process delays.

    A local ACK timeout of 134 ms; after 7 linear and 6 doubled retries a QP gives up, about 18 s after the last sign:
    a peer that serves many may wait that long for a processor, and one that ended closes the exchange at once. A
    PSN that is trimmed has 31: of an incast a third is trimmed, and one packet in 30,000 eleven times in a row.
    A window of 2,048 PSNs, several round trips of full batches: a packet whose retransmission is lost too does not shut
    it. While a window is shut single packets are on their way, whose round trip is a fraction of the others':
    `least_base_rtt` keeps the congestion window from following that.
    Path timers of at least 20 ms: what a machine with other work to do keeps waiting for some milliseconds is not lost;
    holes tell of real losses sooner, and a lost tail has its probe, after 2 ms at least. A SACK per 16 KiB, so
    that what one lets go is a short burst. A transport ACK waits up to 4 ms for a
    later one when a SACK says as much. Bad EVs are probed at once: a round trip here is mostly batching, a path timer
    several of those, and a fabric of few paths wants them back.
    """
    return QpConfig(
        path_mtu=path_mtu,
        mpr=_MPR,
        mpr_dest=_MPR,
        max_mpr=_MPR,
        capabilities=Capability.TRIM_NACK | Capability.SVC_TIME | Capability.DYNAMIC_MPR,
        timeout=17,
        linear_retries=7,
        exponential_retries=EXPONENTIAL_RETRIES_FOREVER - 1,
        timeout_retries=13,
        sack_threshold_bytes=_SACK_THRESHOLD_BYTES,
        loss=LossConfig(
            path_timer_min_ns=20 * MILLISECOND,
            path_timer_initial_ns=20 * MILLISECOND,
            tail_probe_min_ns=2 * MILLISECOND,
        ),
        paths=PathConfig(first_probe_path_timers=0.0),
        responder=ResponderConfig(ack_after_sack_ns=4 * MILLISECOND),
    )
