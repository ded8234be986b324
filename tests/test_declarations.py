# SPDX-License-Identifier: BSD-2-Clause
"""What C learns of a compiled module (docs/contributing/compiled.md). tests/test_core.py has Cython compile some."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

import hatch_declarations
import hatch_staged
import mrc
from mrc import core

PACKAGE = Path(mrc.__file__).parent
SPDX = "# SPDX-License-Identifier: BSD-2-Clause\n"
HEAD = SPDX + "# compiled (docs/contributing/compiled.md)\nfrom __future__ import annotations\n"
RINGS = """
from mrc.wire.compiled import Subclassed, i64s, may_raise, pointer, public, python, readonly, unsigned, with_gil

_PLACES, ROOM = 8, 9
_WORDS: list[int] = []
_MASK: unsigned = 1 << 63


class Rings(Subclassed):
    taken: int


class Ring:
    _cells: pointer

    def __init__(self, rings: Rings | None, room: int) -> None:
        self._first = 0
        self._owner: readonly[str | None] = None
        self.view: i64s = memoryview(bytearray(room)).cast("q")
        self.held: public[bool] = False
        self.rings = rings

    @property
    def empty(self) -> bool:
        return not self.held

    def take(self, at: int, most: int = 4) -> int:
        found: unsigned = _MASK
        for each in range(most):
            self._first += each & found
        return self._first

    def _grow(self, rings: Rings) -> with_gil[None]:
        view: i64s = self.view
        old = [view]

    def refill(self) -> may_raise[None]:
        self._grow(self.rings)

    def words(self) -> python[list[int]]:
        return _WORDS
"""


@pytest.fixture
def ring(tmp_path: Path) -> hatch_declarations.Module:
    path = tmp_path / "mrc" / "wire" / "ring.py"
    path.parent.mkdir(parents=True)
    path.write_text(HEAD + RINGS)
    return hatch_declarations.Module("mrc.wire.ring", path, hatch_declarations.COMPILED)


def declared(module: hatch_declarations.Module) -> str:
    made = hatch_declarations.Declarations(module.path.parents[2], [(module.path, module.kind)])
    return made.of(made.modules[module.name])


def test_each_annotation_becomes_what_it_stands_for(ring: hatch_declarations.Module) -> None:
    assert declared(ring).splitlines()[2:] == [
        "cdef long long _PLACES",
        "cdef unsigned long long _MASK",
        "cdef class Rings:",
        "    cdef public long long taken",
        "@cython.final",
        "cdef class Ring:",
        "    cdef long long * _cells",
        "    cdef long long _first",
        "    cdef readonly object _owner",
        "    cdef readonly long long[::1] view",
        "    cdef public bint held",
        "    cdef readonly Rings rings",
        "    @cython.locals(found=cython.ulonglong, each=cython.longlong)",
        "    cpdef long long take(self, long long at, long long most=*) noexcept nogil",
        "    @cython.locals(view=cython.longlong[::1])",
        "    cdef void _grow(self, Rings rings) noexcept with gil",
        "    cpdef object refill(self)",
    ]


def test_what_is_compiled_has_the_lines_of_the_source(ring: hatch_declarations.Module) -> None:
    """An error names them, and so does a traceback."""
    made = hatch_declarations.Declarations(ring.path.parents[2], [(ring.path, ring.kind)])
    given, written = hatch_staged.staged(ring, made).splitlines(), ring.text.splitlines()
    assert len(given) == len(written)
    changed = {number: line for number, line in enumerate(given) if line != written[number]}
    kept = [" ".join(line.split()) for line in changed.values() if line.strip()]
    assert kept == [
        "_WORDS = []",
        "_MASK = 1 << 63",
        "class Rings( ):",
        "self._owner = None",
        'self.view = memoryview(bytearray(room)).cast("q")',
        "self.held = False",
        "found = _MASK",
        "def _grow(self, rings: Rings) -> None :",
        "view = self.view",
        "def refill(self) -> None :",
        "def words(self) -> list[int] :",
    ]


def test_an_item_of_a_list_of_objects_is_used_in_place(ring: hatch_declarations.Module) -> None:
    """C counts no reference; Python's functions use it as they do any list."""
    there = ring.path.with_name("table.py")
    there.write_text(
        HEAD
        + "from mrc.wire.compiled import objects, python\nfrom mrc.wire.ring import Ring\n\n\n"
        + "class Table:\n    def __init__(self, at: objects[Ring], table: Table) -> None:\n"
        + "        self.at, self.table = at, table\n\n"
        + "    def take(self, slot: int) -> int:\n        self.at[slot].held = True\n"
        + "        return self.at[slot].take(1) + self.table.at[slot + 1].take(2)\n\n"
        + "    def drain(self, slot: int) -> python[None]:\n        self.at[slot].refill()\n"
    )
    marked = [(path, ring.kind) for path in (ring.path, there)]
    made = hatch_declarations.Declarations(ring.path.parents[2], marked)
    table = made.modules["mrc.wire.table"]
    lines = made.of(table).splitlines()
    assert "from mrc.wire.ring cimport Ring" in lines
    assert "    cdef readonly list at" in lines
    item = "cython.cast(Ring, mrc_item({}))"
    assert [
        line.strip() for line in hatch_staged.staged(table, made).splitlines() if "at[" in line or "mrc_" in line
    ] == [
        f"{item.format('self.at, slot')}.held = True",
        f"return {item.format('self.at, slot')}.take(1) + {item.format('self.table.at, slot + 1')}.take(2)",
        "self.at[slot].refill()",
    ]
    assert "import cython" not in hatch_staged.staged(made.modules["mrc.wire.ring"], made)


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("def name(self) -> str:", "name gives back str: no C type"),
        ("def name(self, *, at: int) -> int:", "name has arguments that C has not"),
        ("def name(self, *at: int) -> int:", "name has arguments that C has not"),
    ],
)
def test_what_c_has_not_is_refused_with_the_line(ring: hatch_declarations.Module, says: str, why: str) -> None:
    ring.path.write_text(HEAD + RINGS + f"\n    {says}\n        return 0\n")
    line = len(ring.path.read_text().splitlines()) - 1
    made = hatch_declarations.Declarations(ring.path.parents[2], [(ring.path, ring.kind)])
    with pytest.raises(hatch_declarations.Unknown) as refused:
        made.of(made.modules[ring.name])
    assert str(refused.value) == f"{ring.path}:{line}: {why}"


def test_nothing_is_written_anew_that_stays_and_nothing_is_left_of_what_went(
    ring: hatch_declarations.Module, tmp_path: Path
) -> None:
    marked = [(ring.path, ring.kind)]
    made = hatch_staged.write(tmp_path, marked, tmp_path / "to")
    pxd = made["mrc.wire.ring"].with_suffix(".pxd")
    before = pxd.stat().st_mtime_ns
    assert hatch_staged.write(tmp_path, marked, tmp_path / "to") == made
    assert pxd.stat().st_mtime_ns == before
    assert hatch_staged.write(tmp_path, [], tmp_path / "to") == {}
    assert list((tmp_path / "to").rglob("*.p*")) == []


def test_what_is_declared_stands_in_the_sources_alone() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=PACKAGE.parent, capture_output=True, text=True, check=False).stdout
    assert [name for name in listed.splitlines() if name.endswith(".pxd")] == []
    assert len(core.modules()) > 50


@pytest.mark.parametrize(
    ("sets", "becomes"),
    [
        ("self.x = 1 << 3", "readonly long long x"),
        ("self.x = 1.5", "readonly double x"),
        ("self.x = 3\n        self.x = other()", "readonly long long x"),
        ("self.x = size - 1", "readonly long long x"),
        ("self.x = mask", "readonly unsigned long long x"),
        ("self.x = -_PLACES", "readonly long long x"),
        ("self.x = _MASK", "readonly unsigned long long x"),
        ("self.x = not size", "readonly bint x"),
        ("self.x = size > 3", "readonly bint x"),
        ("self.x = Rings()", "readonly Rings x"),
        ("self.x = rings", "readonly Rings x"),
        ("self.x, self.y = 0, True", "readonly long long x"),
        ("self.y = self.x = 0", "readonly long long x"),
        ("if size:\n            self.x: u8s = memoryview(b'')", "readonly unsigned char[::1] x"),
        # What is said counts for more than what a value tells.
        ("self.x = 0\n        self.x: float = 0.5", "readonly double x"),
    ],
)
def test_an_attribute_is_what_its_first_value_is(ring: hatch_declarations.Module, sets: str, becomes: str) -> None:
    begins = "def __init__(self, size: int, mask: unsigned, rings: Rings | None) -> None:"
    ring.path.write_text(HEAD + RINGS + f"\n\nclass Held:\n    {begins}\n        {sets}\n")
    of_held = declared(ring).partition("cdef class Held:\n")[2]
    assert f"    cdef {becomes}" in of_held.splitlines()


@pytest.mark.parametrize("sets", ["self.x = other()", "self.x, self.y = other()", "self.x = size / 2", "self.x = None"])
def test_an_attribute_of_which_nothing_is_said_is_refused(ring: hatch_declarations.Module, sets: str) -> None:
    begins = "def __init__(self, size: int) -> None:"
    ring.path.write_text(HEAD + RINGS + f"\n\nclass Held:\n    {begins}\n        {sets}\n")
    with pytest.raises(hatch_declarations.Unknown, match=r"its value does not say what self\.x is: self\.x: int = "):
        declared(ring)


def test_a_class_has_the_attributes_of_what_it_builds_on_once(ring: hatch_declarations.Module) -> None:
    made = "class Wider(Rings):\n    def __init__(self) -> None:\n        self.taken = 0\n        self.wide = True\n"
    ring.path.write_text(HEAD + RINGS + f"\n\n{made}")
    of_wider = declared(ring).partition("cdef class Wider(Rings):\n")[2]
    assert of_wider.splitlines() == ["    cdef public bint wide"]


def test_no_attribute_of_a_compiled_class_is_declared_twice() -> None:
    """In the body of a class stands what its `__init__` does not set by a value of its own."""
    declarations = hatch_declarations.Declarations(PACKAGE.parent, core.marked())
    for module in declarations.modules.values():
        for name, of in module.classes.items():
            in_body = {ast.unparse(each.target) for each in of.body if isinstance(each, ast.AnnAssign)}
            set_ = [
                each.targets[0] if isinstance(each, ast.Assign) else each.target
                for function in of.body
                if isinstance(function, ast.FunctionDef) and function.name == "__init__"
                for each in ast.walk(function)
                if isinstance(each, ast.AnnAssign) or (isinstance(each, ast.Assign) and len(each.targets) == 1)
            ]
            twice = in_body & {each.attr for each in set_ if isinstance(each, ast.Attribute)}
            assert not twice, f"{module.name}.{name}"
            assert not any(ast.unparse(each).startswith("__slots__") for each in of.body), f"{module.name}.{name}"


def test_a_record_beside_compiled_classes_stays_as_it_is(ring: hatch_declarations.Module) -> None:
    """It is Python's, which makes a dataclass of its annotations."""
    record = "@dataclass\nclass Settings:\n    places: int\n    most: int = 4\n"
    ring.path.write_text(HEAD + RINGS + "\n\n" + record)
    made = hatch_declarations.Declarations(ring.path.parents[2], [(ring.path, ring.kind)])
    assert record in hatch_staged.staged(ring, made)
    assert "Settings" not in declared(ring)
