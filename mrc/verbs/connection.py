# SPDX-License-Identifier: BSD-2-Clause
"""What two ends exchange before the first write, and the way from RESET to RTS with it (behaviour.md, QP life).

How it gets across is the application's business: `to_json` and `from_json` make it plain data. It is no secret, but who
can write a region's rkey (`RemoteMemory`) can write the region: that wants a channel only the peer can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from errno import EINVAL
from typing import Any

from mrc.endpoint.config import MAX_IMMEDIATES, PATH_MTUS
from mrc.errors import PeerError
from mrc.records import record
from mrc.verbs.attributes import MAX_MPR, AHAttr, QPAttr, QpHint, check_granted
from mrc.verbs.documents import integer, mapping
from mrc.verbs.enums import DeviceCap, QPState
from mrc.verbs.errors import VerbsError
from mrc.verbs.qp import QP
from mrc.verbs.tables import Tabular
from mrc.wire.psn import PSN_MODULUS

# As many as every endpoint can grant (behaviour.md).
_WRITES_WITH_IMMEDIATE = 32


@record(frozen=True, slots=True)
class ConnectionParameters(Tabular):
    """One side of a connection, as it describes itself.

    `qp_num` and the first PSN it sends; the largest `path_mtu` it takes, bytes; `mpr_dest` (units of 128 PSNs) and
    `max_wimm_dest`, which it grants the other side; `caps`, what it can do; `node`, where it is.
    """

    qp_num: int
    psn: int
    path_mtu: int
    mpr_dest: int
    max_wimm_dest: int
    caps: DeviceCap
    node: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return them as plain JSON, which `from_json` at the other end reads."""
        return {
            "qp_num": self.qp_num,
            "psn": self.psn,
            "path_mtu": self.path_mtu,
            "mpr_dest": self.mpr_dest,
            "max_wimm_dest": self.max_wimm_dest,
            "caps": int(self.caps),
            "node": dict(self.node),
        }

    @classmethod
    def from_json(cls, document: object) -> ConnectionParameters:
        """Raises PeerError for anything but such a description. Unknown capabilities are left out."""
        fields = mapping(document, "connection parameters")
        path_mtu = integer(fields, "path_mtu", PATH_MTUS[0], PATH_MTUS[-1])
        if path_mtu not in PATH_MTUS:
            raise PeerError(f"the peer sent path_mtu={path_mtu}, one of {PATH_MTUS} is expected")
        known = DeviceCap.TRIM_NACK | DeviceCap.DYNAMIC_MPR | DeviceCap.SVC_TIME
        return cls(
            qp_num=integer(fields, "qp_num", 1, (1 << 24) - 1),
            psn=integer(fields, "psn", 0, PSN_MODULUS - 1),
            path_mtu=path_mtu,
            mpr_dest=integer(fields, "mpr_dest", 1, MAX_MPR),
            max_wimm_dest=integer(fields, "max_wimm_dest", 0, MAX_IMMEDIATES),
            caps=DeviceCap(integer(fields, "caps", 0, (1 << 32) - 1)) & known,
            node=mapping(fields.get("node"), "address of its node"),
        )


def describe(
    qp: QP, *, path_mtu: int = 4096, mpr_dest: int = 8, max_wimm_dest: int | None = None, dynamic_mpr: bool = False
) -> ConnectionParameters:
    """This side of a connection, for the other to `connect` to. The numbers are what it offers at most.

    `max_wimm_dest` None: 32, or as many as the QP has receives (`QPCap.max_recv_wr`) where that is less. Raises
    VerbsError EINVAL for a number out of its range, and for more writes with immediate than receives.
    """
    if max_wimm_dest is None:
        max_wimm_dest = min(_WRITES_WITH_IMMEDIATE, qp.cap.max_recv_wr)
    offered = QPAttr(path_mtu=path_mtu, mpr_dest=mpr_dest, max_wimm_dest=max_wimm_dest, dynamic_mpr=dynamic_mpr)
    check_granted(offered.given(), qp.cap)
    caps = qp.context.tuning.capabilities & ~DeviceCap.DYNAMIC_MPR
    if dynamic_mpr:
        caps |= DeviceCap.DYNAMIC_MPR
    return ConnectionParameters(
        qp_num=qp.qp_num,
        psn=qp.first_psn,
        path_mtu=path_mtu,
        mpr_dest=mpr_dest,
        max_wimm_dest=max_wimm_dest,
        caps=caps,
        node=qp.context.address,
    )


def connect(
    qp: QP,
    ours: ConnectionParameters,
    theirs: ConnectionParameters,
    *,
    ev_profile_id: int = 0,
    cc_profile_id: int = 0,
    hint: QpHint | None = None,
    timeout: int | None = None,
    linear_retries: int | None = None,
    exponential_retries: int | None = None,
    traffic_class: int | None = None,
) -> None:
    """Bring a QP from RESET or INIT to RTS, towards the QP that `theirs` describes; `ours` is what the peer received.

    `timeout` and the retries say when the QP gives up. The defaults are those of the Context's `tuning`; where it has
    none, about 4 s after the last answer of the peer. With `**FOR_JOBS` the QP never gives up. `traffic_class` is as in
    `AHAttr`. Both sides take the smaller path MTU and what both can do. A QP in RTS may send at once, but the other
    side hears it only once it is in RTR: wait for its word. Raises as `QP.modify`, EINVAL too when `ours` describes
    another QP.
    """
    if (ours.qp_num, ours.psn) != (qp.qp_num, qp.first_psn):
        raise VerbsError(EINVAL, f"these parameters describe QP {ours.qp_num:#08x}, not {qp.qp_num:#08x}")
    tuning = qp.context.tuning
    way = [
        QPAttr(
            qp_state=QPState.RTR,
            ah_attr=AHAttr(theirs.node, traffic_class),
            dest_qp_num=theirs.qp_num,
            rq_psn=theirs.psn,
            path_mtu=min(ours.path_mtu, theirs.path_mtu),
            max_wimm_dest=ours.max_wimm_dest,
            mpr_dest=ours.mpr_dest,
            dynamic_mpr=DeviceCap.DYNAMIC_MPR in ours.caps & theirs.caps,
            dest_caps=theirs.caps,
        ),
        QPAttr(
            qp_state=QPState.RTS,
            sq_psn=ours.psn,
            max_wimm=theirs.max_wimm_dest,
            mpr=theirs.mpr_dest,
            linear_retries=tuning.linear_retries if linear_retries is None else linear_retries,
            exponential_retries=tuning.exponential_retries if exponential_retries is None else exponential_retries,
            timeout=tuning.timeout if timeout is None else timeout,
        ),
    ]
    if qp.state == QPState.RESET:
        profiles = QPAttr(qp_state=QPState.INIT, ev_profile_id=ev_profile_id, cc_profile_id=cc_profile_id, hint=hint)
        way.insert(0, profiles)

    def go() -> None:
        for attributes in way:
            qp.modify(attributes)

    # Under load each call waits for a turn of the endpoint to end, which takes milliseconds.
    qp.context.device.call(go)
