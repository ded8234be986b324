# SPDX-License-Identifier: BSD-2-Clause
"""The QPNs of an endpoint: 24 bit, all but the first sixteen, which are set aside."""

from __future__ import annotations

from collections.abc import Container
from random import Random

from mrc.errors import CallerError

FIRST_QPN, QPN_LIMIT = 0x10, 1 << 24


def free_qpn(wanted: int | None, taken: Container[int], random: Random) -> int:
    """`wanted`, or without it one drawn at random that is not taken. Raises CallerError for one that is taken or out of
    range."""
    if wanted is None:
        wanted = random.randrange(FIRST_QPN, QPN_LIMIT)
        while wanted in taken:
            wanted = random.randrange(FIRST_QPN, QPN_LIMIT)
    elif not FIRST_QPN <= wanted < QPN_LIMIT or wanted in taken:
        raise CallerError(f"QPN {wanted:#x} is taken, or not one of {FIRST_QPN:#x}..{QPN_LIMIT - 1:#x}")
    return wanted
