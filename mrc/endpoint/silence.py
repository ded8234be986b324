# SPDX-License-Identifier: BSD-2-Clause
"""A peer that has fallen silent takes all QPs with it that wait for it."""

from __future__ import annotations

from collections.abc import Iterable

from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_states import MAY_SEND


def wait_in_vain(qp: QueuePair, others: Iterable[QueuePair], since: int) -> list[QueuePair]:
    """Return the QPs of `others` that are to be given up together with `qp`. All of them have the same peer.

    `qp` has had no answer since `since`, ns. A QP goes with it if one of its own timeouts has run out. So does a QP
    whose work has no room in the window, because QPs that wait in vain fill it. A QP without work stays, and so does
    one whose retries would last longer than those of `qp`. If any QP has heard from the peer since then, the result is
    empty: the peer is alive, and only `qp` has failed.
    """
    if _heard(qp, since):
        return []
    most = qp.requestor.waits_at_most_ns
    senders = [other for other in others if other is not qp and other.state in MAY_SEND]
    if any(_heard(other, since) for other in senders):
        return []
    waiting = [each for each in senders if each.requestor.waited_ns or each.requestor.shut_out]
    return [each for each in waiting if each.requestor.waits_at_most_ns <= most]


def _heard(qp: QueuePair, since: int) -> bool:
    """Whether an answer of the peer, a request or a probe has arrived for this QP."""
    return qp.requestor.loss.heard_since(since) or qp.asked_at >= since
