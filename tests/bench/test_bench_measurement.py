# SPDX-License-Identifier: BSD-2-Clause
"""What a client makes of one measurement, from figures of both ends that are written down here."""

from __future__ import annotations

from typing import Any

import pytest

from mrc.bench.measurement import forward_result, reverse_result
from mrc.bench.terms import WRITE, Terms
from mrc.bench.writes import Written

TERMS = Terms(WRITE, 1 << 20)
WRITTEN = Written((10,), 10**9, 0.1)


def stopped(duplicates: int) -> dict[str, Any]:
    """What the server says at the end."""
    return {"cpu_seconds": 0.5, "counters": {}, "duplicates_received": duplicates}


@pytest.mark.parametrize(
    ("noticed", "duplicates", "known"),
    [
        (263, 358, 358),  # the client noticed only some of what the server got twice
        (263, 200, 263),
        (0, 3, 3),
        (0, 500, 394),  # the network doubled some: no more can be spurious than were sent again
        (0, 0, 0),
    ],
)
def test_there_is_one_number_of_spurious_retransmissions(noticed: int, duplicates: int, known: int) -> None:
    counters = {"retransmitted_packets": 394} | ({"spurious_retransmissions": noticed} if noticed else {})
    document = forward_result(TERMS, WRITTEN, 0.5, stopped(duplicates), counters, ()).to_json()
    assert document["spurious_retransmissions"] == known
    # Counters that are 0 are left out.
    assert document["counters"].get("spurious_retransmissions", 0) == known
    assert ("spurious_retransmissions" in document["counters"]) == bool(known)


def test_both_directions_tell_the_same_counters() -> None:
    counters = {"retransmitted_packets": 394, "spurious_retransmissions": 263}
    forward = forward_result(TERMS, WRITTEN, 0.5, stopped(358), counters, ())
    reverse = reverse_result(TERMS, None, (10, 10**9, 0.5), counters, ())
    assert forward.counters == reverse.counters == {"retransmitted_packets": 394, "spurious_retransmissions": 358}


def test_an_interrupted_client_knows_what_it_noticed() -> None:
    counters = {"retransmitted_packets": 394, "spurious_retransmissions": 263}
    document = forward_result(TERMS, WRITTEN, 0.5, {}, counters, ()).to_json()
    assert document["spurious_retransmissions"] == document["counters"]["spurious_retransmissions"] == 263
    assert document["duplicates_received"] is None
