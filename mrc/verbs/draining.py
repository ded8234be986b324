# SPDX-License-Identifier: BSD-2-Clause
"""What is under way on a QP: sends of this end, answers and messages of the peer."""

from __future__ import annotations

from errno import EIO

from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_states import QpState
from mrc.verbs.bells import Deadline
from mrc.verbs.errors import VerbsError

# How often `QP.drain` looks whether answers have been sent.
_LOOK_AGAIN_S = 0.001


class UnderWay:
    """What `QP.drain` waits for, in words, and after how long it looks again, s; None: when its bell rings."""

    __slots__ = ("_look_s", "_what")

    def __init__(self, what: str, look_s: float | None) -> None:
        self._what = what
        self._look_s = look_s

    def patience_s(self, deadline: Deadline) -> float | None:
        """Seconds to wait now; None: until the bell rings."""
        return min((each for each in (deadline.left_s(), self._look_s) if each is not None), default=None)

    def check(self, rang: bool, deadline: Deadline) -> None:
        """Raise VerbsError when the time is up. `rang`: the bell ended the wait."""
        if not rang and (self._look_s is None or deadline.is_over()):
            raise deadline.error(f"it is not drained: {self._what}")


def under_way(qp: QueuePair, sends: int, quiet_s: float | None, now: int) -> UnderWay | None:
    """Return what is under way on a QP with `sends` outstanding, or None. The caller has the endpoint.

    `quiet_s` as in `QP.drain`, `now` in ns. Raises VerbsError EIO for a QP in ERROR.
    """
    if qp.state is QpState.ERROR:
        raise VerbsError(EIO, f"QP {qp.qpn:#08x} is in ERROR: {qp.error}")
    if sends:
        return UnderWay(f"{sends} sends have not completed", None)
    if qp.owes():
        return UnderWay("an answer has not been sent, or a message of the peer has arrived in part", _LOOK_AGAIN_S)
    quiet_ns = 2 * qp.asks_again_ns if quiet_s is None else int(quiet_s * 1e9)
    left_ns = 0 if qp.asked_at < 0 else qp.asked_at + quiet_ns - now
    return UnderWay("the peer sent a request or a probe just now", left_ns / 1e9) if left_ns > 0 else None
