"""The rules the house stands on: which package may import which, and what the endpoint may never touch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mrc"

# cli -> bench -> lab, sim, capture, net -> control -> verbs -> endpoint -> wire <- layers; topology and errors serve
# all, trace those that write or read one.
ALLOWED = {
    "wire": {"wire"},
    "topology": {"topology", "wire"},
    "layers": {"layers", "wire"},
    "trace": {"trace"},
    "endpoint": {"endpoint", "wire", "trace"},
    "verbs": {"verbs", "endpoint", "wire"},
    "control": {"control", "verbs", "endpoint", "wire"},
    "net": {"net", "control", "verbs", "endpoint", "wire", "topology"},
    "sim": {"sim", "verbs", "endpoint", "wire", "topology"},
    "lab": {"lab", "wire", "topology"},
    "map": {"map", "net", "topology", "wire"},
    "top": {"top", "net", "control"},
    "capture": {"capture", "layers", "topology", "trace", "wire"},
    "bench": {"bench", "lab", "net", "verbs", "endpoint", "wire", "topology"},
    "drill": {"drill", "bench", "lab", "net", "verbs", "endpoint", "wire", "topology", "trace"},
    "conformance": {"conformance", "net", "endpoint", "wire", "topology"},
    "cli": {
        "cli",
        "bench",
        "drill",
        "lab",
        "map",
        "top",
        "sim",
        "capture",
        "net",
        "control",
        "verbs",
        "endpoint",
        "layers",
        "wire",
        "topology",
        "trace",
        "conformance",
    },
}
SCAPY_ALLOWED = {"layers", "capture", "cli"}
NEVER_IN_THE_CORE = {"time", "socket", "asyncio", "select", "threading", "random"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def package_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else ""


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    package = package_of(path)
    if not package:
        return
    for name in imported_names(path):
        parts = name.split(".")
        if parts[0] == "mrc" and len(parts) > 1 and (PACKAGE / parts[1]).is_dir():
            assert parts[1] in ALLOWED[package], f"mrc.{package} may not import {name}"
        if parts[0] == "scapy":
            assert package in SCAPY_ALLOWED, f"mrc.{package} may not import scapy"
        if package == "endpoint":
            assert name != "mrc.trace.writer", "what an endpoint tells is written by somebody else"
        if package in ("endpoint", "wire"):
            assert parts[0] not in NEVER_IN_THE_CORE, f"mrc.{package} owns no clock and does no I/O: {name}"


def test_every_package_is_in_the_table() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages == set(ALLOWED)


@pytest.mark.parametrize(
    "command", [["--help"], ["send", "--help"], ["recv", "--help"], ["lab", "--help"], ["bench", "--help"]]
)
def test_the_command_line_starts_without_scapy(command: list[str]) -> None:
    script = (
        "import sys; from mrc.cli import main\n"
        f"main({command!r}, standalone_mode=False)\n"
        "heavy = {'scapy', 'numpy', 'pyroute2', 'rich', 'cryptography'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout


def test_the_ways_of_send_and_recv_never_load_scapy() -> None:
    script = "import sys, mrc.net.node, mrc.net.transfer, mrc.cli.send, mrc.cli.recv\nsys.exit('scapy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
