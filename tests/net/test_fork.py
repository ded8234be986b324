# SPDX-License-Identifier: BSD-2-Clause
"""A child that is forked from a program with open devices: it can do nothing with them, and leaves them as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from loopback import needs_root, own_loopback
from patience import PATIENCE_S

from mrc.trace.reader import read_trace
from mrc.trace.vocabulary import END

pytestmark = needs_root
PROGRAM = Path(__file__).parent / "forking_program.py"
REFUSED = "a child that was forked has no endpoint: open the device in it"


def test_a_child_has_no_endpoint_and_its_parent_goes_on(tmp_path: Path) -> None:
    done: list[subprocess.CompletedProcess[str]] = []
    with own_loopback(["127.0.0.2", "127.0.0.3"]) as inside:
        argv = [sys.executable, str(PROGRAM), str(tmp_path / "trace")]
        inside(
            lambda: done.append(subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False))
        )
    assert done[0].returncode == 0, done[0].stderr
    found = json.loads(done[0].stdout)
    assert found["before"] == "1 SUCCESS"
    assert found["after"] == "2 SUCCESS"
    for call in ("post", "again", "receive", "poll", "make", "register"):
        assert found[call].endswith(REFUSED), (call, found[call])
    # Leaving takes nothing away: the parent is still found by `mrc ctl`.
    assert found["leave"] == "'left'"
    assert found["one more"] == "(None, None, None, None)"
    assert found["places"] == found["still"]
    assert len(found["places"]) >= 2
    with (tmp_path / "trace").open("rb") as file:
        _, events = read_trace(file)
        kinds = [each.kind for each in events]
    assert kinds.count(END) == 1
    assert kinds[-1] == END
