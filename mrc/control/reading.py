# SPDX-License-Identifier: BSD-2-Clause
"""EVs and numbers as profile files, deny lists, the control socket and the command line have them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from errno import EINVAL
from functools import reduce
from operator import or_
from typing import TypeVar

from mrc.control.attributes import EvEventMask
from mrc.control.errors import ControlError, arguments
from mrc.control.typed import Named
from mrc.untrusted import quoted
from mrc.wire.usid import ev_of_path

T = TypeVar("T")

# Far above every number that means something, and few enough digits for any error to show.
MOST_WHOLE = 1 << 64
_PLACE = re.compile(r"p([0-9]{1,3})s([0-9]{1,3})\Z")
_NUMBER = re.compile(r"(?:0x([0-9a-fA-F]{1,8})|([0-9]{1,10}))\Z")


def refusal(expected: str, value: object) -> ControlError:
    """EINVAL: what was expected, and what came instead."""
    return ControlError(EINVAL, f"{expected}, not {quoted(value)}")


def one_of(value: object, what: str, choices: Mapping[str, T]) -> T:
    """What stands for a word."""
    if not isinstance(value, str) or value not in choices:
        raise refusal(f"{what} is one of {', '.join(choices)}", value)
    return choices[value]


def number_text(value: object, what: str) -> int:
    """A whole number, or one written as text: decimal digits, or `0x` and hexadecimal ones."""
    if isinstance(value, str) and (match := _NUMBER.match(value)):
        return int(match[1], 16) if match[1] else int(match[2])
    if type(value) is not int or abs(value) > MOST_WHOLE:
        raise refusal(f"{what} is {Number.expected}", value)
    return value


class _PlainNumbers(type):
    """Of a class whose instances are plain numbers: the endpoint takes none of a class of their own."""

    def __instancecheck__(cls, value: object) -> bool:
        return type(value) is int


class Number(int, metaclass=_PlainNumbers):
    """A number as a profile file has it (`number_text`), also one of more than 64 bits."""

    expected = "a whole number"

    @staticmethod
    def read(value: object) -> int:
        """Raises TypeError for what is none."""
        try:
            return number_text(value, "it")
        except ControlError:
            raise TypeError from None


class Ev(int, metaclass=_PlainNumbers):
    """An EV as a document has it: a number, or text (`ev_of`)."""

    expected = "an EV, such as 0x01000002 or p1s2"

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
