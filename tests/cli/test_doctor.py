# SPDX-License-Identifier: BSD-2-Clause
"""`mrc doctor` says what a user can run, here and inside `mrc lab shell`; the commands themselves are the witness."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import programs
import pytest
from ordinary_user import environment, ordinary, python
from patience import PATIENCE_S
from programs import MRC

from mrc import CORE, core
from mrc.cli import doctor_checks
from mrc.cli.doctor import EXTRAS
from mrc.cli.doctor_checks import Check

BOUND = ("--mode", "udp", "--bind", "127.0.0.1")


@pytest.fixture(scope="module")
def interpreter() -> str:
    return python()


def mrc(interpreter: str, *argv: str, user: dict[str, Any], **changed: str) -> subprocess.CompletedProcess[str]:
    """By a user of these options of subprocess, in an environment that is changed."""
    options = {"capture_output": True, "text": True, "timeout": PATIENCE_S, "cwd": "/"}
    if not user:
        return programs.run([*MRC, *argv], env=os.environ | {"HOME": "/"} | changed, **options)
    asked = environment() | {"HOME": "/"} | changed
    return subprocess.run([interpreter, "-m", "mrc", *argv], env=asked, check=False, **options, **user)


def usable(interpreter: str, user: dict[str, Any], *before: str) -> dict[str, dict[str, Any]]:
    """What doctor says of the commands, by the first word of each line."""
    done = mrc(interpreter, *before, "doctor", "--json", user=user)
    return {each["commands"].split(",")[0]: each for each in json.loads(done.stdout)["usable"]}


def receives(interpreter: str, user: dict[str, Any], *before: str) -> bool:
    """Whether `mrc recv` prints a ticket."""
    with subprocess.Popen(
        [interpreter, "-m", "mrc", *before, "recv", "--dir", "/tmp", *BOUND],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
        cwd="/",
        **user,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    return line.startswith("mrc1:")


def test_an_ordinary_user_is_told_what_is_refused_and_what_mends_it(interpreter: str) -> None:
    user = ordinary()
    said = usable(interpreter, user)
    assert said["send"]["here"] is receives(interpreter, user) is False
    assert said["send"]["advice"].startswith("sudo ")
    # What `mrc lab shell` starts is no `mrc` command: the interpreter again.
    inside = ("lab", "shell", "--", interpreter, "-m", "mrc")
    assert said["send"]["in_lab_shell"] is receives(interpreter, user, *inside) is True
    assert said["lab"]["here"] is (mrc(interpreter, "lab", "up", "--name", "doctor-user", user=user).returncode == 0)
    assert said["lab"]["here"] is False
    assert said["lab"]["advice"] == "mrc lab shell"
    assert said["lab"]["in_lab_shell"] is True
    assert said["demo"]["here"] is True
    text = mrc(interpreter, "doctor", user=user).stdout
    assert "MISSING  raw sockets here" in text
    assert "as an ordinary user" in text


@pytest.mark.root
def test_root_can_run_everything() -> None:
    said = usable(sys.executable, {})
    assert said["send"]["here"] is True
    assert [each["here"] for each in said.values()] == [True] * len(said), said
    assert all(not each["advice"] for each in said.values())


@pytest.mark.parametrize("kind", sorted({core.INTERPRETED, CORE.kind}))
def test_it_says_how_the_datapath_runs(kind: str) -> None:
    """Interpreted the demo runs too."""
    done = mrc(sys.executable, "doctor", "--json", user={}, **{core.VARIABLE: kind})
    (check,) = (each for each in json.loads(done.stdout)["checks"] if each["name"] == "compiled datapath")
    assert check["ok"] is (kind == core.COMPILED)
    assert check["found"].startswith(kind)
    assert check["mend"] == ("" if kind == core.COMPILED else "unset MRC_CORE")
    assert "demo" not in check["needed_for"]


def test_inside_a_lab_shell_it_speaks_of_that_place(interpreter: str) -> None:
    said = usable(interpreter, ordinary(), "lab", "shell", "--", interpreter, "-m", "mrc")
    assert said["send"]["here"] is True
    assert said["lab"]["here"] is True


# ---------------------------------------------------------------------- what mends a lack


def lacks(interpreter: str, user: dict[str, Any], **changed: str) -> dict[str, dict[str, Any]]:
    """What doctor finds missing, by name, in an environment that is changed."""
    done = mrc(interpreter, "doctor", "--json", user=user, **changed)
    return {each["name"]: each for each in json.loads(done.stdout)["checks"] if not each["ok"]}


def test_a_program_that_is_missing_is_installed_by_one_command(tmp_path: Path) -> None:
    """Programs are looked for in PATH; apt is all that is there."""
    (tmp_path / "apt-get").write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").chmod(0o755)
    tmp_path.chmod(0o755)
    found = lacks(sys.executable, {}, PATH=str(tmp_path))
    sudo = "" if os.geteuid() == 0 else "sudo "
    assert found["tshark"]["mend"] == f"{sudo}apt install tshark"


def test_without_apt_the_packages_are_named(tmp_path: Path) -> None:
    found = lacks(sys.executable, {}, PATH=str(tmp_path))
    assert found["tshark"]["mend"] == ""
    assert "what Debian calls tshark" in found["tshark"]["advice"]


def test_every_lack_has_a_command_or_says_that_none_mends_it(interpreter: str, tmp_path: Path) -> None:
    for user, changed in (({}, {}), (ordinary(), {}), ({}, {"PATH": str(tmp_path)}), ({}, {core.VARIABLE: "python"})):
        for each in lacks(interpreter if user else sys.executable, user, **changed).values():
            assert bool(each["mend"]) != bool(each["advice"]), each


def test_what_is_there_needs_no_mending() -> None:
    check = Check("tshark", True, "/usr/bin/tshark", "tests", "apt install tshark", "buy a bus")
    assert (check.mend, check.advice, check.mark) == ("", "", "ok")


def test_an_extra_is_absent_and_not_missing() -> None:
    check = Check("extra ray", False, "no ray", "sweeps", "pip install 'softmrc[ray]'", optional=True)
    assert (check.mark, check.remedy) == ("absent", "pip install 'softmrc[ray]'")


def test_the_extras_are_those_of_the_package() -> None:
    """Those for users; the others are for who works on it."""
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    offered = set(extras["optional-dependencies"]) & set(EXTRAS)
    assert offered == set(EXTRAS)
    assert {"plot", "parquet", "zstd", "torch", "bfloat16", "ray"} <= offered
    # A release is tried without them.
    smoke = runpy.run_path(str(Path(__file__).parents[2] / "tools/releasing/smoke.py"))
    assert smoke["OPTIONAL"] == {module for module, _ in EXTRAS.values()} | {"aioquic"}


OPTIONS = {"NF_TABLES": "nf_tables", "NFT_NUMGEN": "nft_numgen", "NF_TABLES_NETDEV": ""}


@pytest.mark.parametrize(
    ("config", "loaded", "mend", "advice"),
    [
        ("NF_TABLES=y NFT_NUMGEN=m NF_TABLES_NETDEV=y", "", "modprobe -a nft_numgen", ""),
        ("NF_TABLES=m NFT_NUMGEN=m NF_TABLES_NETDEV=y", "", "modprobe -a nf_tables nft_numgen", ""),
        ("NF_TABLES=m NFT_NUMGEN=m NF_TABLES_NETDEV=y", "nf_tables nft_numgen", "", "a security module refuses it"),
        ("NF_TABLES=y NFT_NUMGEN=m", "", "", "built without CONFIG_NF_TABLES_NETDEV;"),
        ("", "", "", "the kernel needs CONFIG_NF_TABLES, CONFIG_NFT_NUMGEN, CONFIG_NF_TABLES_NETDEV"),
    ],
)
def test_a_kernel_that_lacks_something(
    config: str, loaded: str, mend: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module that is built and not loaded is loaded; an option that is off is mended by no command."""
    monkeypatch.setattr(doctor_checks, "kernel_config", lambda: dict(each.split("=") for each in config.split()))
    monkeypatch.setattr(doctor_checks, "MODULES", tmp_path)
    monkeypatch.setattr(doctor_checks, "is_root_of_all", lambda: True)
    for module in loaded.split():
        (tmp_path / module).mkdir()
    found = doctor_checks.kernel(**OPTIONS)
    assert found[0] == mend
    assert advice in found[1]
    assert bool(found[0]) != bool(found[1])


def test_the_configuration_of_this_kernel_is_read() -> None:
    if not Path("/proc/config.gz").exists() and not Path(f"/boot/config-{os.uname().release}").exists():
        pytest.skip("this kernel does not show its configuration")
    assert doctor_checks.kernel_config()["NET"] == "y"
