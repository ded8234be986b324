# SPDX-License-Identifier: BSD-2-Clause
"""Plain data read value by value, as profile files, deny lists and the control socket bring it.

Every function returns a value of the type it names, or raises ControlError EINVAL that says what was expected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from errno import EINVAL
from functools import reduce
from operator import or_
from typing import Any, TypeVar

from mrc.control.attributes import EvEventMask
from mrc.control.errors import ControlError, arguments
from mrc.typed import Named, Unfit, typed
from mrc.untrusted import quoted
from mrc.wire.usid import ev_of_path

E = TypeVar("E", bound=Enum)
T = TypeVar("T")

# Far above every number that means something, and few enough digits for any error to show.
MOST_WHOLE = 1 << 64
_LONGEST_TEXT = 256
_PLACE = re.compile(r"p([0-9]{1,3})s([0-9]{1,3})\Z")
_NUMBER = re.compile(r"(?:0x([0-9a-fA-F]{1,8})|([0-9]{1,10}))\Z")


def refusal(expected: str, value: object) -> ControlError:
    """EINVAL: what was expected, and what came instead."""
    return ControlError(EINVAL, f"{expected}, not {quoted(value)}")


def told(document: object, kind: type[T], what: str) -> T:
    """What a document says, as a `kind` (mrc.typed)."""
    try:
        return typed(document, kind, what)
    except Unfit as error:
        raise ControlError(EINVAL, str(error)) from None


def whole(value: object, what: str, low: int = -MOST_WHOLE, high: int = MOST_WHOLE) -> int:
    """A number without a fraction, low <= value <= high. True is none."""
    if type(value) is not int or not low <= value <= high:
        limits = "" if high == MOST_WHOLE else f" from {low} to {high}"
        raise refusal(f"{what} is a whole number{limits}", value)
    return value


def number(value: object, what: str, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number, low <= value <= high. True is none, nor is an integer no double holds."""
    if type(value) in (int, float) and low <= value <= high and abs(value) <= 1e300:  # type: ignore[operator,arg-type]
        return float(value)  # type: ignore[arg-type]
    limits = "" if math.isinf(high) else f" from {low:g} to {high:g}"
    raise refusal(f"{what} is a number{limits}", value)


def flag(value: object, what: str) -> bool:
    if type(value) is not bool:
        raise refusal(f"{what} is true or false", value)
    return value


def text(value: object, what: str) -> str:
    """A string of 1 to 256 characters."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_TEXT:
        raise refusal(f"{what} is text of 1 to {_LONGEST_TEXT} characters", value)
    return value


def items(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise refusal(f"{what} is a list", value)
    return value


def mapping(value: object, what: str, known: Iterable[str] | None = None) -> dict[str, Any]:
    """A mapping, with no other keys than the `known` ones where these are given."""
    if not isinstance(value, dict):
        raise refusal(f"{what} is a mapping", value)
    if known is not None and (foreign := sorted(map(str, value.keys() - set(known)))):
        some = ", ".join(quoted(each).strip("'\"") for each in foreign[:5])
        raise ControlError(EINVAL, f"{what} has no {some}: there are {', '.join(sorted(known))}")
    return value


def one_of(value: object, what: str, choices: Mapping[str, T]) -> T:
    """What stands for a word."""
    if not isinstance(value, str) or value not in choices:
        raise refusal(f"{what} is one of {', '.join(choices)}", value)
    return choices[value]


def member(kind: type[E], value: object, what: str) -> E:
    """A member of an enum by its name, in small or capital letters."""
    names = {each.name.lower(): each for each in kind}
    return one_of(value.lower() if isinstance(value, str) else value, what, names)


def optional(read: Callable[..., T], value: object, *more: Any) -> T | None:
    """What `read` makes of a value; None stays None."""
    return None if value is None else read(value, *more)


def number_text(value: object, what: str) -> int:
    """A whole number, or one written as text: decimal digits, or `0x` and hexadecimal ones."""
    if isinstance(value, str) and (match := _NUMBER.match(value)):
        return int(match[1], 16) if match[1] else int(match[2])
    return whole(value, what)


class _PlainNumbers(type):
    """Of a class whose instances are plain numbers: the endpoint takes none of a class of their own."""

    def __instancecheck__(cls, value: object) -> bool:
        return type(value) is int


class Ev(int, metaclass=_PlainNumbers):
    """An EV as a document has it: a number, or text (`ev_of`)."""

    @staticmethod
    def read(value: object) -> int:
        """Raises ValueError for what is no EV."""
        try:
            return ev_of(value)
        except ControlError as error:
            raise ValueError(error.reason) from None


def together(members: Iterable[Named[EvEventMask]]) -> EvEventMask:
    """The mask of these."""
    return reduce(or_, (each.member for each in members), EvEventMask(0))


def ev_of(value: object) -> int:
    """An EV: a number, `0x01000002`, or in SRv6 mode `p1s2`: through spine 2 of plane 1."""
    if isinstance(value, str) and (place := _PLACE.match(value)):
        with arguments():
            return ev_of_path(int(place[1]), int(place[2]))
    if type(value) is int or (isinstance(value, str) and _NUMBER.match(value)):
        ev = value if isinstance(value, int) else number_text(value, "an EV")
        if 0 <= ev < 1 << 32:
            return ev
    raise ControlError(EINVAL, f"{quoted(value)} is no EV: give a number of 32 bits, such as 0x01000002, or p1s2")
