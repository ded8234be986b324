# SPDX-License-Identifier: BSD-2-Clause
"""How far a long command has come: one line on a terminal, which is gone in the end, however that comes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from on_a_terminal import WIPED, on_a_terminal

PCAP = Path(__file__).resolve().parents[2] / "pcaps" / "mrc-tour-sender.pcap"
SCRIPT = """
import sys
from mrc.cli.live_line import LiveLine
with LiveLine() as line:
    line.show("1 of 2")
    line.show("2 of 2 " + "x" * 400)
    line.clear()
    print("a note", file=sys.stderr)
    line.show("again")
    raise SystemExit(3)
"""


def test_a_line_is_written_anew_and_wiped_before_a_note_and_when_an_error_ends_it() -> None:
    shown, _ = on_a_terminal([sys.executable, "-c", SCRIPT])
    first, note, again = shown.partition(b"a note\r\n")
    assert b"1 of 2" in first
    assert b"2 of 2 " in first
    assert b"x" * 200 not in first
    assert first.endswith(WIPED)
    assert note
    assert b"again" in again
    assert again.endswith(WIPED)


def test_analyze_counts_packets_on_a_terminal_and_leaves_nothing_behind() -> None:
    shown, said = on_a_terminal([sys.executable, "-m", "mrc", "analyze", str(PCAP), "--json"])
    assert b" packets" in shown
    assert shown.endswith(WIPED)
    assert json.loads(said)["packets"]


def test_where_stderr_is_no_terminal_nothing_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    from mrc.cli.live_line import LiveLine

    with LiveLine() as line:
        line.show("1 of 2")
    assert not line.on_terminal
    assert capfd.readouterr() == ("", "")
