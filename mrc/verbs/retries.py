# SPDX-License-Identifier: BSD-2-Clause
"""Named settings of how long a QP waits for a peer that does not answer (behaviour.md, Retry budget).

    connect(qp, ours, theirs, **FOR_JOBS)

or, state by state, `QPAttr(qp_state=QPState.RTS, ..., **FOR_JOBS)`.
"""

from __future__ import annotations

from typing import Final, TypedDict

from mrc.endpoint.config import EXPONENTIAL_RETRIES_FOREVER


class Retries(TypedDict):
    """The attributes of a QP that say when it gives up. QPAttr has their ranges."""

    timeout: int
    linear_retries: int
    exponential_retries: int


# The QP never gives up: it waits for a partitioned network for minutes or hours. Probes continue, so work resumes
# within about a quarter of a second after the network is back. The local ACK timeout is 134 ms: a peer process that
# waits for a processor is not taken for a lost network. The QP cannot detect a dead peer. Learn that elsewhere, for
# example from the connection that carried the descriptions, then close the QP or move it to ERROR.
FOR_JOBS: Final = Retries(timeout=17, linear_retries=7, exponential_retries=EXPONENTIAL_RETRIES_FOREVER)
