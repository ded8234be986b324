# SPDX-License-Identifier: BSD-2-Clause
"""The captures of Soft-RoCE."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def softroce_capture() -> Path:
    """Soft-RoCE over IPv4 and IPv6: 212 frames made by Linux, every ICRC real."""
    return Path(__file__).resolve().parents[2] / "pcaps" / "softroce-rc-ipv4-ipv6.pcap"
