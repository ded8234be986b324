# SPDX-License-Identifier: BSD-2-Clause
"""What the adversary draws is set and reaches the endpoints."""

from __future__ import annotations

import random
from collections.abc import Iterable

from adversary_network import NACK, REASON_AT
from adversary_setting import ALL, MICROSECOND, Setting, draw_setting, draw_switches, known_switches
from adversary_world import World

from mrc.endpoint.config import QpConfig

UNKNOWN = 0x0C
CONFIG = QpConfig(path_mtu=256, mpr=1, mpr_dest=1, max_wimm=4, max_wimm_dest=4, capabilities=ALL)


def drawn(known: Iterable[str] | None) -> list[Setting]:
    return [draw_setting(random.Random(seed), None if known is None else set(known)) for seed in range(60)]


def values(setting: Setting, name: str) -> object:
    if name == "traffic_class":
        return setting.traffic_classes
    if name == "solicited":
        return setting.solicits
    return getattr(setting.config.paths if name == "skip_at_least_ns" else setting.config, name)


def test_every_switch_is_drawn_and_none_that_a_checkout_lacks() -> None:
    names = dict(draw_switches(random.Random(0))).keys()
    assert known_switches() == names
    for name in names:
        assert len({values(setting, name) for setting in drawn(None)}) > 1, name
        without = {values(setting, name) for setting in drawn(names - {name})}
        assert without == {values(Setting(), name)}, name
    assert [setting.seed for setting in drawn(())] == [setting.seed for setting in drawn(None)]


def refused(world: World) -> None:
    """A packet of node 0 is trimmed, and the NACK for it, of a reason that nobody knows, arrives."""
    world.post(0, 0, 1000)
    world.network.trim(1, 0, 1, False)
    world.deliver_run(1, 0, 100)
    assert NACK in {packet.data[48] for packet in world.network.flying[0]}
    world.change_reasons(0, 0, 100, UNKNOWN)
    assert {packet.data[REASON_AT] for packet in world.network.flying[0] if packet.data[48] == NACK} == {UNKNOWN}
    world.deliver_run(0, 0, 100)
    assert world.total_counters().unknown_nack_reason == 1


def test_a_nack_of_an_unknown_reason_has_its_packet_sent_again() -> None:
    """MRC-NACK-24."""
    world = World(Setting(config=CONFIG, pairs=1))
    refused(world)
    assert world.pairs[0].ends[0].shadow.retransmissions == 1
    world.relent()
    assert world.pairs[0].ends[0].alive


def test_a_nack_of_an_unknown_reason_ends_the_pair_where_that_is_fatal() -> None:
    """MRC-NACK-24."""
    world = World(Setting(config=QpConfig(path_mtu=256, mpr=1, mpr_dest=1, fail_on_unknown_nack=True), pairs=1))
    refused(world)
    assert world.pairs[0].doomed
    assert not world.pairs[0].ends[0].alive
    world.relent()


def test_each_qp_sends_data_with_a_traffic_class_of_its_own() -> None:
    world = World(Setting(config=CONFIG, pairs=2, traffic_classes=(46 << 2 | 1, None, 255)))
    for pair in range(2):
        for node in range(2):
            world.post(node, pair, 300)
    assert {packet.traffic_class for packet in world.network.flying[1]} == {46 << 2 | 2, 4 << 2 | 2}
    assert {packet.traffic_class for packet in world.network.flying[0]} == {4 << 2 | 2, 63 << 2 | 2}
    world.calm(3)
    world.relent()


def test_a_solicited_write_is_told_of_as_such_and_no_other() -> None:
    """MRC-WIRE-22. The world looks at SE and at completions."""
    world = World(Setting(config=CONFIG, pairs=1, solicits=True))
    for solicited in (True, False):
        world.post(0, 0, 600, immediate=True, solicited=solicited)
    world.pause(10 * MICROSECOND)
    world.relent()
    assert world.events["solicited write with immediate posted"] == 1
    assert world.pairs[0].ends[1].work.receives_done == 3
