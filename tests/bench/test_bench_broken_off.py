# SPDX-License-Identifier: BSD-2-Clause
"""What breaks off a measurement: a server that refuses or ends, and a client that ends before its turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from patience import eventually

from mrc.bench.backwards import Asking
from mrc.bench.client import BenchClient, BenchOptions
from mrc.bench.latency import Pinger, ping
from mrc.bench.server import BENCH_FEATURE, BenchServer
from mrc.bench.writes import Writing
from mrc.errors import PeerError
from mrc.fabric import Clos
from mrc.net.exchange.session import SessionInfo
from mrc.net.session.qps import TUNING
from mrc.sim import SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import Context


def test_writes_end_when_the_server_fails_to_write_back() -> None:
    def ask() -> dict[str, Any]:
        raise PeerError("a write failed")

    def run(until: Callable[[], bool]) -> None:
        for _ in range(10):
            assert not until()

    client = object.__new__(BenchClient)
    client._options = BenchOptions("write", (1,), 600.0, direction="both")
    client._loop = run  # type: ignore[method-assign]
    # It would go on for ten minutes.
    writing = cast(Writing, SimpleNamespace(begin=lambda: None, turn=lambda: False))
    asking = Asking(ask, lambda: None)
    try:
        eventually(asking._done.is_set)
        with pytest.raises(PeerError, match="a write failed"):
            client._turn_until_done(writing, asking, [])
    finally:
        asking.close()


class Answered:
    """A pinger whose pings are all answered."""

    has_room = is_quiet = True

    def arrived(self, number: int) -> bool:
        return True

    def take_completions(self) -> None:
        pass

    def write(self, number: int) -> None:
        pass


@pytest.mark.parametrize("turns", [1, 6])
def test_pings_that_were_answered_before_the_server_ended_are_kept(turns: int) -> None:
    def run(until: Callable[[], bool]) -> None:
        for _ in range(turns):
            assert not until()
        raise PeerError("the receiver has ended")

    pinged = ping(cast(Pinger, Answered()), run, 600.0)
    assert len(pinged.half_round_trips_us) == turns - 1
    assert pinged.interrupted
    assert str(pinged.failure) == "the receiver has ended"


def server_on(context: Context) -> BenchServer:
    """A server without its loop and its exchange."""
    server = object.__new__(BenchServer)
    server._node = cast(Any, SimpleNamespace(driver=SimpleNamespace(call=lambda function: function())))
    server._exchange = cast(Any, SimpleNamespace(close=lambda: None))
    server._context, server._client, server._gives_back_at = context, None, None
    server._lock, server._free = threading.Lock(), threading.Event()
    server._served, server._on_session = deque(), lambda session: None
    server._free.set()
    return server


def test_a_client_that_ended_while_it_waited_for_its_turn_keeps_nobody_else_waiting() -> None:
    """Its session was closed before there was a client to end."""
    ended = SessionInfo(1, "h0", frozenset({BENCH_FEATURE}), closed_because="silence")
    context = Context(SimDevice(SimFabric(Clos(spines=2)), "h0"), tuning=TUNING)
    server = server_on(context)
    with pytest.raises(PeerError, match="the client went away"):
        server._handle(ended, "connect", {})
    assert server._free.is_set()
    assert server._client is None
    context.close()


@pytest.mark.parametrize(
    ("because", "measuring", "failure"),
    [
        ("client", False, None),
        ("server", False, None),
        ("server", True, "the server was stopped in the middle of a measurement"),
        ("silence", True, "the client went away in the middle of a measurement"),
    ],
)
@pytest.mark.parametrize("in_time", [True, False])
def test_a_server_that_is_stopped_tells_of_its_last_client(
    because: str, measuring: bool, failure: str | None, in_time: bool
) -> None:
    """Also where the thread that takes the client down has not come to it when the server is stopped."""
    session = SessionInfo(1, "h0", frozenset({BENCH_FEATURE}))
    server = server_on(Context(SimDevice(SimFabric(Clos(spines=2)), "h0"), tuning=TUNING))
    with pytest.raises(PeerError, match="no node description"):
        server._handle(session, "connect", {})
    client = server._client
    assert client is not None
    client.measurements.append({"test": "write"})
    client.started_cpu_s = 1.0 if measuring else None
    session.closed_because = because
    if in_time:
        server._session_closed(session)
    server.close()
    server._session_closed(session)
    (told,) = server.served
    assert (told.peer_address, told.measurements, told.failure) == ("h0", [{"test": "write"}], failure)
