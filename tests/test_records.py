# SPDX-License-Identifier: BSD-2-Clause
"""What `mrc.records.record` makes is what `dataclasses.dataclass` makes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from inspect import signature
from typing import Any

import pytest

from mrc.records import compile_all, record, values


def made(decorate: Any, **options: Any) -> Any:
    @decorate(slots=True, **options)
    class Thing:
        """A thing."""

        one: int
        two: list[int] = field(default_factory=list)
        hidden: str = field(default="", repr=False)
        aside: int = field(default=0, compare=False)

        def __post_init__(self) -> None:
            if self.one < 0:
                raise ValueError(self.one)

    return Thing


@pytest.mark.parametrize("options", [{"frozen": True}, {"frozen": True, "eq": False}, {}], ids=str)
def test_a_record_is_a_dataclass(options: dict[str, Any]) -> None:
    ours, theirs = made(record, **options), made(dataclass, **options)
    assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]
    assert repr(ours(1, [2], "x")) == repr(theirs(1, [2], "x"))
    assert asdict(ours(1, [2])) == asdict(theirs(1, [2])) == values(ours(1, [2]))
    for other in ((1, [2], "x", 4), (2, [2], "x", 3), (1, [3], "x", 3), (1, [2], "y", 3), (1, [2], "x", 3)):
        equal = ours(1, [2], "x", 3) == ours(*other)
        assert equal == (theirs(1, [2], "x", 3) == theirs(*other)), other
    assert ours(1) != theirs(1)
    assert replace(ours(1), one=2).one == 2
    assert not hasattr(ours(1), "__dict__")
    with pytest.raises(ValueError, match="-1"):
        ours(-1)


def test_only_frozen_ones_can_be_hashed() -> None:
    one = made(record, frozen=True)
    assert hash(one(1, (), "x", 3)) == hash(one(1, (), "x", 4)) != hash(one(2, (), "x", 3))
    with pytest.raises(TypeError, match="unhashable"):
        hash(made(record)(1))


def test_methods_of_its_own_stay() -> None:
    @record(frozen=True, slots=True)
    class Named:
        name: str

        def __repr__(self) -> str:
            return self.name

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert (repr(Named("it")), Named("it") == 3, hash(Named("it"))) == ("it", True, 7)


@pytest.mark.parametrize("slots", [True, False])
def test_a_frozen_one_is_never_set_again(slots: bool) -> None:
    @record(frozen=True, slots=slots)
    class Named:
        name: str
        other: int = 3

    it = Named("it")
    for name in ("name", "other", "foreign"):
        with pytest.raises(FrozenInstanceError, match=name):
            setattr(it, name, 4)
        with pytest.raises(FrozenInstanceError, match=name):
            delattr(it, name)
    assert (it.name, it.other) == ("it", 3)
    assert replace(it, other=4).other == 4


@record(frozen=True, slots=True)
class Frozen:
    one: int
    two: list[int] = field(default_factory=list)


@record(slots=True)
class Changing:
    one: int
    two: list[int] = field(default_factory=list)


@record(frozen=True)
class Unslotted:
    one: int
    two: list[int] = field(default_factory=list)


@pytest.mark.parametrize("made", [Frozen, Changing, Unslotted])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_copies_and_pickles_are_equal(made: Any, again: Callable[[Any], Any]) -> None:
    it = made(1, [2])
    other = again(it)
    assert (type(other), other) == (made, it)
    assert (other is not it, other.two is it.two) == (True, again is copy.copy)


@pytest.mark.parametrize("frozen", [True, False])
def test_the_first_objects_of_a_class_are_made_like_all_others(frozen: bool) -> None:
    ours, theirs = made(record, frozen=frozen), made(dataclass, frozen=frozen)
    for number in range(40):
        assert asdict(ours(number, hidden="x")) == asdict(theirs(number, hidden="x"))
        assert ours(number).two is not ours(number).two


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), ((1, [], "", 0, 5), {}), ((1,), {"one": 2}), ((1,), {"three": 3}), ((), {"two": []})],
    ids=str,
)
def test_what_does_not_fit_is_refused_as_by_a_dataclass(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    """By the first object as by a later one."""
    ours, theirs = made(record, frozen=True), made(dataclass, frozen=True)
    with pytest.raises(TypeError) as expected:
        theirs(*values, **named)
    for _ in range(40):
        with pytest.raises(TypeError) as refused:
            ours(*values, **named)
        assert str(refused.value) == str(expected.value)


def test_parameters_can_be_looked_up() -> None:
    assert [*signature(made(record, frozen=True)).parameters] == ["one", "two", "hidden", "aside"]


def test_all_are_compiled_at_once() -> None:
    ours, changed = made(record), made(record)

    def own(self: Any) -> None:
        self.one = 7

    changed.__init__ = own
    compile_all()
    assert ours.__dict__["__init__"].__code__.co_varnames[:2] == ("self", "one")
    assert (ours(1).one, changed().one) == (1, 7)
    compile_all()
    assert ours(2) == ours(2)
