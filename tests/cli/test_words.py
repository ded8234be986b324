# SPDX-License-Identifier: BSD-2-Clause
"""What errors name is what a user can type: an option, a key of a file, never an attribute or a class of the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import mrc
from mrc.cli import main
from mrc.cli.common import LINE_RATE
from mrc.endpoint.congestion.nscc_config import NsccConfig
from mrc.errors import CallerError
from mrc.net.ticket import Ticket

SOURCES = sorted(Path(mrc.__file__).parent.rglob("*.py"))
TICKET = Ticket(("127.0.0.1",), 9, bytes(32), bytes(16)).text
# An attribute of a class (NsccConfig.line_rate_bps); a name with underscores (queue_bytes).
ATTRIBUTE = re.compile(r"\b([A-Z]\w+)\.[a-z_]\w*")
IDENTIFIER = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")


def texts_in(tree: ast.Module) -> list[str]:
    """Every text in a module but its docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings: set[ast.Constant] = set()
    strings: list[ast.Constant] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                strings.append(node)
        elif isinstance(node, documented):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.add(first.value)
    return [str(node.value) for node in strings if node not in docstrings]


def test_no_text_names_an_attribute_of_a_class() -> None:
    sources = {path: path.read_text() for path in SOURCES}
    classes = {name for source in sources.values() for name in re.findall(r"^\s*class (\w+)", source, re.MULTILINE)}

    def named(text: str) -> list[str]:
        return [match[0] for match in ATTRIBUTE.finditer(text) if match[1] in classes]

    # Few files have any, in their code or in a text.
    there = {path: source for path, source in sources.items() if named(source)}
    found = [
        f"{path}: {each}"
        for path, source in there.items()
        for text in texts_in(ast.parse(source))
        for each in named(text)
    ]
    assert there
    assert not found


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (["lab", "up", "--planes", "17"], "--planes must be 1..16"),
        (["lab", "up", "--leaves", "300"], "--leaves must be"),
        (["lab", "up", "--hosts-per-leaf", "999"], "--leaves times --hosts-per-leaf must be 1..256, got 1998"),
        (["lab", "up", "--mtu", "10"], "--mtu must be"),
        (["lab", "up", "FILE"], "queue: must be 0 (off) or a whole number from 16384"),
        (["send", "FILE", TICKET, "--line-rate", "0bit"], "'--line-rate': '0bit' is not from 1mbit to 10tbit"),
        (["send", "FILE", TICKET, "--line-rate", "999tbit"], "--line-rate"),
        (["bench", "write", TICKET, "--line-rate", "1kbit"], "--line-rate"),
        (["bench", "write", TICKET, "--size", "3GiB"], "--size"),
        (["bench", "lab", "--paths", "0"], "--paths"),
        (["bench", "lab", "--compare", "idle-qps=-1"], "--compare"),
        (["demo", "--spines", "257"], "--spines"),
        (["map", "agent", "--rate", "0"], "--rate"),
        (["lab", "flap", "--duty", "0%", "x"], ""),
        (["conformance", "run", "--slack", "soon"], "--slack"),
    ],
    ids=lambda value: " ".join(value).replace(TICKET, "TICKET") if isinstance(value, list) else "",
)
def test_errors_name_options(argv: list[str], names: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("FILE").write_text("links:\n  p0l0-p0s0:\n    rate: 1gbit\n    queue: 1KB\n")
    said = CliRunner().invoke(main, argv, prog_name="mrc")
    assert said.exit_code in (1, 2)
    error = said.stderr.splitlines()[-1]
    assert names in error
    assert not IDENTIFIER.search(error), error
    assert not ATTRIBUTE.search(error), error


def test_the_option_takes_what_congestion_control_takes() -> None:
    for rate in ("1mbit", "10tbit"):
        NsccConfig(line_rate_bps=LINE_RATE.convert(rate, None, None))
    for wrong in (10**6 - 1, 10**13 + 1):
        with pytest.raises(CallerError):
            NsccConfig(line_rate_bps=wrong)
