# SPDX-License-Identifier: BSD-2-Clause
"""Plain data held to a type by msgspec. Its refusals are put into words: the place, what is expected there, what came.

A type is a `msgspec.Struct`, or one made of `int`, `float`, `bool`, `str`, `Literal`, lists, tuples and mappings, with
limits as `msgspec.Meta`. `Named` is a member of an enum, told by its name. A class with a method `read` is read by
that; its `expected` says of what it is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from errno import EINVAL
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta

from mrc.control.errors import ControlError
from mrc.untrusted import path_text, quoted

E = TypeVar("E", bound=Enum)
T = TypeVar("T")

# Every number that means something, and the most that limits can name.
Whole = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Text = Annotated[str, Meta(min_length=1, max_length=256)]
Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]

_MOST_FOREIGN = 5
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class Named(Generic[E]):
    """A member of an enum in data: its name, in small or capital letters."""

    __slots__ = ("member",)

    def __init__(self, member: E) -> None:
        self.member = member


def told(document: object, kind: type[T], what: str) -> T:
    """What a document says, as a `kind`. Raises ControlError EINVAL; `what` is its subject where all of it is wrong."""
    try:
        return msgspec.convert(document, kind, dec_hook=_read)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise ControlError(EINVAL, _refusal(error, document, kind, what)) from None


def _read(kind: Any, value: object) -> Any:
    if get_origin(kind) is not Named:
        return kind.read(value)
    names = {each.name.lower(): each for each in get_args(kind)[0]}
    if not isinstance(value, str) or value.lower() not in names:
        raise TypeError
    return Named(names[value.lower()])


# ------------------------------------------------------------------ what is wrong, in words


def _refusal(error: Exception, value: Any, kind: Any, what: str) -> str:
    """Goes in as long as there is a part that is wrong by itself."""
    path: list[str | int] = []
    inner = _first_wrong(value, kind)
    while inner is not None:
        step, kind, error = inner
        value = value[step]
        path.append(step)
        inner = _first_wrong(value, kind)
    place = path_text(tuple(path))
    if isinstance(value, dict):
        known, required, only_known = _members(kind)
        if missing := [name for name in known if name in required and name not in value]:
            return f"{path_text((*path, missing[0]))} is missing: {_expected(known[missing[0]])}"
        if only_known and (foreign := sorted(map(str, value.keys() - known.keys()))):
            some = ", ".join(quoted(each).strip("'\"") for each in foreign[:_MOST_FOREIGN])
            return f"{place or what} has no {some}: there are {', '.join(sorted(known))}"
    if error.__cause__ is not None and str(error.__cause__):
        return f"{place}: {error.__cause__}" if place else str(error.__cause__)
    beyond = " of 64 bits" if type(value) is int and Whole in _alternatives(kind) else ""
    return f"{place or what} is {_expected(kind)}{beyond}, not {quoted(value)}"


def _first_wrong(value: Any, kind: Any) -> tuple[str | int, Any, Exception] | None:
    """Of the members or items of a value the first that does not fit: which, what it should be, and why."""
    for step, inner in _inside(value, kind):
        try:
            msgspec.convert(value[step], inner, dec_hook=_read)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            return step, inner, error
    return None


def _inside(value: Any, kind: Any) -> Iterator[tuple[str | int, Any]]:
    """What is in a value, with the type that it should have."""
    for each in _alternatives(kind):
        origin, inner = get_origin(each), get_args(each)
        if origin in (list, tuple) and isinstance(value, list):
            yield from ((number, inner[0]) for number in range(len(value)))
        elif isinstance(value, dict):
            members = dict.fromkeys(value, inner[1]) if origin is dict else _members(each)[0]
            yield from ((name, one) for name, one in members.items() if name in value)


def _alternatives(kind: Any) -> list[Any]:
    if get_origin(kind) in (Union, UnionType):
        return [each for one in get_args(kind) for each in _alternatives(one)]
    return [kind]


def _members(kind: Any) -> tuple[dict[str, Any], set[str], bool]:
    """Of a struct: its members' types, the names of those that have to be there, whether others may not."""
    for each in _alternatives(kind):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            members = {member.encode_name: member for member in msgspec.structs.fields(each)}
            required = {name for name, member in members.items() if member.required}
            types = {name: member.type for name, member in members.items()}
            return types, required, each.__struct_config__.forbid_unknown_fields
    return {}, set(), False


def _expected(kind: Any) -> str:
    """What people would write there: None and what is not said are no answer to that."""
    return " or ".join(_word(each) for each in _alternatives(kind) if each not in (NoneType, msgspec.UnsetType))


def _word(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits: Meta = inner[1]
        if inner[0] is str:
            return f"{_WORDS[str]} of {limits.min_length} to {limits.max_length} characters"
        low, high = limits.ge, limits.le
        return _WORDS[inner[0]] if kind in (Whole, Finite) else f"{_WORDS[inner[0]]} from {low} to {high}"
    if origin is Literal:
        return f"one of {', '.join(inner)}" if len(inner) > 1 else f'"{inner[0]}"'
    if origin is Named:
        return f"one of {', '.join(each.name.lower() for each in inner[0])}"
    if hasattr(kind, "read"):
        return str(kind.expected)
    return _WORDS.get(kind, "a list" if origin in (list, tuple) else "a mapping")
