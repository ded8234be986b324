# SPDX-License-Identifier: BSD-2-Clause
"""Plain data held to a type by msgspec. Its refusals are put into words: the place, what is expected there, what came.

A type is a `msgspec.Struct`, a `TypedDict`, or one made of `int`, `float`, `bool`, `str`, `Literal`, lists, tuples and
mappings, with limits as `msgspec.Meta`. `Named` is a member of an enum, told by its name. A class with a method `read`
is read by that.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
from msgspec import Meta

from mrc.untrusted import path_text, quoted

E = TypeVar("E", bound=Enum)
T = TypeVar("T")

# Every number that means something, and the most that limits can name.
Whole = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Text = Annotated[str, Meta(min_length=1, max_length=256)]

_MOST_FOREIGN = 5
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "null"}


class Unfit(ValueError):
    """Data that is not of the type it should be. The text says why; `place` is where, such as `qps[0].peer`."""

    def __init__(self, text: str, place: str) -> None:
        super().__init__(text)
        self.place = place


class Named(Generic[E]):
    """A member of an enum in data: its name, in small or capital letters."""

    __slots__ = ("member",)

    def __init__(self, member: E) -> None:
        self.member = member


def typed(document: object, kind: type[T], what: str) -> T:
    """Make data into a `kind`. `what` is the subject of the refusal of the whole. Raises Unfit, and nothing else."""
    try:
        return msgspec.convert(document, kind, dec_hook=_read)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise _unfit(error, document, kind, what) from None


def _read(kind: Any, value: object) -> Any:
    if get_origin(kind) is not Named:
        return kind.read(value)
    names = {each.name.lower(): each for each in get_args(kind)[0]}
    if not isinstance(value, str) or value.lower() not in names:
        raise TypeError
    return Named(names[value.lower()])


# ------------------------------------------------------------------ what is wrong, in words


def _unfit(error: Exception, value: Any, kind: Any, what: str) -> Unfit:
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
        for name in (each for each in known if each in required and each not in value):
            missing = path_text((*path, name))
            return Unfit(f"{missing} is missing: {_expected(known[name])}", missing)
        if only_known and (foreign := sorted(map(str, value.keys() - known.keys()))):
            some = ", ".join(quoted(each).strip("'\"") for each in foreign[:_MOST_FOREIGN])
            return Unfit(f"{place or what} has no {some}: there are {', '.join(sorted(known))}", place)
    if error.__cause__ is not None and str(error.__cause__):
        return Unfit(f"{place}: {error.__cause__}" if place else str(error.__cause__), place)
    beyond = " of 64 bits" if type(value) is int and Whole in _alternatives(kind) else ""
    return Unfit(f"{place or what} is {_expected(kind)}{beyond}, not {quoted(value)}", place)


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
    """Of a type with named members: their types, the names of those that have to be there, whether others may not."""
    for each in _alternatives(kind):
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            members = msgspec.structs.fields(each)
            required = {member.encode_name for member in members if member.required}
            types = {member.encode_name: member.type for member in members}
            return types, required, each.__struct_config__.forbid_unknown_fields
        if is_typeddict(each):
            return get_type_hints(each, include_extras=True), set(each.__required_keys__), False
    return {}, set(), False


def _expected(kind: Any) -> str:
    optional = _alternatives(kind)
    return " or ".join(dict.fromkeys(_word(each) for each in optional if each is not NoneType or len(optional) == 1))


def _word(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits: Meta = inner[1]
        if inner[0] is str:
            return f"{_WORDS[str]} of {limits.min_length} to {limits.max_length} characters"
        low, high = limits.ge, limits.le
        return _WORDS[inner[0]] if kind == Whole else f"{_WORDS[inner[0]]} from {low} to {high}"
    if origin is Literal:
        return f"one of {', '.join(inner)}" if len(inner) > 1 else f'"{inner[0]}"'
    if origin is Named:
        return f"one of {', '.join(each.name.lower() for each in inner[0])}"
    return _WORDS.get(kind, "a list" if origin in (list, tuple) else "a mapping")
