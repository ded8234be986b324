# SPDX-License-Identifier: BSD-2-Clause
"""What can be measured and what not, and how many writes are outstanding where nobody says."""

from __future__ import annotations

from typing import Any

import pytest

from mrc.bench.client import BenchOptions
from mrc.bench.paths import first_paths
from mrc.bench.settings import Settings
from mrc.bench.terms import Terms, default_cq_mod, default_depth
from mrc.errors import CallerError, PeerError
from mrc.fabric.host_view import Fabric, FabricPort


@pytest.mark.parametrize(("size", "depth"), [(1, 128), (64, 128), (64 << 10, 128), (1 << 20, 8), (64 << 20, 4)])
def test_depth(size: int, depth: int) -> None:
    assert default_depth(size) == depth


@pytest.mark.parametrize(("depth", "every"), [(1, 1), (4, 1), (8, 1), (128, 16)])
def test_completions(depth: int, every: int) -> None:
    assert default_cq_mod(depth) == every


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"test": "read", "size": 1}, "no test 'read'"),
        ({"test": "write", "size": 0}, "size"),
        ({"test": "write", "size": (1 << 30) + 1}, "size"),
        ({"test": "write", "size": 1 << 30, "qps": 2}, "2 QPs"),
        ({"test": "write", "size": 1, "qps": 0}, "qps"),
        ({"test": "write", "size": 1, "depth": 0}, "depth"),
        ({"test": "write", "size": 1, "path_mtu": 1500}, "path MTU"),
        ({"test": "latency", "size": 1}, "size"),
        # Two packets may come in any order.
        ({"test": "latency", "size": 257, "path_mtu": 256}, "2..256"),
    ],
)
def test_terms_out_of_range(terms: dict[str, Any], says: str) -> None:
    with pytest.raises(CallerError, match=says):
        Terms(**terms)


def test_terms_go_to_the_other_end_and_back() -> None:
    terms = Terms("write", 100_000, 3, 8, 1024)
    assert Terms.from_json(terms.to_json()) == terms
    assert terms.packets_per_write == 98  # 97 full ones of 1024 and a rest


@pytest.mark.parametrize("change", [{"test": "read"}, {"size": "1"}, {"qps": 0}, {"depth": 1 << 40}, {"path_mtu": 1}])
def test_malformed_terms_of_a_peer(change: dict[str, Any]) -> None:
    with pytest.raises(PeerError):
        Terms.from_json(Terms("write", 1).to_json() | change)


@pytest.mark.parametrize("change", [{"sizes": ()}, {"seconds": 0.0}, {"idle_qps": -1}])
def test_options_out_of_range(change: dict[str, Any]) -> None:
    with pytest.raises(CallerError):
        BenchOptions(**({"test": "write", "sizes": (1,), "seconds": 1.0} | change))


@pytest.mark.parametrize("change", [{"mtu": 1500}, {"loss": 1.0}, {"qps": 0}, {"latency": True, "size": 4097}])
def test_settings_out_of_range(change: dict[str, Any]) -> None:
    with pytest.raises(CallerError):
        Settings(**change)


def test_settings_as_arguments() -> None:
    arguments = Settings(size=64, seconds=0.5, qps=2, idle_qps=3, paths=1, mtu=1024, depth=7).arguments()
    told = dict(zip(arguments[::2], arguments[1::2], strict=True))
    assert told == {
        "--size": "64",
        "--seconds": "0.5s",
        "--mtu": "1024",
        "--qps": "2",
        "--idle-qps": "3",
        "--paths": "1",
        "--depth": "7",
    }


def fabric(mode: str = "srv6") -> Fabric:
    ports = tuple(FabricPort(plane, f"p{plane}", f"fd00:{plane}::1", 0, 4) for plane in range(2))
    return Fabric("two planes of four", 0, 4400, ports, mode)


def test_the_first_paths_are_spread_over_the_planes() -> None:
    # plane(8) zero(8) uplink(16)
    assert first_paths(fabric(), 3).evs == (0x00000000, 0x01000000, 0x00000001)
    assert len(first_paths(fabric(), 8).evs) == 8
    assert first_paths(fabric("srv6-srh"), 3).evs == first_paths(fabric(), 3).evs


@pytest.mark.parametrize(("count", "mode"), [(0, "srv6"), (9, "srv6"), (1, "udp")])
def test_paths_that_are_not_there(count: int, mode: str) -> None:
    with pytest.raises(CallerError):
        first_paths(fabric(mode), count)
