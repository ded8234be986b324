# SPDX-License-Identifier: BSD-2-Clause
"""All a case about RC is written with, in one place to import from."""

from __future__ import annotations

from mrc.conformance.codec import rc as wire
from mrc.conformance.codec.headers import INVALID_REQUEST, REMOTE_ACCESS_ERROR, REMOTE_OPERATIONAL_ERROR
from mrc.conformance.expectation import at_least, between, one_of, other_than
from mrc.conformance.packets import Crafted, Heard
from mrc.conformance.script import pattern
from mrc.conformance.times import ms, seconds, us
from mrc.rc.conformance.bench import RcBench
from mrc.rc.conformance.case import rc_case

__all__ = [
    "INVALID_REQUEST",
    "REMOTE_ACCESS_ERROR",
    "REMOTE_OPERATIONAL_ERROR",
    "Crafted",
    "Heard",
    "RcBench",
    "at_least",
    "between",
    "ms",
    "one_of",
    "other_than",
    "pattern",
    "rc_case",
    "seconds",
    "us",
    "wire",
]
