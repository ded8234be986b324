# SPDX-License-Identifier: BSD-2-Clause
"""All a case is written with, in one place to import from."""

from __future__ import annotations

from mrc.conformance.acknowledging import Acknowledger
from mrc.conformance.bench import FOR_A_RECEIVE, Bench
from mrc.conformance.case import case
from mrc.conformance.codec import headers as wire
from mrc.conformance.expectation import at_least, between, one_of, other_than
from mrc.conformance.packets import CE, ECT0, Crafted, Heard
from mrc.conformance.setup import DYNAMIC_MPR, SVC_TIME, TRIM_NACK
from mrc.conformance.target import Refused, Unsupported
from mrc.conformance.times import ms, seconds, us

__all__ = [
    "CE",
    "DYNAMIC_MPR",
    "ECT0",
    "FOR_A_RECEIVE",
    "SVC_TIME",
    "TRIM_NACK",
    "Acknowledger",
    "Bench",
    "Crafted",
    "Heard",
    "Refused",
    "Unsupported",
    "at_least",
    "between",
    "case",
    "ms",
    "one_of",
    "other_than",
    "pattern",
    "seconds",
    "us",
    "wire",
]


# Steps of 7 through the 255 bytes that are not 0. `start` begins 17 steps of 1 further, which are 17 * 73 of these.
_STEPS = bytes(at * 7 % 255 + 1 for at in range(255))


def pattern(length: int, start: int = 1) -> bytes:
    """`length` bytes, none of them 0, that tell where they belong; another `start` makes others."""
    first = start * 17 * 73 % 255
    return (_STEPS * (length // 255 + 2))[first : first + length]
