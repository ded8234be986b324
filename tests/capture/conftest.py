# SPDX-License-Identifier: BSD-2-Clause
"""The vectors of tests/wire, and the captures, for the tests of reading captures."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "wire"))


@pytest.fixture(scope="session")
def softroce_capture() -> Path:
    """Soft-RoCE over IPv4 and IPv6: 212 frames made by Linux, every ICRC real."""
    return ROOT / "pcaps" / "softroce-rc-ipv4-ipv6.pcap"


@pytest.fixture(scope="session")
def external_captures() -> list[Path]:
    """Other people's captures of IPv6 in IPv6 and segment routing, some malformed."""
    shared = Path(os.environ.get("MRC_SHARED", ROOT.parent / "shared"))
    paths = sorted((shared / "pcaps" / "external").glob("*.pcap"))
    if not paths:
        missing = "no pcaps/external: set MRC_SHARED to the directory that has it"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return paths
