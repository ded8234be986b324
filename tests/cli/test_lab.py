# SPDX-License-Identifier: BSD-2-Clause
"""`mrc lab` as a user types it: output, exit status, one line on stderr when it fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from mrc.cli.lab import lab as lab_command
from mrc.fabric import Fabric
from mrc.lab import Lab, lab_names

needs_root = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 and os.environ.get("CI") != "true", reason="needs root"),
]
COMMANDS = sorted(lab_command.commands)
MAIN = "from mrc.cli.lab import lab; lab(prog_name='mrc lab')"


def invoke(*argv: str) -> Result:
    return CliRunner().invoke(lab_command, list(argv))


def document(*argv: str) -> object:
    """The one JSON document a command prints on stdout."""
    result = invoke(*argv, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def name() -> Iterator[str]:
    name = f"test-{os.getpid()}-cli"
    result = invoke("up", "--name", name)
    assert result.exit_code == 0, result.output
    assert "2 hosts, 12 switches, 20 links" in result.stdout
    yield name
    assert invoke("down", "--name", name).exit_code == 0
    assert name not in lab_names()


def test_every_command_shows_examples() -> None:
    assert sorted(COMMANDS) == [
        *("cut", "down", "events", "exec", "export", "flap", "graph", "heal"),
        *("impair", "list", "schema", "shell", "status", "up"),
    ]
    for command in COMMANDS:
        result = invoke(command, "--help")
        assert result.exit_code == 0
        assert f"mrc lab {command}" in result.stdout.partition("Examples:")[2]


def test_clearing_and_changing_at_once_is_named() -> None:
    result = invoke("impair", "p0l0-p0s1", "--loss", "1%", "--clear")
    assert "--clear removes all impairments" in result.stderr


@pytest.mark.parametrize(
    "argv",
    [
        ["impair", "p0l0-p0s1"],
        ["impair", "p0l0-p0s1", "--loss", "1%", "--clear"],
        ["impair", "p0l0-p0s1", "--loss", "1"],
        ["impair", "p0l0-p0s1", "--rate", "fast"],
        ["impair", "p0l0-p0s1", "--queue", "-1"],
        ["status", "--watch", "--json"],
        ["impair", "p0l0-p0s1", "--loss", "101%"],
        ["cut"],
        ["exec", "h0"],
        ["exec", "h0", "--"],
        ["up", "--planes", "many"],
        ["up", "--planes", "17"],
        ["up", "--name", "../etc"],
        ["fix"],
    ],
)
def test_usage_errors_exit_2(argv: list[str]) -> None:
    result = invoke(*argv)
    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["status", "--name", "nosuchlab"], "mrc lab up --name nosuchlab"),
        (["down", "--name", "nosuchlab"], "mrc lab list"),
    ],
)
def test_failures_exit_1_with_one_line(argv: list[str], says: str) -> None:
    result = invoke(*argv)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert says in result.stderr


class TestWithALab:
    pytestmark = needs_root

    def test_up_again_changes_nothing(self, name: str) -> None:
        result = invoke("up", "--name", name)
        assert result.exit_code == 0
        assert "already up as described" in result.stdout

    def test_another_lab_under_the_same_name_is_refused(self, name: str) -> None:
        result = invoke("up", "--name", name, "--planes", "3")
        assert result.exit_code == 1
        assert "planes is 2, not 3" in result.stderr
        assert f"mrc lab down --name {name}" in result.stderr

    def test_list(self, name: str) -> None:
        listed = document("list")
        assert isinstance(listed, list)
        assert {"name": name, "state": "up", "hosts": 2, "missing": []} in listed
        assert f"{name}  up" in invoke("list").stdout.splitlines()

    def test_status(self, name: str) -> None:
        found = document("status", "--name", name)
        assert isinstance(found, dict)
        assert found["hosts"] == [
            {"name": "h0", "addresses": ["fd4d:5243::1", "fd4d:5243:1::1"], "ipv4": "198.18.0.1"},
            {"name": "h1", "addresses": ["fd4d:5243::2", "fd4d:5243:1::2"], "ipv4": "198.18.0.2"},
        ]
        assert len(found["switches"]) == 12
        assert len(found["links"]) == 20
        assert {link["state"] for link in found["links"]} == {"up"}
        first = found["links"][0]
        assert first["name"] == "h0-p0l0"
        assert set(first["toward"]) == {"h0", "p0l0"}
        assert {"packets", "bytes", "dropped_packets", "loss_percent"} < set(first["toward"]["h0"])

    def test_status_table(self, name: str) -> None:
        shown = invoke("status", "--name", name).stdout
        assert all(word in shown for word in ("h0-p0l0", "p1l1-p1s3", "fd4d:5243:1::2", "up"))

    def test_cut_and_heal(self, name: str) -> None:
        cut = document("cut", "--name", name, "p0s1", "h0-p1l0")
        assert isinstance(cut, dict)
        assert [entry["links"] for entry in cut["cut"]] == [["p0l0-p0s1", "p0l1-p0s1"], ["h0-p1l0"]]
        assert all(isinstance(entry["at_monotonic_ns"], int) for entry in cut["cut"])
        found = document("status", "--name", name)
        assert isinstance(found, dict)
        down = {link["name"] for link in found["links"] if link["state"] == "down"}
        assert down == {"p0l0-p0s1", "p0l1-p0s1", "h0-p1l0"}
        assert invoke("heal", "--name", name, "p0s1", "h0-p1l0").exit_code == 0
        with Lab.open(name) as opened:
            assert all(link.state == "up" for link in opened.status().links)

    def test_a_misspelt_target_cuts_nothing(self, name: str) -> None:
        result = invoke("cut", "--name", name, "p0s1", "p0s9")
        assert result.exit_code == 1
        assert "no node 'p0s9'" in result.stderr
        with Lab.open(name) as opened:
            assert all(link.state == "up" for link in opened.status().links)

    def test_impair_and_clear(self, name: str) -> None:
        nothing = dict.fromkeys(["rate_bps", "queue_bytes", "ecn_at_bytes", "trim_at_bytes"], 0)
        nothing |= dict.fromkeys(
            ["trim_to_bytes", "trim_dscp", "trim_dscp_lasthop", "mtu_bytes", "delay_ns", "jitter_ns"], 0
        )
        nothing_percent = dict.fromkeys(
            ["loss_percent", "duplicate_percent", "corrupt_percent", "reorder_percent"], 0.0
        )
        assert document("impair", "--name", name, "p0l0-p0s1", "--toward", "p0s1", "--loss", "0.5%") == {
            "name": name,
            "link": "p0l0-p0s1",
            "toward": ["p0s1"],
            "loss_percent": 0.5,
            "impairments": {"p0s1": {**nothing, **nothing_percent, "loss_percent": 0.5}},
        }
        with Lab.open(name) as opened:
            toward = next(link for link in opened.status().links if link.name == "p0l0-p0s1").toward
            assert {node: way.loss_percent for node, way in toward.items()} == {"p0s1": 0.5, "p0l0": 0.0}
            assert document("impair", "--name", name, "p0s1-p0l0", "--clear") == {
                "name": name,
                "link": "p0l0-p0s1",
                "toward": ["p0l0", "p0s1"],
                **nothing,
                **nothing_percent,
                "impairments": {node: {**nothing, **nothing_percent} for node in ("p0l0", "p0s1")},
            }
            toward = next(link for link in opened.status().links if link.name == "p0l0-p0s1").toward
            assert {way.loss_percent for way in toward.values()} == {0.0}

    def test_exec_is_the_command(self, name: str) -> None:
        shell = "cat; echo $MRC_FABRIC; exit 7"
        argv = [sys.executable, "-c", MAIN, "exec", "--name", name, "h1", "--", "sh", "-c", shell]
        ended = subprocess.run(argv, input="from stdin\n", capture_output=True, text=True)
        assert ended.returncode == 7
        first, fabric = ended.stdout.splitlines()
        assert first == "from stdin"
        assert Fabric.load(fabric).host == 1

    def test_exec_works_on_a_switch(self, name: str) -> None:
        argv = [sys.executable, "-c", MAIN, "exec", "--name", name, "p0s1", "cat", "/proc/net/dev"]
        ended = subprocess.run(argv, capture_output=True, text=True)
        assert ended.returncode == 0
        interfaces = {line.split(":")[0].strip() for line in ended.stdout.splitlines() if ":" in line}
        assert interfaces == {"lo", "usid0", "p0l0", "p0l1"}

    @pytest.mark.parametrize("argv", [["h9", "true"], ["h0", "/no/such/program"]])
    def test_exec_that_cannot_start_exits_1(self, name: str, argv: list[str]) -> None:
        ended = subprocess.run(
            [sys.executable, "-c", MAIN, "exec", "--name", name, *argv], capture_output=True, text=True
        )
        assert ended.returncode == 1
        assert ended.stderr.count("\n") == 1

    def test_without_root_it_says_what_to_do(self) -> None:
        # Everything is imported while it may still be read.
        script = (
            "import locale, os, mrc.lab.build, mrc.lab.impairment.direction; from mrc.cli.lab import lab; "
            "os.setgid(65534); os.setuid(65534); lab(prog_name='mrc lab')"
        )
        ended = subprocess.run([sys.executable, "-c", script, "up", "--name", "x"], capture_output=True, text=True)
        assert ended.returncode == 1
        assert ended.stderr.count("\n") == 1
        assert "run as root, or inside `mrc lab shell`" in ended.stderr


def test_start_up_is_quick() -> None:
    # What costs a fifth of a second and more to import must wait until it is needed.
    heavy = "{'pyroute2', 'scapy', 'rich', 'cryptography'}"
    script = f"import sys, mrc.cli.lab, mrc.lab; print(*sorted({heavy} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []
