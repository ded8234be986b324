# SPDX-License-Identifier: BSD-2-Clause
"""Which probes are remembered, which of those that wait are sent, and EVs that a profile gained."""

from __future__ import annotations

from random import Random

import numpy as np
from hand_peer import MILLISECOND, SECOND, paths

from mrc.endpoint.config import Capability, PathConfig, PeerNodeConfig, QpConfig
from mrc.endpoint.counters import Counters
from mrc.endpoint.paths.path_set import PathSet
from mrc.endpoint.paths.probing import PathProbing
from mrc.endpoint.paths.reverse import ReverseEvs
from mrc.endpoint.qp_parts import QpParts
from mrc.endpoint.qp_peer import QpPeer
from mrc.endpoint.requestor.probes import Probes
from mrc.endpoint.requestor.sent import SentPackets
from mrc.endpoint.traffic_class import TrafficClasses
from mrc.wire.fields import PROBE
from mrc.wire.profile import WireProfile
from mrc.wire.transmit_batch import TransmitBatch

FREE = PathConfig(ev_min_active=1)
TIMER = MILLISECOND


class Prober:
    """Probes of a QP that sent nothing and asks whenever its timer is due."""

    def __init__(self) -> None:
        self.paths = PathSet(paths(), FREE, Random(1))
        self.counters = Counters()
        self.probes = Probes(
            QpParts(
                qpn=5,
                peer=QpPeer(6, 0, self.paths.paths, {}),
                config=QpConfig(paths=FREE),
                agreed=Capability.TRIM_NACK,
                wire=WireProfile(),
                classes=TrafficClasses.of(WireProfile(), peer_answers_trims=True),
                paths=self.paths,
                counters=self.counters,
                trace=None,
            ),
            SECOND,
        )
        self.sent = SentPackets(0, 64)
        self.now = 0

    def ask(self, times: int = 1) -> None:
        """Have so many tail probes wait, one behind the other."""
        for _ in range(times):
            self.probes.arm_tail(self.now, TIMER)
            self.now += TIMER
            self.sent.next_transmission = self.now
            self.tick(asks=True)

    def tick(self, asks: bool = False) -> None:
        self.probes.on_timer(self.now, self.sent, TIMER, False, asks, False)

    def send(self, limit: int = 4096) -> list[int]:
        """The ids of the probes that leave now."""
        batch = TransmitBatch(4096)
        count = self.probes.transmit(batch, limit, self.now)
        assert count == batch.count
        return [int(each) for each in batch.fields(PROBE, 0, count)["probe_id"]]


def test_the_last_1024_probes_are_remembered() -> None:
    prober = Prober()
    prober.ask(1100)
    assert prober.probes.waiting
    assert prober.send(24) == list(range(76, 100))
    assert prober.probes.waiting
    assert prober.send() == list(range(100, 1100))
    assert not prober.probes.waiting
    assert prober.probes.on_answer(75, 0, prober.now) == -1
    assert prober.counters.unknown_probe_answer == 1
    assert prober.probes.on_answer(76, 0, prober.now) == 77 * TIMER == prober.probes.asked_at
    assert prober.probes.on_answer(1099, 0, prober.now) == 1100 * TIMER == prober.probes.asked_at
    assert prober.probes.on_answer(1099, 0, prober.now) == -1
    assert prober.counters.unknown_probe_answer == 2


def test_ids_begin_anew_behind_the_last() -> None:
    prober = Prober()
    for _ in range(66):
        prober.ask(1000)
        last = prober.send()
    assert last == [*range(65000, 65536), *range(464)]
    assert prober.probes.on_answer(65535, 0, prober.now) == 65536 * TIMER
    assert prober.probes.on_answer(0, 0, prober.now) == 65537 * TIMER
    assert prober.probes.on_answer(463, 0, prober.now) == 66000 * TIMER
    assert prober.probes.on_answer(464, 0, prober.now) == -1
    assert prober.probes.on_answer(463 + 1024, 0, prober.now) == -1
    assert prober.counters.unknown_probe_answer == 2


def test_before_the_first_probe_no_answer_is_known() -> None:
    prober = Prober()
    for probe_id in (0, 1, 1023, 1024, 65535):
        assert prober.probes.on_answer(probe_id, 0, 0) == -1
    assert prober.counters.unknown_probe_answer == 5


def test_what_waits_for_an_ev_that_was_denied_since_is_not_sent() -> None:
    """Nor what was answered before: somebody guessed its id."""
    prober = Prober()
    for index in (1, 2, 3):
        prober.paths.on_mark(index, 2)
    prober.probes.take_up_bad_evs(0, TIMER)
    prober.now = TIMER
    prober.tick()
    prober.ask(2)
    for index in (1, 3):
        prober.paths.deny(prober.paths.paths[index].ev)
    assert prober.probes.on_answer(3, 0, prober.now) == 2 * TIMER
    assert prober.send(0) == []
    assert prober.send(1) == [1]
    assert prober.probes.waiting
    assert prober.send(1) == [4]
    assert not prober.probes.waiting


def test_where_only_probes_that_may_not_leave_are_left_none_waits() -> None:
    prober = Prober()
    for index in (1, 2):
        prober.paths.on_mark(index, 2)
    prober.probes.take_up_bad_evs(0, TIMER)
    prober.now = TIMER
    prober.tick()
    prober.paths.deny(prober.paths.paths[2].ev)
    assert prober.send(1) == [0]
    assert not prober.probes.waiting


def test_an_ev_that_the_profile_gained_is_probed_as_well() -> None:
    universe = paths(2, 8)
    reverse = ReverseEvs(PeerNodeConfig(), 16)
    chosen = PathSet(universe[:3], FREE, Random(1), reverse=reverse, numbers=np.arange(3))
    probing = PathProbing(chosen, FREE)
    chosen.on_mark(1, 2)
    probing.take_up(0, TIMER)
    chosen.on_mark(2, 2)
    chosen.replace(universe, np.arange(16), FREE)
    chosen.on_mark(15, 2)
    assert chosen.has_newly_bad()
    probing.take_up(1, TIMER)
    assert not chosen.has_newly_bad()
    assert probing.next_deadline == TIMER
    probing.due(TIMER + 1, TIMER)
    assert [probing.found[place] for place in range(probing.found_count)] == [1, 2, 15]
    for index in (15, 1, 2):
        probing.sent(index, index)
    for _ in range(FREE.probes_to_restore):
        probing.on_answer(15, 15, 0, TIMER + 2)
        probing.due(TIMER + 2, TIMER)
        probing.sent(15, 15)
    assert chosen.state[15] == 0
    assert [int(chosen.state[index]) for index in (1, 2)] == [2, 2]
