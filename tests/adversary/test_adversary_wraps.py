# SPDX-License-Identifier: BSD-2-Clause
"""MSN and RQMSN have 16 bits: an adversary that is there when they wrap, and PSNs with them."""

from __future__ import annotations

import random

import pytest
from adversary_setting import ALL, Setting
from adversary_walk import Walk
from adversary_world import World

from mrc import CORE
from mrc.core import COMPILED
from mrc.endpoint.config import QpConfig

STEPS = 1500


@pytest.mark.skipif(CORE.kind != COMPILED, reason="65,526 messages: once is enough, where numbers have sizes")
def test_immediates_are_delivered_in_order_across_the_wrap_of_rqmsn() -> None:
    """Seeded, and not drawn: it takes 65,526 messages to get there."""
    config = QpConfig(path_mtu=256, mpr=1, mpr_dest=1, capabilities=ALL, exponential_retries=25)
    world = World(Setting(config=config, pairs=1, before_wrap=(1 << 16) + 20))
    world.run_up(0, 0, (1 << 16) - 10)
    walk = Walk(world, random.Random(65536), deadly=False)
    for _ in range(STEPS):
        walk.step()
    world.relent()
    work = world.pairs[0].ends[0].work
    assert len(work.immediates) > 1 << 16
    assert world.pairs[0].ends[0].shadow.next > (1 << 16) + 20
