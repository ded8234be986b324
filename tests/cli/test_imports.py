# SPDX-License-Identifier: BSD-2-Clause
"""What a command does not load before it needs it: each start pays for each module."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys

import pytest

HEAVY = {"scapy", "numpy", "pyroute2", "rich", "cryptography", "matplotlib", "jinja2"}
NEVER_IN_A_TRANSFER = {
    *("numpy", "scapy", "pyroute2", "rich", "yaml", "jsonschema", "msgspec", "prometheus_client"),
    *("importlib.metadata", "asyncio", "multiprocessing", "subprocess", "tempfile", "email", "http"),
}
SENDING = "import mrc.cli.send, mrc.cli.transfer_output, mrc.net.node, mrc.net.transfer.sender"
RECEIVING = "import mrc.cli.recv, mrc.cli.transfer_output, mrc.net.node, mrc.net.transfer.receiver"
# Of mrc, beside the endpoint it runs. Where many senders start together each of them pays for each module.
MOST_OF_A_SENDER = 52
LAZY = [
    "mrc.control",
    "mrc.net.control",
    "mrc.net.exchange",
    "mrc.net.transfer",
    "mrc.fabric",
    "mrc.trace",
    "mrc.verbs",
]


def modules_after(script: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{script}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("command", ["", "send", "recv", "lab", "bench", "conformance"])
def test_the_command_line_starts_without_scapy(command: str) -> None:
    words = [*command.split(), "--help"]
    assert modules_after(f"from mrc.cli import main; main({words!r}, standalone_mode=False)") & HEAVY == set()


def test_what_a_collective_is_to_measure_is_known_without_numpy() -> None:
    """The command starts again in namespaces of its own: all that it has imported by then it imports twice."""
    assert modules_after("import mrc.bench.collectives.plan, mrc.cli.bench_collectives") & HEAVY == set()


@pytest.mark.parametrize("script", [SENDING, RECEIVING], ids=["send", "recv"])
def test_a_transfer_imports_nothing_it_does_not_use(script: str) -> None:
    found = modules_after(script)
    assert found & NEVER_IN_A_TRANSFER == set()
    ours = {name for name in found if re.match(r"mrc\b(?!\.(endpoint|wire|verbs)\b|\.net\.\w+$)", name)}
    assert script == RECEIVING or len(ours) <= MOST_OF_A_SENDER, ours


def test_a_c_program_starts_without_openssl() -> None:
    found = modules_after("import mrc.capi.host, mrc.net.control.connection")
    assert found & (HEAVY | {"hashlib", "hmac", "secrets"}) == set()


@pytest.mark.parametrize("package", LAZY)
def test_a_lazy_package_offers_what_it_says(package: str) -> None:
    """What a type checker sees is `__all__`, and each name is there when it is asked for."""
    module = importlib.import_module(package)
    shown = re.search(r"^if TYPE_CHECKING:\n(.*?)^\S", inspect.getsource(module), re.MULTILINE | re.DOTALL)
    assert shown is not None
    imports = re.findall(r"from (\S+) import (?:\(([^)]*)\)|(.*))", shown[1])
    places = {name: place for place, *names in imports for name in re.findall(r"\w+", " ".join(names))}
    assert set(places) == set(module.__all__)
    for name, place in places.items():
        assert getattr(module, name) is getattr(importlib.import_module(place), name)
