# SPDX-License-Identifier: BSD-2-Clause
"""The one place that reads JSON: what others wrote strictly, what this release wrote itself plainly. And text fit for
a terminal.

`parse_json` is for every byte that this release did not write in this run: of peers, sockets, files, environment.
`own_json` is for what cannot be a stranger's: resources of the package and answers of processes that this one started.
`tests/test_foreign_json.py` finds JSON that is read anywhere else.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from mrc.errors import CallerError

MAX_DEPTH = 32
MOST_BYTES = 64 << 20
MOST_DIGITS = 40  # 2^128, an IPv6 address, has 39
_QUOTED = 80

# What a document takes in memory is worked out before it is read. Bytes of an object, of an array, and of each value's
# place in them; documents below _SMALL are never too dense, others take at most _DENSEST times their length.
_OBJECT, _ARRAY, _PLACE = 232, 88, 16
_SMALL, _DENSEST = 1 << 20, 16

# A string, with its end or without: a search for an end that is not there is made once, not from each quote again.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_STRING_OR_BRACKET = re.compile(_STRING.pattern + rb"|[\[\]{}]", re.DOTALL)
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (MOST_DIGITS + 1))
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_OF_A_NAME = re.compile("[\udc80-\udcff]")
_PLAIN_KEY = re.compile(r"[^\W\d][\w-]*")

KeyPath = tuple[str | int, ...]


class NotJson(ValueError):
    """Bytes that are no JSON document of the kind that `parse_json` takes. The text says why, as part of a sentence."""


def parse_json(content: bytes, what: str = "it", most_bytes: int = MOST_BYTES, *, file_names: bool = False) -> Any:
    """Read one JSON document of somebody else's. Raises NotJson, and nothing else.

    Refused beside bad syntax: more than `most_bytes`, text that is not UTF-8, halves of surrogate pairs, NaN and
    Infinity, numbers beyond a double or of more than MOST_DIGITS digits, more than MAX_DEPTH levels of objects and
    arrays, and documents that would take more than 16 times their length in memory (and more than 1 MiB). `what` is
    the subject of the error's text, which says where: by line and column, or by the path of keys that leads there.

    With `file_names` text may hold what Python makes of a file name's bytes that are not UTF-8 (U+DC80 to U+DCFF).
    """
    if len(content) > most_bytes:
        raise NotJson(f"{what} has {len(content)} bytes, {most_bytes} are the most")
    _check_shape(content, what)
    odd = _Odd()
    try:
        text = str(content, "utf-8")
        document = json.loads(
            text,
            parse_constant=odd.constant,
            parse_float=odd.float,
            parse_int=odd.int if _LONG_NUMBER.search(content) else None,
        )
    except UnicodeDecodeError as error:
        raise NotJson(f"{what} is not UTF-8 at {_place(content, error.start)}") from None
    except json.JSONDecodeError as error:
        raise NotJson(f"{what} is not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise NotJson(f"{what} is not JSON: {str(error)[:_QUOTED]}") from None
    if odd.found:
        raise NotJson(
            f"{what} is not JSON: {_first(document, lambda each: str(each) if type(each) is _Refused else '')}"
        )
    if _SURROGATE.search(content) and (where := _first(document, _odd_in_a_name if file_names else _surrogate)):
        raise NotJson(f"{what} is not JSON: {where}")
    return document


def own_json(content: str | bytes) -> Any:
    """Read JSON that this release wrote itself and nobody else can have changed. Raises ValueError.

    That is: the package's resources, and what a process started by this one, or the one that started it, says.
    """
    return json.loads(content)


def foreign_bytes(path: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a file, one byte more than `most_bytes` at most: `parse_json` refuses that. Raises OSError."""
    with open(path, "rb") as file:
        return file.read(most_bytes + 1)


def depth_of(value: Any) -> int:
    """Count the levels of objects and arrays in a JSON value. Counting stops once it is over MAX_DEPTH."""
    depth = 0
    ways: list[Iterator[Any]] = [iter((value,))]
    while ways and depth <= MAX_DEPTH:
        for each in ways[-1]:
            if isinstance(each, dict | list | tuple):
                depth = max(depth, len(ways))
                ways.append(iter(each.values() if isinstance(each, dict) else each))
                break
        else:
            ways.pop()
    return depth


def path_text(path: KeyPath) -> str:
    """A path of keys and indices as people write it: `layers.frame["frame.len"]`, `planes[1].leaf`."""
    words = ""
    for step in path:
        if isinstance(step, str) and len(step) < _QUOTED and _PLAIN_KEY.fullmatch(step) and step.isprintable():
            words += f".{step}"
        else:
            words += f"[{step}]" if isinstance(step, int) else f"[{quoted(step).replace(chr(39), chr(34))}]"
    return words.removeprefix(".")


def quoted(value: object, most: int = _QUOTED) -> str:
    """Write a value as an error shows it: as Python writes it, at most `most` characters of it."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__} too large to show"  # an integer of thousands of digits is one
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable(text: str) -> str:
    """Write text as one line that does nothing to a terminal: what cannot be printed is escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def printable_lines(text: str) -> str:
    """Write text of several lines so that it does nothing else to a terminal, whatever a peer's name in it holds."""
    return "\n".join(map(printable, text.split("\n")))


# ------------------------------------------------------------------------ before it is read


def _check_shape(content: bytes, what: str) -> None:
    """Depth and density, from the bytes alone: nothing is made of a document that is refused for them."""
    # The brackets in strings are counted too: with so few altogether there is nothing to look for.
    if content.count(b"[") + content.count(b"{") <= MAX_DEPTH and _PLACE * content.count(b",") <= _SMALL:
        return
    objects = arrays = commas = end = 0
    for each in _STRING.finditer(content):
        begin, after = each.span()
        objects += content.count(b"{", end, begin)
        arrays += content.count(b"[", end, begin)
        commas += content.count(b",", end, begin)
        end = after
    objects, arrays = objects + content.count(b"{", end), arrays + content.count(b"[", end)
    values = objects + arrays + commas + content.count(b",", end)
    if objects + arrays > MAX_DEPTH:
        depth = 0
        for each in _STRING_OR_BRACKET.finditer(content):
            if each[0] in (b"[", b"{"):
                depth += 1
            elif each[0] in (b"]", b"}"):
                depth -= 1
            if depth > MAX_DEPTH:
                where = _place(content, each.start())
                raise NotJson(f"{what} is nested more than {MAX_DEPTH} levels deep at {where}")
    size = objects * _OBJECT + arrays * _ARRAY + values * _PLACE
    if size > max(_SMALL, _DENSEST * len(content)):
        raise NotJson(
            f"{what} has too many values for its {len(content)} bytes: it would take {size >> 20} MiB of memory"
        )


def _place(content: bytes, at: int) -> str:
    """Of a byte: its line and column, both counted from 1; the column counts bytes."""
    return f"line {content.count(10, 0, at) + 1} column {at - content.rfind(10, 0, at)}"


# ------------------------------------------------------------------------ while it is read


class _Refused(str):
    """Stands for a number that is none, until its place is known. Its text says what it is."""

    __slots__ = ()


class _Odd:
    """The numbers of one document, of which the odd ones are noted."""

    def __init__(self) -> None:
        self.found = False

    def constant(self, name: str) -> _Refused:
        return self._refused(f"{name} is no JSON number")

    def float(self, text: str) -> float | _Refused:
        value = float(text)
        return value if math.isfinite(value) else self._refused(f"{text[:_QUOTED]} is beyond a double")

    def int(self, text: str) -> int | _Refused:
        digits = len(text.lstrip("-"))
        return int(text) if digits <= MOST_DIGITS else self._refused(f"a number of {digits} digits")

    def _refused(self, why: str) -> _Refused:
        self.found = True
        return _Refused(why)


def _surrogate(value: object) -> str:
    if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
        return "half of a surrogate pair"
    return ""


def _odd_in_a_name(value: object) -> str:
    return _surrogate(_OF_A_NAME.sub("", value)) if isinstance(value, str) else ""


def _first(document: Any, fault: Callable[[Any], str]) -> str:
    """The first value, or key, in which `fault` finds something: what, and the path to it. "" where there is none."""
    ways: list[Iterator[tuple[str | int, Any]]] = []
    path: list[str | int] = []
    step: Any = document
    while True:
        if found := fault(step):
            place = path_text(tuple(path))
            return f"{found} at {place}" if place else found
        if isinstance(step, dict):
            if found := next(filter(None, map(fault, step)), ""):
                return f"{found} in a key of {path_text(tuple(path)) or 'the document'}"
            ways.append(iter(step.items()))
            path.append("")
        elif isinstance(step, list):
            ways.append(iter(enumerate(step)))
            path.append(0)
        while ways:
            following = next(ways[-1], None)
            if following is not None:
                path[-1], step = following
                break
            ways.pop()
            path.pop()
        else:
            return ""


def json_file(path: str | os.PathLike[str], what: str, most_bytes: int) -> Any:
    """The JSON document of a file of somebody else's. Raises CallerError, which calls the file `what`, when it cannot
    be read, is larger than `most_bytes`, or is no JSON."""
    try:
        return parse_json(foreign_bytes(path, most_bytes), "its text", most_bytes)
    except OSError as error:
        raise CallerError(f"{what} {path}: {error.strerror}") from None
    except NotJson as error:
        raise CallerError(f"{what} {path}: {error}") from None
