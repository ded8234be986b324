# SPDX-License-Identifier: BSD-2-Clause
"""Two hosts of a fabric in virtual time with a controller each, and every packet that leaves a host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from mrc.control import ControlError, Controller, EvEventMask
from mrc.endpoint.config import EndpointConfig, PathConfig, QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.tracing import Tracer
from mrc.fabric import Clos
from mrc.sim import LinkModel, SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import QP, AccessFlag, Context, QPCap, SendWR, WCStatus, connect, describe

MILLISECOND = 1_000_000
SIZE = 1 << 20
# What an EV profile needs to go ONLINE, besides its EVs.
READY = {"min_active": 1, "event_mask": EvEventMask.GOOD | EvEventMask.ASSUMED_BAD | EvEventMask.DENIED}
TUNING = QpConfig(paths=PathConfig(ev_min_active=1))


class ControlPair:
    """h0 writes to h1 over 2 planes x 4 spines; closed after the test (conftest.py)."""

    opened: ClassVar[list[ControlPair]] = []

    def __init__(
        self,
        *,
        spines: int = 4,
        rate_bps: int = 10_000_000_000,
        tuning: QpConfig = TUNING,
        tracer: Tracer | None = None,
    ) -> None:
        """`tracer` is told what the endpoint of h0 does."""
        self.fabric = SimFabric(
            Clos(planes=2, spines=spines),
            LinkModel(rate_bps=rate_bps, delay_ns=1000),
            seed=3,
            agents={"h0": Endpoint(EndpointConfig(seed=1), tracer=tracer)},
        )
        self.left, self.right = SimDevice(self.fabric, "h0"), SimDevice(self.fabric, "h1")
        self.controller, self.far_controller = Controller(self.left), Controller(self.right)
        self.contexts = [Context(device, tuning=tuning) for device in (self.left, self.right)]
        ControlPair.opened.append(self)
        self._sent: list[tuple[str, int]] = []
        self.fabric.observers.append(self._observe)
        self._target = bytearray(SIZE)
        pds = [context.pd() for context in self.contexts]
        self._pds = pds
        self._region = pds[1].mr(self._target)
        self._content = bytes(range(256)) * (SIZE // 256)
        self._source = pds[0].mr(self._content, AccessFlag(0))
        self._cqs = [context.cq(256) for context in self.contexts]

    def close(self) -> None:
        for context in self.contexts:
            context.close()

    def _observe(self, now: int, host: str, data: bytes) -> None:
        # Inner IPv6 header, then UDP: the EV's upper half is in the flow label, its lower half the source port.
        self._sent.append((host, int.from_bytes(data[2:4], "big") << 16 | int.from_bytes(data[40:42], "big")))

    def connect(self, *, ev_profile_id: int = 0, cc_profile_id: int = 0) -> tuple[QP, QP]:
        cap = QPCap(max_send_wr=128)
        ends = [
            QP(pd, send_cq=cq, recv_cq=cq, cap=cap, sq_sig_all=True)
            for pd, cq in zip(self._pds, self._cqs, strict=True)
        ]
        ours, theirs = (describe(qp, path_mtu=1024) for qp in ends)
        connect(ends[1], theirs, ours)
        connect(ends[0], ours, theirs, ev_profile_id=ev_profile_id, cc_profile_id=cc_profile_id)
        return ends[0], ends[1]

    def post(self, qp: QP, length: int = SIZE) -> None:
        remote = self._region.remote
        self._target[:] = bytes(len(self._target))
        qp.post_send(SendWR(sge=self._source.sge(0, length), remote_addr=remote.addr, rkey=remote.rkey))

    def finish(self, length: int = SIZE) -> None:
        """Wait for the write's completion; every byte has to be there."""
        began = self.fabric.now
        while not (done := self._cqs[0].poll()):
            assert self.fabric.now - began < 10_000 * MILLISECOND, "the write does not end"
        assert [each.status for each in done] == [WCStatus.SUCCESS]
        assert self._target[:length] == self._content[:length]

    def write(self, qp: QP, length: int = SIZE // 4) -> None:
        self.post(qp, length)
        self.finish(length)

    def run(self, duration_ns: int) -> None:
        self.fabric.run(self.fabric.now + duration_ns)

    def sent(self) -> dict[str, Counter[int]]:
        """Packets that left each host since this was last asked, by EV."""
        counts: dict[str, Counter[int]] = {"h0": Counter(), "h1": Counter()}
        for host, ev in self._sent:
            counts[host][ev] += 1
        self._sent.clear()
        return counts


@contextmanager
def refused(number: int, match: str | None = None) -> Iterator[Any]:
    with pytest.raises(ControlError, match=match) as caught:
        yield caught
    assert caught.value.errno == number


def spine_ev(plane: int, spine: int) -> int:
    """wire.md section 11, our plan: plane(8) zero(8) uplink(16)."""
    return plane << 24 | spine
