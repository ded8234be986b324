# SPDX-License-Identifier: BSD-2-Clause
"""What each parameter may be (api.md, behaviour.md): both ends of its range are allowed, a step beyond is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mrc.endpoint.config import (
    Capability,
    EndpointConfig,
    LossConfig,
    PathConfig,
    PeerNodeConfig,
    QpConfig,
    ResponderConfig,
)
from mrc.endpoint.counters import Counters
from mrc.errors import CallerError

# behaviour.md: linear retries at most 7, exponential at most 25, local ACK timeout t at most 24. An MPR is 1 to 255
# units, for 255 is what the mpr field of a SACK holds. RQMSN has 16 bits, and half of them can be told apart.
QP_RANGES = {
    "mpr": (1, 255),
    "mpr_dest": (1, 255),
    "max_mpr": (1, 255),
    "max_wimm": (0, 32768),
    "max_wimm_dest": (0, 32768),
    "timeout": (1, 24),
    "linear_retries": (0, 7),
    "exponential_retries": (0, 25),
    "sack_threshold_bytes": (1, 16777216),
}


@pytest.mark.parametrize("name", QP_RANGES)
def test_a_qp_parameter_is_allowed_up_to_both_ends_of_its_range(name: str) -> None:
    low, high = QP_RANGES[name]
    for value in (low, high):
        assert getattr(QpConfig(**{name: value}), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(CallerError, match=rf"^{name} must be {low}\.\.{high}, got {value}$"):
            QpConfig(**{name: value})


def test_a_path_mtu_is_one_of_five() -> None:
    """wire.md section 4."""
    for mtu in (256, 512, 1024, 2048, 4096):
        assert QpConfig(path_mtu=mtu).path_mtu == mtu
    for mtu in (0, 128, 257, 1500, 8192):
        with pytest.raises(CallerError, match=f"path_mtu must be one of .* got {mtu}"):
            QpConfig(path_mtu=mtu)


LEAST: list[tuple[type[Any], str, float]] = [
    (LossConfig, "reorder_guard_packets", 1),
    (LossConfig, "reorder_guard_divisor", 1),
    (LossConfig, "reorder_guard_max_rtts", 1),
    (LossConfig, "path_timer_min_ns", 1),
    (LossConfig, "tail_probe_min_ns", 0),
    (PathConfig, "active_count", 1),
    (PathConfig, "ev_min_active", 0),
    (PathConfig, "first_probe_path_timers", 0),
    (PathConfig, "probes_to_restore", 1),
    (PathConfig, "probe_interval_ns", 1),
    (ResponderConfig, "max_span", 0),
    (ResponderConfig, "max_held_packets", 0),
    (ResponderConfig, "max_stashed_immediates", 0),
    (ResponderConfig, "ack_after_sack_ns", 0),
    (PeerNodeConfig, "reverse_evs_per_plane", 1),
    (PeerNodeConfig, "reverse_refresh_ns", 1),
    (PeerNodeConfig, "reverse_probe_interval_ns", 1),
    (PeerNodeConfig, "ev_probe_timeout_ns", 1),
    (PeerNodeConfig, "port_update_interval_ns", 1),
]


@pytest.mark.parametrize(("config", "name", "least"), LEAST, ids=[name for _, name, _ in LEAST])
def test_a_tunable_has_a_least_value(config: type[Any], name: str, least: float) -> None:
    assert getattr(config(**{name: least}), name) == least
    # "max_rtts": the sentence about the reorder guard names its three parts by their last words.
    named = name.removeprefix("reorder_guard_")
    with pytest.raises(CallerError, match=named):
        config(**{name: least - 1})


@pytest.mark.parametrize(
    ("config", "short", "long"),
    [
        (LossConfig, "path_timer_min_ns", "path_timer_initial_ns"),
        (PathConfig, "probe_interval_ns", "probe_interval_max_ns"),
        (PeerNodeConfig, "port_update_interval_ns", "port_update_interval_max_ns"),
    ],
)
def test_the_first_of_two_times_is_at_most_the_second(config: type[Any], short: str, long: str) -> None:
    assert getattr(config(**{short: 5, long: 5}), long) == 5
    with pytest.raises(CallerError, match=long):
        config(**{short: 6, long: 5})


def test_the_defaults_are_those_of_the_pages() -> None:
    """behaviour.md: 8 x 128 PSNs, 32 writes with immediate, SACK every 16 KiB, t = 14, guard 3 packets and RTT/4, path
    timer at least 1 ms and 10 ms before the first sample, three probes, 10 ms doubling to 250 ms."""
    qp = QpConfig()
    assert (qp.mpr, qp.mpr_dest, qp.max_wimm, qp.max_wimm_dest) == (8, 8, 32, 32)
    assert (qp.receive_window, qp.send_window) == (1024, 1024)
    assert QpConfig(mpr=3, mpr_dest=5).send_window == 384
    assert QpConfig(mpr=3, mpr_dest=5).receive_window == 640
    assert (qp.sack_threshold_bytes, qp.timeout, qp.local_ack_timeout_ns) == (16384, 14, 16_777_216)
    assert QpConfig(timeout=1).local_ack_timeout_ns == 2048
    assert qp.capabilities == Capability.TRIM_NACK | Capability.SVC_TIME
    loss = qp.loss
    assert (loss.reorder_guard_packets, loss.reorder_guard_divisor) == (3, 4)
    assert (loss.path_timer_min_ns, loss.path_timer_initial_ns) == (1_000_000, 10_000_000)
    assert (loss.tail_probe_min_ns, qp.responder.ack_after_sack_ns) == (0, 0)
    assert qp.paths.probes_to_restore == 3
    assert (qp.paths.probe_interval_ns, qp.paths.probe_interval_max_ns) == (10_000_000, 250_000_000)
    assert EndpointConfig().peer_nodes.reverse_probe_interval_ns == 10_000_000


def test_counters_show_what_is_not_zero_and_add_up() -> None:
    one, other = Counters(bad_icrc=2, sacks_sent=3), Counters(bad_icrc=5)
    one.add(other)
    assert one.as_dict() == {"bad_icrc": 7, "sacks_sent": 3}
    assert other.as_dict() == {"bad_icrc": 5}
    every = one.as_dict(zeros=True)
    assert every["too_short"] == 0
    assert {name: value for name, value in every.items() if value} == one.as_dict()
