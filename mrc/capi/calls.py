# SPDX-License-Identifier: BSD-2-Clause
"""What the C libraries ask of this process: numbers and places of mrc/capi/src/calls.h (tests/capi)."""

from __future__ import annotations

from enum import IntEnum

NOT_GIVEN = -1
CALL_WORDS = 24


class Call(IntEnum):
    """What is asked."""

    OPEN = 1
    CLOSE = 2
    QUERY_PORT = 3
    QUERY_GID = 4
    ALLOC_PD = 5
    DEALLOC_PD = 6
    REG_MR = 7
    DEREG_MR = 8
    CREATE_QP = 9
    MODIFY_QP = 10
    DESTROY_QP = 11
    ASYNC_EVENT = 12


class Modify(IntEnum):
    """The words of Call.MODIFY_QP."""

    QP = 0
    STATE = 1
    EV_PROFILE = 2
    CC_PROFILE = 3
    DEST_QPN = 4
    RQ_PSN = 5
    SQ_PSN = 6
    PATH_MTU = 7
    TRAFFIC_CLASS = 8
    TIMEOUT = 9
    LINEAR = 10
    EXPONENTIAL = 11
    MPR = 12
    MPR_DEST = 13
    WIMM = 14
    WIMM_DEST = 15
    DYNAMIC_MPR = 16
    DEST_CAPS = 17
    GID = 18
