# SPDX-License-Identifier: BSD-2-Clause
"""The rules the house stands on: who imports whom, whose names are whose, and what a command does not load."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mrc"


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


# The modules of each package.
PARTS = {name: list(paths) for name, paths in groupby(modules(), lambda path: path.relative_to(PACKAGE).parts[0])}
each_package = pytest.mark.parametrize("part", PARTS)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def test_imports_point_one_way() -> None:
    """Among packages, rooms and files, at run time and for types: pyproject.toml has who may import whom."""
    command = [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_endpoints_qp_is_the_affair_of_verbs() -> None:
    """Others read what `QP.figures` offers."""
    named = [path for path in PACKAGE.rglob("*.py") if re.search(r"\bendpoint_qp\b", path.read_text())]
    assert {path.relative_to(PACKAGE).parts[0] for path in named} == {"verbs"}


# Private names of other packages that have no public ones for it.
FOREIGN = {
    "_replace": "a named tuple's",
    "_IPv6ExtHdr": "Scapy's",
    "_overload_fields": "Scapy's",
    "_transport": "aioquic's",
    "_exit": "os's: the end of a process, at once",
    "_Options": "torch's: of a process group of gloo",
}


@each_package
def test_private_names_stay_in_their_module(part: str) -> None:
    """What a module reaches into on another object, or imports, is public or its own. Mutants are not held to it."""
    for path in PARTS[part]:
        tree = parsed(path)
        read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)} - set(own_names(tree))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
        private = {name for name in read | imported if name.startswith("_") and not name.startswith("__")}
        assert private <= FOREIGN.keys(), path


def own_names(tree: ast.AST) -> Iterator[str]:
    """What a module assigns, defines, or has from a base class: it is found at `self` there."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store) or (isinstance(node.value, ast.Name) and node.value.id == "self"):
                yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["send", "--help"],
        ["recv", "--help"],
        ["lab", "--help"],
        ["bench", "--help"],
        ["conformance", "--help"],
    ],
)
def test_the_command_line_starts_without_scapy(command: list[str]) -> None:
    script = (
        "import sys; from mrc.cli import main\n"
        f"main({command!r}, standalone_mode=False)\n"
        "heavy = {'scapy', 'numpy', 'pyroute2', 'rich', 'cryptography', 'matplotlib', 'jinja2'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout


# Of mrc, beside the endpoint it runs. Where many senders start together each of them pays for each module.
OF_A_SENDER = {
    *(
        "mrc",
        "mrc.core",
        "mrc.errors",
        "mrc.forked",
        "mrc.lazy",
        "mrc.netlink",
        "mrc.records",
        "mrc.threads",
        "mrc.untrusted",
        "mrc.whole_files",
    ),
    *(
        "mrc.fabric",
        "mrc.fabric.host_view",
        "mrc.fabric.place",
        "mrc.fabric.shapes",
        "mrc.fabric.units",
        "mrc.trace",
        "mrc.trace.vocabulary",
    ),
    *("mrc.cli", "mrc.cli.commands", "mrc.cli.common", "mrc.cli.endpoint_options", "mrc.cli.send", "mrc.cli.starting"),
    *("mrc.cli.tickets", "mrc.cli.transfer_output"),
    *("mrc.net", "mrc.net.control", "mrc.net.control.host_store", "mrc.net.control.places", "mrc.net.control.server"),
    *("mrc.net.exchange", "mrc.net.exchange.channel", "mrc.net.exchange.client", "mrc.net.exchange.config"),
    *("mrc.net.exchange.dial", "mrc.net.exchange.messages", "mrc.net.exchange.tls"),
    *("mrc.net.session", "mrc.net.session.qps"),
    *(
        "mrc.net.transfer",
        "mrc.net.transfer.ahead",
        "mrc.net.transfer.background",
        "mrc.net.transfer.names",
        "mrc.net.transfer.outgoing",
        "mrc.net.transfer.packs",
        "mrc.net.transfer.paging",
    ),
    *("mrc.net.transfer.report", "mrc.net.transfer.sender", "mrc.net.transfer.sources", "mrc.net.transfer.sums"),
    *("mrc.net.transfer.terms", "mrc.net.transfer.tree", "mrc.report", "mrc.report.units"),
    *("mrc.net.transfer.window", "mrc.net.transfer.writing"),
}
_OF_THE_ENDPOINT = re.compile(r"mrc\.((endpoint|wire|verbs)(\..+)?|net\.\w+)")
NEVER_IN_A_TRANSFER = {
    *("numpy", "scapy", "pyroute2", "rich", "yaml", "jsonschema", "msgspec", "prometheus_client"),
    *("importlib.metadata", "asyncio", "multiprocessing", "subprocess", "tempfile", "email", "http"),
}


def modules_after(script: str) -> set[str]:
    script += "\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


SENDING = "import mrc.cli.send, mrc.cli.transfer_output, mrc.net.node, mrc.net.transfer.sender"
RECEIVING = "import mrc.cli.recv, mrc.cli.transfer_output, mrc.net.node, mrc.net.transfer.receiver"


@pytest.mark.parametrize("script", [SENDING, RECEIVING], ids=["send", "recv"])
def test_a_transfer_imports_nothing_it_does_not_use(script: str) -> None:
    assert modules_after(script) & NEVER_IN_A_TRANSFER == set()


def test_a_sender_imports_this_and_no_more() -> None:
    ours = {name for name in modules_after(SENDING) if name.partition(".")[0] == "mrc"}
    assert {name for name in ours if not _OF_THE_ENDPOINT.fullmatch(name) or name in OF_A_SENDER} == OF_A_SENDER


LAZY = ["mrc.control", "mrc.net.control", "mrc.net.exchange", "mrc.net.transfer", "mrc.fabric", "mrc.trace"]


@pytest.mark.parametrize("package", LAZY)
def test_a_lazy_package_offers_what_it_says(package: str) -> None:
    """The names in its `__all__`, those that a type checker sees, and nothing else."""
    module = importlib.import_module(package)
    told = next(node for node in ast.parse(Path(str(module.__file__)).read_text()).body if isinstance(node, ast.If))
    imported = [node for node in told.body if isinstance(node, ast.ImportFrom)]
    places = {alias.name: str(node.module) for node in imported for alias in node.names}
    assert set(places) == set(module.__all__)
    for name, place in places.items():
        assert getattr(module, name) is getattr(importlib.import_module(place), name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        module.nothing  # noqa: B018 - asking is the point


def test_threads_are_started_in_one_place() -> None:
    """mrc.threads: a start that the system refuses is an error with a reason, for whoever wants the thread."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in modules()
        if any(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute | ast.Name)
            and (node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id) == "Thread"
            for node in ast.walk(parsed(path))
        )
    }
    assert found == {"threads.py"}
