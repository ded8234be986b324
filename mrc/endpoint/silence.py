"""A peer that has fallen silent takes all QPs with it that wait for it."""

from __future__ import annotations

from collections.abc import Iterable

from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_states import MAY_SEND


def wait_in_vain(qp: QueuePair, others: Iterable[QueuePair], since: int) -> list[QueuePair]:
    """Those of `others`, QPs towards the peer of `qp`, that wait for nothing that may come.

    `qp` is given up; it has waited since `since`, ns. Each of these has had a timeout of its own, and would not have
    waited longer than `qp`. None at all where any of them heard from the peer since then: the peer is there, and `qp`
    has another reason. A QP without work is none of them.
    """
    if _heard(qp, since):
        return []
    most = qp.requestor.waits_at_most_ns
    senders = [other for other in others if other is not qp and other.state in MAY_SEND]
    if any(_heard(other, since) for other in senders):
        return []
    return [each for each in senders if each.requestor.waited_ns and each.requestor.waits_at_most_ns <= most]


def _heard(qp: QueuePair, since: int) -> bool:
    """Whether an answer of the peer, a request or a probe has arrived for this QP."""
    return qp.requestor.loss.heard_since(since) or qp.asked_at >= since
