# SPDX-License-Identifier: BSD-2-Clause
"""Two endpoints against an adversarial network, where something is scarce: room, retries, paths."""

from __future__ import annotations

from dataclasses import replace

from adversary_machine import against
from adversary_setting import ALL, Setting

from mrc.endpoint.config import PathConfig, QpConfig, ResponderConfig

FOR_EVER = 25
CONFIG = QpConfig(path_mtu=256, mpr=1, mpr_dest=1, max_mpr=2, capabilities=ALL, exponential_retries=FOR_EVER)


def test_all_work_completes_whatever_a_responder_has_no_room_for() -> None:
    """Room for 40 PSNs, eight packets and one write with immediate above a hole. MRC-RESP-12."""
    responder = ResponderConfig(max_span=40, max_held_packets=8, max_stashed_immediates=1)
    against(Setting(config=replace(CONFIG, responder=responder, max_wimm=4, max_wimm_dest=4)))


def test_a_qp_whose_retries_run_out_ends_all_its_work_and_no_qp_but_those_that_wait_as_it_does() -> None:
    """A PSN has three retries, the local ACK timeout is 1 ms."""
    config = replace(CONFIG, linear_retries=1, exponential_retries=2, timeout=10)
    against(Setting(controller="nscc", config=config))


def test_all_work_completes_on_few_active_evs_with_a_reserve() -> None:
    """Of two active EVs one may go bad, and every packet brings a SACK."""
    paths = PathConfig(active_count=2, ev_min_active=1)
    against(Setting(config=replace(CONFIG, paths=paths, sack_threshold_bytes=1, timeout=10), pairs=1))
