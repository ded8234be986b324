# SPDX-License-Identifier: BSD-2-Clause
"""What C learns of a compiled module (docs/contributing/compiled.md). tests/test_core.py has Cython compile some."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import hatch_staged
import mrc
from hatch_constants import with_constants
from hatch_declarations import Declarations
from hatch_sources import COMPILED, Module, Unknown
from mrc import core

PACKAGE = Path(mrc.__file__).parent
HEAD = """# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
from __future__ import annotations
from mrc.wire.compiled import Subclassed, i64s, objects, pointer, unsigned
from mrc.wire.compiled import may_raise, public, python, readonly, with_gil
"""
RINGS = """
_PLACES, ROOM = 8, 9
_WORDS: list[int] = []
_MASK: unsigned = 1 << 63
@dataclass
class Settings:
    places: int
    most: int = 4
class Rings(Subclassed):
    taken: int
class Wider(Rings):
    def __init__(self) -> None:
        self.taken = 0
        self.wide = True
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
TABLE = """from mrc.wire.ring import Ring
class Table:
    def __init__(self, at: objects[Ring], table: Table) -> None:
        self.at, self.table = at, table
    def take(self, slot: int) -> int:
        self.at[slot].held = True
        return self.at[slot].take(1) + self.table.at[slot + 1].take(2)
    def drain(self, slot: int) -> python[None]:
        self.at[slot].refill()
"""
SETTINGS = """from mrc.wire.ring import Wider

class Base:
    wider: Wider
    share: float
class Given(Base):
    room: int = 3
    base: Base
    mode: dict[str, int]
    @property
    def least(self) -> bool: ...
def half(of: int) -> int: ...
"""
BEGINS = """from mrc.wire.settings import Given, half
class Held:
    def _divide(self, part: i64s) -> may_raise[None]:
        most = part[1:]
        self.first, self.rest = part[:1], most

    def __init__(self, size: int, mask: unsigned, rings: Rings | None, settings: Given, given: i64s) -> None:
        """


def written(root: Path, **texts: str) -> tuple[Declarations, list[Module]]:
    """Modules of mrc.wire by their names, with the same head: all are compiled."""
    (root / "mrc" / "wire").mkdir(parents=True)
    marked = [(root / "mrc" / "wire" / f"{name}.py", COMPILED) for name in texts]
    for (path, _), text in zip(marked, texts.values(), strict=True):
        path.write_text(HEAD + text)
    made = Declarations(root, marked)
    return made, list(made.modules.values())


def test_each_annotation_becomes_what_it_stands_for(tmp_path: Path) -> None:
    """A class has the attributes of what it builds on once, and a record beside it is Python's."""
    made, (ring,) = written(tmp_path, ring=RINGS)
    assert made.of(ring).splitlines()[2:] == [
        "cdef long long _PLACES",
        "cdef unsigned long long _MASK",
        "cdef class Rings:",
        "    cdef public long long taken",
        "cdef class Wider(Rings):",
        "    cdef public bint wide",
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


ROWS = """UDP_AT: int = HEADERS["udp"].at
BTH_AT, (TS, RATE), NAMES = UDP_AT + 8, (offsets_in("bth"), 0.5), ("a", "b")
FREE, LOST = range(2)
FIRST, SECOND = offsets_in("bth")
FOREVER: Final = 1 << 62
LAST = max(FREE, ~LOST)
def offsets_in(name: str) -> tuple[int, ...]: ...
"""
ALL_ROWS = "from mrc.wire.rows import BTH_AT as BEGIN, NAMES"
NAMED = """from mrc.wire.all_rows import BEGIN, NAMES
from mrc.wire.rows import BTH_AT, FIRST, FOREVER, FREE, LAST, LOST, RATE, TS, UDP_AT
ROOM, HALF = 4, 9 // 2  # packets
def take(most: int = ROOM) -> object:
    def inner() -> int:
        return ROOM + HALF
    HALF, half = 3, lambda FREE: FREE
    return BEGIN, NAMES, BTH_AT, FIRST, FOREVER, FREE, LAST, LOST, RATE, TS, UDP_AT, OTHER, f"{ROOM}"
"""
CS = """from mrc.wire.all_rows import BEGIN, NAMES; _BEGIN_ = BEGIN
from mrc.wire.rows import BTH_AT, FIRST, FOREVER, FREE, LAST, LOST, RATE, TS, UDP_AT; %s
ROOM, HALF = 4, 9 // 2; _ROOM_ = ROOM  # packets
def take(most: int = ROOM) -> object:
    def inner() -> int:
        return _ROOM_ + HALF
    HALF, half = 3, lambda FREE: FREE
    return _BEGIN_, NAMES, _BTH_AT_, _FIRST_, _FOREVER_, FREE, _LAST_, _LOST_, RATE, TS, _UDP_AT_, OTHER, f"{ROOM}"
"""


def test_a_constant_is_cs_where_it_is_an_integer_that_a_function_names() -> None:
    """In its own module and in those that import it. Each line stays where it is."""
    trees = {"mrc.wire.rows": ast.parse(ROWS), "mrc.wire.all_rows": ast.parse(ALL_ROWS)}
    names = ["BTH_AT", "FIRST", "FOREVER", "LAST", "LOST", "UDP_AT"]
    assert with_constants(NAMED, trees.get) == CS % "; ".join(f"_{name}_ = {name}" for name in names)


def test_what_is_compiled_has_the_lines_of_the_source(tmp_path: Path) -> None:
    """An error names them, and so does a traceback. A record keeps its annotations, of which a dataclass is made."""
    made, (ring,) = written(tmp_path, ring=RINGS)
    given, was = hatch_staged.staged(ring, made).splitlines(), ring.text.splitlines()
    assert len(given) == len(was)
    assert [" ".join(line.split()) for line, before in zip(given, was, strict=True) if line != before and line] == [
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


def test_an_item_of_a_list_of_objects_is_used_in_place(tmp_path: Path) -> None:
    """C counts no reference; Python's functions use it as they do any list."""
    made, (ring, table) = written(tmp_path, ring=RINGS, table=TABLE)
    assert {"from mrc.wire.ring cimport Ring", "    cdef readonly list at"} <= set(made.of(table).splitlines())
    item = "cython.cast(Ring, mrc_item({}))"
    given = hatch_staged.staged(table, made).splitlines()
    assert [line.strip() for line in given if "at[" in line or "mrc_" in line] == [
        f"{item.format('self.at, slot')}.held = True",
        f"return {item.format('self.at, slot')}.take(1) + {item.format('self.table.at, slot + 1')}.take(2)",
        "self.at[slot].refill()",
    ]
    assert "import cython" not in hatch_staged.staged(ring, made)


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
        # What another source says of it: a record, a compiled class, a function.
        ("self.x = settings.room + 1", "readonly long long x"),
        ("self.x = settings.base.share", "readonly double x"),
        ("self.x = settings.share", "readonly double x"),
        ("self.x = settings.least", "readonly bint x"),
        ("self.x = settings.mode", "readonly dict x"),
        ("base = settings.base\n        self.x = base.wider", "readonly Wider x"),
        ("self.x = settings.wider.wide", "readonly bint x"),
        ("self.x = half(size)", "readonly long long x"),
        ("self.x = max(size, half(3))", "readonly long long x"),
        ("self.x = size if mask else 3", "readonly long long x"),
        ("self.x = given[1:]", "readonly long long[::1] x"),
        ("self._divide(given)", "readonly long long[::1] rest"),
        ("self.y = self.x = 0", "readonly long long x"),
        ("if size:\n            self.x: u8s = memoryview(b'')", "readonly unsigned char[::1] x"),
        # What is said counts for more than what a value tells.
        ("self.x = 0\n        self.x: float = 0.5", "readonly double x"),
    ],
)
def test_an_attribute_is_what_its_first_value_is(tmp_path: Path, sets: str, becomes: str) -> None:
    made, (ring,) = written(tmp_path, ring=RINGS + BEGINS + sets)
    (tmp_path / "mrc" / "wire" / "settings.py").write_text(SETTINGS)
    assert f"    cdef {becomes}" in made.of(ring).partition("cdef class Held:\n")[2].splitlines()


UNSAID = "its value does not say what self.x is: self.x: int = ..."


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("def name(self) -> str:", "name gives back str: no C type"),
        ("def name(self, *, at: int) -> int:", "name has arguments that C has not"),
        ("def name(self, *at: int) -> int:", "name has arguments that C has not"),
        ("self.x = other()", UNSAID),
        ("self.x, self.y = other()", UNSAID),
        ("self.x = size / 2", UNSAID),
        ("self.x = None", UNSAID),
        ("self.x = memoryview(b'')", UNSAID),
        ("x: bool\n    size: int", "__init__ sets size, and says what it is"),
        ("__slots__ = ()", "a compiled class has the attributes that it sets, and no other"),
    ],
)
def test_what_c_has_not_is_refused_with_the_line(tmp_path: Path, says: str, why: str) -> None:
    text = f"{BEGINS}self.size = size\n\n    {says}\n" + "        return 0\n" * says.startswith("def")
    text = BEGINS + says if says.startswith("self") else text
    made, (ring,) = written(tmp_path, ring=RINGS + text)
    line = next(number for number, each in enumerate(ring.text.splitlines(), 1) if says.splitlines()[-1] in each)
    with pytest.raises(Unknown) as refused:
        made.of(ring)
    assert str(refused.value) == f"{ring.path}:{line}: {why}"


def test_nothing_is_written_anew_that_stays_and_nothing_is_left_of_what_went(tmp_path: Path) -> None:
    _, (ring,) = written(tmp_path, ring=RINGS)
    marked, to = [(ring.path, COMPILED)], tmp_path / "to"
    made = hatch_staged.write(tmp_path, marked, to)
    pxd = made[0]["mrc.wire.ring"].with_suffix(".pxd")
    before = pxd.stat().st_mtime_ns
    assert hatch_staged.write(tmp_path, marked, to) == made
    assert pxd.stat().st_mtime_ns == before
    assert hatch_staged.write(tmp_path, [], to) == ({}, [])
    assert list(to.rglob("*.p*")) == []


def test_nothing_of_the_package_is_declared_twice() -> None:
    """The compiler says so, of every class."""
    made = Declarations(PACKAGE.parent, core.marked())
    assert sum(made.of(each).count("cdef class") for each in made.modules.values()) > 50
    assert list(PACKAGE.rglob("*.pxd")) == []
