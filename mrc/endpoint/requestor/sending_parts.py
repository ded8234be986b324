# SPDX-License-Identifier: BSD-2-Clause
"""What the parts of one requestor share: its work, its packets in the network, and what judges them."""

from __future__ import annotations

from collections.abc import Callable

from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.congestion.base import CongestionController
from mrc.endpoint.congestion.estimates import RttEstimator
from mrc.endpoint.parts.numbers import Heap
from mrc.endpoint.requestor.loss import LossDetector, RetryBudget
from mrc.endpoint.requestor.send_queue import SendQueue
from mrc.endpoint.requestor.sent import SentPackets
from mrc.records import record


@record(frozen=True, slots=True)
class SendingParts:
    """`resend` holds the PSNs that are to be sent again. `fail(status, why, psn)` ends the QP."""

    queue: SendQueue
    sent: SentPackets
    rtt: RttEstimator
    loss: LossDetector
    retries: RetryBudget
    controller: CongestionController
    resend: Heap
    fail: Callable[[WorkStatus, str, int], None]
