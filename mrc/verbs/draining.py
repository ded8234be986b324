"""What is under way on a QP: what its own end waits for, and what its peer waits for."""

from __future__ import annotations

from errno import EIO

from mrc.endpoint.qp import QueuePair
from mrc.endpoint.qp_states import QpState
from mrc.verbs.bells import Deadline
from mrc.verbs.errors import VerbsError

# How often who drains looks whether answers have left.
_LOOK_AGAIN_S = 0.001


class UnderWay:
    """What a QP that drains waits for, in words, and when it has to look again, s; None: when it is rung for."""

    __slots__ = ("_look_s", "_what")

    def __init__(self, what: str, look_s: float | None) -> None:
        self._what = what
        self._look_s = look_s

    def patience_s(self, deadline: Deadline) -> float | None:
        """How long to wait now."""
        return min((each for each in (deadline.left_s(), self._look_s) if each is not None), default=None)

    def check(self, rang: bool, deadline: Deadline) -> None:
        """Raises VerbsError when there is no use in waiting on."""
        if not rang and (self._look_s is None or deadline.is_over()):
            raise deadline.error(f"it is not drained: {self._what}")


def under_way(qp: QueuePair, sends: int, quiet_s: float | None, now: int) -> UnderWay | None:
    """What is under way on a QP with so many sends outstanding, None where nothing is; where the endpoint runs.

    `quiet_s` as in `QP.drain`, `now` in ns. Raises VerbsError EIO for a QP in ERROR.
    """
    if qp.state is QpState.ERROR:
        raise VerbsError(EIO, f"QP {qp.qpn:#08x} is in ERROR: {qp.error}")
    if sends:
        return UnderWay(f"{sends} sends have not completed", None)
    if qp.owes():
        return UnderWay("the peer waits for an answer, or a message of its has arrived in part", _LOOK_AGAIN_S)
    quiet_ns = 2 * qp.asks_again_ns if quiet_s is None else int(quiet_s * 1e9)
    left_ns = 0 if qp.asked_at < 0 else qp.asked_at + quiet_ns - now
    return UnderWay("the peer has just asked for an answer", left_ns / 1e9) if left_ns > 0 else None
