# SPDX-License-Identifier: BSD-2-Clause
"""The exchange over real sockets on loopback: requests, errors, many clients, and its end."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from patience import PATIENCE_S

from mrc.errors import CallerError, PeerError, SystemRefused
from mrc.net.exchange import ExchangeClient, ExchangeConfig, ExchangeServer, SessionInfo
from mrc.net.ticket import Ticket

QUICK = ExchangeConfig(close_grace_s=0.5, working_interval_s=0.1, attempt_timeout_s=0.3)


# A machine that stands still at the wrong moment makes what is quick slow, and shows nothing: once more then.
TRIES = 20


def eventually(holds: Callable[[], bool], within_s: float = PATIENCE_S) -> bool:
    by = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > by:
            return False
        time.sleep(0.005)
    return True


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("mrc-exchange")])


def echo(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"session": session.number, "kind": kind, "body": body}


@pytest.mark.parametrize("addresses", [["::1"], ["127.0.0.1"], ["::1", "127.0.0.1"], ["127.0.0.1", "::1"]])
def test_a_request_is_answered_over_either_family(addresses: list[str]) -> None:
    with ExchangeServer(addresses, echo) as server:
        ticket = Ticket.parse(server.ticket.text)
        assert ticket.addresses == tuple(addresses)
        with ExchangeClient(ticket) as client:
            body = {
                "r_key": 0xFFFFFFFF,
                "planes": ["fd00::1"],
                "name": "b\u00fcrste \udcff",
                "ratio": 0.5,
                "none": None,
            }
            assert client.request("open", body, PATIENCE_S) == {"session": 1, "kind": "open", "body": body}
            assert client.address == addresses[0]
            assert client.request("next", {}, PATIENCE_S)["session"] == 1
        assert server.counters["requests"] == 2


@pytest.mark.parametrize("advertised", ["::1", "127.0.0.1"])
def test_every_address_of_both_families_is_bound_by_default(advertised: str) -> None:
    seen: list[str] = []

    def handler(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        seen.append(session.peer_address)
        return {}

    with ExchangeServer([], handler, advertised=[advertised]) as server, ExchangeClient(server.ticket) as client:
        client.request("open", {}, PATIENCE_S)
    assert seen == [advertised]


def test_both_ends_learn_what_the_other_can_do() -> None:
    def handler(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"features": sorted(session.features)}

    with (
        ExchangeServer(["::1"], handler, features=["service-time"]) as server,
        ExchangeClient(server.ticket, features=["trim-nack", "wimm"]) as client,
    ):
        assert client.request("open", {}, PATIENCE_S) == {"features": ["trim-nack", "wimm"]}
        assert client.peer_features == {"service-time"}


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (CallerError("the file name has a slash in it: leave it out"), "slash in it"),
        (PeerError("the file exists: give --overwrite"), "give --overwrite"),
        (SystemRefused("the disk is full: free 3 MB"), "free 3 MB"),
        (ZeroDivisionError("secret details"), r"failed on 'write' \(ZeroDivisionError\)"),
    ],
)
def test_an_error_of_the_handler_is_raised_at_the_client(error: Exception, says: str) -> None:
    def handler(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        if kind == "write":
            raise error
        return {}

    with ExchangeServer(["::1"], handler) as server, ExchangeClient(server.ticket) as client:
        with pytest.raises(PeerError, match=says) as raised:
            client.request("write", {}, PATIENCE_S)
        assert "secret details" not in str(raised.value)
        assert client.request("other", {}, PATIENCE_S) == {}
        assert client.reconnects == 0
        assert server.counters["handler_errors"] + server.counters["handler_failures"] == 1


@pytest.mark.parametrize("answer", [[1], {"bytes": b""}, {"much": "x" * (1 << 20)}, {"not": float("nan")}])
def test_an_answer_that_cannot_be_sent_is_an_error_not_silence(answer: Any) -> None:
    with (
        ExchangeServer(["::1"], lambda session, kind, body: answer) as server,
        ExchangeClient(server.ticket) as client,
        pytest.raises(PeerError, match=r"answered list|cannot be written|bytes, the most is"),
    ):
        client.request("open", {}, PATIENCE_S)


def test_a_body_that_cannot_be_sent_is_the_callers_error() -> None:
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"in": deep}
    with ExchangeServer(["::1"], echo) as server, ExchangeClient(server.ticket) as client:
        for body in ({"x": b""}, {"x": float("inf")}, {"x": "y" * (1 << 20)}, deep):
            with pytest.raises(CallerError):
                client.request("open", body, PATIENCE_S)
        large = {"x": "y" * ((1 << 20) - 200)}
        assert client.request("open", large, PATIENCE_S)["body"] == large


def test_a_long_request_keeps_its_connection() -> None:
    def handler(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        # Longer than the client would wait in silence: the time itself is what is tested.
        time.sleep(2.5 * QUICK.attempt_timeout_s)
        return {"sum": "agrees"}

    with (
        ExchangeServer(["::1"], handler, config=QUICK) as server,
        ExchangeClient(server.ticket, config=QUICK) as client,
    ):
        for _ in range(TRIES):
            before, replayed = client.reconnects, server.counters["replayed_requests"]
            assert client.request("verify", {}, PATIENCE_S) == {"sum": "agrees"}
            if (client.reconnects, server.counters["replayed_requests"]) == (before, replayed):
                return
    pytest.fail("it never kept its connection")


def test_many_clients_at_once_each_get_their_own_answers() -> None:
    def one(ticket: Ticket, name: int) -> set[int]:
        with ExchangeClient(ticket) as client:
            answers = [client.request("count", {"name": name, "i": i}, PATIENCE_S) for i in range(5)]
        assert [answer["body"] for answer in answers] == [{"name": name, "i": i} for i in range(5)]
        return {answer["session"] for answer in answers}

    with ExchangeServer(["::1", "127.0.0.1"], echo) as server, ThreadPoolExecutor(24) as pool:
        sessions = list(pool.map(lambda name: one(server.ticket, name), range(48)))
        assert all(len(session) == 1 for session in sessions)
        assert len(set.union(*sessions)) == 48
        assert server.counters["requests"] == 240
        assert server.counters["sessions"] == 48


def test_one_connection_too_many_waits_for_a_place() -> None:
    config = ExchangeConfig(max_connections=1, round_pause_s=0.05)
    with ExchangeServer(["::1"], echo, config=config) as server:
        first = ExchangeClient(server.ticket)
        first.request("open", {}, PATIENCE_S)
        with ExchangeClient(server.ticket, config=config) as second:
            while not server.counters["refused_full"]:
                with pytest.raises(PeerError, match=r"no answer to 'open' within 0.3 s.*\[::1\]"):
                    second.request("open", {}, 0.3)
            first.close()
            assert second.request("open", {}, PATIENCE_S)["session"] == 2


def test_goodbye_ends_the_session_at_once_and_once() -> None:
    ended: list[SessionInfo] = []
    seen: list[SessionInfo] = []
    over = threading.Event()

    def handler(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        session.data["kind"] = kind
        seen.append(session)
        return {}

    def closed(session: SessionInfo) -> None:
        ended.append(session)
        over.set()

    with ExchangeServer(["::1"], handler, on_session_closed=closed) as server:
        with ExchangeClient(server.ticket) as client:
            client.request("open", {}, PATIENCE_S)
        assert over.wait(PATIENCE_S)
    assert ended == seen
    assert ended[0].closed_because == "client"
    assert ended[0].data == {"kind": "open"}


def test_close_ends_idle_clients_promptly_and_twice_is_once() -> None:
    ended: list[str] = []
    server = ExchangeServer(["::1"], echo, on_session_closed=lambda session: ended.append(session.closed_because))
    server.start()
    clients = [ExchangeClient(server.ticket) for _ in range(8)]
    for client in clients:
        client.request("open", {}, PATIENCE_S)
    server.close()
    assert ended == ["server"] * 8
    server.close()
    assert ended == ["server"] * 8
    for client in clients:
        with pytest.raises(PeerError, match=r"\[::1\].*refused.*start the other end again"):
            client.request("more", {}, PATIENCE_S)
        client.close()
        client.close()
        with pytest.raises(CallerError, match="closed"):
            client.request("more", {}, PATIENCE_S)


@pytest.mark.parametrize("finishes", [True, False])
def test_close_waits_for_a_request_under_way_but_not_for_ever(finishes: bool) -> None:
    started, release = threading.Event(), threading.Event()

    def handler(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        started.set()
        release.wait(PATIENCE_S)
        return {"done": True}

    config = dataclasses.replace(QUICK, close_grace_s=PATIENCE_S) if finishes else QUICK
    server = ExchangeServer(["::1"], handler, config=config).start()
    with ThreadPoolExecutor(1) as pool, ExchangeClient(server.ticket, config=QUICK) as client:
        answer = pool.submit(client.request, "verify", {}, PATIENCE_S if finishes else 3)
        assert started.wait(PATIENCE_S)
        if finishes:
            threading.Timer(0.1, release.set).start()
        began = time.monotonic()
        server.close()
        # Not the two minutes the handler would take.
        assert time.monotonic() - began < PATIENCE_S / 2
        if finishes:
            assert answer.result(PATIENCE_S) == {"done": True}
        else:
            with pytest.raises(PeerError):
                answer.result(PATIENCE_S)
        release.set()


def test_closing_a_client_ends_its_request() -> None:
    started, release = threading.Event(), threading.Event()

    def handler(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        started.set()
        release.wait(PATIENCE_S)
        return {}

    with ExchangeServer(["::1"], handler, config=QUICK) as server, ThreadPoolExecutor(1) as pool:
        client = ExchangeClient(server.ticket, config=QUICK)
        answer = pool.submit(client.request, "verify", {}, PATIENCE_S)
        assert started.wait(PATIENCE_S)
        began = time.monotonic()
        client.close()
        assert time.monotonic() - began < PATIENCE_S / 2
        with pytest.raises(CallerError, match="closed during a request"):
            answer.result(PATIENCE_S)
        release.set()


def test_a_timeout_names_the_addresses_and_the_next_request_is_answered() -> None:
    started, release = threading.Event(), threading.Event()

    def handler(session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        if kind == "verify":
            started.set()
            release.wait(PATIENCE_S)
        return {"kind": kind}

    with (
        ExchangeServer(["::1"], handler, config=QUICK) as server,
        ExchangeClient(server.ticket, config=QUICK) as client,
    ):
        while not started.is_set():
            with pytest.raises(PeerError, match=r"no answer to 'verify' within 0.3 s .*\[::1\]:\d+"):
                client.request("verify", {}, 0.3)
        assert client.request("other", {}, PATIENCE_S) == {"kind": "other"}
        release.set()


def test_misuse_is_refused() -> None:
    with pytest.raises(CallerError, match="before start"):
        _ = ExchangeServer(["::1"], echo).ticket
    with pytest.raises(CallerError, match="nobody can connect to"):
        ExchangeServer(["::"], echo).start()
    with pytest.raises(CallerError, match="cannot listen"):
        ExchangeServer(["localhost"], echo).start()
    with pytest.raises(SystemRefused, match=r"cannot listen on 2001:db8::1"):
        ExchangeServer(["2001:db8::1"], echo).start()
    with ExchangeServer(["::1"], echo) as server:
        with pytest.raises(CallerError, match="started once"):
            server.start()
        with pytest.raises(SystemRefused, match="in use"):
            ExchangeServer(["::1"], echo, port=server.ticket.port).start()
    with pytest.raises(CallerError, match="linger_s"):
        ExchangeConfig(linger_s=1, ping_interval_s=1)
    with pytest.raises(CallerError, match="above 0"):
        ExchangeConfig(attempt_timeout_s=0)
