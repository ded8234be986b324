# SPDX-License-Identifier: BSD-2-Clause
"""C programs of the tests: compiled with this package's headers and library, run in a namespace of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from loopback import Inside, needs_root, own_loopback
from patience import eventually

from mrc.capi.build import INCLUDE, LIB, MRC_SONAME, SONAME, compiler

PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = Path(__file__).parents[2] / "examples"
ADDRESSES = ("127.0.0.2", "127.0.0.3")
WITHIN_S = 300  # a sweep over lossy links took 17 to 51 s on a busy machine, once more than 120
_LISTEN = "0A"  # as /proc/net/tcp has it
# A machine that has a compiler has the library: the build compiles both.
needs_compiler = pytest.mark.skipif(not compiler(), reason="there is no C compiler")
runs_programs = [*needs_root, needs_compiler]


def compiled(source: Path, folder: Path, *options: str, by: Sequence[str] = (), library: Path = LIB) -> Path:
    """Compile a program against the library."""
    program = folder / source.stem
    strict = [*(by or compiler()), "-Wall", "-Werror"]
    command = [*strict, f"-I{INCLUDE}", str(source), *options]
    linked = [f"-L{library}", f"-l:{MRC_SONAME}", f"-l:{SONAME}", "-pthread"]
    subprocess.run([*command, *linked, "-o", str(program)], check=True)
    return program


def environment(address: str, **more: str) -> dict[str, str]:
    """What a program runs with that has this address."""
    own = {name: value for name, value in os.environ.items() if name not in ("MRC_FABRIC", "LD_LIBRARY_PATH")}
    return own | {"LD_LIBRARY_PATH": str(LIB), "MRC_ADDRESSES": address} | more


def listens(port: int) -> bool:
    """Whether somebody listens to a TCP port over IPv4, in the namespace of this thread."""
    lines = [line.split() for line in Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]]
    return any(line[1].endswith(f":{port:04X}") and line[3] == _LISTEN for line in lines)


def finished(*started: subprocess.Popen[str], within_s: float = WITHIN_S) -> list[subprocess.CompletedProcess[str]]:
    """What programs that print little ended with. When one has failed the others are ended, as they would wait for it,
    and what they wrote to stderr says so."""
    by = time.monotonic() + within_s
    try:
        while None in (ends := [each.poll() for each in started]) and not any(ends) and time.monotonic() < by:
            time.sleep(0.01)
    finally:
        for each in started:
            each.kill()
    said = [each.communicate() for each in started]
    failed = [
        f"{each.args!r} ended with {end}: {own[1]}" for each, end, own in zip(started, ends, said, strict=True) if end
    ]
    why = "killed: " + ("; ".join(failed) or f"it took more than {within_s:.0f} s")
    return [
        subprocess.CompletedProcess(
            each.args, each.returncode, out, errors + why * (each.returncode == -signal.SIGKILL)
        )
        for each, (out, errors) in zip(started, said, strict=True)
    ]


def run_both(
    inside: Inside, left: Sequence[str], right: Sequence[str], *, port: int | None = None, within_s: float = WITHIN_S
) -> list[subprocess.CompletedProcess[str]]:
    """Run two programs, one on each address, and wait for both; the second when the first listens to `port`."""
    done: list[subprocess.CompletedProcess[str]] = []

    def start(command: Sequence[str], address: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, env=environment(address), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run() -> None:
        first = start(left, ADDRESSES[0])
        if port is not None:
            eventually(lambda: listens(port) or first.poll() is not None)
        done.extend(finished(first, start(right, ADDRESSES[1]), within_s=within_s))

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
