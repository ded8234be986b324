# SPDX-License-Identifier: BSD-2-Clause
"""YAML text as plain values that remember where each was written, for errors that name line and column."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mrc.errors import CallerError
from mrc.untrusted import MOST_DIGITS

if TYPE_CHECKING:
    import yaml

KeyPath = tuple[str | int, ...]

# No file that is read here is more than eight deep. Aliases may make a small text a huge document, or one without end.
_MOST_DEPTH = 10
_MOST_VALUES = 200_000
_MOST_SHOWN = 60
_TOO_MUCH = "nested too deep, or more values than a file may have"
_MOST_NUMBER = 10**MOST_DIGITS
_MOST_CHARACTERS = 8 << 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written, both counted from 1, and the words it was written in ("" for a collection)."""

    line: int
    column: int
    text: str = ""


class YamlError(CallerError):
    """Text that is no YAML of the kind understood here. `place` says where, `key` in which value."""

    def __init__(self, place: Place, key: KeyPath, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.key = key


@dataclass(slots=True)
class YamlTree:
    """`value` is the document: None, bool, numbers, str, list and dict with str keys.

    `values` and `keys` say where each value, and its key, stands: by the path of keys and indices that leads to it.
    """

    value: Any = None
    values: dict[KeyPath, Place] = field(default_factory=dict)
    keys: dict[KeyPath, Place] = field(default_factory=dict)


def parse(text: str) -> YamlTree:
    """The one document of `text`; an empty one is None. Raises YamlError.

    Keys are text and appear once. Aliases (`*name`) are understood, merge keys (`<<`) and tags of other kinds are not.
    """
    import yaml

    tree = YamlTree()
    if len(text) > _MOST_CHARACTERS:
        raise YamlError(Place(1, 1), (), f"{len(text)} characters, {_MOST_CHARACTERS} are the most")
    try:
        loader = _bounded_loader(text)
        node = loader.get_single_node()
        if node is not None:
            tree.value = _value(loader, node, (), tree)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = " ".join(filter(None, (error.context, error.problem)))
        raise YamlError(_place(mark) if mark else Place(1, 1), (), f"not YAML: {words}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        raise YamlError(
            Place(line, column), (), f"not YAML: the character #x{error.character:04x} may not be in it"
        ) from None
    except RecursionError:
        raise YamlError(Place(1, 1), (), "nested too deep") from None
    return tree


def _bounded_loader(text: str) -> yaml.SafeLoader:
    """A loader that gives a text up where it becomes too deep or too much: each value takes it half a kilobyte."""
    import yaml

    class Loader(yaml.SafeLoader):
        values = depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            self.values += 1
            self.depth += 1
            if self.values > 2 * _MOST_VALUES or self.depth > _MOST_DEPTH + 1:
                raise YamlError(_place(self.peek_event().start_mark), (), _TOO_MUCH)  # type: ignore[no-untyped-call]
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return Loader(text)


def key_text(path: KeyPath) -> str:
    """A path of keys and indices as people write it: `links.h0-p0l0.rate`, `planes[1]`."""
    words = ""
    for step in path:
        words += f"[{step}]" if isinstance(step, int) else f".{shown(step)}"
    return words.removeprefix(".")


def shown(text: str) -> str:
    """Text of a file on one line, not too long, and harmless to a terminal."""
    short = text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "..."
    return short if short.isprintable() else repr(short)


def _place(mark: yaml.Mark, text: str = "") -> Place:
    return Place(mark.line + 1, mark.column + 1, text)


def _value(loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath, tree: YamlTree) -> Any:
    import yaml

    place = _place(node.start_mark, node.value if isinstance(node, yaml.ScalarNode) else "")
    if len(path) > _MOST_DEPTH or len(tree.values) > _MOST_VALUES:
        raise YamlError(place, path[:_MOST_DEPTH], _TOO_MUCH)
    tree.values[path] = place
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _key(key_node, path)
            inner = (*path, key)
            if key in found:
                raise YamlError(
                    _place(key_node.start_mark), inner, f"said twice, first in line {tree.keys[inner].line}"
                )
            tree.keys[inner] = _place(key_node.start_mark, key)
            found[key] = _value(loader, value_node, inner, tree)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item, (*path, number), tree) for number, item in enumerate(node.value)]
    try:
        value = loader.construct_object(node)
    except (ValueError, ArithmeticError) as error:  # an impossible date, say
        raise YamlError(place, path, f"not YAML: {error}") from None
    except (LookupError, AttributeError, TypeError):  # `!!bool x`: a tag that does not fit its value
        raise YamlError(place, path, f"not YAML: {shown(str(node.value))} is no {shown(str(node.tag))}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise YamlError(place, path, f"{shown(node.value)} is no finite number")
    if isinstance(value, int) and abs(value) >= _MOST_NUMBER:
        raise YamlError(place, path, f"a number of more than {MOST_DIGITS} digits")
    if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
        raise YamlError(place, path, "half of a surrogate pair")
    return value


def _key(node: yaml.Node, path: KeyPath) -> str:
    import yaml

    if not isinstance(node, yaml.ScalarNode):
        raise YamlError(_place(node.start_mark), path, "a key is a word, not a list or a mapping")
    return str(node.value)
