"""QPs for measuring: made, described, and connected in portions that fit a message of the exchange."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mrc.errors import PeerError
from mrc.net.negotiation import objects
from mrc.net.node import transfer_config
from mrc.verbs import CQ, PD, QP, ConnectionParameters, QPCap, connect, describe

# What no attribute sets: as for files.
TUNING = transfer_config(path_mtu=4096)
# Writes with immediate the client may have unacknowledged on a QP; the server keeps twice as many receives posted.
MOST_IMMEDIATES = 1024


def make_qps(pd: PD, cq: CQ, count: int, depth: int, receives: int = 0) -> list[QP]:
    """QPs in RESET for `depth` writes outstanding and `receives` receives posted."""
    cap = QPCap(max_send_wr=depth, max_recv_wr=receives)
    return [QP(pd, send_cq=cq, recv_cq=cq, cap=cap) for _ in range(count)]


def describe_qps(qps: Sequence[QP], path_mtu: int) -> list[ConnectionParameters]:
    return [
        describe(
            qp, path_mtu=path_mtu, mpr_dest=TUNING.mpr_dest, max_wimm_dest=min(MOST_IMMEDIATES, qp.cap.max_recv_wr)
        )
        for qp in qps
    ]


def connect_qps(
    qps: Sequence[QP], ours: Sequence[ConnectionParameters], theirs: Sequence[ConnectionParameters]
) -> None:
    """Bring them all to RTS. Raises PeerError for a peer that cannot be reached, or that made another number."""
    if len(theirs) != len(qps):
        raise PeerError(f"{len(qps)} QPs were to be connected, the peer has {len(theirs)}")
    for qp, our, their in zip(qps, ours, theirs, strict=True):
        connect(
            qp,
            our,
            their,
            timeout=TUNING.timeout,
            linear_retries=TUNING.linear_retries,
            exponential_retries=TUNING.exponential_retries,
        )


def to_message(sides: Sequence[ConnectionParameters]) -> dict[str, Any]:
    return {"qps": [side.to_json() for side in sides]}


def from_message(body: dict[str, Any], most: int) -> list[ConnectionParameters]:
    """Raises PeerError for anything but 1 to `most` descriptions of QPs."""
    return [ConnectionParameters.from_json(item) for item in objects(body, "qps", most)]
