# SPDX-License-Identifier: BSD-2-Clause
"""What the loop needs of an endpoint, whatever transport it speaks."""

from __future__ import annotations

from typing import Protocol

from mrc.endpoint.node.local_ports import PortLimit
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch


class UnsentCounter(Protocol):
    not_sent_by_system: int


class BatchSize(Protocol):
    @property
    def transmit_batch(self) -> int: ...


class Driven(Protocol):
    """An endpoint as `Driver` runs it: packets in, packets out, timers, ports. Times are in ns."""

    @property
    def config(self) -> BatchSize: ...
    @property
    def counters(self) -> UnsentCounter: ...
    @property
    def data_before_answers(self) -> int:
        """How often a single packet of data was sent ahead of answers that were due."""
        ...

    def receive(self, batch: ReceivedBatch, now: int) -> None: ...
    def transmit(self, batch: TransmitBatch, now: int) -> int: ...
    def next_deadline(self) -> int | None: ...
    def on_timer(self, now: int) -> None: ...
    def set_port(self, port: int, up: bool, now: int) -> None: ...
    def limit_port(self, port: int, limit: PortLimit | None, now: int) -> None: ...
