# SPDX-License-Identifier: BSD-2-Clause
"""`mrc wireshark` as a user types it: where the script goes, what it never overwrites, and that tshark finds it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mrc.capture.wireshark import dissector_source
from mrc.cli import main
from mrc.wire.profile import WireProfile

needs_tshark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None and not os.environ.get("CI"), reason="tshark is not installed"),
]
USUAL = Path(".local", "lib", "wireshark", "plugins", "mrc.lua")


def invoke(*argv: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(main, ["wireshark", *map(str, argv)], env=environment)


def test_print_prints_the_script() -> None:
    result = invoke("print")
    assert (result.exit_code, result.stdout, result.stderr) == (0, dissector_source(), "")
    assert json.loads(invoke("print", "--json").stdout) == {"lua": dissector_source()}


def test_a_wire_profile_is_built_into_the_script(tmp_path: Path) -> None:
    other = dissector_source(WireProfile(eeth_op_shift=4))
    assert other != dissector_source()
    assert invoke("print", "--wire-profile", "eeth_op_shift=4").stdout == other
    assert invoke("install", "--dir", tmp_path, "--wire-profile", "eeth_op_shift=4").exit_code == 0
    assert (tmp_path / "mrc.lua").read_text() == other
    refused = invoke("print", "--wire-profile", "colour=1")
    assert (refused.exit_code, refused.stdout) == (1, "")


def test_install_makes_the_folder_and_says_where_the_script_is(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    result = invoke("install", "--dir", folder)
    assert (result.exit_code, result.stdout) == (0, f"{folder / 'mrc.lua'}\n")
    assert (folder / "mrc.lua").read_text() == dissector_source()
    assert "restart Wireshark" in result.stderr
    assert [path.name for path in folder.iterdir()] == ["mrc.lua"]


def test_installing_twice_changes_nothing_and_a_newer_script_replaces_an_older_one(tmp_path: Path) -> None:
    script = tmp_path / "mrc.lua"
    documents = [json.loads(invoke("install", "--dir", tmp_path, "--json").stdout) for _ in range(2)]
    size = len(dissector_source().encode())
    assert documents == [{"path": str(script), "written": written, "bytes": size} for written in (True, False)]
    assert "was there already" in invoke("install", "--dir", tmp_path).stdout
    script.write_text(dissector_source().splitlines()[0] + "\n-- mrc 0.0.1\n")
    assert json.loads(invoke("install", "--dir", tmp_path, "--json").stdout)["written"] is True
    assert script.read_text() == dissector_source()


def test_somebody_elses_file_is_not_overwritten(tmp_path: Path) -> None:
    script = tmp_path / "mrc.lua"
    script.write_text("-- MRC dissector of another kind\n")
    result = invoke("install", "--dir", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: {script} was not written by mrc: move it away, or name another folder with --dir DIR\n"
    )
    assert script.read_text() == "-- MRC dissector of another kind\n"


@pytest.mark.parametrize("name", ["a file in the way", "a directory of that name"])
def test_what_the_system_refuses_is_one_line(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "plugins"
    if name == "a file in the way":
        folder.write_text("")
        folder = folder / "below"
    else:
        (folder / "mrc.lua").mkdir(parents=True)
    result = invoke("install", "--dir", folder)
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert "mrc.lua cannot be written" in result.stderr


def test_without_tshark_the_script_goes_where_plugins_usually_are(tmp_path: Path) -> None:
    result = invoke("install", HOME=str(tmp_path), PATH=str(tmp_path))
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path / USUAL}\n")
    assert ("this is root's own folder" in result.stderr) == (os.geteuid() == 0)


@pytest.mark.parametrize(
    ("answer", "folder"),
    [
        ("Personal Plugins:\\tOLD/4.0\\nPersonal Lua Plugins:\\tNEW", "NEW"),
        ("Personal configuration:\\tCONF\\nPersonal Plugins:\\tOLD", "OLD"),
        ("Temp:\\t/tmp", None),
    ],
)
def test_the_folder_is_the_one_tshark_names(tmp_path: Path, answer: str, folder: str | None) -> None:
    """The program's answer as versions from 4.0 on, and versions before, give it."""
    program = tmp_path / "bin" / "tshark"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nprintf '{answer.replace('OLD', f'{tmp_path}/OLD').replace('NEW', f'{tmp_path}/NEW')}'\n"
    )
    program.chmod(0o755)
    result = invoke("install", HOME=str(tmp_path), PATH=f"{program.parent}:{os.environ['PATH']}")
    expected = tmp_path / folder / "mrc.lua" if folder else tmp_path / USUAL
    assert (result.exit_code, result.stdout) == (0, f"{expected}\n")


class TestTshark:
    pytestmark = needs_tshark

    def test_the_installed_script_is_found(self, tmp_path: Path) -> None:
        environment = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
        result = invoke("install", **environment)
        assert result.exit_code == 0
        assert Path(result.stdout.strip()).is_relative_to(tmp_path)
        listed = subprocess.run(
            ["tshark", "-G", "fields"], capture_output=True, text=True, check=True, env={**os.environ, **environment}
        )
        assert "\tmrc.seth.cack_psn\t" in listed.stdout
        assert "lua" not in listed.stderr.lower()


def test_a_reader_that_leaves_early_sees_no_traceback() -> None:
    command = 'mrc() { python -m mrc "$@"; }; set -o pipefail; mrc wireshark print | head -n 1'
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env={**os.environ, "PATH": path})
    assert done.stdout.startswith("-- MRC dissector")
    assert "Traceback" not in done.stderr


def test_help_shows_examples() -> None:
    for argv in (["--help"], ["print", "--help"], ["install", "--help"]):
        assert "mrc wireshark" in invoke(*argv).stdout.partition("Examples:")[2]
    assert invoke("remove").exit_code == 2
