# SPDX-License-Identifier: BSD-2-Clause
"""What the syndrome of an AETH says (IBTA 9.7.5.1.1 and tables 43 to 45)."""

from __future__ import annotations

from enum import IntEnum

from mrc.endpoint.refusals import NAK_STATUS

NAK_SEQUENCE_ERROR = 0x60
# The five lower bits are the timer's code.
RNR_NAK = 0x20
RNR_TIMER_MASK = 0x1F
_HUNDREDTHS_OF_MS = (
    *(65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192),
    *(256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152),
)
# How long a requestor waits after an RNR NAK, by the timer's code.
RNR_DELAYS_NS = tuple(hundredths * 10_000 for hundredths in _HUNDREDTHS_OF_MS)
_KIND_SHIFT = 5


class Answer(IntEnum):
    ACK = 0
    RNR_NAK = 1
    SEQUENCE_ERROR = 2
    FATAL = 3
    UNKNOWN = 4


def answer_of(syndrome: int) -> Answer:
    """What kind of answer it is; a reserved syndrome is UNKNOWN. The credits of an ACK play no part for writes."""
    kind = syndrome >> _KIND_SHIFT
    if kind == 0:
        return Answer.ACK
    if kind == RNR_NAK >> _KIND_SHIFT:
        return Answer.RNR_NAK
    if syndrome == NAK_SEQUENCE_ERROR:
        return Answer.SEQUENCE_ERROR
    return Answer.FATAL if syndrome in NAK_STATUS else Answer.UNKNOWN
