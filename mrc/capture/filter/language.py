# SPDX-License-Identifier: BSD-2-Clause
"""The language of filters: text to a tree, with errors that point at the place.

    expression  = both { "or" both }
    both        = inverted { "and" inverted }
    inverted    = "not" inverted | "(" expression ")" | test
    test        = operand [ ("==" | "!=" | "<" | "<=" | ">" | ">=") value | "in" values ]
    operand     = NAME [ "&" NUMBER ]
    values      = value | ("{" | "(" | "[") item { "," item } ("}" | ")" | "]")
    item        = value [ ".." value ]

`&&`, `||` and `!` are taken for `and`, `or` and `not`, and a name may have Wireshark's `mrc.` in front. Nothing of it
is ever run as code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mrc.capture.filter.names import FIELDS, IPV4, IPV6, LAYERS, MAC, TIME, TRUTH, WORD, Name, nearest
from mrc.capture.filter.values import Network, Value, as_value
from mrc.errors import CallerError

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>"[^"]*"|'[^']*')
      | (?P<address>[0-9A-Fa-f]*:[0-9A-Fa-f:]*(?:\d+\.\d+\.\d+\.\d+)?(?:/\d+)?|\d+\.\d+\.\d+\.\d+(?:/\d+)?)
      | (?P<number>-?(?:0[xX][0-9A-Fa-f]+|0[bB][01]+|\d+(?:\.\d+(?!\.))?))(?![A-Za-z_])
      | (?P<keyword>(?:and|or|not|in)\b)
      | (?P<name>(?:mrc\.)?[A-Za-z_]\w*(?:\[-?\d+\])?(?:\.[A-Za-z_]\w*)?)
      | (?P<sign>==|!=|<=|>=|&&|\|\||\.\.|[<>&!(){}\[\],])
    )""",
    re.VERBOSE,
)
_WIRESHARK = "mrc."
_ALIASES = {"&&": "and", "||": "or", "!": "not"}
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_CLOSING = {"{": "}", "(": ")", "[": "]"}
_INDEX = re.compile(r"\[(-?\d+)\]")
_MOST_LAYERS = 64
_DEEPEST = 100


class FilterError(CallerError):
    """A filter that cannot be understood. `at` and `length` say where in its text; str() shows the place."""

    def __init__(self, text: str, at: int, length: int, message: str) -> None:
        self.at, self.length, self.message = at, length, message
        # On one line, so that the mark stands below what it marks.
        shown = "".join(c if c.isprintable() else " " for c in text)
        super().__init__(f"{message}\n  {shown}\n  {' ' * at}{'^' * max(1, length)}")


@dataclass(frozen=True, slots=True)
class Present:
    """A layer is there; or a field is, and true where it can be true or false."""

    layer: str
    name: Name | None = None


@dataclass(frozen=True, slots=True)
class Operand:
    """A field of the layer at index `occurrence` (None: any of them), with `mask` applied."""

    name: Name
    occurrence: int | None = None
    mask: int | None = None


@dataclass(frozen=True, slots=True)
class Compare:
    """`sign` is one of == != < <= > >=; the other side a value or another field."""

    operand: Operand
    sign: str
    other: Value | Operand


@dataclass(frozen=True, slots=True)
class Among:
    """One of several values, each from the first to the second of a pair."""

    operand: Operand
    values: tuple[tuple[Value, Value], ...]


@dataclass(frozen=True, slots=True)
class Not:
    inner: Node


@dataclass(frozen=True, slots=True)
class Both:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    parts: tuple[Node, ...]


Node = Present | Compare | Among | Not | Both | Either | Operand


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def parse(text: str) -> Node:
    """The tree of a filter. Raises FilterError."""
    parser = _Parser(text)
    node = parser.expression()
    if parser.token.kind != "end":
        what = "there is no such sign here" if parser.token.text in ")}]" else "and, or, or the end should come"
        raise parser.error(f"{parser.token.text!r} where {what}")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._split(text)
        self.position = 0
        self.depth = 0

    def _split(self, text: str) -> list[_Token]:
        tokens, at = [], 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                if text[at] == "=":
                    raise FilterError(text, at, 1, "'=' is no comparison: write ==")
                if text[at] in "\"'":
                    raise FilterError(text, at, len(text) - at, "a text without its closing quotation mark")
                length = len(re.match(r"[\w.]*", text[at:])[0]) or 1  # type: ignore[index]
                raise FilterError(text, at, length, f"{text[at : at + length]!r} is no part of a filter")
            kind = match.lastgroup or ""
            word = match[kind]
            start = match.start(kind)
            if kind == "name" and word.startswith(_WIRESHARK):
                start, word = start + len(_WIRESHARK), word.removeprefix(_WIRESHARK)
            tokens.append(_Token(kind, _ALIASES.get(word, word), start))
            at = match.end()
        return [*tokens, _Token("end", "", len(text.rstrip()))]

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def next(self) -> _Token:
        token = self.token
        self.position += token.kind != "end"
        return token

    def accept(self, *texts: str) -> str | None:
        if self.token.kind in ("keyword", "sign") and self.token.text in texts:
            return self.next().text
        return None

    def error(self, message: str, token: _Token | None = None) -> FilterError:
        token = token or self.token
        return FilterError(self.text, token.at, len(token.text), message)

    def expression(self) -> Node:
        parts = [self.both()]
        while self.accept("or"):
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def both(self) -> Node:
        parts = [self.inverted()]
        while self.accept("and"):
            parts.append(self.inverted())
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def inverted(self) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.error(f"more than {_DEEPEST} levels of parentheses")
        try:
            if self.accept("not"):
                return Not(self.inverted())
            if self.accept("("):
                node = self.expression()
                if not self.accept(")"):
                    raise self.error("a closing parenthesis is missing")
                return node
            return self.test()
        finally:
            self.depth -= 1

    def test(self) -> Node:
        if self.token.kind == "name" and self.token.text in LAYERS:
            return Present(self.next().text)
        operand = self.operand()
        sign_token = self.token
        sign = self.accept(*_COMPARISONS)
        if sign is not None:
            other: Value | Operand
            if self.token.kind == "name" and _INDEX.sub("", self.token.text) in FIELDS:
                other_token = self.token
                other = self.operand()
                if other.name.kind != operand.name.kind or other.name.kind in (WORD, TRUTH):
                    raise self.error(f"{other.name.text} cannot be compared with {operand.name.text}", other_token)
            else:
                other = self.value(operand)
            self.fits(operand, sign, sign_token, other)
            return Compare(operand, sign, other)
        if self.accept("in"):
            return Among(operand, self.values(operand))
        if operand.mask is None:
            return Present(operand.name.layer, operand.name)
        return operand

    def fits(self, operand: Operand, sign: str, token: _Token, other: Value | Operand) -> None:
        """Refuse what has no order."""
        if sign in ("==", "!="):
            return
        kind = operand.name.kind
        if kind in (MAC, IPV4, IPV6) or isinstance(other, Network):
            raise self.error("addresses are compared with ==, != and in", token)
        if kind in (TRUTH, WORD):
            raise self.error(f"{operand.name.text} is compared with == and !=", token)

    def operand(self) -> Operand:
        token = self.next()
        if token.kind != "name":
            raise self.error("a field or a layer should come here", token)
        index = _INDEX.search(token.text)
        text, occurrence = _INDEX.sub("", token.text), int(index[1]) if index else None
        name = FIELDS.get(text)
        if occurrence is not None and text in LAYERS:
            raise self.error(f"a field of {text} should follow, as in {token.text}.{self.example(text)}", token)
        if name is None:
            raise self.unknown(text, token)
        if occurrence is not None and (not name.layer or abs(occurrence) > _MOST_LAYERS):
            raise self.error("an index says which of several layers: 0 the outermost, -1 the innermost", token)
        mask = None
        if self.accept("&"):
            number = self.next()
            try:
                mask = int(number.text, 0)
            except ValueError:
                raise self.error("a number should follow &", number) from None
            if name.kind in (IPV6, TIME, TRUTH, WORD):
                raise self.error(f"{name.text} has no bits to choose", number)
            if not 0 <= mask < 1 << (name.bits or 63):
                raise self.error(f"{name.text} has {name.bits or 63} bits, {number.text} goes beyond them", number)
        return Operand(name, occurrence, mask)

    @staticmethod
    def example(layer: str) -> str:
        return next(name.field for name in FIELDS.values() if name.layer == layer)

    def unknown(self, text: str, token: _Token) -> FilterError:
        close = nearest(text)
        hint = f": did you mean {' or '.join(close)}?" if close else "; docs/dissect.md lists them"
        return self.error(f"there is no field {text}{hint}", token)

    def value(self, operand: Operand) -> Value:
        token = self.next()
        if token.kind in ("end", "sign", "keyword"):
            raise self.error("a value should come here", token)
        try:
            return as_value(operand.name, token.kind, token.text)
        except ValueError as problem:
            raise self.error(str(problem), token) from None

    def values(self, operand: Operand) -> tuple[tuple[Value, Value], ...]:
        opening = self.accept(*_CLOSING)
        if opening is None:
            value = self.value(operand)
            return ((value, value),)
        found = []
        while True:
            first_token = self.token
            first = last = self.value(operand)
            if self.accept(".."):
                last = self.value(operand)
                self.fits(operand, "<", first_token, first)
            found.append((first, last))
            if self.accept(_CLOSING[opening]):
                return tuple(found)
            if not self.accept(","):
                raise self.error(f"a comma or {_CLOSING[opening]} is missing")
