# SPDX-License-Identifier: BSD-2-Clause
"""What both ends of a transfer take for granted: the exchange's feature, and the QPs that files are written over."""

from __future__ import annotations

from mrc.net.session.qps import make_qps
from mrc.records import record
from mrc.verbs import CQ, PD, QP, QPCap

TRANSFER_FEATURE = "files/5"  # files/4 compared SHA-256, and had one part of a file open at a time
# What a broken transfer left is compared in blocks of so many bytes; a smaller file is sent anew.
BLOCK_BYTES = 16 << 20
MOST_BLOCKS = 32  # in one request
# A stretch of a file begins at a multiple of so many bytes: no page of any system Linux runs on is larger.
STRETCH_UNIT = 64 << 10
# A file is written in parts of at most so many bytes, so many of which are open at a time: those of both ends still fit
# into a processor's cache, and a request for each costs little.
PART_BYTES = 8 << 20
PARTS_OPEN = 4
# One request opens so many of them: half as many requests, and those that are left open keep the sender busy meanwhile.
PARTS_AT_ONCE = 2
# Of those that have arrived the receiver holds so many in memory at most, until its disk has taken them.
PARTS_STORED = 2
MAX_QPS_PER_SENDER = 64
MAX_INDEX = 1 << 31  # of a file in a session
MAX_FILE = 1 << 50
POSTED_PER_QP = 32  # writes posted ahead, on average; the rest of the file follows as they complete


@record(frozen=True, slots=True)
class Attributes:
    """What a file has beside its content. None: as a new file here has it."""

    mode: int | None = None
    mtime_ns: int | None = None


def file_qps(pd: PD, cq: CQ, count: int) -> list[QP]:
    """So many QPs for one sender's files. Every write makes a completion."""
    cap = QPCap(max_send_wr=POSTED_PER_QP * count, max_recv_wr=0)
    return make_qps(pd, cq, count, cap, sq_sig_all=True)
