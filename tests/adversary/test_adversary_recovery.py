# SPDX-License-Identifier: BSD-2-Clause
"""Two endpoints against an adversarial network: whatever it does, work ends as it must (requirements.md).

Each test is one kind of pair of nodes. What is checked all the time, and what once the adversary relents, is in
adversary_world.py, adversary_shadow.py and adversary_work.py.
"""

from __future__ import annotations

from dataclasses import replace

from adversary_machine import against
from adversary_setting import ALL, Setting

from mrc.endpoint.config import Capability, QpConfig

FOR_EVER = 25
CONFIG = QpConfig(path_mtu=256, mpr=1, mpr_dest=1, max_mpr=4, capabilities=ALL, exponential_retries=FOR_EVER)
BARE = replace(CONFIG, capabilities=Capability(0), timestamps=False)


def test_all_work_completes_with_a_fixed_window_and_every_capability() -> None:
    """Nothing is given up, so all has to arrive, once, in order."""
    against(Setting(config=CONFIG))


def test_all_work_completes_with_nscc_and_every_capability() -> None:
    """Two writes with immediate at most are under way."""
    against(Setting(controller="nscc", config=replace(CONFIG, max_wimm=2, max_wimm_dest=2)))


def test_all_work_completes_between_nodes_that_agree_on_nothing() -> None:
    """No timestamps, trim NACKs, service time or dynamic MPR."""
    against(Setting(config=BARE))


def test_all_work_completes_with_nscc_between_nodes_that_agree_on_nothing() -> None:
    """One write with immediate at most is under way, and bytes alone bring a SACK each MiB."""
    against(Setting(controller="nscc", config=replace(BARE, max_wimm=1, max_wimm_dest=1, sack_threshold_bytes=1 << 20)))
