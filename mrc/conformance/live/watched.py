# SPDX-License-Identifier: BSD-2-Clause
"""An endpoint in its loop, with a count of what went in and out, and held back where a case asks for that."""

from __future__ import annotations

from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.node.local_ports import PortLimit
from mrc.net.driven import BatchSize, UnsentCounter
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch


class Watched:
    """What the driver runs instead of the endpoint itself. `received` and `sent` are packets."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.received = 0
        self.sent = 0
        self.hold_ns = 0
        self._held_until = 0

    @property
    def config(self) -> BatchSize:
        return self._endpoint.config

    @property
    def counters(self) -> UnsentCounter:
        return self._endpoint.counters

    @property
    def data_before_answers(self) -> int:
        return self._endpoint.data_before_answers

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        self._endpoint.receive(batch, now)
        self.received += batch.count
        if self.hold_ns:
            self._held_until = now + self.hold_ns

    def transmit(self, batch: TransmitBatch, now: int) -> int:
        if now < self._held_until:
            return 0
        count = self._endpoint.transmit(batch, now)
        self.sent += count
        return count

    def next_deadline(self) -> int | None:
        due = self._endpoint.next_deadline()
        if not self._held_until:
            return due
        return self._held_until if due is None else min(due, self._held_until)

    def on_timer(self, now: int) -> None:
        if now >= self._held_until:
            self._held_until = 0
        self._endpoint.on_timer(now)

    def set_port(self, port: int, up: bool, now: int) -> None:
        self._endpoint.set_port(port, up, now)

    def limit_port(self, port: int, limit: PortLimit | None, now: int) -> None:
        self._endpoint.limit_port(port, limit, now)
