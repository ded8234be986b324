# SPDX-License-Identifier: BSD-2-Clause
"""A live target that ends while a case waits for its packets."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from patience import PATIENCE_S

from mrc.conformance.live import target as live_target
from mrc.conformance.live.target import LiveTarget
from mrc.conformance.target import TargetLost
from mrc.fabric.host_view import Fabric, FabricPort
from mrc.net.exchange import ExchangeServer, SessionInfo
from mrc.wire.profile import WireProfile

FABRIC = Fabric("f", 0, 4400, (FabricPort(0, "p0", "fd00::1", 0, 4),))


def answer(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"result": None}


def test_a_case_that_waits_for_packets_ends_with_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_target, "open_ports", lambda *ports, **options: ())
    with ExchangeServer(["::1"], answer) as server:
        target = LiveTarget(server.ticket, FABRIC)
        try:
            assert target._line.call("open") is None
            clock = target._clock(False, WireProfile())
            ending = threading.Thread(target=server.close)
            ending.start()
            with pytest.raises(TargetLost, match="the target does not answer any more: the receiver has ended"):
                clock.get(time.monotonic_ns() + int(PATIENCE_S * 1e9))
            ending.join()
            with pytest.raises(TargetLost, match="the target does not answer any more"):
                target._line.call("close")
        finally:
            target.close()
