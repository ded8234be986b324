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
    QUERY_MRC = 13
    QUERY_QP = 14
    CONTROL = 15
    EV_EVENTS = 16
    END_EV_EVENTS = 17
    OPERATE = 18


class Control(IntEnum):
    """What Call.CONTROL asks, in its second word: a function of mrc_ctl.h."""

    QUERY_DEVICE = 1
    QUERY_PORT = 2
    MODIFY_PORT = 3
    QUERY_FORMAT = 4
    MODIFY_FORMAT = 5
    QUERY_EV = 6
    MODIFY_EV = 7
    QUERY_CC = 8
    MODIFY_CC = 9


class ControlWord(IntEnum):
    """The words of Call.CONTROL."""

    CONTEXT = 0
    WHAT = 1
    NUMBER = 2
    ATTR = 3
    MASK = 4


class EventsWord(IntEnum):
    """The words of Call.EV_EVENTS, whose answer is a handle: that of Call.END_EV_EVENTS."""

    CONTEXT = 0
    QUEUE = 1
    PUT = 2


class OperateWord(IntEnum):
    """The words of Call.OPERATE. COUNT is that of the requests, and then that of the answers."""

    CONTEXT = 0
    KIND = 1
    REQUESTS = 2
    COUNT = 3
    ANSWERS = 4
    DSCP = 5
    TIMEOUT = 6


class Mrc(IntEnum):
    """The words of Call.QUERY_MRC."""

    VERSION = 1
    CAPS = 2
    MOST_WIMM = 3
    MOST_WIMM_DEST = 4
    MOST_MPR = 5
    MPR_RESOLUTION = 6


class Modify(IntEnum):
    """The words of Call.MODIFY_QP, and the answers of Call.QUERY_QP."""

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
    QPS_PER_PEER = 19
    SEND_PEERS = 20
    REMOTE_RECV_PEERS = 21
