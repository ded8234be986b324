# SPDX-License-Identifier: BSD-2-Clause
"""Tables of mutants: what they say becomes of a function, and what is refused because the code is another by now."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import pytest
from interpreted_alone import interpreted_alone
from mutants import changes
from mutants.changes import Edit, StaleMutant, changes_of
from mutants.mutant import read_tables
from mutants.table import entries

from mrc.conformance.targets.in_process import target
from mrc.errors import CallerError

interpreted_alone()

HERE = (__name__,)
TABLE = """# SPDX-License-Identifier: BSD-2-Clause
# Nothing in particular.

one: MRC-SACK-01 MRC-SACK-02
The first thing is wrong.
Lamp.shines
- on
+ off
Lamp.__init__
+ burnt = True
+ return

# The second.
two: MRC-SACK-03
The second thing is wrong.
Lamp.shines
- a
- b
+ c
- d
+ e
+ f
"""


class Light:
    def shines(self) -> str:
        return "light"


class Lamp(Light):
    """What the tests change."""

    def __init__(self) -> None:
        """Off."""
        self.on = False

    @property
    def bright(self) -> bool:
        return self.on

    def shines(self) -> str:
        """What it does."""
        if self.on:
            return super().shines()
        return "no " + super().shines()

    def dims(self) -> str:
        return super().shines()

    def counts(self, least: int) -> list[int]:
        return [each for each in range(9) if each > least]


def changed(*edits: Edit) -> list[changes.Change]:
    return changes_of("lamp", edits, HERE)


def test_a_paragraph_is_a_mutant(tmp_path: Path) -> None:
    table = tmp_path / "some.txt"
    table.write_text(TABLE)
    one, two = entries(table)
    assert (one.name, one.what) == ("one", "The first thing is wrong.")
    assert (one.caught_by, two.caught_by) == (("MRC-SACK-01", "MRC-SACK-02"), ("MRC-SACK-03",))
    assert one.edits == [Edit("Lamp.shines", "on", "off"), Edit("Lamp.__init__", "", "burnt = True\nreturn")]
    assert two.edits == [Edit("Lamp.shines", "a\nb", "c"), Edit("Lamp.shines", "d", "e\nf")]


def test_names_are_there_once(tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_text(TABLE)
    (tmp_path / "yet_another.txt").write_text(TABLE)
    with pytest.raises(CallerError, match="there is another mutant one"):
        read_tables(tmp_path, HERE, target)


def test_a_text_is_replaced_and_comes_back() -> None:
    edits = [
        Edit(
            "Lamp.shines",
            "if self.on:\n    return",
            "if not self.on:\n    # Lines are indented as the first.\n    return",
        ),
        Edit("Lamp.shines", '"no "', '"new "'),
        Edit("Lamp.bright", "self.on", "not self.on"),
        Edit("Lamp.counts", "each > least", "each < least"),
    ]
    lamp = Lamp()
    held = lamp.shines
    back = [each.put() for each in changed(*edits)]
    assert (held(), lamp.bright, lamp.counts(3)) == ("light", True, [0, 1, 2])
    for each in back:
        each.put()
    assert (held(), lamp.bright, lamp.counts(3)) == ("no light", False, [4, 5, 6, 7, 8])


def test_what_comes_first_comes_behind_the_docstring() -> None:
    (change,) = changed(Edit("Lamp.__init__", "", "self.off = True\nreturn"))
    back = change.put()
    assert vars(Lamp()) == {"off": True}
    assert Lamp.__init__.__doc__ == "Off."
    back.put()
    assert vars(Lamp()) == {"on": False}


def test_names_of_packets_are_known_while_it_is_in_place() -> None:
    back = [each.put() for each in changed(Edit("Lamp.shines", "self.on", "PSN_BITS_MASK"))]
    assert "PSN_BITS_MASK" in globals()
    assert Lamp().shines() == "light"
    for each in back:
        each.put()
    assert "PSN_BITS_MASK" not in globals()


def test_it_has_the_file_and_the_lines_it_had() -> None:
    line = Lamp.shines.__code__.co_firstlineno + 2
    (change,) = changed(Edit("Lamp.shines", "if self.on:", "if 1 / 0:"))
    back = change.put()
    with pytest.raises(ZeroDivisionError) as raised:
        Lamp().shines()
    back.put()
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.name) == (__file__, line, "shines")


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (Edit("Lamp.shines", "self.off", "True"), r"Lamp\.shines has this 0 times and not once: self\.off"),
        (Edit("Lamp.shines", "super().shines()", "True"), r"has this 2 times and not once"),
        (Edit("Lamp.shines", "if self.on:\nreturn", "True"), r"has this 0 times"),
        (Edit("Lamp.burns", "self.on", "True"), r"there is no function Lamp\.burns"),
        (Edit("Torch.shines", "self.on", "True"), r"there is no function Torch\.shines"),
        (Edit("Lamp.__doc__", "self.on", "True"), r"there is no function Lamp\.__doc__"),
        (Edit("Lamp.shines", "if self.on:", "if"), r"shines is no Python any more: invalid syntax"),
        (Edit("Lamp.shines", "self.on", "nobodys"), r"shines names nobodys, which nobody knows"),
        (Edit("Lamp.counts", "each > least", "super().shines()"), r"counts calls super\(\) where it did not"),
        (Edit("Lamp.dims", "super().shines()", "None"), r"dims calls super\(\) .* no longer where it did"),
    ],
)
def test_a_stale_one_is_refused_by_name(edit: Edit, why: str) -> None:
    with pytest.raises(StaleMutant, match=rf"^mutant lamp: .*{why}"):
        changed(edit)


def test_names_that_are_there_twice_are_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    """`mrc.rc.responder.Responder` is found before `mrc.endpoint.responder.responder.Responder`, by the order alone."""
    monkeypatch.setattr(sys.modules[__name__], "Other", type("Lamp", (), {"__module__": __name__}), raising=False)
    changes._owners.cache_clear()
    with pytest.raises(StaleMutant, match="there is no function"):
        changed(Edit("Lamp.shines", "self.on", "True"))
    monkeypatch.undo()
    changes._owners.cache_clear()
    for package, other in (("mrc.rc", "mrc.endpoint"), ("mrc.endpoint", "mrc.rc")):
        function = changes._function_at("Responder.transmit", (package, other))
        assert function.__module__.startswith(package)
