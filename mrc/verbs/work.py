# SPDX-License-Identifier: BSD-2-Clause
"""Work requests and work completions. Not frozen: one of each is made per write, and freezing triples their price."""

from __future__ import annotations

from errno import EINVAL, ENOTSUP

from mrc.records import record
from mrc.verbs.enums import SendFlag, WCOpcode, WCStatus, WROpcode
from mrc.verbs.errors import VerbsError
from mrc.verbs.tables import Tabular

MAX_SGE = 1
NO_FLAGS = SendFlag(0)
_WRITE, _WITH_IMM = WROpcode.RDMA_WRITE, WROpcode.RDMA_WRITE_WITH_IMM


@record(slots=True)
class SGE(Tabular):
    """A piece of registered memory: `length` bytes at `addr`, an address of the region `lkey` names."""

    addr: int
    length: int
    lkey: int


@record(slots=True)
class SendWR(Tabular):
    """An RDMA write, for `QP.post_send`.

    `wr_id` comes back in the completion. `sge` is what to write: one piece, or none for a write of no bytes.
    `remote_addr` and `rkey` say where; they are not looked at in a write of no bytes. `imm_data` (32 bits) goes with
    RDMA_WRITE_WITH_IMM and with nothing else.
    """

    wr_id: int = 0
    opcode: WROpcode = WROpcode.RDMA_WRITE
    sge: SGE | tuple[SGE, ...] | None = None
    remote_addr: int = 0
    rkey: int = 0
    imm_data: int | None = None
    send_flags: SendFlag = NO_FLAGS


@record(slots=True)
class RecvWR(Tabular):
    """A receive, for `QP.post_recv`: a write with immediate of the peer's consumes one. It takes no data itself."""

    wr_id: int = 0


@record(slots=True)
class WC(Tabular):
    """A work completion. With a status other than SUCCESS only `wr_id`, `status` and `qp_num` mean anything."""

    wr_id: int
    status: WCStatus
    opcode: WCOpcode
    byte_len: int
    qp_num: int
    imm_data: int | None = None


def immediate_of(wr: SendWR) -> int | None:
    """The immediate that a request carries. Raises VerbsError ENOTSUP for an opcode that MRC has not, EINVAL where the
    opcode and the immediate do not go together."""
    if wr.opcode not in (_WRITE, _WITH_IMM):
        raise VerbsError(ENOTSUP, f"MRC has RDMA_WRITE and RDMA_WRITE_WITH_IMM only, got {wr.opcode!r}")
    if (wr.opcode == _WITH_IMM) != (wr.imm_data is not None):
        raise VerbsError(EINVAL, "imm_data goes with RDMA_WRITE_WITH_IMM, and that with imm_data")
    return wr.imm_data
