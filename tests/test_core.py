# SPDX-License-Identifier: BSD-2-Clause
"""Which way the datapath runs, chosen on a small package in place of mrc: one module with types, one C header."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import SimpleNamespace

import pytest

import hatch_declarations
import mrc
from mrc import core

PACKAGE = Path(mrc.__file__).parent
# What a source begins with that is compiled, and one whose functions are C in a header beside it.
COMPILED = "# SPDX-License-Identifier: BSD-2-Clause\n# compiled (docs/contributing/compiled.md)\n"
C_BESIDE = COMPILED.replace("compiled (", "compiled: C beside it (")
MINE = sys.implementation.cache_tag
SAYS = "import mrc; print(mrc.CORE)"
# Three modules that are compiled: each has an object of the class before.
THING = """from __future__ import annotations

from mrc.wire.compiled import python


class Thing:
    def __init__(self) -> None:
        self._size = 3

    def size(self) -> int:
        return self._size
"""
BETWEEN = """from __future__ import annotations

from mrc.wire.settings import Settings
from mrc.wire.thing import Thing


class Between:
    def __init__(self, settings: Settings) -> None:
        self.thing = Thing()
        self.room = settings.room
"""
USER = """from __future__ import annotations

from mrc.endpoint.between import Between
from mrc.wire.compiled import python
from mrc.wire.settings import Settings


class User:
    def __init__(self) -> None:
        self._between = Between(Settings())

    def size(self) -> int:
        return self._between.thing.size()


def seen() -> python[int]:
    return int(User().size())
"""
# Which file a typed module comes from. The shared object there is empty: where it is taken, loading it fails.
TAKES = """
try:
    import mrc.wire.thing
    print("source")
except ImportError as error:
    print("shared object" if error.path.endswith(".so") else error)
"""


@dataclass
class Tree:
    root: Path

    @property
    def package(self) -> Path:
        return self.root / "mrc"

    @property
    def shared_object(self) -> Path:
        return self.package / f"_compiled{EXTENSION_SUFFIXES[0]}"

    @property
    def of_an_earlier_build(self) -> Path:
        return self.package / "wire" / f"thing{EXTENSION_SUFFIXES[0]}"

    def run(self, script: str, variable: str | None = None) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != core.VARIABLE}
        if variable is not None:
            environment[core.VARIABLE] = variable
        environment |= {"PYTHONPATH": str(self.root), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [sys.executable, "-c", script], cwd=self.root, env=environment, capture_output=True, text=True, check=False
        )

    def says(self, variable: str | None = None) -> str:
        done = self.run(SAYS, variable)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def takes(self, variable: str | None = None) -> str:
        return self.run(TAKES, variable).stdout.strip()

    def stamp(self, **other: object) -> None:
        digest = int(self.run("from mrc import core; print(core.digest())", core.INTERPRETED).stdout)
        names = ["wire/bytes_of.py", "wire/bytes_of.h", "wire/thing.py"]
        whole = {"digest": digest, "for": MINE, "modules": ["mrc.wire.thing"], "sources": names, **other}
        (self.package / "compiled.json").write_text(json.dumps(whole))

    def build(self) -> None:
        """With the real build. It takes seconds."""
        built = subprocess.run(
            [sys.executable, "hatch_build.py", "--if-needed"],
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert built.returncode == 0, built.stderr


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A package that was compiled."""
    made = Tree(tmp_path)
    wire = made.package / "wire"
    wire.mkdir(parents=True)
    for name in ("__init__.py", "core.py", "errors.py", "records.py", "untrusted.py"):
        shutil.copy(PACKAGE / name, made.package)
    (wire / "__init__.py").touch()
    (wire / "thing.py").write_text(COMPILED + "from mrc.wire import bytes_of\n")
    (wire / "bytes_of.py").write_text(C_BESIDE)
    (wire / "bytes_of.h").touch()
    (tmp_path / "hatch_build.py").touch()
    made.shared_object.touch()
    made.stamp()
    return made


@pytest.mark.parametrize("variable", [None, "", core.COMPILED])
def test_what_was_compiled_is_taken(tree: Tree, variable: str | None) -> None:
    assert tree.says(variable) == "compiled"
    assert tree.takes(variable) == "shared object"


def test_whoever_asks_for_python_gets_the_sources(tree: Tree) -> None:
    assert tree.says(core.INTERPRETED) == "python (MRC_CORE=python)"
    assert tree.takes(core.INTERPRETED) == "source"


@pytest.mark.parametrize("changed", ["thing.py", "bytes_of.py", "bytes_of.h"])
def test_what_was_compiled_from_other_sources_is_not_taken(tree: Tree, changed: str) -> None:
    with (tree.package / "wire" / changed).open("a") as file:
        file.write("\n")
    assert tree.says() == "python (compiled from other sources than lie here)"
    assert tree.takes() == "source"


def test_sources_that_are_not_compiled_may_change(tree: Tree) -> None:
    with (tree.package / "wire" / "__init__.py").open("a") as file:
        file.write("\n")
    assert tree.says() == "compiled"


@pytest.mark.parametrize("missing", ["stamp", "whole stamp", "shared object"])
def test_without_all_of_its_parts_it_is_not_compiled(tree: Tree, missing: str) -> None:
    stamp = tree.package / "compiled.json"
    if missing == "stamp":
        stamp.unlink()
    elif missing == "whole stamp":
        stamp.write_text(stamp.read_text()[:-5])
    else:
        tree.shared_object.unlink()
    assert tree.says() == "python (not compiled here)"
    assert tree.takes() == "source"


def test_what_was_compiled_for_another_python_is_not_taken(tree: Tree) -> None:
    tree.stamp(**{"for": "cpython-39"})
    assert tree.says() == f"python (compiled for cpython-39, this is {MINE})"
    assert tree.takes() == "source"


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("changed", ["thing.py", "bytes_of.h", "object"])
def test_what_is_as_it_was_seen_is_not_read_again(tree: Tree, changed: str) -> None:
    """A digest that would not match is not worked out, until a file is written anew."""
    seen = int(tree.run("from mrc import core; print(core.seen(core.sources()))", core.INTERPRETED).stdout)
    tree.stamp(digest=-1, seen=seen)
    assert tree.says() == "compiled"
    (tree.package / "wire" / "plain.py").write_text("# nothing that is compiled\n")
    assert tree.says() == "compiled"
    os.utime(tree.shared_object if changed == "object" else tree.package / "wire" / changed, ns=(1, 1))
    assert tree.says() == "python (compiled from other sources than lie here)"


def test_beside_no_checkout_what_was_compiled_is_trusted(tree: Tree) -> None:
    (tree.root / "hatch_build.py").unlink()
    (tree.package / "wire" / "thing.py").write_text(COMPILED + "_SIZE = 1\n")
    assert tree.says() == "compiled"


def test_the_stamp_of_a_build_that_failed_is_not_trusted(tree: Tree) -> None:
    """No digest: it was written before the compiler ran, and not again after it."""
    (tree.root / "hatch_build.py").unlink()
    (tree.package / "compiled.json").write_text(json.dumps({"for": MINE, "checked": False}))
    assert tree.says() == "python (not compiled here)"
    assert tree.takes() == "source"


def test_a_build_of_one_object_a_module_is_not_taken(tree: Tree) -> None:
    """Python would find these in place of the sources."""
    tree.of_an_earlier_build.touch()
    assert tree.takes() == "shared object"
    assert tree.run("import mrc.wire.thing").stderr.strip().endswith(f"{tree.shared_object}: file too short")
    says = refused(tree.run(SAYS, core.INTERPRETED))
    assert says.startswith("mrc.errors.SystemRefused: shared objects of an earlier build lie in ")
    assert "tools/build-core" in says


MAKERS = sorted(each.name for each in PACKAGE.parent.glob("hatch_*.py"))


@pytest.mark.parametrize("changed", MAKERS)
def test_what_another_maker_has_made_is_not_taken(tmp_path: Path, changed: str) -> None:
    """`--if-needed` compiles again where any of them changed."""
    for maker in MAKERS:
        shutil.copy(PACKAGE.parent / maker, tmp_path)
    made_of = runpy.run_path(str(tmp_path / "hatch_build.py"))["_made_of"]
    sources = SimpleNamespace(digest=lambda: 0)
    before = made_of(sources, [])
    with (tmp_path / changed).open("a") as file:
        file.write("# changed\n")
    assert made_of(sources, []) != before


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_build_puts_all_modules_into_one_object(tree: Tree) -> None:
    for name in MAKERS:
        shutil.copy(PACKAGE.parent / name, tree.root)
    # It is built again and again, and how fast it runs does not matter here.
    maker = tree.root / "hatch_build.py"
    assert 'STEPS = ["-O1"]' in maker.read_text()
    maker.write_text(maker.read_text().replace('"-O1"', '"-O0"'))
    shutil.copy(PACKAGE / "wire" / "compiled.py", tree.package / "wire")
    endpoint = tree.package / "endpoint"
    endpoint.mkdir()
    (endpoint / "__init__.py").touch()
    (endpoint / "between.py").write_text(COMPILED + BETWEEN)
    (endpoint / "user.py").write_text(COMPILED + USER)
    (tree.package / "wire" / "thing.py").write_text(COMPILED + THING)
    (settings := tree.package / "wire" / "settings.py").write_text("class Settings:\n    room: int = 3\n")
    tree.of_an_earlier_build.touch()
    (library := tree.package / "capi" / "lib" / "lib_mrc.so").parent.mkdir(parents=True)
    library.touch()
    tree.build()
    # A C library is no module: programs have it, and keep it.
    assert sorted(tree.package.rglob("*.so")) == [tree.shared_object, library]
    tells = (
        "import mrc.endpoint.user as user; from mrc import CORE\n"
        "print(CORE, user.seen(), user.__name__, user.__package__, user.__spec__.name, user.__file__)"
    )
    whole = f"compiled 3 mrc.endpoint.user mrc.endpoint mrc.endpoint.user {tree.shared_object}"
    assert tree.run(tells).stdout.strip() == whole
    # It is C: what is not declared to be seen is not, and the class has no room for more.
    hidden = (
        "from mrc.wire.thing import Thing\nprint([hasattr(Thing(), each) for each in ('_size', 'size', '__dict__')])"
    )
    assert tree.run(hidden).stdout.strip() == "[False, True, False]"

    # Others start meanwhile: where there is nothing to do, what they read is not written.
    stamp = tree.package / "compiled.json"
    before = stamp.stat()
    tree.build()
    assert (stamp.stat().st_ino, stamp.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert list(tree.package.glob("compiled.json?*")) == []

    def compiled_again(says: str = "other sources") -> set[str]:
        objects = list((tree.root / "build" / "core").rglob("*.o"))
        before = {path: path.stat().st_mtime_ns for path in objects}
        assert says in tree.says()
        tree.build()
        return {path.stem for path in objects if path.stat().st_mtime_ns != before[path]}

    thing = tree.package / "wire" / "thing.py"
    thing.write_text(thing.read_text().replace("= 3", "= 4"))
    assert compiled_again() == {"thing"}
    assert tree.run(tells).stdout.strip() == whole.replace("3", "4", 1)
    # What it declares has its place in all that see it, also by way of another.
    thing.write_text(thing.read_text().replace("        self._size", "        self.width = 1\n        self._size"))
    assert compiled_again() == {"thing", "between", "user"}
    assert tree.run(tells).stdout.strip() == whole.replace("3", "4", 1)
    # So has what a source of Python's says of it.
    settings.write_text(settings.read_text().replace("int", "float"))
    assert compiled_again("compiled") == {"between", "user"}


def test_an_unknown_value_is_refused(tree: Tree) -> None:
    says = "mrc.errors.CallerError: MRC_CORE is 'compiled' or 'python', got 'fast'"
    assert refused(tree.run(SAYS, "fast")) == says


def test_compiled_is_refused_where_it_is_not_and_says_what_to_do(tree: Tree) -> None:
    (tree.package / "wire" / "thing.py").write_text(COMPILED + "_LENGTH = 1\n")
    says = refused(tree.run(SAYS, core.COMPILED))
    assert says.startswith(
        "mrc.errors.SystemRefused: MRC_CORE=compiled, but the datapath is compiled from other sources than lie here: "
    )
    assert "tools/build-core" in says
    (tree.package / "compiled.json").unlink()
    says = refused(tree.run(SAYS, core.COMPILED))
    assert says.startswith("mrc.errors.SystemRefused: MRC_CORE=compiled, but the datapath is not compiled here: ")
    assert "tools/build-core" in says
    (tree.root / "hatch_build.py").unlink()
    says = refused(tree.run(SAYS, core.COMPILED))
    assert "pip install" in says
    assert "tools/build-core" not in says


@pytest.mark.parametrize("command", [["-m", "mrc"], [str(Path(sys.executable).with_name("mrc"))]], ids=["-m", "script"])
def test_the_command_says_so_in_a_line(command: list[str]) -> None:
    environment = {**os.environ, core.VARIABLE: "cobol"}
    ended = subprocess.run(
        [sys.executable, *command, "--version"], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr == "Error: MRC_CORE is 'compiled' or 'python', got 'cobol'\n"


def test_this_process_runs_all_of_it_one_way() -> None:
    sources = core.modules()
    assert PACKAGE / "net" / "mmsg.py" in sources
    assert PACKAGE / "net" / "system.py" not in sources
    for source in sources:
        name = ".".join(source.relative_to(PACKAGE.parent).with_suffix("").parts)
        from_file = core.OBJECT if mrc.CORE.kind == core.COMPILED else source
        assert import_module(name).__file__ == str(from_file)


def test_every_class_of_the_package_is_declared_once_and_calls_the_c_of_octets() -> None:
    """The compiler says so. Else each byte of a packet would cost a call of Python."""
    declarations = hatch_declarations.Declarations(PACKAGE.parent, core.marked())
    users = [each for each in declarations.modules.values() if re.search(r"\boctets\.\w+\(", each.text)]
    assert len(users) > 20
    assert [each.name for each in users if "from mrc.wire cimport octets" not in declarations.of(each)] == []
    assert sum(declarations.of(each).count("cdef class") for each in declarations.modules.values()) > 50
    assert list(PACKAGE.rglob("*.pxd")) == []


def test_no_two_compiled_modules_end_alike() -> None:
    """In the shared object a module is found by the last part of its name."""
    names = [source.stem for source in core.modules()]
    assert len(names) == len(set(names))


# Memory and strings, and what of the processor there is.
_MEMORY = {"abort", "calloc", "free", "malloc", "memcmp", "memcpy", "memmove", "memset", "realloc"}
_HARMLESS = _MEMORY | {"strlen", "strrchr", "vsnprintf", "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail"}
_HARMLESS |= {"__cpu_features2", "__cpu_indicator_init", "__cpu_model"}


@pytest.mark.skipif(mrc.CORE.kind != core.COMPILED, reason="nothing is compiled")
@pytest.mark.parametrize("package", ["endpoint", "wire"])
def test_the_sans_io_objects_ask_the_system_for_nothing(package: str) -> None:
    """No clock, no socket: of all a linker would have to find they want these functions of C and the interpreter's."""
    sources = [source for source in core.modules() if source.relative_to(PACKAGE).parts[0] == package]
    built = PACKAGE.parent / "build" / "core"
    objects = [built / source.relative_to(PACKAGE.parent).with_suffix(".o") for source in sources]
    listed = subprocess.run(["nm", "-u", *map(str, objects)], check=True, capture_output=True, text=True).stdout
    wanted = {line.split()[-1].partition("@")[0] for line in listed.splitlines() if line.startswith(" ")}
    interpreter = {name for name in wanted if name.startswith(("Py", "_Py")) and "Time" not in name}
    assert "PyErr_Occurred" in interpreter
    assert wanted - interpreter <= _HARMLESS
