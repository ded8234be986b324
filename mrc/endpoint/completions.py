# SPDX-License-Identifier: BSD-2-Clause
"""Work completions."""

from __future__ import annotations

from enum import IntEnum

from mrc.records import record


class WorkStatus(IntEnum):
    """How a piece of work ended. Names follow the verbs' `ibv_wc_status`."""

    SUCCESS = 0
    REMOTE_INVALID_REQUEST = 9
    REMOTE_ACCESS_ERROR = 10
    REMOTE_OPERATION_ERROR = 11
    RETRY_EXCEEDED = 12
    RNR_RETRY_EXCEEDED = 13  # plain RC only
    FLUSHED = 5


class WorkKind(IntEnum):
    """What was done. Values follow the verbs' `ibv_wc_opcode`."""

    RDMA_WRITE = 1
    RECV_RDMA_WITH_IMM = 129


@record(slots=True)
class Completion:
    """One finished piece of work: `byte_len` bytes of the work request `wr_id` on QP `qpn`.

    A RECV_RDMA_WITH_IMM is a receive that a peer's write of `byte_len` bytes consumed; `immediate` is the 32-bit
    number that came with it, None in an error completion and in everything else. `solicited`: its sender asked for who
    waits to be woken.
    """

    wr_id: int
    qpn: int
    status: WorkStatus
    byte_len: int
    kind: WorkKind = WorkKind.RDMA_WRITE
    immediate: int | None = None
    solicited: bool = False
