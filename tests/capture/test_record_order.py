# SPDX-License-Identifier: BSD-2-Clause
"""Packets of several interfaces are written in order of time, whichever was looked at first."""

from __future__ import annotations

import io
import random
import struct

from mrc.capture.record import _Writer


def times(written: bytes) -> list[tuple[int, int]]:
    found, at = [], 0
    while at < len(written):
        seconds, nanoseconds, kept, length = struct.unpack_from("<IIII", written, at)
        assert (kept, length) == (4, 60)
        found.append((seconds, nanoseconds))
        at += 16 + kept
    return found


def test_packets_that_come_while_another_ring_is_drained_are_put_before_younger_ones() -> None:
    """Two rings, drained in turn: what arrives at the first while the second is drained is seen a turn later."""
    draw = random.Random(1)
    for _ in range(50):
        arrivals = sorted((draw.randrange(1, 4), draw.randrange(10**9), draw.randrange(2)) for _ in range(200))
        looks = sorted((draw.randrange(1, 4), draw.randrange(10**9)) for _ in range(20))
        file = io.BytesIO()
        writer = _Writer(file, 2)
        taken = [0, 0]
        rings = [[each[:2] for each in arrivals if each[2] == ring] for ring in range(2)]
        for second, nanosecond in [*looks, (9, 0), (9, 1), (9, 2)]:
            drained = []
            for ring in range(2):
                # The second is drained a little later.
                until = (second, nanosecond + 5_000_000 * ring)
                now = sum(each <= until for each in rings[ring])
                drained.append([(*each, 60, b"abcd") for each in rings[ring][taken[ring] : now]])
                taken[ring] = now
            writer.add(drained)
        assert writer.written == 200
        assert times(file.getvalue()) == [each[:2] for each in arrivals]


def test_a_clock_that_is_set_back_keeps_the_order_of_a_ring() -> None:
    file = io.BytesIO()
    writer = _Writer(file, 1)
    for drained in ([(5, 0, 60, b"abcd"), (2, 0, 60, b"abcd")], [(3, 0, 60, b"abcd")], [], []):
        writer.add([drained])
    assert times(file.getvalue()) == [(5, 0), (2, 0), (3, 0)]
