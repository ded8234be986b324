# SPDX-License-Identifier: BSD-2-Clause
"""The words of the Info column: the table of `mrc.wire.words` as functions of Lua.

Fields that lie in more than 4 bytes are strings of hexadecimal digits there (values.lua): Lua's numbers do not hold
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from mrc.errors import CallerError
from mrc.wire.headers import HeaderLayout
from mrc.wire.words import WORDS, Condition, Phrase, Value

_WIDEST_NUMBER = 4
# What is said of the packet itself, behind the headers.
_REST = ("payload", "icrc", "verdict")
_FORMAT = re.compile(r"([+]?\d*)([dxs]?)")


def word_functions(layouts: Mapping[str, HeaderLayout]) -> Iterator[str]:
    """Lines of Lua: the table WORDS, by header a function of the values of its fields. `joined` and `name_of` are those
    of words.lua."""
    yield "local WORDS = {"
    for header in (*layouts, *_REST):
        layout = layouts.get(header)
        fields = layout.fields if layout else ()
        texts = {field.name for field in fields if layout and layout.span(field)[1] > _WIDEST_NUMBER}
        yield f"  {header} = function(v)"
        yield "    return joined("
        yield ",\n".join(f"      {_as_lua(header, phrase, texts)}" for phrase in WORDS[header])
        yield "    )"
        yield "  end,"
    yield "}"


def lua_format(form: str, is_text: bool = False) -> str:
    """A format of Python's, `06x`, as string.format has it. Raises CallerError for one that Lua has no like of."""
    match = _FORMAT.fullmatch(form)
    if match is None or (is_text and form not in ("x", "s")):
        raise CallerError(f"Lua cannot format as {form!r}" + " what lies in more than 4 bytes" * is_text)
    return "%s" if is_text else f"%{match[1]}{match[2] or 'd'}"


def _as_lua(header: str, phrase: Phrase, texts: set[str]) -> str:
    parts = list(phrase.parts())
    form = "".join(part if isinstance(part, str) else _format(part, texts) for part in parts)
    values = [_value(header, part) for part in parts if isinstance(part, Value)]
    said = f'("{form}"):format({", ".join(values)})' if values else f'"{form}"'
    condition = phrase.condition()
    return said if condition is None else f"{_holds(condition, texts)} and {said}"


def _format(value: Value, texts: Iterable[str]) -> str:
    if value.form in ("name", "psn"):
        return {"name": "%s", "psn": "%d"}[value.form]
    return lua_format(value.form, value.fields[0] in texts)


def _value(header: str, value: Value) -> str:
    if value.form == "name":
        return f'name_of("{header}", "{value.fields[0]}", v.{value.fields[0]})'
    if value.form == "psn":
        return f"({' + '.join(f'v.{field}' for field in value.fields)}) % PSNS"
    return f"v.{value.fields[0]}"


def _holds(condition: Condition, texts: Iterable[str]) -> str:
    if condition.field in texts and condition.operator not in ("==", "!="):
        raise CallerError(
            f"Lua cannot tell whether {condition.field} {condition.operator} a number: it lies in more than 4 bytes"
        )
    operator = {"!=": "~="}.get(condition.operator, condition.operator)
    number = f'"{condition.number:x}"' if condition.field in texts else str(condition.number)
    return f"v.{condition.field} {operator} {number}"
