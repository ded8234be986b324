# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""Whether data may leave now: what the peer, the congestion window, the paths and our own records have room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.requestor.data_sender import DataSender
from mrc.endpoint.requestor.nacked import NackHandler
from mrc.endpoint.requestor.sending_parts import SendingParts

if TYPE_CHECKING:
    from mrc.endpoint.congestion.base import CongestionController
    from mrc.endpoint.paths.path_set import PathSet
    from mrc.endpoint.requestor.send_queue import SendQueue
    from mrc.endpoint.requestor.sent import SentPackets


class SendRoom:
    """One requestor's. `most` is how many PSNs our own records reach beyond the oldest unacknowledged one."""

    _sent: SentPackets
    _queue: SendQueue
    _sender: DataSender
    _nacks: NackHandler
    _paths: PathSet
    _controller: CongestionController
    _most: int

    __slots__ = tuple(__annotations__)

    def __init__(self, qp: QpParts, sending: SendingParts, sender: DataSender, nacks: NackHandler, most: int) -> None:
        self._sent = sending.sent
        self._queue = sending.queue
        self._sender = sender
        self._nacks = nacks
        self._paths = qp.paths
        self._controller = sending.controller
        self._most = most

    def may_send(self) -> bool:
        """Whether a packet of data may leave."""
        if not self._queue.has_unsent() and not self._sender.resend.count:
            return False
        if self._controller.room() <= 0 or not self._paths.usable():
            return False
        if self._sent.make_log_room(1) <= 0:
            return False
        return self._sender.has_lost() or self._sender.new_data_may_go(self.last_new())

    def stalled(self) -> bool:
        """Whether there is new data, nothing is outstanding that would bring news, and it cannot leave: the SACK that
        opened the window was lost, or no path is usable."""
        if not self._queue.has_unsent() or self._sent.outstanding:
            return False
        return self._sent.next_psn > self._last_sendable() or not self._paths.usable()

    def _last_sendable(self) -> int:
        """The last PSN the peer granted, as far as our own records reach."""
        return min(self._sent.right_edge, self._sent.una + self._most) - 1

    def last_new(self) -> int:
        """The last PSN that may leave for the first time: no further one while the peer has no room."""
        return self._sent.next_psn - 1 if self._nacks.waits_for_room() else self._last_sendable()

    def of_records(self, most: int) -> int:
        """Packets of data, at most `most`, that our own records have room for; 0 where there is nothing to send."""
        if most <= 0 or not (self._queue.has_unsent() or self._sender.resend.count):
            return 0
        return min(most, self._sent.make_log_room(most))

    def of_window(self) -> int:
        """Bytes of the congestion window that are free: one more packet may leave while there are any."""
        return self._controller.room()
