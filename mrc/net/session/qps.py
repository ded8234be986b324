# SPDX-License-Identifier: BSD-2-Clause
"""QPs of a session: made, described in the exchange's messages, and connected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mrc.endpoint.config import MAX_IMMEDIATES
from mrc.errors import PeerError
from mrc.net.negotiation import QpDescription, integer, objects, path_mtu_of
from mrc.net.tuning import transfer_config
from mrc.verbs import CQ, PD, QP, ConnectionParameters, DeviceCap, QPCap, connect, describe
from mrc.verbs.attributes import MAX_MPR

# What no attribute of a QP sets; path MTU and MPR come with the connection.
TUNING = transfer_config(path_mtu=4096)
# Writes with immediate that a peer may have unacknowledged on a QP.
MOST_IMMEDIATES = 1024
_KNOWN_CAPS = DeviceCap.TRIM_NACK | DeviceCap.SVC_TIME | DeviceCap.DYNAMIC_MPR


def make_qps(pd: PD, cq: CQ, count: int, cap: QPCap, *, sq_sig_all: bool = False) -> list[QP]:
    """So many QPs in RESET. All their completions go to `cq`, with `sq_sig_all` one of every write. Where one of them
    cannot be made there are none."""
    made: list[QP] = []
    try:
        while len(made) < count:
            made.append(QP(pd, send_cq=cq, recv_cq=cq, cap=cap, sq_sig_all=sq_sig_all))
    except BaseException:
        for qp in made:
            qp.close()
        raise
    return made


def describe_qps(qps: Sequence[QP], path_mtu: int, *, dynamic_mpr: bool = False) -> list[ConnectionParameters]:
    """This end of the QPs, for the other to connect to. A QP with receives takes writes with immediate.

    With `dynamic_mpr` the peer is granted what the buffers of this end hold now. Later SACKs grant more or less.
    """
    context = qps[0].context
    mpr_dest = context.tuning.mpr_dest
    if dynamic_mpr:
        mpr_dest = min(mpr_dest, context.device.endpoint.receive_budget.units_for(len(qps)))
    return [
        describe(
            qp,
            path_mtu=path_mtu,
            mpr_dest=mpr_dest,
            max_wimm_dest=min(MOST_IMMEDIATES, qp.cap.max_recv_wr),
            dynamic_mpr=dynamic_mpr,
        )
        for qp in qps
    ]


def connect_qps(
    qps: Sequence[QP],
    ours: Sequence[ConnectionParameters],
    theirs: Sequence[ConnectionParameters],
    *,
    ev_profile_id: int = 0,
    cc_profile_id: int = 0,
) -> None:
    """Bring them all to RTS, with the timers of their Context's tuning.

    Raises PeerError for a peer that cannot be reached, or that made another number of QPs.
    """
    if len(theirs) != len(qps):
        raise PeerError(f"asked for {len(qps)} QPs, the peer made {len(theirs)}")
    for qp, our, their in zip(qps, ours, theirs, strict=True):
        connect(qp, our, their, ev_profile_id=ev_profile_id, cc_profile_id=cc_profile_id)


def answer_qps(
    qps: Sequence[QP], theirs: Sequence[ConnectionParameters], path_mtu: int, *, dynamic_mpr: bool = False
) -> list[ConnectionParameters]:
    """Connect QPs to a peer that described its own first. Returns this end's description, for the answer.

    Raises PeerError as `connect_qps` does; the QPs are closed then, and where the system refuses something.
    """
    try:
        ours = describe_qps(qps, path_mtu, dynamic_mpr=dynamic_mpr)
        connect_qps(qps, ours, theirs)
    except BaseException:
        for qp in qps:
            qp.close()
        raise
    return ours


def to_message(sides: Sequence[ConnectionParameters]) -> dict[str, Any]:
    """One end of all QPs: they differ in number and first PSN only."""
    first = sides[0]
    return {
        "node": dict(first.node),
        "qps": [QpDescription(side.qp_num, side.psn).to_json() for side in sides],
        "mpr_dest": first.mpr_dest,
        "max_wimm_dest": first.max_wimm_dest,
        "path_mtu": first.path_mtu,
        "caps": int(first.caps),
    }


def from_message(body: Mapping[str, Any], most: int, path_mtu: int | None = None) -> list[ConnectionParameters]:
    """The other end of 1 to `most` QPs. `path_mtu` is that of a peer that does not say.

    Raises PeerError when malformed.
    """
    node = body.get("node")
    if not isinstance(node, dict):
        raise PeerError("the peer sent no node description")
    described = [QpDescription.from_json(item) for item in objects(body, "qps", most)]
    mpr_dest = integer(body, "mpr_dest", 1, MAX_MPR + 1)
    max_wimm_dest = integer({"max_wimm_dest": 0} | dict(body), "max_wimm_dest", 0, MAX_IMMEDIATES + 1)
    agreed_mtu = path_mtu if path_mtu is not None and "path_mtu" not in body else path_mtu_of(body)
    caps = DeviceCap(integer({"caps": 0} | dict(body), "caps", 0, 1 << 32)) & _KNOWN_CAPS
    return [
        ConnectionParameters(qp.qpn, qp.first_psn, agreed_mtu, mpr_dest, max_wimm_dest, caps, node) for qp in described
    ]
