"""What another process or another host wrote: JSON read strictly, text fit for a terminal."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 32
_QUOTED = 80


class NotJson(ValueError):
    """Bytes that are no JSON document of the kind that `parse_json` takes. The text says why, as part of a sentence."""


def parse_json(content: bytes, what: str = "it") -> Any:
    """Read one JSON document. Raises NotJson, and nothing else, for what `json.dumps` could not write back.

    Refused beside bad syntax: text that is not UTF-8, NaN and Infinity, numbers beyond a double or with thousands of
    digits, more than MAX_DEPTH levels of objects and arrays. `what` is the subject of the error's text.
    """
    try:
        document = json.loads(content.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
    except UnicodeDecodeError:
        raise NotJson(f"{what} is not UTF-8") from None
    except RecursionError:
        raise NotJson(_too_deep(what)) from None
    except ValueError as error:
        raise NotJson(f"{what} is not JSON: {str(error)[:_QUOTED]}") from None
    if depth_of(document) > MAX_DEPTH:
        raise NotJson(_too_deep(what))
    return document


def depth_of(value: Any) -> int:
    """Count the levels of objects and arrays in a JSON value. Counting stops once it is over MAX_DEPTH."""
    level: list[Any] = [value]
    depth = 0
    while depth <= MAX_DEPTH:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.append(each.values())
            elif isinstance(each, list | tuple):
                inner.append(each)
        if not inner:
            return depth
        depth += 1
        level = [each for container in inner for each in container]
    return depth


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


def _too_deep(what: str) -> str:
    return f"{what} is nested more than {MAX_DEPTH} levels deep"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:_QUOTED]} is beyond a double")
    return value
