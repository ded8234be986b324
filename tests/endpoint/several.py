# SPDX-License-Identifier: BSD-2-Clause
"""Several QPs of one endpoint towards one destination, and the window they share."""

from __future__ import annotations

from hand_peer import PEER_QPN, PSN_MASK, HandPeer, Sent, data
from recording_window import RecordingWindow, RecordingWindows

from mrc.endpoint.config import EndpointConfig, QpConfig

CONFIG = QpConfig(path_mtu=256, timeout=20)
SMALL = QpConfig(path_mtu=256, mpr=1, mpr_dest=1, timeout=20)
# UDP 8, BTH 12, METH 4, TSETH 4, RETH 16, payload 256, ICRC 4, and 40 for IPv6.
NOMINAL = 40 + 8 + 12 + 4 + 4 + 16 + 256 + 4


class Several:
    """`count` QPs of one endpoint, each with a peer QPN of its own, sharing `window` bytes or (`own`) with one each."""

    def __init__(
        self, count: int, window: int, *, own: bool = False, fair_share: int = 128, config: QpConfig = CONFIG
    ) -> None:
        self.windows = [RecordingWindows(window) for _ in range(count if own else 1)]
        self.hand = HandPeer(config, controller=self.windows[0], endpoint=EndpointConfig(seed=1, fair_share=fair_share))
        self.qps = [self.hand.qp]
        for at in range(1, count):
            self.hand.controller = self.windows[at if own else 0]
            self.qps.append(self.hand.connect(config, qpn=PEER_QPN + at))

    @property
    def window(self) -> RecordingWindow:
        (windows,) = self.windows
        return windows.only

    def of(self, at: int) -> HandPeer:
        """Packets and posts are for this QP from here on."""
        self.hand.qp = self.qps[at]
        return self.hand

    def sent(self) -> list[tuple[int, int]]:
        """(QP, number of its packet) of all data that leaves now."""
        return [self.which(packet) for packet in data(self.hand.transmitted())]

    def which(self, packet: Sent) -> tuple[int, int]:
        at = packet["bth"]["dqp"] - PEER_QPN
        return at, (packet.psn - self.qps[at].first_psn) & PSN_MASK
