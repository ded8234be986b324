# SPDX-License-Identifier: BSD-2-Clause
"""What the library refuses by itself: each refusal of its table says one line on stderr that tells what to do."""

from __future__ import annotations

import re
from pathlib import Path

from c_programs import PROGRAMS, compiled, run_one, runs_programs
from loopback import Inside

from mrc.capi.build import SOURCE

pytestmark = runs_programs
ONCE = "1"
# A program of its own has it.
ELSEWHERE = {"UNACKNOWLEDGED"}
MOST_LINE = 200
CONVERSION = r"%(?:%|#?(?:ll|z)?[a-z])"


def _line_of(text: str) -> re.Pattern[str]:
    """What a format of the table becomes."""
    return re.compile("mrc: [a-z_]+: " + ".+".join(re.escape(each) for each in re.split(CONVERSION, text)))


def test_each_refusal_says_one_line_and_those_of_posting_and_polling_say_it_once(
    inside: Inside, tmp_path: Path, directory: str
) -> None:
    """The program provokes each, with garbage in what is not looked at, and compares the errno with the table."""
    program = str(compiled(PROGRAMS / "refusal_lines.c", tmp_path, f"-I{SOURCE}"))
    rows = [row.split("\t") for row in run_one(inside, program, "table").stdout.splitlines()]
    done = run_one(inside, program, MRC_CONTROL_DIR=directory)
    assert (done.returncode, done.stdout) == (0, ""), done
    first, *parts = done.stderr.split("-- ")
    assert first == ""
    said: dict[str, list[list[str]]] = {}
    for name, *lines in (part.splitlines() for part in parts):
        said.setdefault(name, []).append(lines)
    assert {line for lines in said.pop("again") for line in lines} == set()
    assert said.pop("end") == [[]]
    assert len(said.pop("many")) == 1
    assert said.keys() == {name for name, _, _ in rows} - ELSEWHERE
    for name, told, text in rows:
        for lines in said.get(name, []):
            assert len(lines) == 1, (name, lines)
            assert _line_of(text).fullmatch(lines[0]), (text, lines)
            assert len(lines[0]) < MOST_LINE
        assert told != ONCE or len(said.get(name, [])) <= 1


def test_what_is_destroyed_waits_for_events_that_were_read(inside: Inside, tmp_path: Path) -> None:
    """And says so after a second: a CQ for those of its channel and its overflow, a QP for its end."""
    done = run_one(inside, str(compiled(PROGRAMS / "acknowledges.c", tmp_path)))
    assert (done.returncode, done.stdout) == (0, ""), done
    assert done.stderr.splitlines() == [
        "mrc: destroy_qp: 1 events that were read are not acknowledged: it waits for ibv_ack_async_event",
        "mrc: destroy_cq: 1 events that were read are not acknowledged: it waits for ibv_ack_async_event",
        "mrc: destroy_cq: 2 events that were read are not acknowledged: it waits for ibv_ack_cq_events",
    ]
