# SPDX-License-Identifier: BSD-2-Clause
"""Try an installed mrc: what a user has after `pip install`, without a checkout. Needs the standard library alone.

    python smoke.py                        the version, every module, cases in virtual time
    python smoke.py --core python          an installation that is not compiled
    python smoke.py --version 1.0.0        and of this version
    python smoke.py --commands             `--help` of every command too, and what commands say that need an extra
    python smoke.py --demo                 `mrc demo` too, which needs user namespaces or root

Run by tools/release, tools/install-test and cibuildwheel, with the interpreter of the environment to try.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

# What extras bring: modules that need one of them need not be there.
OPTIONAL = {"aioquic", "lz4", "matplotlib", "ml_dtypes", "prometheus_client", "pyarrow", "ray", "torch", "zstandard"}
CASES = ("conformance", "run", "--group", "loss recovery")
# Commands that need no root, no network and no running endpoint, in order: later ones read what earlier ones wrote.
AT_ONCE = (
    ("doctor",),
    ("completion", "bash"),
    ("conformance", "list"),
    ("craft", "write-only", "payload=text:hello", "-o", "packet.pcap"),
    ("dissect", "packet.pcap"),
    ("analyze", "packet.pcap"),
    ("drill", "list"),
    ("lab", "list"),
    ("lab", "schema"),
    ("sim", "plan", "1024"),
    ("sim", "schema"),
    ("wireshark", "print"),
)
EXPERIMENT = """\
name: one
topology: {hosts: 4, planes: 1, hosts_per_leaf: 2, spines: 2}
links: {hosts: {rate: 100gbit}, fabric: {rate: 100gbit}}
workloads: [{kind: permutation, bytes: 64KB, shift: 2}]
end: 1ms
"""
# Commands that need an extra: the module that it brings, and what they say where that is missing.
NEED_EXTRAS = {
    ("sim", "run", "experiment.yaml", "--out", "results"): ("pyarrow", "pip install 'softmrc[parquet]'"),
    ("analyze", "packet.pcap", "--parquet", "packets.parquet"): ("pyarrow", "pip install 'softmrc[parquet]'"),
    ("dissect", "packet.pcap.zst"): ("zstandard", "pip install 'softmrc[zstd]'"),
    ("ctl", "metrics"): ("prometheus_client", "pip install 'softmrc[metrics]'"),
    ("bench", "lab", "--baseline", "aioquic"): ("aioquic", "pip install 'softmrc[bench]'"),
    ("drill", "run", "training", "--torch"): ("torch", "pip install torch"),
}


class Unfit(Exception):
    """What is installed does not work. The text says what was tried and what came of it."""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="smoke.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", help="what has to be installed; default: any")
    parser.add_argument(
        "--core", choices=("compiled", "python"), default="compiled", help="how the datapath has to run"
    )
    parser.add_argument("--commands", action="store_true", help="also start every command")
    parser.add_argument("--demo", action="store_true", help="also run `mrc demo`")
    asked = parser.parse_args()
    # Beside a checkout Python would import that.
    with tempfile.TemporaryDirectory(prefix="mrc-smoke-") as empty:
        os.chdir(empty)
        sys.path[:] = [each for each in sys.path if each not in ("", str(Path(__file__).parent))]
        try:
            print(says_what_it_is(asked.version, asked.core))
            print(imports_every_module())
            print(passes_cases())
            if asked.commands:
                print(starts_every_command())
                print(says_what_is_missing())
            if asked.demo:
                print("\n".join(lines_of("demo")))
        except Unfit as error:
            print(f"smoke.py: {error}", file=sys.stderr)
            return 1
        finally:
            os.chdir("/")
    return 0


def says_what_it_is(version: str | None, core: str) -> str:
    """The line of `mrc --version`, if it names what is installed and how its datapath has to run."""
    installed = version_of("softmrc")
    if version not in (None, installed):
        raise Unfit(f"mrc {installed} is installed, not {version}")
    line = lines_of("--version")[0]
    wanted = f"mrc, version {installed}, core: {core}"
    if not line.startswith(wanted):
        raise Unfit(f"`mrc --version` says {line!r}, not {wanted!r}")
    return line


def imports_every_module() -> str:
    import mrc

    if Path(mrc.__file__).parent.parent != Path(sysconfig.get_path("platlib")):
        raise Unfit(f"mrc comes from {mrc.__file__}, not from this environment")
    done = without = 0
    for found in pkgutil.walk_packages(mrc.__path__, "mrc.", onerror=_pass):
        # Of the latter many modules are taken, and none of its name.
        if found.name.endswith("__main__") or found.name == "mrc._compiled":
            continue
        try:
            importlib.import_module(found.name)
            done += 1
        except ImportError as error:
            if (error.name or "").partition(".")[0] not in OPTIONAL:
                raise Unfit(f"{found.name} cannot be imported: {error}") from error
            without += 1
    return f"{done} modules imported, {without} more need an extra"


def passes_cases() -> str:
    """Some cases of the conformance suite. The last row of the table has how many passed."""
    passed = next(line.split()[1] for line in reversed(lines_of(*CASES)) if line.startswith("all "))
    return f"{passed} cases of the conformance suite passed in virtual time"


def starts_every_command() -> str:
    """`--help` of each command, two at a time, and a run of those that need nothing else."""
    from mrc.cli.man_pages import commands

    every = [words[1:] for words, _ in commands()]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        for words, said in zip(every, workers.map(lambda words: lines_of(*words, "--help"), every), strict=True):
            if not said[0].startswith(" ".join(("Usage: mrc", *words))):
                raise Unfit(f"`mrc {' '.join(words)} --help` begins with {said[0]!r}")
    for command in AT_ONCE:
        if checkout := [line for line in lines_of(*command) if "tools/" in line]:
            raise Unfit(f"`mrc {' '.join(command)}` names what only a checkout has: {checkout[0]}")
    return f"{len(every)} commands start, {len(AT_ONCE)} of them did their work"


def says_what_is_missing() -> str:
    """Each command whose extra is not installed ends with 1 and one line, which has the command that installs it."""
    Path("experiment.yaml").write_text(EXPERIMENT)
    Path("packet.pcap.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    missing = {command: mend for command, (module, mend) in NEED_EXTRAS.items() if find_spec(module) is None}
    for command, mend in missing.items():
        status, said = outcome(*command)
        if status != 1 or len(said) != 1 or mend not in said[0]:
            text = "\n".join(said)
            raise Unfit(f"`mrc {' '.join(command)}` ended with {status} and should say {mend!r}:\n{text}")
    return f"{len(missing)} commands that need an extra say which"


def _pass(name: str) -> None:
    """A package that cannot be imported is met again in the loop."""


def lines_of(*arguments: str) -> list[str]:
    """What `mrc ARGUMENTS...` prints. Raises Unfit when it does not end with 0."""
    status, said = outcome(*arguments)
    if status:
        text = "\n".join(said)
        raise Unfit(f"`mrc {' '.join(arguments)}` ended with {status}:\n{text}")
    return said or [""]


def outcome(*arguments: str) -> tuple[int, list[str]]:
    """The exit status of `mrc ARGUMENTS...`, and the lines it prints, errors among them."""
    command = [str(Path(sysconfig.get_path("scripts"), "mrc")), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
