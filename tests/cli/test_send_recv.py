# SPDX-License-Identifier: BSD-2-Clause
"""`mrc send` and `mrc recv` as far as they go without a fabric: usage, help, tickets. The rest is in tests/live."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import programs
import pytest
from click.testing import CliRunner
from patience import PATIENCE_S
from programs import MRC

from mrc.cli import main
from mrc.cli.transfer_output import print_paths
from mrc.fabric.host_view import Fabric, FabricPort
from mrc.net.ticket import Ticket
from mrc.net.transfer.report import PathReport, TransferReport

# A good one, of nobody.
TICKET = Ticket(("::1",), 9, bytes(32), bytes(16)).text


def mrc(*argv: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    base = {key: value for key, value in os.environ.items() if key != "MRC_FABRIC"}
    return programs.run(
        [*MRC, *argv],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**base, **environment},
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    return path


@pytest.fixture
def fabric(tmp_path: Path) -> Path:
    """A fabric whose only port is nowhere."""
    path = tmp_path / "fabric.json"
    path.write_text(Fabric("none", 0, 4400, (FabricPort(0, "no-such-port", "fd00::1", 0, 1),)).to_json())
    return path


def failed(ended: subprocess.CompletedProcess[str], says: str) -> None:
    """Exit status 1, nothing on stdout, one line on stderr."""
    assert ended.returncode == 1, ended
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert says in ended.stderr


@pytest.mark.parametrize("command", ["send", "recv"])
def test_help_has_examples_and_needs_nothing(command: str) -> None:
    ended = mrc(command, "--help")
    assert ended.returncode == 0
    assert f"mrc {command}" in ended.stdout.partition("Examples:")[2]


@pytest.mark.parametrize(
    "argv",
    [
        ["send"],
        ["send", "FILE"],
        ["send", "none", TICKET],
        ["send", "FILE", TICKET, "--mtu", "1000"],
        ["send", "FILE", TICKET, "--mtu", "8192"],
        ["send", "FILE", TICKET, "--message-size", "much"],
        ["send", "FILE", TICKET, "--message-size", "0"],
        ["send", "FILE", TICKET, "--message-size", "2GiB"],
        ["send", "FILE", TICKET, "--message-size", "-1"],
        ["send", "FILE", TICKET, "--qps", "0"],
        ["send", "FILE", TICKET, "--qps", "65"],
        ["send", "FILE", TICKET, "--qps", "one"],
        ["send", "FILE", TICKET, "--nonsense"],
        ["recv", "--dir", "none"],
        ["recv", "--dir", "FILE"],
        ["recv", "--idle-timeout", "soon"],
        ["recv", "--idle-timeout", "-1s"],
        ["recv", "--idle-timeout", "0s"],
        ["recv", "FILE"],
        ["recv", "-", "--json"],
        ["recv", "-", "--dir", "."],
        ["recv", "--quiet", "-v"],
        ["send", "FILE", TICKET, "--quiet", "--json"],
        ["send", "-", TICKET, "--name", "../up"],
        ["recv", "--mode", "ecmp"],
        ["recv", "--mode", "srv6", "--bind", "::1"],
        ["send", "FILE", TICKET, "--mode", "srv6", "--bind", "::1"],
    ],
    ids=lambda argv: " ".join(word if word != TICKET else "TICKET" for word in argv),
)
def test_usage_errors_end_with_2(argv: list[str], file: Path, fabric: Path) -> None:
    words = [str(file) if word == "FILE" else word for word in argv]
    ended = CliRunner(env={"MRC_FABRIC": str(fabric)}).invoke(main, words, prog_name="mrc")
    assert ended.exit_code == 2, ended
    assert ended.stdout == ""
    assert "Usage:" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["send"], "which file or directory, and to which receiver? mrc send FILE... TICKET"),
        (["send", "FILE"], "the ticket is missing behind FILE"),
        (["send", "none"], "the ticket is missing behind none"),
        (["send", "FILE", "FILE"], "the ticket is missing behind FILE"),
        (["send", "FILE", "--qps", "2"], "`mrc recv` prints it"),
        (["send", TICKET], "no file before the ticket"),
        (["send", TICKET, "FILE"], "the ticket comes last"),
        (["send", "FILE", TICKET, TICKET], "2 tickets"),
        (["send", "FILE", "none", TICKET], "'none' does not exist"),
        (["send", "FIFO", TICKET], "FIFO is a pipe"),
        (["send", "/dev/null", TICKET], "/dev/null is a device"),
        (["bench", "write"], "`mrc bench serve` prints it"),
        (["bench", "write-imm"], "`mrc bench serve` prints it"),
        (["bench", "latency"], "`mrc bench serve` prints it"),
    ],
    ids=lambda value: " ".join(value).replace(TICKET, "TICKET") if isinstance(value, list) else "",
)
def test_what_is_missing_is_named(argv: list[str], says: str, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    file.rename("FILE")
    os.mkfifo("FIFO")
    ended = CliRunner().invoke(main, argv, prog_name="mrc")
    assert (ended.exit_code, ended.stdout) == (2, ""), ended.output
    assert says in ended.stderr.splitlines()[-1]


@pytest.mark.parametrize("argv", [["bench", "write"], ["bench", "latency"], ["send", "FILE"]], ids=" ".join)
def test_a_ticket_that_is_none_is_named_before_anything_is_opened(argv: list[str], file: Path) -> None:
    failed(mrc(*(str(file) if word == "FILE" else word for word in argv), "garbage"), "this is not a ticket")


@pytest.mark.parametrize(
    ("ticket", "says"),
    [
        ("garbage", "not a ticket"),
        (TICKET[:-10], "cut short"),
        (TICKET[:20] + ("A" if TICKET[20] != "A" else "B") + TICKET[21:], "altered"),
        (TICKET.replace("mrc1:", "mrc2:"), "version 2"),
    ],
)
def test_bad_tickets(file: Path, fabric: Path, ticket: str, says: str) -> None:
    failed(mrc("send", file, ticket, MRC_FABRIC=str(fabric)), says)


@pytest.mark.parametrize("empty", [{}, {"MRC_FABRIC": ""}])
def test_srv6_mode_without_a_fabric(file: Path, tmp_path: Path, empty: dict[str, str]) -> None:
    failed(mrc("send", file, TICKET, "--mode", "srv6", **empty), "no fabric")
    failed(mrc("recv", "--dir", tmp_path, "--mode", "srv6", **empty), "mrc lab up")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("host", "'host' is no IP address"),
        ("fe80::1", "does not name this host to others"),
        ("0.0.0.0", "does not name this host to others"),
        ("192.0.2.77", "192.0.2.77 is no address of this host"),
    ],
)
def test_addresses_that_cannot_be_bound(file: Path, tmp_path: Path, address: str, says: str) -> None:
    failed(mrc("send", file, TICKET, "--bind", address), says)
    failed(mrc("recv", "--dir", tmp_path, "--bind", address), says)


def test_an_address_is_one_plane_only(tmp_path: Path) -> None:
    failed(mrc("recv", "--dir", tmp_path, "--bind", "127.0.0.1", "--bind", "127.0.0.1"), "given twice")


@pytest.mark.parametrize("content", [None, "", "{}", "[]", '{"version": 1}', '{"version": 2, "ports": []}', "\x00"])
def test_a_fabric_file_that_is_none(file: Path, tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "odd.json"
    if content is not None:
        path.write_text(content)
    failed(mrc("recv", "--dir", tmp_path, "--fabric", path), f"fabric file {path}")


def test_an_interface_that_is_not_here(file: Path, fabric: Path) -> None:
    says = "no interface 'no-such-port' here" if os.geteuid() == 0 else "raw sockets need root"
    failed(mrc("send", file, TICKET, "--fabric", fabric), says)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("no_such_switch=1", "no_such_switch"),
        ("udp_port=x", "'x'"),
        ("none.json", "none.json"),
        ("dscp_control=64", "dscp_control"),
    ],
)
def test_a_wire_profile_that_is_none(tmp_path: Path, fabric: Path, option: str, says: str) -> None:
    failed(mrc("recv", "--dir", tmp_path, "--fabric", fabric, "--wire-profile", option), says)


def test_where_the_network_chooses_the_path_no_spine_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = PathReport(0x01000003, 1, 3, 7, 0, "GOOD", None, None)
    hashed = PathReport(0xC001, 0, -1, 5, 1, "GOOD", None, None)
    print_paths(TransferReport(paths=[chosen, hashed]))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[1:] == [["0x01000003", "1", "3", "7", "0", "GOOD"], ["0x0000c001", "0", "-", "5", "1", "GOOD"]]
