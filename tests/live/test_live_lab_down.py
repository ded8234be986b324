# SPDX-License-Identifier: BSD-2-Clause
"""Servers whose lab is taken down end, and say why."""

from __future__ import annotations

import os
import subprocess

import programs
import pytest
from live_run import missing
from patience import PATIENCE_S
from programs import MRC

from mrc.lab import Lab

pytestmark = pytest.mark.root


@pytest.mark.parametrize("server", [("recv",), ("bench", "serve")], ids=" ".join)
def test_a_server_ends_with_its_lab(server: tuple[str, ...]) -> None:
    if os.geteuid() != 0:
        missing("root")
    lab = Lab.up(f"departing-{os.getpid()}")
    try:
        process = lab.popen(
            "h1", [*MRC, *server], start=programs.start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline().startswith("mrc1:")
    finally:
        lab.down()
    try:
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1
    assert "the network is gone" in said
    assert "Traceback" not in said
