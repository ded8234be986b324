# SPDX-License-Identifier: BSD-2-Clause
"""`mrc conformance` as a program: exit codes, one document on stdout, what --target may be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import programs
import pytest

from mrc.conformance.catalogue import catalogue, missing

HERE = Path(__file__).parent
FEW = ["--id", "MRC-SACK-04", "--id", "MRC-ACK-0[124]"]


def mrc(*arguments: str | Path, cwd: Path = HERE) -> subprocess.CompletedProcess[str]:
    return programs.run(
        [*programs.MRC, "conformance", *arguments], capture_output=True, text=True, check=False, cwd=cwd, timeout=120
    )


def test_our_endpoint_passes_and_the_status_is_0() -> None:
    done = mrc("run", *FEW)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].endswith("the control case failed, as it must")


def test_json_is_one_document_on_stdout() -> None:
    done = mrc("run", *FEW, "--json", "-v")
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert {each["id"] for each in document["cases"]} >= {"MRC-SACK-04", "MRC-ACK-01", "MRC-ACK-02", "MRC-ACK-04"}
    for each in document["cases"]:
        assert {"id", "requirement", "verdict", "expected", "actual"} <= each.keys()
        assert f"passed       {each['id']}" in done.stderr
    assert (document["passed"], document["failed"], document["unsupported"]) == (len(document["cases"]), 0, 0)


def test_a_mutant_fails_and_the_status_is_1(tmp_path: Path) -> None:
    files = ["--junit", tmp_path / "r.xml", "--html", tmp_path / "r.html", "--pcap-dir", tmp_path / "pcaps"]
    done = mrc("run", *FEW, "--target", "mutant:sack_echoes_another_ev", *files)
    assert done.returncode == 1
    assert "FAILED  MRC-SACK-04  must, grade A, wire.md 6" in done.stdout
    for word in ("shows", "expected", "actual", "look at"):
        assert f"\n  {word}" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"r.xml", "r.html", "pcaps"}
    assert (tmp_path / "pcaps" / "MRC-SACK-04.pcap").stat().st_size > 1000


@pytest.mark.parametrize("arguments", [["run"], ["list"]])
@pytest.mark.parametrize(
    "pattern",
    [["--id", "MRC-NOTHING"], ["--id", "MRC-SACK-04", "--id", "X*"], ["--group", "robustness", "--id", "MRC-ACK"]],
)
def test_a_pattern_that_matches_nothing_is_a_usage_error(arguments: list[str], pattern: list[str]) -> None:
    done = mrc(*arguments, *pattern)
    assert (done.returncode, done.stdout) == (2, "")
    assert "mrc conformance list" in done.stderr


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("mrc-sak-04", "did you mean MRC-SACK-04"),
        ("mrc-sack-04", "did you mean MRC-SACK-04"),
        ("MRC-SACK-4", "did you mean MRC-SACK-"),
        ("SACK", "did you mean MRC-SACK"),
        # A requirement that has no case, and why.
        ("MRC-SRV6-03", "requirement MRC-SRV6-03 has no case: mrc conformance list --missing says why"),
        ("????", "no case matches --id ????: mrc conformance list prints them all"),
    ],
)
def test_near_ids_are_suggested(pattern: str, words: str) -> None:
    done = mrc("list", "--id", pattern)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nonsense", "give self, or MODULE:FACTORY"),
        ("no_such_module:target", "No module named"),
        ("toy_targets:nobody", "has no attribute"),
        ("toy_targets:failing", "raised OSError: no such device"),
        ("toy_targets:no_target", "gave a object"),
        ("mutant:nobody", "no mutant nobody of MRC: docs/conformance.md lists"),
        ("../evil:x", "give self, or MODULE:FACTORY"),
    ],
)
def test_a_target_that_is_none_is_a_usage_error(target: str, words: str) -> None:
    done = mrc("run", *FEW, "--target", target)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("target", "words"), [("dead", "does not answer"), ("broken", "raised KeyError")])
def test_an_adapter_of_somebody_elses_is_found_in_the_working_directory(target: str, words: str) -> None:
    """And one that is dead makes the run void, although silence is all that this case asks for."""
    done = mrc("run", "--id", "MRC-RESP-01", "--target", f"toy_targets:{target}")
    assert done.returncode == 1
    assert "this run is void" in done.stdout
    assert words in done.stdout


def test_list_prints_every_case() -> None:
    done = mrc("list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == [each.id for each in catalogue()]
    document = json.loads(mrc("list", "--json").stdout)
    assert [each["id"] for each in document["cases"]] == [each.id for each in catalogue()]
    assert all(re.match(r"@([A-Z_]+\.)?case\(", each["script"]) for each in document["cases"])


def test_list_shows_a_script() -> None:
    done = mrc("list", "--id", "MRC-SACK-09/wrap", "-v")
    assert 'bench.expect("SACK", ack_psn=7' in done.stdout
    assert "look at" in done.stdout


def test_list_shows_what_has_no_case() -> None:
    document = json.loads(mrc("list", "--missing", "--json").stdout)
    assert [each["id"] for each in document["missing"]] == [each.requirement.id for each in missing()]
    done = mrc("list", "--missing")
    assert "MRC-RESP-12" in done.stdout
    assert "inside the target" in done.stdout
    assert mrc("list", "--missing", "--id", "MRC-ACK").returncode == 2


def test_a_wire_profile_is_followed_by_both_ends() -> None:
    """Switches that the endpoint can follow leave every wire case passed."""
    switches = ["eeth_op_shift=4", "solicited_event_first=false", "ev_low_half_in_source_port=false", "udp_port=4971"]
    options = [word for switch in switches for word in ("--wire-profile", switch)]
    done = mrc("run", "--group", "wire", *options, "--wire-profile", "dscp_trimmed=13", "--json")
    document = json.loads(done.stdout)
    assert [each["id"] for each in document["cases"] if each["verdict"] != "passed"] == []
    assert done.returncode == 0


def test_a_wire_profile_that_the_tester_cannot_follow_is_refused() -> None:
    done = mrc("run", *FEW, "--wire-profile", "icrc_covers_outer=true")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the tester follows neither")


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from mrc.cli import main\n"
        "main(['conformance', 'run', '--help'], standalone_mode=False)\n"
        "heavy = {'scapy', 'numpy', 'pyroute2', 'rich', 'cryptography'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Examples:" in done.stdout


def test_it_needs_no_privilege_and_no_network() -> None:
    """In a namespace without interfaces, as nobody in particular."""
    if os.geteuid() != 0:
        pytest.skip("unshare without a user namespace needs root")
    command = ["unshare", "--net", sys.executable, "-m", "mrc", "conformance", "run", *FEW]
    assert subprocess.run(command, capture_output=True, check=False, cwd=HERE).returncode == 0
