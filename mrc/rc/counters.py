# SPDX-License-Identifier: BSD-2-Clause
"""Named counters of an RC endpoint: those of MRC's, and what only going back counts."""

from __future__ import annotations

from mrc.endpoint.counters import COUNTERS, Counters


class RcCounters(Counters):
    """Counts since start. An endpoint has one; each QP has its own for what happens after dispatch."""

    # Responder.
    messages_received: int
    out_of_sequence: int
    sequence_naks_sent: int
    rnr_naks_sent: int
    # Requestor.
    sequence_naks_received: int
    rnr_naks_received: int
    answers_to_nothing: int
    unknown_syndrome: int

    def names(self) -> tuple[str, ...]:
        return _NAMES


_NAMES = (*COUNTERS, *RcCounters.__annotations__)
