# SPDX-License-Identifier: BSD-2-Clause
"""24-bit PSN arithmetic, on one number and on arrays.

PSNs live on a circle of 2^24. `psn_diff(a, b)` is how far `a` lies ahead of `b`, in -2^23 .. 2^23 - 1; a
distance of exactly 2^23 counts as behind (behaviour.md: `<= epsn - 2^23` is out of range, not a duplicate).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrc.wire.fields import I64

PSN_BITS = 24
PSN_MODULUS = 1 << PSN_BITS
PSN_MASK = PSN_MODULUS - 1
PSN_HALF = 1 << (PSN_BITS - 1)


def psn_add(psn: int, count: int) -> int:
    """`psn` moved by `count` (either sign) around the circle."""
    return (psn + count) & PSN_MASK


def psn_diff(a: int, b: int) -> int:
    """How far `a` is ahead of `b`: -2^23 .. 2^23 - 1."""
    return ((a - b + PSN_HALF) & PSN_MASK) - PSN_HALF


def psn_diff_array(psns: I64, base: int) -> I64:
    """`psn_diff(psn, base)` for each PSN of an int64 array."""
    return ((psns - (base - PSN_HALF)) & PSN_MASK) - PSN_HALF


def unwrap(psn: int, near: int) -> int:
    """The unbounded sequence number closest to `near` whose low 24 bits are `psn`."""
    return near + psn_diff(psn, near)
