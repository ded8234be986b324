"""How long a QP waits for a peer that does not answer, under names (behaviour.md, Retry budget).

    connect(qp, ours, theirs, **FOR_JOBS)

or, state by state, `QPAttr(qp_state=QPState.RTS, ..., **FOR_JOBS)`.
"""

from __future__ import annotations

from typing import Final, TypedDict

from mrc.endpoint.config import EXPONENTIAL_RETRIES_FOREVER


class Retries(TypedDict):
    """Attributes of a QP that say when it gives up: see QPAttr."""

    timeout: int
    linear_retries: int
    exponential_retries: int


# It never gives up. A network that was cut in two is waited for, for minutes or hours. Probes go on meanwhile, so the
# QP goes on a quarter of a second after the network is back. A local ACK timeout of 134 ms: a process that does not get
# a processor is not taken for a network that is gone. That a peer is dead has to be learned elsewhere, for example from
# the connection that carried the descriptions. Then close the QP, or move it to ERROR.
FOR_JOBS: Final = Retries(timeout=17, linear_retries=7, exponential_retries=EXPONENTIAL_RETRIES_FOREVER)
