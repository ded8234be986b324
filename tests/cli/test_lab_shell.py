"""`mrc lab shell` as a user types it: namespaces and a /run of its own around a command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from patience import PATIENCE_S

from mrc.cli.isolation import is_isolated
from mrc.lab import lab_names

MRC = (sys.executable, "-m", "mrc")


def isolation_works() -> bool:
    unshare = shutil.which("unshare")
    flags = ["--net", "--mount"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net", "--mount"]
    return unshare is not None and subprocess.run([unshare, *flags, "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(
    not isolation_works() and os.environ.get("CI") != "true", reason="needs namespaces and the program unshare"
)


def shell(*argv: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [*MRC, "lab", "shell", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, **options)  # type: ignore[call-overload,no-any-return]


def test_it_is_the_command() -> None:
    done = shell("--", "sh", "-c", "cat; echo err >&2; exit 7", input="from stdin\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "from stdin\n", "err\n")


def test_options_behind_the_command_are_its_own() -> None:
    assert shell("echo", "--help", "--", "-x").stdout == "--help -- -x\n"
    assert shell("--", "echo", "--", "x").stdout == "-- x\n"


def test_without_a_command_it_is_a_shell() -> None:
    done = shell(input="echo $((6 * 7))\n", env={**os.environ, "SHELL": "/bin/sh"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")


def test_what_cannot_be_started_is_one_line() -> None:
    done = shell("--", "/no/such/program")
    assert done.returncode == 1
    assert done.stderr == "Error: cannot start '/no/such/program': No such file or directory\n"


def test_a_network_and_a_run_of_its_own() -> None:
    script = "ls -A /run; cat /proc/net/dev /proc/net/if_inet6; readlink /proc/self/ns/net /proc/self/ns/mnt"
    done = shell("--", "sh", "-c", script)
    lines = done.stdout.splitlines()
    # Nothing in /run; no interface but lo, and that is up: it has its address.
    assert [line.split(":")[0].strip() for line in lines[2:-3]] == ["lo"]
    assert lines[-3].split()[0] == "00000000000000000000000000000001"
    assert lines[-2] != os.readlink("/proc/self/ns/net")
    assert lines[-1] != os.readlink("/proc/self/ns/mnt")


def test_its_labs_are_seen_from_inside_only() -> None:
    mrc = " ".join(MRC)
    done = shell("--", "sh", "-c", f"{mrc} lab up --name inner >&2 && {mrc} lab list --json")
    assert json.loads(done.stdout) == [{"name": "inner", "state": "up", "hosts": 2}]
    assert "inner" not in lab_names()


def test_a_shell_in_a_shell_has_labs_of_its_own() -> None:
    mrc = " ".join(MRC)
    done = shell("--", "sh", "-c", f"{mrc} lab up >&2 && {mrc} lab shell -- {mrc} lab list --json && {mrc} lab list")
    assert done.stdout.splitlines() == ["[]", "mrc  up"]


def test_what_is_started_inside_does_not_take_itself_for_isolated() -> None:
    """`mrc demo` would mount its /run over the one in which the shell's labs are."""
    script = (
        "import os; from mrc.cli.isolation import is_isolated; print(is_isolated(), 'MRC_ISOLATED_FROM' in os.environ)"
    )
    assert shell("--", sys.executable, "-c", script).stdout == "False False\n"


@pytest.mark.parametrize("value", ["1", "", "mnt:[1]x", "net:[4026531840]"])
def test_a_stray_mark_in_the_environment_means_nothing(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_ISOLATED_FROM", value if value != "mnt:[1]x" else os.readlink("/proc/self/ns/mnt"))
    assert not is_isolated()
