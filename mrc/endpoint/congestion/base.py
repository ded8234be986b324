# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
"""The interface of a congestion controller: bytes and signals in, a window out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mrc.endpoint.parts.flags import Away
from mrc.errors import CallerError
from mrc.wire.compiled import Subclassed, python, with_gil

# rcv_cwnd_pen of a SACK that says nothing of one: its cc_type is not 0 (MRC-SACK-28).
PENALTY_UNKNOWN = -1
# The round trip of an acknowledgement that measured none.
NO_SAMPLE = -1
# No window is larger, bytes.
_LARGEST = 1 << 60


class ControllerFailed(CallerError):
    """A congestion controller raised something, which is the `__cause__`, or has a window that is none.

    A datapath that waits for no interpreter cannot raise it at once: the endpoint does when Python is there.
    """


@dataclass(frozen=True, slots=True)
class PacketSizes:
    """A full packet of a QP in bytes: its nominal size (UDP length + 40; `mtu` in nscc.md) and its payload (`mss`)."""

    mtu: int
    mss: int


class CongestionController(Subclassed):
    """Sender-side, window-based. Sizes are nominal packet sizes in bytes (UDP length + 40), times integer ns.

    A controller belongs to a destination and may govern several QPs; `inflight` is kept here for all of them. One
    written in Python is a subclass that has `cwnd`, `on_ack`, `on_loss`, `on_nack` and `on_rtt`. A compiled one has
    `acknowledged`, `lost` and `nacked` in place of `on_ack`, `on_loss` and `on_nack`, and `room` besides `cwnd`: the
    datapath calls these and waits for no interpreter.
    """

    def __init__(self) -> None:
        self.inflight = 0
        # Whether Python may be away: what would have to wait for it is done later.
        self.away = Away()

    @property
    def cwnd(self) -> int:
        """The window in bytes, 0 or more; 0 is shut. A packet may leave while inflight < cwnd."""
        raise NotImplementedError

    @property
    def may_send(self) -> bool:
        """Whether one more packet may leave: there is room in the window."""
        return self.inflight < self.cwnd

    @property
    def wants_base_rtt(self) -> bool:
        """Whether a round trip measured now, before there is data, would help: then EV probes are sent at QP start."""
        return False

    def shown(self) -> python[Mapping[str, int | float | None]]:
        """What `mrc ctl` shows of its state besides `cwnd` and `inflight`, each name with its unit: `base_rtt_ns`."""
        return {}

    def on_ack(
        self, now: int, acked_bytes: int, marked: bool, rtt_ns: int | None, penalty: int = 0, restore: bool = False
    ) -> python[None]:
        """One SACK newly acknowledged `acked_bytes`; `marked` is its ECN verdict, `rtt_ns` its sample if valid.

        `penalty` (0..127) and `restore` are its rcv_cwnd_pen and restore_cwnd; PENALTY_UNKNOWN neither begins a penalty
        nor ends one. `on_removed` was called before.
        """
        raise NotImplementedError

    def on_loss(self, now: int, lost_bytes: int) -> python[None]:
        """Packets were lost untrimmed. `on_removed` was called before."""
        raise NotImplementedError

    def on_nack(self, now: int, nacked_bytes: int, trimmed: bool) -> python[None]:
        """A NACK named these packets; `trimmed` when its reason was TRIMMED or TRIMMED_LASTHOP."""
        raise NotImplementedError

    def on_rtt(self, now: int, rtt_ns: int) -> python[None]:
        """A round trip to this destination was measured without data, by an EV probe say: news of base RTT only."""
        raise NotImplementedError

    def sent(self, sent_bytes: int) -> python[None]:
        """A transmission left: `on_sent` for callers in Python."""
        self.on_sent(sent_bytes)

    def removed(self, removed_bytes: int) -> python[None]:
        """A transmission left the network: `on_removed` for callers in Python."""
        self.on_removed(removed_bytes)

    # ------------------------------------------------------------------ what the datapath calls

    def room(self) -> with_gil[int]:
        """Bytes of the window that are free: one more packet may leave while there are any."""
        try:
            window = self.cwnd
            if not 0 <= window <= _LARGEST:
                raise ControllerFailed(f"{_named(self)} has a window of {window!r} bytes: cwnd must be a number")
            return int(window) - self.inflight
        except BaseException as error:
            self._failed("cwnd", error)
            return 0

    def acknowledged(
        self, now: int, acked_bytes: int, marked: bool, rtt_ns: int, penalty: int, restore: bool
    ) -> with_gil[None]:
        """`on_ack`; `rtt_ns` is NO_SAMPLE where there is no valid sample."""
        try:
            self.on_ack(now, acked_bytes, marked, None if rtt_ns == NO_SAMPLE else rtt_ns, penalty, restore)
        except BaseException as error:
            self._failed("on_ack", error)

    def lost(self, now: int, lost_bytes: int) -> with_gil[None]:
        """`on_loss`."""
        try:
            self.on_loss(now, lost_bytes)
        except BaseException as error:
            self._failed("on_loss", error)

    def nacked(self, now: int, nacked_bytes: int, trimmed: bool) -> with_gil[None]:
        """`on_nack`."""
        try:
            self.on_nack(now, nacked_bytes, trimmed)
        except BaseException as error:
            self._failed("on_nack", error)

    def measured(self, now: int, rtt_ns: int) -> python[None]:
        """`on_rtt`."""
        try:
            self.on_rtt(now, rtt_ns)
        except BaseException as error:
            self._failed("on_rtt", error)

    def _failed(self, where: str, error: BaseException) -> python[None]:
        """Something went wrong in Python's part of this controller. The first is raised once it can be."""
        if isinstance(error, Exception) and not isinstance(error, ControllerFailed):
            failed = ControllerFailed(f"{_named(self)} raised in {where}: {type(error).__name__}: {error}")
            failed.__cause__ = error
            error = failed
        self.away.fail(error)

    def on_sent(self, sent_bytes: int) -> None:
        """A transmission left."""
        self.inflight += sent_bytes

    def on_removed(self, removed_bytes: int) -> None:
        """A transmission left the network: acknowledged, lost or NACKed, whichever came first."""
        self.inflight -= removed_bytes


def _named(controller: CongestionController) -> python[str]:
    return f"congestion controller {type(controller).__name__}"
