# SPDX-License-Identifier: BSD-2-Clause
"""The rules the house stands on: which package may import which, and what the endpoint may never touch."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mrc"

# cli -> bench -> lab, sim, capture, net -> control -> verbs -> endpoint -> wire <- layers; fabric and errors serve
# all, trace those that write or read one, report those that write for people.
ALLOWED = {
    "report": {"report"},
    "wire": {"wire"},
    "fabric": {"fabric", "wire", "trace"},
    "layers": {"layers", "wire"},
    "trace": {"trace"},
    "endpoint": {"endpoint", "wire", "trace"},
    "verbs": {"verbs", "endpoint", "wire", "trace"},
    "control": {"control", "verbs", "endpoint", "wire", "trace"},
    "collectives": {"collectives", "net", "verbs", "endpoint"},
    "net": {"net", "control", "verbs", "endpoint", "wire", "fabric"},
    "torch": {"torch", "collectives", "net", "fabric"},
    "sim": {"sim", "report", "verbs", "endpoint", "wire", "fabric", "trace"},
    "lab": {"lab", "wire", "fabric", "trace"},
    "map": {"map", "report", "net", "fabric", "wire"},
    "top": {"top", "net", "control", "endpoint", "report"},
    "capture": {"capture", "layers", "report", "fabric", "trace", "wire"},
    "bench": {"bench", "report", "collectives", "lab", "net", "verbs", "endpoint", "wire", "fabric"},
    "drill": {"drill", "collectives", "report", "bench", "lab", "net", "verbs", "endpoint", "wire", "fabric", "trace"},
    "conformance": {"conformance", "report", "net", "endpoint", "wire", "fabric", "trace"},
    # Plain RC, an annex: of all the others only the commands know it.
    "rc": {"rc", "conformance", "net", "endpoint", "wire", "fabric", "trace"},
    "capi": {"capi", "net", "control", "verbs", "endpoint", "fabric", "wire"},
    "cli": {
        "cli",
        "capi",
        "rc",
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
        "fabric",
        "trace",
        "conformance",
        "report",
    },
}
# The one file of the RC endpoint that has sockets and a clock.
RC_NODE = PACKAGE / "rc" / "node.py"
# Files that import Scapy or mrc.layers (docs/licence.md).
SCAPY_ALLOWED = {"mrc/capture/verbose.py", "mrc/cli/craft.py", "mrc/cli/craft_packets.py"}
NEVER_IN_THE_CORE = {"time", "socket", "asyncio", "select", "threading", "random", "secrets"}
# A generator that its caller seeds. The functions of `random` share one that nobody seeds.
SEEDED = "random.Random"


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


# The modules of each package.
PARTS = {name: list(paths) for name, paths in groupby(modules(), lambda path: path.relative_to(PACKAGE).parts[0])}
each_package = pytest.mark.parametrize("part", PARTS)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names} == {SEEDED}
            yield SEEDED if whole else node.module


def package_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else ""


@each_package
def test_imports_point_one_way(part: str) -> None:
    for path in PARTS[part]:
        points_one_way(path)


def points_one_way(path: Path) -> None:
    package = package_of(path)
    if not package:
        return
    for name in imported_names(path):
        parts = name.split(".")
        if parts[0] == "mrc" and len(parts) > 1 and (PACKAGE / parts[1]).is_dir():
            assert parts[1] in ALLOWED[package], f"mrc.{package} may not import {name}"
        if parts[0] == "scapy" or parts[:2] == ["mrc", "layers"]:
            file = str(path.relative_to(ROOT))
            assert package == "layers" or file in SCAPY_ALLOWED, f"{file} may not import {name}"
        if package == "endpoint":
            assert name != "mrc.trace.writer", "what an endpoint tells is written by somebody else"
        if package in ("endpoint", "wire") or (package == "rc" and path.parent.name == "rc" and path != RC_NODE):
            assert name == SEEDED or parts[0] not in NEVER_IN_THE_CORE, (
                f"mrc.{package} owns no clock and does no I/O: {name}"
            )


def file_of(module: str) -> Path | None:
    place = PACKAGE.parent.joinpath(*module.split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)


def file_that_has(module: str, name: str) -> Path | None:
    """The file of mrc in which a name is written. What a package's own file only hands on is in one of its modules."""
    if found := file_of(f"{module}.{name}"):
        return found
    file = file_of(module)
    if file is None or file.name != "__init__.py":
        return file
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return file_that_has(node.module, alias.name)
    return file


def files_imported(path: Path) -> set[Path]:
    """The files of mrc that this one imports: at its top, inside functions, and for types only."""
    found: set[Path | None] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {file_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {file_that_has(node.module, alias.name) for alias in node.names}
    return {file for file in found if file is not None} - {path}


def test_an_endpoints_qp_is_the_affair_of_verbs() -> None:
    """Others read what `QP.figures` offers."""
    named = [path for path in PACKAGE.rglob("*.py") if re.search(r"\bendpoint_qp\b", path.read_text())]
    assert {path.relative_to(PACKAGE).parts[0] for path in named} == {"verbs"}


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {path: files_imported(path) for path in modules()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(str(path.relative_to(PACKAGE)) for path in error.args[1]))


# The rooms of mrc/endpoint, and what each may import besides the files that lie beside the rooms.
ENDPOINT_ROOMS = {
    "parts": set[str](),
    "congestion": {"parts"},
    "paths": {"parts", "congestion"},
    "requestor": {"parts", "congestion", "paths"},
    "responder": {"parts", "paths"},
    "node": {"parts", "congestion", "paths"},
    "datapath": {"parts", "congestion", "paths", "requestor", "responder", "node"},
}
# Files beside the rooms that stand on them.
ABOVE_THE_ROOMS = {"endpoint.py", "qp.py"}


def test_the_rooms_of_the_endpoint_import_one_way() -> None:
    endpoint = PACKAGE / "endpoint"
    rooms = {path.name for path in endpoint.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms == set(ENDPOINT_ROOMS)
    for room, allowed in ENDPOINT_ROOMS.items():
        for path in sorted((endpoint / room).glob("*.py")):
            for imported in files_imported(path):
                if not imported.is_relative_to(endpoint):
                    continue
                first = imported.relative_to(endpoint).parts[0]
                assert first not in ABOVE_THE_ROOMS, f"{room}/{path.name} may not import {first}"
                if first in rooms - {room}:
                    assert first in allowed, f"{room}/{path.name} may not import {imported.relative_to(endpoint)}"


def test_the_rc_endpoint_knows_neither_its_node_nor_its_cases() -> None:
    for path in sorted((PACKAGE / "rc").glob("*.py")):
        imported = {file.relative_to(PACKAGE).parts[:-1] for file in files_imported(path)}
        allowed = {"rc", "endpoint", "wire", *({"net", "fabric"} if path == RC_NODE else ())}
        assert {folder[0] for folder in imported if folder} <= allowed, path.name
        assert ("rc", "conformance") not in imported, path.name
        assert RC_NODE not in files_imported(path), path.name


@each_package
def test_no_module_needs_the_tests(part: str) -> None:
    """They are no part of an installed package; mrc.conformance.wrong_endpoints looks for theirs when it is asked."""
    for path in PARTS[part]:
        assert {name.partition(".")[0] for name in imported_names(path)} & {"tests", "mutants"} == set(), path


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


def test_every_package_is_in_the_table() -> None:
    packages = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert packages == set(ALLOWED)


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
