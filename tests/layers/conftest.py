# SPDX-License-Identifier: BSD-2-Clause
"""The vectors of tests/wire, and the captures, for the tests of the Scapy layers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mrc.layers import bind_to_udp

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "wire"))
bind_to_udp()


def _missing(what: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def softroce_capture() -> Path:
    """Soft-RoCE over IPv4 and IPv6: 212 frames made by Linux, every ICRC real."""
    name = "softroce-rc-ipv4-ipv6.pcap"
    shared = Path(os.environ.get("MRC_SHARED", ROOT.parent / "shared"))
    for path in (ROOT / "pcaps" / name, ROOT / "tests" / "pcaps" / name, shared / "pcaps" / name):
        if path.exists():
            return path
    _missing(f"no {name}: set MRC_SHARED to the directory that has pcaps/")
    raise AssertionError("unreachable")


@pytest.fixture(scope="session")
def external_captures() -> list[Path]:
    """Other people's captures of IPv6 in IPv6 and segment routing, some malformed."""
    shared = Path(os.environ.get("MRC_SHARED", ROOT.parent / "shared"))
    paths = sorted((shared / "pcaps" / "external").glob("*.pcap"))
    if not paths:
        _missing("no pcaps/external: set MRC_SHARED to the directory that has it")
    return paths
