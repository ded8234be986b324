"""Try an installed mrc: what a user has after `pip install`, without a checkout. Needs the standard library alone.

    python smoke.py                        the version, every module, cases in virtual time
    python smoke.py --core python          an installation that is not compiled
    python smoke.py --version 1.0.0        and of this version
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
from importlib.metadata import version as version_of
from pathlib import Path

# What extras bring: modules that need one of them need not be there.
OPTIONAL = {"aioquic", "matplotlib", "ml_dtypes", "pyarrow", "ray", "torch", "zstandard"}
CASES = ("conformance", "run", "--group", "loss recovery")


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
    parser.add_argument("--demo", action="store_true", help="also run `mrc demo`")
    asked = parser.parse_args()
    # Beside a checkout Python would import that.
    with tempfile.TemporaryDirectory(prefix="mrc-smoke-") as empty:
        os.chdir(empty)
        sys.path[:] = [each for each in sys.path if each not in ("", str(Path(__file__).parent))]
        try:
            print(says_what_it_is(asked.version, asked.core))
            print(imports_every_module())
            print(lines_of(*CASES)[-1])
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
    installed = version_of("mrc")
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


def _pass(name: str) -> None:
    """A package that cannot be imported is met again in the loop."""


def lines_of(*arguments: str) -> list[str]:
    """What `mrc ARGUMENTS...` prints. Raises Unfit when it does not end with 0."""
    command = [str(Path(sysconfig.get_path("scripts"), "mrc")), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise Unfit(f"`mrc {' '.join(arguments)}` ended with {done.returncode}:\n{done.stdout}")
    return done.stdout.splitlines() or [""]


if __name__ == "__main__":
    sys.exit(main())
