# SPDX-License-Identifier: BSD-2-Clause
"""RoCEv2's reliable connection as a yardstick: one path, in order, go-back-N.

A sender that never runs out of data and a receiver, on hosts of a SimFabric in the place of endpoints. Requests are
WRITE Middle packets of one path MTU; answers are ACKs, one for each `ack_every_bytes`, and one NAK PSN sequence error
for each gap: further packets beyond it are dropped in silence until the one expected is there (IBTA C9-113). The
sender goes back to what a NAK names, or to the oldest unacknowledged packet when nothing moved for `timeout_ns`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mrc.endpoint.paths.addressing import Path
from mrc.errors import CallerError
from mrc.sim.fabric import SimFabric
from mrc.wire.fields import ACK, COMMON
from mrc.wire.frames import Frames
from mrc.wire.memory import address_of
from mrc.wire.opcodes import HEADER_LENGTHS, ICRC_LENGTH
from mrc.wire.profile import DEFAULT_WIRE_PROFILE
from mrc.wire.psn import unwrap
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.rows import EXTENSION_AT, PSN_BITS_MASK
from mrc.wire.transmit_batch import TransmitBatch

WRITE_MIDDLE, ACKNOWLEDGE = 0x07, 0x11
ACK_SYNDROME, NAK_SEQUENCE_ERROR = 0x1F, 0x60
_QPN = 0x11


@dataclass(frozen=True, slots=True)
class GoBackNConfig:
    """`window_packets` may be unacknowledged at once."""

    path_mtu: int = 4096
    window_packets: int = 100
    ack_every_bytes: int = 16 * 1024
    timeout_ns: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("path_mtu", "window_packets", "ack_every_bytes", "timeout_ns"):
            if getattr(self, name) < 1:
                raise CallerError(f"{name} must be at least 1, got {getattr(self, name)}")


class GoBackNEnd:
    """One end of the connection; `sending` sends without end, the other answers. PSNs are unbounded here."""

    __slots__ = (
        "_answers",
        "_config",
        "_frames",
        "_gap_reported",
        "_payload",
        "_timer_at",
        "_unacked_bytes",
        "delivered_bytes",
        "expected",
        "highest",
        "next_psn",
        "packets_sent",
        "sending",
        "timeouts",
        "una",
    )

    def __init__(self, config: GoBackNConfig, *, sending: bool) -> None:
        self._config = config
        self.sending = sending
        self._frames: Frames | None = None
        self._payload = bytes(config.path_mtu)
        # Sender: the oldest unacknowledged PSN, the next to send, one past the highest ever sent.
        self.una = self.next_psn = self.highest = 0
        self.packets_sent = 0
        self.timeouts = 0
        self._timer_at: int | None = None
        # Receiver: the PSN expected, answers to send as (PSN, syndrome).
        self.expected = 0
        self.delivered_bytes = 0
        self._answers: deque[tuple[int, int]] = deque()
        self._gap_reported = False
        self._unacked_bytes = 0

    def use(self, path: Path) -> None:
        """Send on this path."""
        self._frames = Frames()
        self._frames.add(path.template, path.port, path.destination)

    # ------------------------------------------------------------------ packets in

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        rows = [row for row in range(batch.count) if batch.icrc_right(row)]
        common, acks = batch.fields(COMMON), batch.fields(ACK)
        for row in rows:
            psn = int(common["psn_word"][row]) & PSN_BITS_MASK
            if common["opcode"][row] == WRITE_MIDDLE:
                self._on_request(unwrap(psn, self.expected), int(batch.length[row]) - EXTENSION_AT - ICRC_LENGTH)
            elif common["opcode"][row] == ACKNOWLEDGE:
                self._on_answer(unwrap(psn, self.una), int(acks["aeth_word"][row]) >> 24, now)

    def _on_request(self, psn: int, length: int) -> None:
        if psn == self.expected:
            self.expected += 1
            self.delivered_bytes += length
            self._gap_reported = False
            self._unacked_bytes += length
            if self._unacked_bytes >= self._config.ack_every_bytes:
                self._answer(self.expected - 1, ACK_SYNDROME)
        elif psn < self.expected:
            self._answer(self.expected - 1, ACK_SYNDROME)
        elif not self._gap_reported:
            self._gap_reported = True
            self._answer(self.expected, NAK_SEQUENCE_ERROR)

    def _answer(self, psn: int, syndrome: int) -> None:
        self._unacked_bytes = 0
        self._answers.append((psn, syndrome))

    def _on_answer(self, psn: int, syndrome: int, now: int) -> None:
        """A NAK acknowledges everything before it, and sends the sender back to it."""
        una = psn if syndrome == NAK_SEQUENCE_ERROR else psn + 1
        if not self.una <= una <= self.highest:
            return
        if una > self.una:
            self.una = una
            self._timer_at = now + self._config.timeout_ns
        self.next_psn = self.una if syndrome == NAK_SEQUENCE_ERROR else max(self.next_psn, self.una)

    # ------------------------------------------------------------------ packets out

    def transmit(self, batch: TransmitBatch, now: int) -> int:
        start = batch.count
        while self._answers and batch.free:
            self._append_answer(batch, *self._answers.popleft())
        while self.sending and batch.free and self.next_psn < self.una + self._config.window_packets:
            self._append_request(batch, self.next_psn)
            self.next_psn += 1
            self.packets_sent += 1
            self.highest = max(self.highest, self.next_psn)
            if self._timer_at is None:
                self._timer_at = now + self._config.timeout_ns
        batch.seal(start)
        return batch.count - start

    def _append_request(self, batch: TransmitBatch, psn: int) -> None:
        dscp, length = DEFAULT_WIRE_PROFILE.dscp_no_trim, self._config.path_mtu
        self._append(batch, WRITE_MIDDLE, psn, dscp, 0, length)

    def _append_answer(self, batch: TransmitBatch, psn: int, syndrome: int) -> None:
        row = self._append(batch, ACKNOWLEDGE, psn, DEFAULT_WIRE_PROFILE.dscp_control, HEADER_LENGTHS["aeth"], 0)
        batch.fields(ACK, row, row + 1)["aeth_word"] = syndrome << 24

    def _append(self, batch: TransmitBatch, opcode: int, psn: int, dscp: int, extension: int, length: int) -> int:
        if self._frames is None:
            raise CallerError("this end has no path to send on")
        row = batch.append(self._frames, 0, dscp << 2, EXTENSION_AT + extension, address_of(self._payload), length)
        fields = batch.fields(COMMON, row, row + 1)
        fields["opcode"] = opcode
        fields["dqp_word"] = _QPN
        fields["psn_word"] = psn & PSN_BITS_MASK
        return row

    # ------------------------------------------------------------------ time

    def next_deadline(self) -> int | None:
        return self._timer_at

    def on_timer(self, now: int) -> None:
        if self._timer_at is None or now < self._timer_at:
            return
        self.timeouts += 1
        self.next_psn = self.una
        self._timer_at = now + self._config.timeout_ns


class GoBackNFlow:
    """A connection from `host` to `peer`: `agents` go into the SimFabric, `start` once it is there."""

    def __init__(self, host: str, peer: str, config: GoBackNConfig | None = None) -> None:
        config = config or GoBackNConfig()
        self._names = host, peer
        self.sender = GoBackNEnd(config, sending=True)
        self.receiver = GoBackNEnd(config, sending=False)

    @property
    def agents(self) -> dict[str, GoBackNEnd]:
        return dict(zip(self._names, (self.sender, self.receiver), strict=True))

    def start(self, fabric: SimFabric, path: int = 0) -> None:
        """Both directions take the path of this number, as a hash of addresses and ports would choose one."""
        host, peer = self._names
        self.sender.use(fabric.paths(host, peer)[path])
        self.receiver.use(fabric.paths(peer, host)[path])

    @property
    def delivered_bytes(self) -> int:
        return self.receiver.delivered_bytes
