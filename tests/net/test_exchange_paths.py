# SPDX-License-Identifier: BSD-2-Clause
"""Planes that die: addresses that never answer, connections that fall silent, and one answer all the same."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from patience import PATIENCE_S

from mrc.errors import PeerError
from mrc.net.exchange import ExchangeClient, ExchangeConfig, ExchangeServer, SessionInfo, SessionRefused
from mrc.net.exchange.dial import REFUSED, dial
from mrc.net.ticket import Ticket

QUICK = ExchangeConfig(
    attempt_timeout_s=0.3, working_interval_s=0.1, stagger_s=0.05, round_pause_s=0.05, ping_interval_s=30, linger_s=60
)


# A machine that stands still at the wrong moment makes what is quick slow, and shows nothing: once more then.
TRIES = 20


def eventually(holds: Callable[[], bool], within_s: float = PATIENCE_S) -> bool:
    by = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > by:
            return False
        time.sleep(0.005)
    return True


class Plane:
    """A stretch of network between a client and the server at ::1: bytes pass, until it goes silent.

    Silent, it takes every byte and every connection and says nothing, ever: what a cut cable looks like from afar.
    """

    def __init__(self, address: str, port: int) -> None:
        self.silent = False
        self._port = port
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server((address, port))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("::1", self._port))
                self._sockets += [near, far]
                for source, sink in ((near, far), (far, near)):
                    thread = threading.Thread(target=self._carry, args=(source, sink), daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(65536):
                if not self.silent:
                    sink.sendall(content)
            if not self.silent:
                sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)


class DeadHost:
    """An address that drops every SYN: a listener whose backlog is full."""

    def __init__(self, address: str, port: int) -> None:
        self.listener = socket.create_server((address, port), backlog=0)
        self.fillers = []
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((address, port))
            self.fillers.append(filler)

    def close(self) -> None:
        for each in [self.listener, *self.fillers]:
            each.close()


class Receiver:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.ended: list[SessionInfo] = []
        self.started = threading.Event()
        self.release = threading.Event()
        self.server = ExchangeServer(["::1"], self.handle, config=QUICK, on_session_closed=self.ended.append)

    def handle(self, session: SessionInfo, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(kind)
        if kind == "long":
            self.started.set()
            assert self.release.wait(PATIENCE_S)
        return {"calls": len(self.calls)}

    def ticket(self, *addresses: str) -> Ticket:
        return dataclasses.replace(self.server.ticket, addresses=addresses)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    with made.server:
        yield made


@pytest.fixture
def plane(receiver: Receiver) -> Iterator[Plane]:
    made = Plane("127.0.0.2", receiver.server.ticket.port)
    yield made
    made.close()


def test_a_dead_first_address_costs_a_stagger_not_a_timeout(receiver: Receiver) -> None:
    dead = DeadHost("127.0.0.3", receiver.server.ticket.port)
    began = time.monotonic()
    with ExchangeClient(receiver.ticket("127.0.0.3", "::1"), config=ExchangeConfig()) as client:
        client.request("open", {}, PATIENCE_S)
        # A TCP connect to silence alone takes minutes.
        assert 0.2 < time.monotonic() - began < PATIENCE_S / 2
        assert client.address == "::1"
    dead.close()


def test_addresses_that_refuse_or_cannot_be_reached_are_passed_over(receiver: Receiver) -> None:
    began = time.monotonic()
    with ExchangeClient(receiver.ticket("127.0.0.9", "2001:db8::1", "::1"), config=QUICK) as client:
        client.request("open", {}, PATIENCE_S)
        assert client.address == "::1"
    assert time.monotonic() - began < PATIENCE_S / 2


def test_no_address_answers_and_the_error_names_each(receiver: Receiver) -> None:
    port = receiver.server.ticket.port
    dead = DeadHost("127.0.0.3", port)
    for _ in range(TRIES):
        began = time.monotonic()
        with (
            ExchangeClient(receiver.ticket("127.0.0.3", "127.0.0.9"), config=QUICK) as client,
            pytest.raises(PeerError) as raised,
        ):
            client.request("open", {}, 0.6)
        assert time.monotonic() - began > 0.5
        said = str(raised.value)
        if f"127.0.0.3:{port}: no answer within" in said and f"127.0.0.9:{port}: connection refused" in said:
            break
    else:
        pytest.fail(said)
    dead.close()


def test_an_address_that_takes_connections_and_says_nothing(receiver: Receiver, plane: Plane) -> None:
    plane.silent = True
    with ExchangeClient(receiver.ticket("127.0.0.2", "::1"), config=QUICK) as client:
        assert client.request("open", {}, PATIENCE_S) == {"calls": 1}
        assert client.address == "::1"


def test_the_answer_is_lost_and_fetched_over_the_other_address(receiver: Receiver, plane: Plane) -> None:
    ticket = receiver.ticket("127.0.0.2", "::1")
    with ExchangeClient(ticket, config=QUICK) as client, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.request, "long", {}, PATIENCE_S)
        assert receiver.started.wait(PATIENCE_S)
        plane.silent = True
        receiver.release.set()
        assert answer.result(PATIENCE_S) == {"calls": 1}
        assert client.address == "::1"
        assert client.reconnects >= 1
    assert receiver.calls == ["long"]
    assert receiver.server.counters["requests"] == 1
    assert receiver.server.counters["replayed_requests"] >= 1


def test_the_path_dies_during_execution_and_the_second_waits_for_the_first(receiver: Receiver, plane: Plane) -> None:
    ticket = receiver.ticket("127.0.0.2", "::1")
    with ExchangeClient(ticket, config=QUICK) as client, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.request, "long", {}, PATIENCE_S)
        assert receiver.started.wait(PATIENCE_S)
        plane.silent = True
        assert eventually(lambda: receiver.server.counters["replayed_requests"] >= 1)
        assert not answer.done()
        receiver.release.set()
        assert answer.result(PATIENCE_S) == {"calls": 1}
        # The same session goes on over the new path.
        assert client.request("next", {}, PATIENCE_S) == {"calls": 2}
    assert receiver.calls == ["long", "next"]
    assert receiver.server.counters["sessions"] == 1


def test_a_request_lost_on_its_way_is_executed_once(receiver: Receiver, plane: Plane) -> None:
    for _ in range(TRIES):
        with ExchangeClient(receiver.ticket("127.0.0.2", "::1"), config=QUICK) as client:
            receiver.calls.clear()
            client.request("open", {}, PATIENCE_S)
            if client.address != "127.0.0.2":
                continue
            replayed = receiver.server.counters["replayed_requests"]
            plane.silent = True
            assert client.request("write", {}, PATIENCE_S) == {"calls": 2}
            plane.silent = False
        assert receiver.calls == ["open", "write"]
        if receiver.server.counters["replayed_requests"] == replayed:
            return
    pytest.fail("it never was lost on its way")


def test_planes_that_die_in_turn(receiver: Receiver, plane: Plane) -> None:
    other = Plane("127.0.0.4", receiver.server.ticket.port)
    with ExchangeClient(receiver.ticket("127.0.0.2", "127.0.0.4"), config=QUICK) as client:
        client.request("a", {}, PATIENCE_S)
        plane.silent = True
        client.request("b", {}, PATIENCE_S)
        assert client.address == "127.0.0.4"
        # A silent stretch stays silent for the connections it has swallowed; a healed one is a new stretch.
        plane.close()
        healed = Plane("127.0.0.2", receiver.server.ticket.port)
        other.silent = True
        client.request("c", {}, PATIENCE_S)
        assert client.address == "127.0.0.2"
    assert receiver.calls == ["a", "b", "c"]
    healed.close()
    other.close()


def test_an_idle_session_moves_by_itself(receiver: Receiver, plane: Plane) -> None:
    config = dataclasses.replace(QUICK, ping_interval_s=0.1)
    client = ExchangeClient(receiver.ticket("127.0.0.2", "::1"), config=config)
    client.request("open", {}, PATIENCE_S)
    plane.silent = True
    assert eventually(lambda: client.address == "::1")
    plane.close()
    assert client.request("next", {}, PATIENCE_S) == {"calls": 2}
    assert receiver.ended == []
    client.close()
    assert eventually(lambda: [session.closed_because for session in receiver.ended] == ["client"])
    assert receiver.server.counters["sessions"] == 1


def test_threads_that_do_not_ask_are_told_when_a_request_finds_the_receiver_gone(
    receiver: Receiver, plane: Plane
) -> None:
    told = threading.Event()
    # Nobody looks between requests.
    config = dataclasses.replace(QUICK, look_interval_s=3600)
    with ExchangeClient(receiver.ticket("127.0.0.2"), config=config, on_lost=told.set) as client:
        client.request("open", {}, PATIENCE_S)
        client.check()
        plane.close()
        with pytest.raises(SessionRefused):
            client.request("next", {}, PATIENCE_S)
        assert told.is_set()
        with pytest.raises(PeerError, match=r"the receiver has ended: .*refused"):
            client.check()


def test_a_session_that_lost_its_connection_is_looked_at_before_a_ping_is_due(receiver: Receiver, plane: Plane) -> None:
    told = threading.Event()
    config = dataclasses.replace(QUICK, look_interval_s=0.01, ping_interval_s=3600, linger_s=7200)
    with ExchangeClient(receiver.ticket("127.0.0.2"), config=config, on_lost=told.set) as client:
        client.request("open", {}, PATIENCE_S)
        plane.silent = True
        with pytest.raises(PeerError, match="no answer to 'next'"):
            client.request("next", {}, 0.5)
        plane.close()
        assert told.wait(PATIENCE_S)


def test_a_session_that_ended_in_silence_is_not_taken_up_again() -> None:
    ended = threading.Event()
    config = dataclasses.replace(QUICK, linger_s=0.1, ping_interval_s=0.05)
    with ExchangeServer(
        ["::1"], lambda session, kind, body: {}, config=config, on_session_closed=lambda session: ended.set()
    ) as server:
        plane = Plane("127.0.0.2", server.ticket.port)
        ticket = dataclasses.replace(server.ticket, addresses=("127.0.0.2",))
        with ExchangeClient(ticket, config=QUICK) as client:
            client.request("open", {}, PATIENCE_S)
            plane.close()
            assert ended.wait(PATIENCE_S)
            plane = Plane("127.0.0.2", server.ticket.port)
            with pytest.raises(SessionRefused, match="has closed this session: begin again"):
                client.request("next", {}, PATIENCE_S)
            plane.close()
        assert server.counters["requests"] == 1


def test_a_goodbye_finds_another_way_too(receiver: Receiver, plane: Plane) -> None:
    client = ExchangeClient(receiver.ticket("127.0.0.2", "::1"), config=QUICK)
    client.request("open", {}, PATIENCE_S)
    plane.silent = True
    client.close()
    assert eventually(lambda: [session.closed_because for session in receiver.ended] == ["client"])


def test_a_receiver_slower_than_the_attempt_is_not_left_for_ever(receiver: Receiver, plane: Plane) -> None:
    """Every answer held back for longer than the first attempt waits: the client's patience must grow to it."""
    config = dataclasses.replace(QUICK, attempt_timeout_s=0.05, working_interval_s=0.04)
    delay_s = 0.12
    listener = socket.create_server(("127.0.0.5", receiver.server.ticket.port))

    def carry(source: socket.socket, sink: socket.socket, wait_s: float) -> None:
        with contextlib.suppress(OSError):
            while content := source.recv(65536):
                time.sleep(wait_s)
                sink.sendall(content)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("::1", receiver.server.ticket.port))
                threading.Thread(target=carry, args=(near, far, 0), daemon=True).start()
                threading.Thread(target=carry, args=(far, near, delay_s), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with ExchangeClient(receiver.ticket("127.0.0.5"), config=config) as client:
        assert client.request("open", {}, PATIENCE_S) == {"calls": 1}
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_dial_yields_in_order_of_answer_and_says_why_others_failed(receiver: Receiver) -> None:
    port = receiver.server.ticket.port
    dead = DeadHost("127.0.0.3", port)
    for _ in range(TRIES):
        failures: dict[str, str] = {}
        reached = []
        for address, connection in dial(["127.0.0.3", "127.0.0.9", "::1"], port, 0.05, 0.3, failures):
            reached.append(address)
            connection.close()
        if reached:
            break
    assert reached == ["::1"]
    assert failures == {"127.0.0.3": "no answer within 0.3 s", "127.0.0.9": REFUSED}
    dead.close()
