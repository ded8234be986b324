# SPDX-License-Identifier: BSD-2-Clause
"""Completion: what a Tab offers, in the shells themselves where they are installed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from mrc.cli import main
from mrc.cli.commands import COMPLETE_VARIABLE
from mrc.drill.catalogue import DRILLS
from mrc.fabric import Clos, Description
from mrc.lab import state

Offers = Callable[..., list[str]]
BIN = Path(sys.executable).parent
# The shell puts what is chosen on the command line as it is.
HOSTILE = "x$(touch /tmp/mrc-was-run)"


def offered(*words: str) -> list[str]:
    """What is offered in place of the last word; `type:file` where the shell is to look for files itself."""
    completion = ShellComplete(main, {}, "mrc", COMPLETE_VARIABLE)
    items = completion.get_completions(list(words[:-1]), words[-1])
    return [each.value if each.type == "plain" else f"type:{each.type}" for each in items]


@pytest.fixture
def labs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What labs leave on disk: `small` is up, `begun` is known by its name alone, another is nothing a lab can be."""
    monkeypatch.setattr(state, "STATE_DIRECTORY", tmp_path)
    monkeypatch.delenv("MRC_LAB", raising=False)
    for name in ("small", "begun"):
        state.reserve(name)
    state.LabState("small", "tag", Description(Clos(planes=2, leaves=2, spines=2)), state.UP).save()
    (tmp_path / HOSTILE.replace("/", "")).mkdir()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "lab.json").write_text("{")


@pytest.mark.usefixtures("labs")
def test_labs_are_offered_by_name_and_none_that_a_shell_would_run() -> None:
    assert offered("lab", "down", "--name", "") == ["begun", "damaged", "small"]
    assert offered("lab", "status", "--name", "s") == ["small"]


@pytest.mark.usefixtures("labs")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["cut", "--name", "small", "p0l0-"], ["p0l0-p0s0", "p0l0-p0s1", "p0l0-h0"]),
        (["cut", "--name", "small", "p0s1-"], ["p0s1-p0l0", "p0s1-p0l1"]),
        (["cut", "--name", "small", "h"], ["h0", "h1", "h0-p0l0", "h1-p0l1", "h0-p1l0", "h1-p1l1"]),
        (["heal", "--name", "small", "plane:"], ["plane:0", "plane:1"]),
        (["cut", "--name", "small", "plane:0", "plane:"], ["plane:1"]),
        (["flap", "--name", "small", "p1s"], ["p1s0", "p1s1"]),
        (["exec", "--name", "small", "p0"], ["p0l0", "p0l1", "p0s0", "p0s1"]),
        (["impair", "--name", "small", "h0-"], ["h0-p0l0", "h0-p1l0"]),
        (["impair", "--name", "small", "p0l0-p0s1", "--toward", ""], ["p0l0", "p0s1"]),
        (["status", "--name", "small", "sp"], ["spines"]),
        (["exec", "--name", "small", "h0", "--", "m"], ["mrc"]),
        (["exec", "--name", "small", "h0", "--", "mrc", "drill", "run", "nic"], ["nic-link-fail", "nic-link-flap"]),
        (["exec", "--name", "small", "h0", "--", "tshark", "-r", ""], ["type:file"]),
        (["up", ""], ["type:file"]),
        (["graph", "--name", "small", "r"], ["type:file"]),
        (["up", "--mode", "srv6-"], ["srv6-srh"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_a_lab_offers_what_is_in_it(words: list[str], names: list[str]) -> None:
    assert offered("lab", *words) == names


@pytest.mark.usefixtures("labs")
def test_the_variable_names_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_LAB", "small")
    assert offered("lab", "cut", "p1l1-") == ["p1l1-p1s0", "p1l1-p1s1", "p1l1-h1"]


@pytest.mark.usefixtures("labs")
@pytest.mark.parametrize("name", ["begun", "damaged", "not-there", "../etc"])
def test_a_lab_that_cannot_be_read_offers_nothing(name: str) -> None:
    assert offered("lab", "cut", "--name", name, "") == []


def test_labs_of_which_nothing_may_be_read_offer_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the directory is another user's; root may read all, a file in its place nobody."""
    (tmp_path / "mrc").touch()
    monkeypatch.setattr(state, "STATE_DIRECTORY", tmp_path / "mrc")
    assert offered("lab", "down", "--name", "") == []
    assert offered("lab", "cut", "") == []


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["conformance", "run", "--id", "MRC-P"], ["MRC-PATH", "MRC-PORT", "MRC-PROBE"]),
        (["conformance", "list", "--transport", "rc", "--id", "RC-WIRE-01"], ["RC-WIRE-01"]),
        (["conformance", "run", "--group", "e"], ["endpoint operations", "errors"]),
        (["conformance", "run", "--target", "s"], ["self"]),
        (["conformance", "run", "--target", "nic"], ["type:file"]),
        (["drill", "run", "nic-link-fail", "nic"], ["nic-link-flap"]),
        (["craft", "write-wi"], ["write-with-immediate"]),
        (["craft", "sack", "srv6-srh", "seth.sack_"], ["seth.sack_offset="]),
        (["craft", "sack", "srh."], []),
        (["craft", "nonsense", ""], []),
        (["recv", "--wire-profile", "udp_"], ["udp_port=", "udp_checksum_zero="]),
        (["send", "x"], ["type:file"]),
        (["dissect", ""], ["type:file"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_names_of_the_package_are_offered(words: list[str], names: list[str]) -> None:
    assert sorted(offered(*words)) == sorted(names)


def test_cases_are_offered_family_by_family() -> None:
    families = offered("conformance", "run", "--id", "")
    assert {"MRC-SACK", "MRC-WIRE", "MRC-CC"} <= set(families)
    assert len(families) < 40
    sacks = offered("conformance", "run", "--id", "MRC-SACK")
    assert {"MRC-SACK-01", "MRC-SACK-03/wrap"} <= set(sacks)
    assert all(each.startswith("MRC-SACK-") for each in sacks)


def test_drills_are_all_there() -> None:
    assert offered("drill", "run", "") == [*DRILLS, "all"]


# ---------------------------------------------------------------------- shells


def script(shell: str) -> str:
    result = CliRunner().invoke(main, ["completion", shell], prog_name="mrc")
    assert result.exit_code == 0, result.output
    return result.stdout


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "TERM": "dumb", **more}


def bash(line: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """What bash's own function puts into COMPREPLY at the end of `line`, a line each."""
    asked = f"""{script("bash")}
        compopt() {{ echo "compopt $*"; }}
        {before}
        COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}
        _mrc_completion mrc
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return subprocess.run(["bash", "-c", asked], env=environment(), capture_output=True, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("mrc lab cu", ["cut"]),
        ("mrc completion ", ["bash", "zsh", "fish"]),
        ("mrc craft sack srh.la", []),
        ("mrc craft nack nack_psn=7 neth.reas", ["compopt -o nospace", "neth.reason="]),
        ("mrc conformance list --transport=r", ["rc"]),
        ("mrc send /etc/host", ["compopt -o default"]),
        ('mrc drill run "startu', ["startup"]),
    ],
)
def test_bash_offers(line: str, shown: list[str]) -> None:
    done = bash(line)
    assert [each for each in done.stdout.splitlines() if each] == shown
    assert done.stderr == ""


@pytest.mark.parametrize("before", ["unset PATH; PATH=/nowhere", "export MRC_CORE=nonsense"])
def test_a_tab_that_finds_no_working_mrc_stays_quiet(before: str) -> None:
    done = bash("mrc lab cu", before)
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_what_goes_wrong_in_it_is_not_shown() -> None:
    """An error in the midst of it, as of a damaged installation."""
    broken = "import sys; sys.modules['mrc.cli.lab'] = None; from mrc.cli import main; main(prog_name='mrc')"
    asked = environment(COMP_LINE="mrc lab cu", **{COMPLETE_VARIABLE: "bash_complete"})
    done = subprocess.run([sys.executable, "-c", broken], env=asked, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert (done.stdout, done.stderr) == ("", "")


def test_bash_puts_it_on_the_line(tmp_path: Path) -> None:
    """An interactive bash with readline, which ends words at colons and equals signs."""
    (tmp_path / "rc").write_text(f"PS1='> '; bind 'set bell-style none'; {script('bash')}")
    shell, terminal = pty.openpty()
    command = ["bash", "--noprofile", "--rcfile", str(tmp_path / "rc"), "-i"]
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment(), start_new_session=True
    ) as process:
        os.close(terminal)
        try:
            until(shell, "> ")
            os.write(shell, b"mrc craft sack --trim=fab\t")
            until(shell, "--trim=fabric ")
            os.write(shell, b"\x15mrc craft sack bth.ps\t")
            until(shell, "bth.psn=")
        finally:
            process.kill()
            os.close(shell)


def until(terminal: int, wanted: str) -> None:
    """Read what is shown until it ends with `wanted`."""
    shown, deadline = "", time.monotonic() + 60
    while not shown.endswith(wanted):
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"no {wanted!r} in {shown!r}"
        shown += os.read(terminal, 4096).decode()


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_offers() -> None:
    """zsh's function, with what the completion system would take from it."""
    asked = f"""
        compdef() {{ :; }}
        compadd() {{ shift 3; print -l -- ${{(P)${{@[-1]}}}}; }}
        {script("zsh")}
        words=(mrc drill run nic) CURRENT=4
        _mrc_completion
    """
    done = subprocess.run(["zsh", "-fc", asked], env=environment(), capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["nic-link-fail", "nic-link-flap"], "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_offers(tmp_path: Path) -> None:
    (tmp_path / "mrc.fish").write_text(script("fish"))
    asked = f"source {tmp_path}/mrc.fish; complete --do-complete 'mrc drill run nic'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked], env=environment(HOME=str(tmp_path)), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (["nic-link-fail", "nic-link-flap"], "")
