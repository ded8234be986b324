# SPDX-License-Identifier: BSD-2-Clause
"""An interruption while nobody reads the output, as in front of a pager: the command ends at once all the same."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import programs
import pytest
from patience import PATIENCE_S, narrow_pipe, until_it_waits_for_a_reader
from programs import MRC

CAPTURE = Path(__file__).parents[2] / "pcaps" / "softroce-rc-ipv4-ipv6.pcap"


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["", "unbuffered"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
@pytest.mark.parametrize(
    "argv", [["conformance", "list"], ["dissect", "--jsonl", str(CAPTURE)], ["lab", "schema"]], ids=" ".join
)
def test_an_interruption_waits_for_no_reader(argv: list[str], number: signal.Signals, unbuffered: str) -> None:
    environment = os.environ | ({"PYTHONUNBUFFERED": "1"} if unbuffered else {})
    reader, writer = narrow_pipe()
    with reader, programs.start([*MRC, *argv], stdout=writer, stderr=subprocess.PIPE, env=environment) as process:
        try:
            writer.close()
            until_it_waits_for_a_reader(process)
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == 128 + number
            assert process.stderr is not None
            assert process.stderr.read() == b"interrupted\n"
        finally:
            process.kill()
