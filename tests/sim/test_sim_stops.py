# SPDX-License-Identifier: BSD-2-Clause
"""Ends that stand still (SIGSTOP, a suspended machine) in the midst of transfers: what they go on with, and how long a
peer that is gone is waited for (behaviour.md, Retry budget)."""

from __future__ import annotations

import random

import pytest
from draws import draws

from mrc import CORE
from mrc.core import COMPILED
from mrc.endpoint.completions import WorkStatus
from mrc.endpoint.config import QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.endpoint.qp_states import QpState
from mrc.fabric import Clos
from mrc.net.tuning import transfer_config
from mrc.sim import LinkModel, SimFabric
from mrc.sim.host import SimHost
from mrc.sim.transfers import Transfer
from mrc.wire.received_batch import ReceivedBatch
from mrc.wire.transmit_batch import TransmitBatch

MILLISECOND, SECOND = 10**6, 10**9
# Packets that wait in the socket of a process that stands still; the kernel drops the rest.
SOCKET_ROOM = 256
CONFIGS = {"default": QpConfig(path_mtu=1024), "transfer": transfer_config(path_mtu=1024)}
STOPS = (1, 3, 10, 120)  # s
_OWN = "retry counter exceeded"
DRAWS = draws(2 if CORE.kind == COMPILED else 1)


class Stopped:
    """Stands in for the agent of a host whose process is stopped: its clock goes on, and its socket fills."""

    def __init__(self, host: SimHost) -> None:
        self.host, self.agent = host, host.agent
        self.batches: list[ReceivedBatch] = []
        self.waiting = 0
        host.agent = self

    def receive(self, batch: ReceivedBatch, now: int) -> None:
        if self.waiting < SOCKET_ROOM:
            self.batches.append(batch)
            self.waiting += batch.count

    def transmit(self, batch: TransmitBatch, now: int) -> int:
        return 0

    def next_deadline(self) -> int | None:
        return None

    def on_timer(self, now: int) -> None:
        pass

    def go_on(self, now: int) -> None:
        """As `Turn` does: what waits is taken in, then timers run, then it sends."""
        self.host.agent = self.agent
        for batch in self.batches:
            self.agent.receive(batch, now)
        self.agent.on_timer(now)
        self.host.pump()


class World:
    """h0 writes to h1, with some loss. 2 MiB take 20 ms."""

    def __init__(self, config: QpConfig, seed: int) -> None:
        link = LinkModel(rate_bps=10**9, delay_ns=10_000, loss=0.002)
        self.fabric = SimFabric(Clos(planes=2, spines=2), link, seed=seed)
        self.config = config
        self.qp, self.peer = self.fabric.connect("h0", "h1", config, controller="nscc")
        self.transfers: list[Transfer] = []
        self.heard_at = 0
        self.fabric.hosts["h0"].on_progress = self._note_progress
        self._una = self.qp.requestor.sent.una

    def _note_progress(self) -> None:
        self.fabric.completions["h0"].deliver()
        if self.qp.requestor is not None and self.qp.requestor.sent.una != self._una:
            self._una, self.heard_at = self.qp.requestor.sent.una, self.fabric.now

    def write(self, size: int = 2 << 20) -> Transfer:
        self.transfers.append(self.fabric.write(self.qp, size))
        return self.transfers[-1]

    def stop(self, host: str, at: int, until: int) -> None:
        stopped: list[Stopped] = []
        self.fabric.at(at, lambda: stopped.append(Stopped(self.fabric.hosts[host])))
        self.fabric.at(until, lambda: stopped[0].go_on(self.fabric.now))

    @property
    def done(self) -> bool:
        return all(each.completed_at is not None for each in self.transfers)

    def run(self, until: int) -> bool:
        return self.fabric.run(until, lambda: self.done or self.qp.state == QpState.ERROR)


def patience(config: QpConfig) -> int:
    most = config.gives_up_after_ns
    assert most is not None
    return most


@pytest.mark.parametrize("seconds", STOPS)
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_sender_that_stood_still_goes_on(kind: str, seconds: int) -> None:
    """Its peer is there: nothing may end, however long the stop, and nothing takes longer for it than a moment."""
    for draw in range(DRAWS):
        world = World(CONFIGS[kind], draw)
        world.write()
        at = random.Random(f"{kind} {seconds} {draw}").randrange(25 * MILLISECOND)
        world.stop("h0", at, until := at + seconds * SECOND)
        world.run(until + 60 * SECOND)
        assert world.transfers[0].status == WorkStatus.SUCCESS, (draw, world.qp.error)
        assert world.transfers[0].completed_at - until < SECOND, draw
        # A stop is no round trip: this network's take less than a tenth of a second, whatever waits in it.
        assert world.qp.rtt_ns < SECOND // 10, draw


@pytest.mark.parametrize("seconds", STOPS)
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_sender_that_stood_still_while_its_peer_left_gives_up_in_time(kind: str, seconds: int) -> None:
    """Nothing answers after the stop: as long as documented, not sixteen times as long."""
    for draw in range(DRAWS):
        world = World(CONFIGS[kind], draw)
        world.write()
        chance = random.Random(f"{kind} {seconds} {draw}")
        at = chance.randrange(25 * MILLISECOND)
        world.stop("h0", at, until := at + seconds * SECOND)
        # After all that was under way has been answered, or before.
        world.fabric.at(at + chance.choice((0, SECOND // 2)), lambda world=world: leave(world))
        world.run(until + 10 * patience(world.config))
        if not world.done:
            raise AssertionError(f"{draw}: nothing has ended")
        if world.transfers[0].status != WorkStatus.SUCCESS:
            took = world.fabric.now - max(world.heard_at, until)
            assert world.qp.state == QpState.ERROR
            assert took <= patience(world.config) + SECOND // 2, (draw, took / SECOND)


def leave(world: World) -> None:
    """The peer's process ends: nothing answers any more."""
    world.fabric.hosts["h1"].agent = Endpoint()


@pytest.mark.parametrize("seconds", STOPS)
@pytest.mark.parametrize("kind", CONFIGS)
def test_a_peer_that_stands_still_is_waited_for_as_long_as_documented(kind: str, seconds: int) -> None:
    config = CONFIGS[kind]
    for draw in range(DRAWS):
        world = World(config, draw)
        world.write()
        at = random.Random(f"{kind} {seconds} {draw} peer").randrange(25 * MILLISECOND)
        world.stop("h1", at, until := at + seconds * SECOND)
        world.run(until + 2 * patience(config))
        assert world.done, draw
        stopped_while_needed = world.transfers[0].completed_at > at
        if not stopped_while_needed or seconds * SECOND < patience(config):
            assert world.transfers[0].status == WorkStatus.SUCCESS, draw
        else:
            took = world.transfers[0].completed_at - world.heard_at
            assert world.transfers[0].status == WorkStatus.RETRY_EXCEEDED, draw
            assert patience(config) // 2 <= took <= patience(config) + SECOND // 2, (draw, took / SECOND)


@pytest.mark.parametrize("seconds", [1, 3, 10])
def test_a_peer_that_stood_still_and_dies_is_given_up_as_soon_as_any(seconds: int) -> None:
    """Its stops were measured as round trips of seconds. They do not make its death take longer to notice."""
    config = CONFIGS["transfer"]
    for draw in range(DRAWS):
        world = World(config, draw)
        for _ in range(3):
            world.write(1 << 20)
            at = world.fabric.now + MILLISECOND
            world.stop("h1", at, at + seconds * SECOND)
            world.run(at + 60 * SECOND)
            assert world.transfers[-1].status == WorkStatus.SUCCESS, draw
        assert world.qp.rtt_ns > SECOND // 10, "nothing was measured"
        leave(world)
        world.write(1 << 20)
        dies = world.fabric.now
        world.run(dies + 10 * patience(config))
        assert world.qp.state == QpState.ERROR
        assert world.fabric.now - dies <= patience(config) + SECOND // 2, (draw, (world.fabric.now - dies) / SECOND)


@pytest.mark.parametrize("qps", [8, 64])
def test_a_peer_killed_under_many_qps_is_given_up_by_all_in_the_documented_time(qps: int) -> None:
    """Each within 4.4 s of its last answer, whatever its round trips were while all of them shared the links."""
    for draw in range(draws(2 if CORE.kind == COMPILED else 1)):
        link = LinkModel(rate_bps=10**9, delay_ns=10_000, loss=0.002)
        fabric = SimFabric(Clos(planes=2, spines=2), link, seed=draw)
        config = QpConfig(path_mtu=1024)
        pairs = [fabric.connect("h0", "h1", config, controller="nscc") for _ in range(qps)]
        for qp, _ in pairs:
            fabric.stream(qp, 1 << 16)
        dies = 20 * MILLISECOND + random.Random(draw).randrange(20 * MILLISECOND)
        fabric.run(dies)
        fabric.hosts["h1"].agent = Endpoint()
        over = dies + patience(config) + SECOND // 10
        fabric.run(over, lambda pairs=pairs: all(qp.state == QpState.ERROR for qp, _ in pairs))
        alive = [qp.qpn for qp, _ in pairs if qp.state != QpState.ERROR]
        assert not alive, (draw, len(alive))
        # The first by itself, and those that waited as it did together with it, whose errors name it.
        errors = [qp.error or "" for qp, _ in pairs]
        named = tuple(
            f"given up with QP {qp.qpn:#08x}" for (qp, _), why in zip(pairs, errors, strict=True) if _OWN in why
        )
        assert named
        assert all(_OWN in why or why.startswith(named) for why in errors)
