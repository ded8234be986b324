"""What a node can hold of what its peers send, shared among the QPs that receive (behaviour.md, Responder; all C).

Two signals of the protocol bound it. The window of a dynamic MPR keeps all peers together below what the receive
buffers hold, so none overflows. The receiver penalty shrinks their congestion windows while packets wait unread, so
none waits long: a processor that is shared has no ECN mark to give.
"""

from __future__ import annotations

from mrc.endpoint.config import MPR_UNIT, ReceivingConfig
from mrc.endpoint.receive_window import MAX_MPR

MAX_PENALTY = 127


class ReceiveBudget:
    """One endpoint's. `units`: the MPR that each QP which receives may be granted now, 1..255 units of 128 PSNs.

    `penalty`: the rcv_cwnd_pen of every SACK sent now, 0..127.
    """

    __slots__ = ("_capacity", "_config", "_look_at", "_receiving", "penalty", "units")

    def __init__(self, config: ReceivingConfig) -> None:
        self._config = config
        self._capacity = config.most_packets
        # QPs that receive, and when the last request came, ns.
        self._receiving: dict[int, int] = {}
        self._look_at = 0
        self.units = MAX_MPR
        self.penalty = 0
        self._share()

    def set_capacity(self, packets: int) -> None:
        """The receive buffers hold so many full packets, whichever port they come through."""
        most = self._config.most_packets
        self._capacity = packets if most is None else min(packets, most)
        self._share()

    def units_for(self, newcomers: int) -> int:
        """What each of so many QPs may be granted that are about to be connected, in units of 128 PSNs."""
        return self._units(len(self._receiving) + newcomers)

    def on_requests(self, qpn: int, now: int) -> None:
        """This QP was connected, or requests of its peer arrived."""
        known = qpn in self._receiving
        self._receiving[qpn] = now
        if known and now < self._look_at:
            return
        self._look_at = now + self._config.active_ns // 8
        self._receiving = {each: last for each, last in self._receiving.items() if now - last <= self._config.active_ns}
        self._share()

    def forget(self, qpn: int) -> None:
        """This QP is gone."""
        if self._receiving.pop(qpn, None) is not None:
            self._share()

    def on_backlog(self, packets: int) -> None:
        """So many packets wait in the receive buffers while a batch is being taken."""
        target = self._config.backlog_packets
        self.penalty = 0 if packets <= target else min(MAX_PENALTY, (packets - target) * MAX_PENALTY // target + 1)

    def _share(self) -> None:
        self.units = self._units(len(self._receiving))

    def _units(self, qps: int) -> int:
        if self._capacity is None:
            return MAX_MPR
        return min(MAX_MPR, max(1, self._capacity // (MPR_UNIT * max(1, qps))))
