# SPDX-License-Identifier: BSD-2-Clause
"""What C learns of a compiled module (docs/contributing/compiled.md). tests/test_core.py has Cython compile some."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import hatch_staged
from hatch_constants import with_constants
from hatch_declarations import Declarations
from hatch_sources import COMPILED, Module, Unknown

HEAD = """# SPDX-License-Identifier: BSD-2-Clause
# compiled (docs/contributing/compiled.md)
from __future__ import annotations
from mrc.wire.compiled import Subclassed, i64s, objects, pointer, unsigned  #=
from mrc.wire.compiled import may_raise, public, python, readonly, with_gil  #=
"""
# A line of the `.pxd` stands behind `#:`, the line that is compiled behind `#=`; other lines are compiled as they are.
# C counts no reference to an item of a list of objects: that is ITEM. Python's functions use the list as they do any.
ITEM_IS_C = "mrc_item(list items, long long at) nogil\n"
ITEM = re.compile(r"cython\.cast\(Ring, mrc_item\((.*?)\)\)")
RINGS = """
_PLACES, ROOM = 8, 9  #: cdef long long _PLACES
_WORDS: list[int] = []  #= _WORDS = []
_MASK: unsigned = 1 << 63  #: cdef unsigned long long _MASK  #= _MASK = 1 << 63
@dataclass
class Settings:
    places: int
    most: int = 4
class Rings(Subclassed):  #: cdef class Rings:  #= class Rings( ):
    taken: int  #:     cdef public long long taken  #=
class Wider(Rings):  #: cdef class Wider(Rings):
    def __init__(self) -> None:
        self.taken = 0
        self.wide = True  #:     cdef public bint wide
#: @cython.final
class Ring:  #: cdef class Ring:
    _cells: pointer  #:     cdef long long * _cells  #=
    def __init__(self, rings: Rings | None, room: int) -> None:
        self._first = 0  #:     cdef long long _first
        self._owner: readonly[str | None] = None  #:     cdef readonly object _owner  #= self._owner = None
        #:     cdef readonly long long[::1] view
        self.view: i64s = memoryview(bytearray(room)).cast("q")  #= self.view = memoryview(bytearray(room)).cast("q")
        self.held: public[bool] = False  #:     cdef public bint held  #= self.held = False
        self.rings = rings  #:     cdef readonly Rings rings
    @property
    def empty(self) -> bool:
        return not self.held
    #:     @cython.locals(found=cython.ulonglong, each=cython.longlong)
    #:     cpdef long long take(self, long long at, long long most=*) noexcept nogil
    def take(self, at: int, most: int = 4) -> int:
        found: unsigned = _MASK  #= found = _MASK
        for each in range(most):
            self._first += each & found
        return self._first
    #:     @cython.locals(view=cython.longlong[::1])
    #:     cdef void _grow(self, Rings rings) noexcept with gil
    def _grow(self, rings: Rings) -> with_gil[None]:  #= def _grow(self, rings: Rings) -> None :
        view: i64s = self.view  #= view = self.view
        old = [view]
    def refill(self) -> may_raise[None]:  #:     cpdef object refill(self)  #= def refill(self) -> None :
        self._grow(self.rings)
    def words(self) -> python[list[int]]:  #= def words(self) -> list[int] :
        return _WORDS
"""
TABLE = """from mrc.wire.ring import Ring  #: from mrc.wire.ring cimport Ring
#: @cython.final
class Table:  #: cdef class Table:
    def __init__(self, at: objects[Ring], table: Table) -> None:  #:     cdef readonly list at
        self.at, self.table = at, table  #:     cdef readonly Table table
    def take(self, slot: int) -> int:  #:     cpdef long long take(self, long long slot) noexcept nogil
        self.table.at[slot + 1].held = True  #= ITEM(self.table.at, slot + 1).held = True
        return self.at[slot].take(1) + self.at[0].held  #= return ITEM(self.at, slot).take(1) + ITEM(self.at, 0).held
    def drain(self, slot: int) -> python[None]:  #= def drain(self, slot: int) -> None :
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


def test_each_annotation_becomes_what_it_stands_for_and_each_line_stays_where_it_is(tmp_path: Path) -> None:
    """A class has the attributes of what it builds on once. A record beside it is Python's, and keeps its annotations.
    An error and a traceback name the lines of the source."""
    made, modules = written(tmp_path, ring=RINGS, table=TABLE)
    staged = [hatch_staged.staged(module, made) for module in modules]
    assert ["; import cython\n" in text for text in staged] == [False, True]
    for module, text, head in zip(modules, staged, ("cimport cython\n", ITEM_IS_C), strict=True):
        declared = re.findall(r"#: (.*?)(?=  #=|$)", module.text, re.MULTILINE)
        assert made.of(module).partition(head)[2].splitlines() == declared
        compiled = ITEM.sub(r"ITEM(\1)", text).replace("; import cython", "").splitlines()
        assert [line.partition("#")[0].split() for line in compiled] == [
            line.rpartition("#=")[2].partition("#")[0].split() for line in module.text.splitlines()
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
# A name between underscores is C's constant. Where one is made stands behind a semicolon: neither is in the source.
CONSTANTS = """from mrc.wire.all_rows import BEGIN, NAMES; _BEGIN_ = BEGIN
from mrc.wire.rows import BTH_AT, FIRST, FREE, LAST, RATE, TS; _BTH_AT_ = BTH_AT; _FIRST_ = FIRST; _LAST_ = LAST
from mrc.wire.rows import FOREVER, LOST, UDP_AT; _FOREVER_ = FOREVER; _LOST_ = LOST; _UDP_AT_ = UDP_AT
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
    source = re.sub(r"\b_([A-Z_]+)_\b", r"\1", re.sub(r"; .*?(?=  #|$)", "", CONSTANTS, flags=re.MULTILINE))
    assert with_constants(source, trees.get) == CONSTANTS


VALUES = {
    "long long": ["1 << 3", "size - 1", "-_PLACES", "size if mask else 3"],
    "unsigned long long": ["mask", "_MASK"],
    "bint": ["not size", "size > 3"],
    "double": ["1.5"],
    "Rings": ["Rings()", "rings"],
    "long long[::1]": ["given[1:]"],
}
# What another source says of it: a record, a compiled class, a function.
SAID = {
    "long long": ["settings.room + 1", "half(size)", "max(size, half(3))"],
    "bint": ["settings.least", "settings.wider.wide"],
    "double": ["settings.base.share", "settings.share"],
    "dict": ["settings.mode"],
}


@pytest.mark.parametrize(
    ("sets", "becomes"),
    [
        *((f"self.x = {each}", f"{kind} x") for table in (VALUES, SAID) for kind in table for each in table[kind]),
        ("self.x = 3\n        self.x = other()", "long long x"),
        ("self.x, self.y = 0, True", "long long x"),
        ("self.y = self.x = 0", "long long x"),
        ("base = settings.base\n        self.x = base.wider", "Wider x"),
        ("self._divide(given)", "long long[::1] rest"),
        ("if size:\n            self.x: u8s = memoryview(b'')", "unsigned char[::1] x"),
        # What is said counts for more than what a value tells.
        ("self.x = 0\n        self.x: float = 0.5", "double x"),
    ],
)
def test_an_attribute_is_what_its_first_value_is(tmp_path: Path, sets: str, becomes: str) -> None:
    made, (ring,) = written(tmp_path, ring=RINGS + BEGINS + sets)
    (tmp_path / "mrc" / "wire" / "settings.py").write_text(SETTINGS)
    assert f"    cdef readonly {becomes}" in made.of(ring).partition("cdef class Held:\n")[2].splitlines()


UNSAID = "its value does not say what self.x is: self.x: int = ..."


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("def name(self) -> str: ...", "name gives back str: no C type"),
        ("def name(self, *, at: int) -> int: ...", "name has arguments that C has not"),
        ("def name(self, *at: int) -> int: ...", "name has arguments that C has not"),
        *((f"self.x{says}", UNSAID) for says in (" = other()", ", self.y = other()", " = size / 2", " = None")),
        ("self.x = memoryview(b'')", UNSAID),
        ("x: bool\n    size: int", "__init__ sets size, and says what it is"),
        ("__slots__ = ()", "a compiled class has the attributes that it sets, and no other"),
    ],
)
def test_what_c_has_not_is_refused_with_the_line(tmp_path: Path, says: str, why: str) -> None:
    inside = "" if says.startswith("self") else "self.size = size\n\n    "
    made, (ring,) = written(tmp_path, ring=RINGS + BEGINS + inside + says)
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
