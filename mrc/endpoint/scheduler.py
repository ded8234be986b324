"""Whose turn it is to send: fair turns among the QPs that have something to send, no cost for those that have not."""

from __future__ import annotations

from collections import deque
from enum import IntEnum

from mrc.endpoint.congestion import CongestionController
from mrc.endpoint.qp import QueuePair


class SendState(IntEnum):
    """Where a QP stands with its sending (behaviour.md, Requestor)."""

    IDLE = 0  # nothing to send, nothing outstanding
    ACTIVE = 1  # all sent, not all of it acknowledged
    READY = 2  # something may leave now
    PENDING = 3  # something to send, but a window is shut or no path usable


# (has something to send, may send it now, has packets outstanding)
SEND_STATES: dict[tuple[bool, bool, bool], SendState] = {
    (False, False, False): SendState.IDLE,
    (False, False, True): SendState.ACTIVE,
    (True, False, False): SendState.PENDING,
    (True, False, True): SendState.PENDING,
    (True, True, False): SendState.READY,
    (True, True, True): SendState.READY,
}


def send_state(qp: QueuePair) -> SendState:
    return SEND_STATES[qp.has_work(), qp.pending(), qp.outstanding > 0]


class Scheduler:
    """READY QPs take turns in order of arrival; PENDING ones wait for the controller they share to open its window.

    A QP is queued at most once. One that waits keeps its place until it has sent data, whatever else it sends. One
    that is neither ready nor waiting costs nothing until an event of its own wakes it.
    """

    __slots__ = ("_queued", "_ready", "_waiting")

    def __init__(self) -> None:
        self._ready: deque[QueuePair] = deque()
        self._queued: set[int] = set()
        # By controller the QPs it keeps waiting, in order of their next turn.
        self._waiting: dict[CongestionController, dict[int, QueuePair]] = {}

    def wake(self, qp: QueuePair) -> None:
        """Something happened to `qp`: it has its turn when those before it have had theirs."""
        if qp.qpn not in self._queued:
            self._queued.add(qp.qpn)
            self._ready.append(qp)

    def on_event(self, qp: QueuePair) -> None:
        """Packets arrived for `qp` or a timer ran: who can go on now has a turn, first who waited longest."""
        self.window_moved(qp.controller)
        if not qp.pending():
            self._wait_if_shut(qp)
        elif qp.has_control() or not self._waits(qp):
            self.wake(qp)

    def forget(self, qp: QueuePair) -> None:
        """`qp` is gone."""
        self._stop_waiting(qp)
        if qp.qpn in self._queued:
            self._queued.discard(qp.qpn)
            self._ready.remove(qp)

    def next(self) -> QueuePair | None:
        """Take the QP whose turn it is, or None. Give it back with `after_turn`."""
        if not self._ready:
            return None
        qp = self._ready.popleft()
        self._queued.discard(qp.qpn)
        return qp

    @property
    def others_ready(self) -> bool:
        """Whether any other QP waits for its turn."""
        return bool(self._ready)

    def after_turn(self, qp: QueuePair, sent: int, sent_data: bool) -> None:
        """`qp` had its turn and sent this many packets, data among them or not."""
        if sent_data:
            # Its next turn at the shared window comes after everybody else's.
            self._stop_waiting(qp)
        self.window_moved(qp.controller)
        if sent and qp.pending():
            self.wake(qp)
        else:
            self._wait_if_shut(qp)

    def window_moved(self, controller: CongestionController | None) -> None:
        """Bytes left the network or the window changed: if it is open, whoever waited longest is ready.

        After that QP's turn comes the next, as long as the window stays open.
        """
        if controller in self._waiting and controller.may_send:
            waiting = self._waiting[controller]
            qp = waiting.pop(next(iter(waiting)))
            if not waiting:
                del self._waiting[controller]
            self.wake(qp)

    def _wait_if_shut(self, qp: QueuePair) -> None:
        """A QP with something to send whose window is shut waits; one that waits already keeps its place."""
        controller = qp.controller
        if controller is not None and not controller.may_send and qp.has_work():
            self._waiting.setdefault(controller, {}).setdefault(qp.qpn, qp)

    def _waits(self, qp: QueuePair) -> bool:
        return qp.controller is not None and qp.qpn in self._waiting.get(qp.controller, ())

    def _stop_waiting(self, qp: QueuePair) -> None:
        if qp.controller is not None and qp.controller in self._waiting:
            waiting = self._waiting[qp.controller]
            waiting.pop(qp.qpn, None)
            if not waiting:
                del self._waiting[qp.controller]
