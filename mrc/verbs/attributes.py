# SPDX-License-Identifier: BSD-2-Clause
"""Attributes of devices, ports and QPs (api.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from errno import EINVAL
from typing import Any

from mrc.endpoint.config import EXPONENTIAL_RETRIES_FOREVER, MAX_IMMEDIATES, PATH_MTUS
from mrc.records import record
from mrc.verbs.enums import DeviceCap, PortState, ProtocolVersion, QPAttrMask, QPState
from mrc.verbs.errors import VerbsError
from mrc.verbs.tables import Tabular
from mrc.wire.psn import PSN_MODULUS

MAX_QP_WR = 1 << 20
MAX_INLINE = 4096
MAX_MPR = 255
# In units of 128 PSNs: an MPR may be any number of those.
MPR_RESOLUTION = 1


@record(frozen=True, slots=True)
class DeviceAttr(Tabular):
    """What a device can do. `max_mpr` and `mpr_resolution` are in units of 128 PSNs; sizes in bytes."""

    name: str
    protocol_version: ProtocolVersion
    caps: DeviceCap
    max_wimm: int
    max_wimm_dest: int
    max_mpr: int
    mpr_resolution: int
    max_qp: int
    max_qp_wr: int
    max_sge: int
    max_cqe: int
    max_inline_data: int
    max_msg_sz: int
    phys_port_cnt: int


@record(frozen=True, slots=True)
class PortAttr(Tabular):
    """One port. `max_mtu` in bytes."""

    port_num: int
    state: PortState
    plane: int
    address: str
    max_mtu: int


@record(frozen=True, slots=True)
class QPCap(Tabular):
    """Sizes of a QP's queues: work requests outstanding, and bytes one with INLINE may carry. EINVAL out of range."""

    max_send_wr: int = 128
    max_recv_wr: int = 128
    max_inline_data: int = 256

    def __post_init__(self) -> None:
        for name, low, high in (
            ("max_send_wr", 1, MAX_QP_WR),
            ("max_recv_wr", 0, MAX_QP_WR),
            ("max_inline_data", 0, MAX_INLINE),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise VerbsError(EINVAL, f"{name} must be {low}..{high}, got {value!r}")


@record(frozen=True, slots=True)
class QpHint(Tabular):
    """What an application expects of its traffic: how many QPs to each peer, how many peers it sends to, how many
    remote QPs target the same peer (the incast there). 0: not known. `query` returns it; it promises nothing."""

    num_qps_per_peer: int = 0
    num_send_peers: int = 0
    num_remote_recv_peers: int = 0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if type(value) is not int or not 0 <= value < 1 << 32:
                raise VerbsError(EINVAL, f"{each.name} must fit 32 bits, got {value!r}")


@record(frozen=True, slots=True)
class AHAttr(Tabular):
    """Where a peer is: the `address` of its Context.

    `traffic_class` (0..255) is that of this QP's data, retransmissions and probes, as `grh.traffic_class` is in
    ibverbs. Its two ECN bits are not used: data is ECT(0). None: what the Context's tuning names, by default the
    codepoints of the device's wire profile.
    """

    node: Mapping[str, Any] = field(default_factory=dict)
    traffic_class: int | None = None


@record(frozen=True, slots=True)
class QPAttr(Tabular):
    """Attributes of a QP, for `modify` and from `query`; None: not given.

    | attribute | meaning | range |
    |---|---|---|
    | qp_state | the state to go to | |
    | ev_profile_id, cc_profile_id | profiles known to the Context; 0 is the default one | 0..65535 |
    | hint | what the application expects | |
    | ah_attr | where the peer is, and the traffic class towards it | traffic_class: 0..255 |
    | dest_qp_num | the peer's QP number | 1..2^24-1 |
    | rq_psn | the first PSN the peer sends | 0..2^24-1 |
    | path_mtu | bytes of payload in a full packet | 256, 512, 1024, 2048, 4096 |
    | max_wimm_dest | writes with immediate the peer may have unacknowledged | 0..32768 |
    | mpr_dest | how far past cack_psn the peer may send, in units of 128 PSNs | 1..255 |
    | dynamic_mpr | both ends advertise their window in every SACK | |
    | dest_caps | what the peer can do | |
    | sq_psn | the first PSN this QP sends | 0..2^24-1 |
    | max_wimm, mpr | what the peer granted, or less | as above |
    | linear_retries | retries one timeout apart | 0..7 |
    | exponential_retries | after those, each after twice the time; 25: for ever | 0..25 |
    | timeout | t: local ACK timeout of 1.024 us x 2^t; 0: no timeout ends the QP | 0..24 |
    """

    qp_state: QPState | None = None
    ev_profile_id: int | None = None
    cc_profile_id: int | None = None
    hint: QpHint | None = None
    ah_attr: AHAttr | None = None
    dest_qp_num: int | None = None
    rq_psn: int | None = None
    path_mtu: int | None = None
    max_wimm_dest: int | None = None
    mpr_dest: int | None = None
    dynamic_mpr: bool | None = None
    dest_caps: DeviceCap | None = None
    sq_psn: int | None = None
    max_wimm: int | None = None
    mpr: int | None = None
    linear_retries: int | None = None
    exponential_retries: int | None = None
    timeout: int | None = None

    def given(self, mask: QPAttrMask | None = None) -> dict[str, Any]:
        """Attributes by name: those in `mask`, without one all that are not None.

        Raises VerbsError EINVAL for one that is in `mask` but None, or out of its range.
        """
        if mask is None:
            chosen = {name: value for name in ATTRIBUTES if (value := getattr(self, name)) is not None}
        else:
            chosen = {name: getattr(self, name) for name in ATTRIBUTES if QPAttrMask[name.upper()] in mask}
            empty = [name for name, value in chosen.items() if value is None]
            if empty:
                raise VerbsError(EINVAL, f"the mask names {', '.join(empty)}, which the attributes leave out")
        for name, value in chosen.items():
            if not RANGES[name](value):
                raise VerbsError(EINVAL, f"{name}={value!r} is out of its range")
        return chosen


def check_granted(given: Mapping[str, Any], cap: QPCap) -> None:
    """Each write with immediate consumes a receive: no more may be granted than can be posted. Raises VerbsError
    EINVAL."""
    granted = given.get("max_wimm_dest", 0)
    if granted > cap.max_recv_wr:
        raise VerbsError(
            EINVAL,
            f"max_wimm_dest={granted} writes with immediate are granted, and at most {cap.max_recv_wr} receives can be "
            "posted (max_recv_wr): each needs one",
        )


ATTRIBUTES = tuple(each.name for each in fields(QPAttr))


def _within(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _a(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


RANGES: dict[str, Callable[[Any], bool]] = {
    "qp_state": _a(QPState),
    "ev_profile_id": _within(0, 0xFFFF),
    "cc_profile_id": _within(0, 0xFFFF),
    "hint": _a(QpHint),
    "ah_attr": lambda value: (
        isinstance(value, AHAttr) and (value.traffic_class is None or _within(0, 255)(value.traffic_class))
    ),
    "dest_qp_num": _within(1, (1 << 24) - 1),
    "rq_psn": _within(0, PSN_MODULUS - 1),
    "path_mtu": lambda value: type(value) is int and value in PATH_MTUS,
    "max_wimm_dest": _within(0, MAX_IMMEDIATES),
    "mpr_dest": _within(1, MAX_MPR),
    "dynamic_mpr": _a(bool),
    "dest_caps": _a(DeviceCap),
    "sq_psn": _within(0, PSN_MODULUS - 1),
    "max_wimm": _within(0, MAX_IMMEDIATES),
    "mpr": _within(1, MAX_MPR),
    "linear_retries": _within(0, 7),
    "exponential_retries": _within(0, EXPONENTIAL_RETRIES_FOREVER),
    "timeout": _within(0, 24),
}
