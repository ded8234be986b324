"""QPs for files: how they are made, described in the exchange's messages, and connected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mrc.errors import PeerError
from mrc.net.negotiation import QpDescription, integer, objects, path_mtu_of
from mrc.net.node import transfer_config
from mrc.verbs import CQ, PD, QP, ConnectionParameters, Context, DeviceCap, QPCap, connect, describe

TRANSFER_FEATURE = "files/2"  # files/1 knew no parts
MAX_QPS_PER_SENDER = 64
POSTED_PER_QP = 32  # writes posted ahead, on average; the rest of the file follows as they complete
_KNOWN_CAPS = DeviceCap.TRIM_NACK | DeviceCap.SVC_TIME | DeviceCap.DYNAMIC_MPR
# What no attribute sets; path MTU and MPR come with the connection.
TUNING = transfer_config(path_mtu=4096)


def make_qps(pd: PD, cq: CQ, count: int) -> list[QP]:
    """So many QPs in RESET that tell of every write. Completions go to `cq`."""
    cap = QPCap(max_send_wr=POSTED_PER_QP * count, max_recv_wr=0)
    return [QP(pd, send_cq=cq, recv_cq=cq, cap=cap, sq_sig_all=True) for _ in range(count)]


def describe_qps(qps: Sequence[QP], path_mtu: int) -> list[ConnectionParameters]:
    """`mpr_dest`: what the buffers of this end hold now. Later SACKs say more or less: the MPR is dynamic."""
    granted = qps[0].context.device.endpoint.receive_budget.units_for(len(qps))
    mpr_dest = min(TUNING.mpr_dest, granted)
    return [describe(qp, path_mtu=path_mtu, mpr_dest=mpr_dest, max_wimm_dest=0, dynamic_mpr=True) for qp in qps]


def connect_qps(
    qps: Sequence[QP], ours: Sequence[ConnectionParameters], theirs: Sequence[ConnectionParameters]
) -> None:
    """Bring them all to RTS. Raises PeerError for a peer that cannot be reached."""
    for qp, our, their in zip(qps, ours, theirs, strict=True):
        connect(
            qp,
            our,
            their,
            timeout=TUNING.timeout,
            linear_retries=TUNING.linear_retries,
            exponential_retries=TUNING.exponential_retries,
        )


def to_message(context: Context, sides: Sequence[ConnectionParameters]) -> dict[str, Any]:
    """One end of all QPs: they differ in number and first PSN only."""
    return {
        "node": context.address,
        "qps": [QpDescription(side.qp_num, side.psn).to_json() for side in sides],
        "mpr_dest": sides[0].mpr_dest,
        "path_mtu": sides[0].path_mtu,
        "caps": int(sides[0].caps),
    }


def from_message(body: Mapping[str, Any], path_mtu: int | None = None) -> list[ConnectionParameters]:
    """The other end of all QPs. `path_mtu` is that of a peer that does not say. Raises PeerError when malformed."""
    node = body.get("node")
    if not isinstance(node, dict):
        raise PeerError("the peer sent no node description")
    described = [QpDescription.from_json(item) for item in objects(body, "qps", MAX_QPS_PER_SENDER)]
    mpr_dest = integer(body, "mpr_dest", 1, 256)
    agreed_mtu = path_mtu if path_mtu is not None and "path_mtu" not in body else path_mtu_of(body)
    caps = DeviceCap(integer({"caps": 0} | dict(body), "caps", 0, 1 << 32)) & _KNOWN_CAPS
    return [ConnectionParameters(qp.qpn, qp.first_psn, agreed_mtu, mpr_dest, 0, caps, node) for qp in described]
