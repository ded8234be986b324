# SPDX-License-Identifier: BSD-2-Clause
"""Compiles the datapath, the modules of mrc that say so in their second line (docs/contributing/compiled.md), and the C
libraries (docs/capi.md), and writes manual pages.

Run by `pip install` and by tools/build-core. Without a C compiler the package is installed all the same and runs
interpreted. MRC_CORE=python compiles nothing, MRC_CORE=compiled makes it an error when it cannot be compiled.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any
from zlib import crc32

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # tools/build-core needs none
    BuildHookInterface = object

ROOT = Path(__file__).resolve().parent
# Floats as in Python, on any processor. What a compiler says of C that nobody wrote helps nobody.
OPTIMISED = ["-g0", "-w", "-fno-strict-aliasing", "-ffp-contract=off"]
# Of GCC's -O2 those steps from which C that Cython wrote gains (docs/contributing/compiled.md).
STEPS = ["-O1"]
STEPS += ["-finline-small-functions", "-fpartial-inlining", "-fipa-sra", "-fipa-cp", "-fipa-ra"]
STEPS += ["-fthread-jumps", "-fcrossjumping", "-foptimize-sibling-calls", "-freorder-blocks-and-partition"]
STEPS += ["-fgcse", "-fcse-follow-jumps", "-frerun-cse-after-loop", "-fstore-merging", "-fpeephole2", "-fcaller-saves"]
STEPS += ["-falign-functions", "-falign-loops", "-falign-jumps"]
# Fewer pieces to map and to protect at each start.
LINKED = ["-Wl,-z,noseparate-code", "-Wl,-z,norelro"]
# Of a build by clang. Its coverage is what libFuzzer looks at.
SANITIZERS = ["-O1", "-g1", *OPTIMISED[1:], "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined"]
SANITIZERS += ["-fsanitize=address,undefined,fuzzer-no-link"]
SANITIZED = ROOT / "build" / "sanitized"
MANUAL = ROOT / "build" / "man"
# What Cython reads: sources and declarations, made of those of the package.
DECLARED = ROOT / "build" / "declared"
OBJECTS = ROOT / "build" / "core"
MAKERS = sorted(each.name for each in ROOT.glob("hatch_*.py"))
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "cdivision": False,
    "initializedcheck": False,
    "annotation_typing": False,  # the types are those of the .pxd that hatch_declarations.py makes
    "embedsignature": True,
    "auto_pickle": False,
    "show_performance_hints": False,
    "binding": False,  # functions of C, not objects that each import makes
}
# What all modules need of Cython's own code is compiled once.
SHARED = "mrc.wire._shared"
CHECKED = {"boundscheck": True, "initializedcheck": True, "overflowcheck": True}


def core() -> ModuleType:
    """mrc/core.py of this checkout, without what builds left that made a shared object of each module."""
    for stale in (ROOT / "mrc").glob("*/**/*.cpython-*.so"):  # not the C libraries: programs may run
        stale.unlink()
    before = os.environ.get("MRC_CORE")
    os.environ["MRC_CORE"] = "python"
    sys.path.insert(0, str(ROOT))
    try:
        import hatch_staged  # noqa: F401 - found here, whoever runs this file
        from mrc import core
    finally:
        sys.path.remove(str(ROOT))
        if before is None:
            del os.environ["MRC_CORE"]
        else:
            os.environ["MRC_CORE"] = before
    return core


def _way(checked: bool, sanitized: bool = False) -> dict[str, Any]:
    """How it is compiled: where that changes, all is compiled again."""
    return {
        "for": sys.implementation.cache_tag,
        "checked": checked,
        "sanitized": sanitized,
        "by": crc32(Path(__file__).read_bytes()),
    }


def _compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def _lack() -> str:
    """What compiling needs and this system lacks, asked before Cython works for a minute. "" where it lacks nothing."""
    if shutil.which(_compiler()[0]) is None:
        return f"there is no C compiler ({_compiler()[0]}): apt install gcc libc6-dev python3-dev"
    try:
        old = importlib.util.find_spec("setuptools.modified") is None
    except ModuleNotFoundError:
        old = True
    if old:
        return "setuptools is missing or older than 70: pip install 'setuptools>=70'"
    header = Path(sysconfig.get_path("include"), "Python.h")
    return "" if header.exists() else f"{header} is missing: apt install python3-dev"


def _steps() -> list[str]:
    """Other compilers have other steps: theirs are those of -O2."""
    said = subprocess.run([*_compiler(), "-v"], capture_output=True, text=True, check=False).stderr
    return STEPS if "gcc version" in said else ["-O2"]


def compile_all(checked: bool = False, sanitized: bool = False) -> list[str]:
    """Compile in place and write the stamp. Returns the names of the modules. Raises what the compiler raises, and
    RuntimeError where there is none."""
    if lack := _lack():
        raise RuntimeError(lack)
    from Cython.Compiler import Options

    # Before anything else of Cython is imported. An attribute that is a view takes 64 bytes of its object with two
    # dimensions, and 208 with the eight that Cython has by default. It refuses one, although all views here have one.
    Options.buffer_max_dims = 2
    from Cython.Build import cythonize
    from setuptools import Extension

    of = core()
    built = _way(checked, sanitized)
    flags = SANITIZERS if sanitized else [*_steps(), *OPTIMISED]
    if any(of.stamp().get(each) != value for each, value in built.items()):
        shutil.rmtree(OBJECTS, ignore_errors=True)
    import hatch_staged

    modules, said_by = hatch_staged.write(ROOT, of.marked(), DECLARED)
    for source in modules.values():
        # Cython looks no further than at what a source itself declares; layouts come from further away.
        made_of, c = _declared(source), OBJECTS / source.relative_to(DECLARED).with_suffix(".c")
        if c.exists() and any(each.stat().st_mtime > c.stat().st_mtime for each in made_of):
            c.unlink()
    # Until all is done there is nothing of these sources.
    _write_stamp(of, built)
    headers = [source.with_suffix(".h") for source, kind in of.marked() if kind == of.C_BESIDE]
    extensions = [
        Extension(
            name,
            [str(source.relative_to(DECLARED))],
            include_dirs=sorted({str(header.parent) for header in headers}),
            extra_compile_args=flags,
            define_macros=[("MRC_CHECKED", "1")] if checked else [],
            depends=[str(header) for header in of.PACKAGE.rglob("*.h")],
        )
        for name, source in modules.items()
    ]
    extensions.append(Extension(SHARED, [str(OBJECTS / "_shared.c")], extra_compile_args=flags))
    before = Path.cwd()
    os.chdir(DECLARED)  # so that tracebacks name sources as seen from the package
    try:
        made = cythonize(
            extensions,
            build_dir=str(OBJECTS),
            compiler_directives=DIRECTIVES | (CHECKED if checked else {}),
            nthreads=os.cpu_count() or 1,
            quiet=True,
            shared_utility_qualified_name=SHARED,
        )
        os.chdir(ROOT)
        for each in made:
            each.sources = [os.path.relpath(path, ROOT) for path in each.sources]
        _link(made, of.OBJECT)
    finally:
        os.chdir(before)
    names = [each.name for each in extensions]
    _write_stamp(of, {**_made_of(of, said_by), **_seen(of), "said_by": said_by, "modules": names, **built})
    return names


def _write_stamp(of: ModuleType, stamp: dict[str, Any]) -> None:
    """In one step, and only where it changes: programs that start meanwhile read it."""
    if of.stamp() == stamp:
        return
    new = of.STAMP.with_name(f"{of.STAMP.name}.{os.getpid()}")
    new.write_text(json.dumps(stamp) + "\n")
    new.replace(of.STAMP)


def _made_of(of: ModuleType, said_by: list[str]) -> dict[str, Any]:
    """Where that changes there is something to compile, maybe not all. `said_by` are the sources of Python's that say
    what attributes of compiled classes are."""
    said = crc32(b"".join(path.read_bytes() for path in (ROOT / name for name in said_by) if path.exists()))
    declared_by = crc32(b"".join((ROOT / name).read_bytes() for name in MAKERS))
    return {"digest": of.digest(), "declared_by": declared_by, "said": said}


def _seen(of: ModuleType) -> dict[str, Any]:
    """What need not be read again while it looks like this."""
    names = of.sources()
    return {"sources": names, "seen": of.seen(names)}


_CIMPORT = re.compile(r"^(?:from (\S+) cimport (.+)|cimport (\S+))$", re.MULTILINE)


def _declared(source: Path) -> set[Path]:
    """A source and its `.pxd`, and all `.pxd` that these take from each other."""
    found, waiting = set[Path](), [source, source.with_suffix(".pxd")]
    while waiting:
        path = waiting.pop()
        if path in found or not path.exists():
            continue
        found.add(path)
        for package, names, module in _CIMPORT.findall(path.read_text()):
            whole = [package or module, *(f"{package}.{name.strip()}" for name in names.split(",") if names)]
            waiting += [DECLARED.joinpath(*each.split(".")).with_suffix(".pxd") for each in whole]
    return found


def _link(extensions: list[Any], target: Path) -> None:
    """Compile the C of all modules, each where it changed, and make one shared object of them."""
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext
    from setuptools.modified import newer_group

    class OneObject(build_ext):
        def build_extensions(self) -> None:
            with ThreadPoolExecutor(os.cpu_count()) as workers:
                objects = [each for made in workers.map(self.compiled, self.extensions) for each in made]
            linked = Path("build/core", target.name)
            self.compiler.link_shared_object(objects, str(linked), extra_postargs=LINKED)
            linked.replace(target)  # processes that run keep the one they have

        def compiled(self, extension: Any) -> list[str]:
            made: list[str] = self.compiler.object_filenames(extension.sources)
            if newer_group([*extension.sources, *extension.depends], made[0]):
                self.compiler.compile(
                    extension.sources,
                    macros=extension.define_macros,
                    include_dirs=extension.include_dirs,
                    extra_postargs=extension.extra_compile_args,
                )
            return made

    command = OneObject(Distribution({"name": "mrc-core", "ext_modules": extensions, "packages": []}))
    command.ensure_finalized()
    command.run()


def compile_sanitized() -> int:
    """Compile a copy in build/sanitized with checks and sanitizers, where it changed. Returns the exit status."""
    package = core().PACKAGE
    left_out = shutil.ignore_patterns("*.so", "compiled.json", "__pycache__")
    shutil.copytree(package, SANITIZED / "mrc", ignore=left_out, dirs_exist_ok=True)
    for copied in (SANITIZED / "mrc").rglob("*.py"):
        if not (package / copied.relative_to(SANITIZED / "mrc")).exists():
            copied.unlink()
    for name in MAKERS:
        shutil.copy2(ROOT / name, SANITIZED)
    command = [
        sys.executable,
        str(SANITIZED / Path(__file__).name),
        "--checked",
        "--sanitized",
        "--if-needed",
        "--here",
    ]
    return subprocess.run(
        command, env=os.environ | {"CC": "clang", "LDSHARED": "clang -shared"}, check=False
    ).returncode


def build_libraries(if_needed: bool = False) -> list[Path]:
    """Compile the C libraries (mrc/capi/build.py) in place. Raises RuntimeError."""
    builder = ROOT / "mrc" / "capi" / "build.py"
    if not builder.exists():  # a copy that has the datapath alone
        return []
    built: list[Path] = runpy.run_path(str(builder))["build_if_needed" if if_needed else "build"]()
    return built


def _forget_the_checkout(stamp: Path) -> None:
    """Leave out of it what holds in this folder only: the same sources make the same wheel anywhere."""
    built, here = json.loads(stamp.read_text()), ("seen", "sources", "said", "said_by")
    stamp.write_text(json.dumps({key: value for key, value in built.items() if key not in here}) + "\n")


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]
    """What hatchling calls for a wheel, an editable one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        self._add_manual(build_data)
        wanted = os.environ.get("MRC_CORE", "")
        if wanted == "python":
            return
        try:
            compile_all()
        except (Exception, SystemExit) as error:
            if wanted == "compiled":
                raise
            # Whatever is missing or breaks, there is the source to run.
            self.app.display_warning(f"mrc is not compiled and will run interpreted: {error}")
            return
        libraries = build_libraries()
        if version != "editable":
            _forget_the_checkout(core().STAMP)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"] += [str(each.relative_to(ROOT)) for each in (core().OBJECT, core().STAMP, *libraries)]

    def _add_manual(self, build_data: dict[str, Any]) -> None:
        """Put a manual page of each command where `man` looks for those of the programs beside it."""
        shutil.rmtree(MANUAL, ignore_errors=True)
        command = [sys.executable, "-m", "mrc.cli.man_pages", str(MANUAL)]
        environment = {**os.environ, "MRC_CORE": "python", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            why = done.stderr.strip().splitlines()[-1:]
            self.app.display_warning(f"mrc will have no manual pages: {''.join(why)}")
        for page in sorted(MANUAL.glob("*.1")):
            build_data["shared_data"][str(page)] = f"share/man/man1/{page.name}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/build-core", description=__doc__.partition("\n")[0])
    parser.add_argument("--checked", action="store_true", help="with checks of bounds and overflow, for tests")
    parser.add_argument(
        "--sanitized", action="store_true", help="in build/sanitized, with checks, ASan and UBSan, by clang"
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--if-needed", action="store_true", help="only where the sources changed since the last time")
    arguments = parser.parse_args()
    if arguments.sanitized and not arguments.here:
        return compile_sanitized()
    if arguments.if_needed:
        of = core()
        stamp = of.stamp()
        wanted = {**_made_of(of, stamp.get("said_by", [])), **_way(arguments.checked, arguments.sanitized)}
        if all(stamp.get(each) == value for each, value in wanted.items()) and of.OBJECT.exists():
            # Files that were written anew and hold the same need not be read again at each start.
            _write_stamp(of, stamp | _seen(of))
            build_libraries(if_needed=True)
            return 0
    if importlib.util.find_spec("Cython") is None:
        print("tools/build-core: Cython is missing: pip install cython setuptools", file=sys.stderr)
        return 1
    if lack := _lack():
        print(f"tools/build-core: {lack}", file=sys.stderr)
        return 1
    made = compile_all(arguments.checked, arguments.sanitized)
    build_libraries()
    print(f"{len(made)} modules compiled", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
