# SPDX-License-Identifier: BSD-2-Clause
"""C programs of the tests: compiled with this package's headers and library, run in a namespace of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from loopback import Inside, needs_root, own_loopback

from mrc.capi.build import INCLUDE, LIB, MRC_SONAME, SONAME, compiler

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = Path(__file__).parents[2] / "examples"
ADDRESSES = ("127.0.0.2", "127.0.0.3")
WITHIN_S = 300  # a sweep over lossy links took 17 to 51 s on a busy machine, once more than 120
# A machine that has a compiler has the library: the build compiles both.
needs_compiler = pytest.mark.skipif(not compiler(), reason="there is no C compiler")
runs_programs = [*needs_root, needs_compiler]


def compiled(source: Path, folder: Path, *options: str, by: Sequence[str] = (), library: Path = LIB) -> Path:
    """Compile a program against the library."""
    program = folder / source.stem
    strict = [*(by or compiler()), "-Wall", "-Werror"]
    command = [*strict, f"-I{INCLUDE}", str(source), f"-L{library}", f"-l:{MRC_SONAME}", f"-l:{SONAME}", "-pthread"]
    subprocess.run([*command, *options, "-o", str(program)], check=True)
    return program


def environment(address: str, **more: str) -> dict[str, str]:
    """What a program runs with that has this address."""
    own = {name: value for name, value in os.environ.items() if name not in ("MRC_FABRIC", "LD_LIBRARY_PATH")}
    return own | {"LD_LIBRARY_PATH": str(LIB), "MRC_ADDRESSES": address} | more


def run_both(
    inside: Inside, left: Sequence[str], right: Sequence[str], *, within_s: float = WITHIN_S
) -> list[subprocess.CompletedProcess[str]]:
    """Run two programs, one on each address, and wait for both."""
    done: list[subprocess.CompletedProcess[str]] = []

    def run() -> None:
        started = [
            subprocess.Popen(
                command, env=environment(address), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for command, address in zip((left, right), ADDRESSES, strict=True)
        ]
        try:
            for each in started:
                out, err = each.communicate(timeout=within_s)
                done.append(subprocess.CompletedProcess(each.args, each.returncode, out, err))
        finally:
            for each in started:
                each.kill()

    inside(run)
    return done


def run_one(inside: Inside, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run one program."""
    done: list[subprocess.CompletedProcess[str]] = []
    inside(
        lambda: done.append(
            subprocess.run(
                command,
                env=environment(ADDRESSES[0], **more),
                capture_output=True,
                text=True,
                timeout=WITHIN_S,
                check=False,
            )
        )
    )
    return done[0]


def own_network() -> Iterator[Inside]:
    """A namespace with a loopback, for a fixture."""
    with own_loopback(()) as inside:
        yield inside


def installed(tool: str) -> str:
    """A tool of the system's, or the test is skipped."""
    found = shutil.which(tool)
    if found is None:
        pytest.skip(f"there is no {tool}: apt install perftest ibverbs-utils")
    return found
