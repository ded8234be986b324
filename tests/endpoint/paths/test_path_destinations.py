# SPDX-License-Identifier: BSD-2-Clause
"""Where the packets of a path are sent: the socket address of the outer destination (wire.md section 11)."""

from __future__ import annotations

import socket
import struct

import pytest

from mrc.endpoint.paths.addressing import Path, PlanePair, srv6_paths
from mrc.wire.usid import UsidTemplate


def _paths(usids: UsidTemplate, planes: int = 2, uplinks: int = 4) -> list[Path]:
    return srv6_paths([PlanePair(p, p, f"fd00:{p:x}::1", f"fd00:{p:x}::2", uplinks) for p in range(planes)], usids)


def _sockaddr(address: str) -> bytes:
    """sockaddr_in6: family in the host's order, port 0, flow label 0, the address, scope 0."""
    return struct.pack("=H", socket.AF_INET6) + bytes(6) + socket.inet_pton(socket.AF_INET6, address) + bytes(4)


@pytest.mark.parametrize(
    ("plane", "uplink", "address"), [(1, 3, "5f00:0:1100:2103:1101:4101::"), (0, 0, "5f00:0:1000:2000:1001:4001::")]
)
def test_a_path_through_the_fabric_names_leaf_spine_leaf_and_host(plane: int, uplink: int, address: str) -> None:
    """The example of the page: plane 1, uplink 3, leaf 0 to host 1 on leaf 1; and all of it 0.

    MRC-SRV6-05, MRC-SRV6-08.
    """
    (path,) = (path for path in _paths(UsidTemplate(0, 1, 1)) if (path.plane, path.spine) == (plane, uplink))
    assert path.ev == plane << 24 | uplink
    assert bytes(path.destination) == _sockaddr(address)


def test_two_hosts_on_one_leaf_have_one_path_a_plane() -> None:
    """`source leaf : host port`, and N EVs are N distinct paths. MRC-SRV6-09."""
    paths = _paths(UsidTemplate(2, 2, 5))
    assert [(path.ev, path.plane, path.spine) for path in paths] == [(0, 0, 0), (1 << 24, 1, 0)]
    assert [bytes(path.destination) for path in paths] == [
        _sockaddr("5f00:0:1002:4005::"),
        _sockaddr("5f00:0:1102:4105::"),
    ]
