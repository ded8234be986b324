# SPDX-License-Identifier: BSD-2-Clause
"""Endpoints that judge a burst as no row of single packets."""

from __future__ import annotations

from typing import Any

import numpy as np

from mrc.endpoint.endpoint import Endpoint
from mrc.wire.received_batch import ReceivedBatch
from mutants.mutant import mutant


def part_of(batch: ReceivedBatch, rows: list[int]) -> ReceivedBatch:
    """These packets of a batch, in this order."""
    chosen = np.array(rows, np.int64)
    ipv4 = None if batch.ipv4 is None else batch.ipv4[chosen]
    length, port, traffic_class = batch.length[chosen], batch.port[chosen], batch.traffic_class[chosen]
    return ReceivedBatch(batch.data[chosen], batch.room, len(rows), length, port, traffic_class, ipv4)


@mutant("MRC-ACK-08")
class BurstsAreTakenBackwards(Endpoint):
    """Of the requests of a burst the last is judged first."""

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        super().receive(part_of(batch, list(reversed(range(batch.count)))), now)


class _Edge:
    """Stands in for a window that ends where it ended."""

    def __init__(self, end: int) -> None:
        self._end = end

    def end(self, epsn: int) -> int:
        return self._end


@mutant("MRC-RESP-20")
class TheWindowWaitsForTheBurst(Endpoint):
    """Where the window ends is looked at once a burst."""

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        responders: list[Any] = [qp.responder for qp in self.qps.values() if qp.knows_peer]
        windows = [responder.window for responder in responders]
        for responder, window in zip(responders, windows, strict=True):
            responder.window = _Edge(window.end(responder.received.epsn))
        super().receive(batch, now)
        for responder, window in zip(responders, windows, strict=True):
            responder.window = window
