# SPDX-License-Identifier: BSD-2-Clause
"""A command whose thread ends by an exception that nobody foresaw says so and fails, whatever else it was doing."""

from __future__ import annotations

import subprocess
import sys

import pytest
from patience import PATIENCE_S

COMMAND = """
import sys, time
import click
import mrc.cli
from mrc.cli.common import interrupted
from mrc.threads import start_thread

@click.command()
@click.argument("how")
def serve(how):
    def accept():
        raise RuntimeError("this was not foreseen")

    try:
        start_thread(accept, name="mrc-accept")
        time.sleep(600)
    except KeyboardInterrupt:
        print("closed", flush=True)
        if how == "as Ctrl-C":
            raise interrupted() from None
        if how == "as if it were done":
            return
        raise

sys.modules["commands_of_this_test"] = sys.modules["__main__"]
mrc.cli._COMMANDS["serve"] = ("commands_of_this_test", "serve", "Serve.")
mrc.cli.main(["serve", sys.argv[1]])
"""


@pytest.mark.parametrize("how", ["as Ctrl-C", "as if it were done", "not at all"])
def test_a_thread_that_ends_unexpectedly_ends_the_command(how: str) -> None:
    argv = [sys.executable, "-c", COMMAND, how]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout == "closed\n"
    assert done.returncode == 1
    assert "RuntimeError: this was not foreseen" in done.stderr
    assert "Error: the thread 'mrc-accept' ended unexpectedly: the command ends" in done.stderr
