# SPDX-License-Identifier: BSD-2-Clause
"""The verbs' enumerations, with the values libibverbs gives them where it knows them."""

from __future__ import annotations

from enum import IntEnum, IntFlag, auto

from mrc.endpoint.completions import WorkKind as WCOpcode
from mrc.endpoint.completions import WorkStatus as WCStatus
from mrc.endpoint.config import Capability as DeviceCap
from mrc.endpoint.qp_states import QpState as QPState

__all__ = [
    "AccessFlag",
    "AsyncEventType",
    "DeviceCap",
    "PortState",
    "ProtocolVersion",
    "QPAttrMask",
    "QPState",
    "SendFlag",
    "WCOpcode",
    "WCStatus",
    "WROpcode",
]


class AccessFlag(IntFlag):
    """What a memory region is open to. Reading from it locally is always allowed."""

    LOCAL_WRITE = 1
    REMOTE_WRITE = 2


class WROpcode(IntEnum):
    """What `QP.post_send` takes. There is no SEND, READ or ATOMIC in MRC."""

    RDMA_WRITE = 0
    RDMA_WRITE_WITH_IMM = 1


class SendFlag(IntFlag):
    """FENCE waits for earlier READs and ATOMICs: there are none, so it holds at once."""

    FENCE = 1
    SIGNALED = 2
    SOLICITED = 4
    INLINE = 8


class AsyncEventType(IntEnum):
    """What an asynchronous event is about: a CQ that overflowed, a QP in ERROR, a port that came or went."""

    CQ_ERR = 0
    QP_FATAL = 1
    PORT_ACTIVE = 9
    PORT_ERR = 10


class PortState(IntEnum):
    """Whether the link of a port is up."""

    DOWN = 1
    ACTIVE = 4


class ProtocolVersion(IntFlag):
    """Versions of the protocol a device speaks, one bit each."""

    MRC_1 = 1 << 0


class QPAttrMask(IntFlag):
    """One bit for each attribute of `QPAttr`, under its name in capitals."""

    QP_STATE = auto()
    EV_PROFILE_ID = auto()
    CC_PROFILE_ID = auto()
    HINT = auto()
    AH_ATTR = auto()
    DEST_QP_NUM = auto()
    RQ_PSN = auto()
    PATH_MTU = auto()
    MAX_WIMM_DEST = auto()
    MPR_DEST = auto()
    DYNAMIC_MPR = auto()
    DEST_CAPS = auto()
    SQ_PSN = auto()
    MAX_WIMM = auto()
    MPR = auto()
    LINEAR_RETRIES = auto()
    EXPONENTIAL_RETRIES = auto()
    TIMEOUT = auto()
