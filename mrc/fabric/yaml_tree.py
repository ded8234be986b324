"""YAML text as plain values that remember where each was written, for errors that name line and column."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mrc.errors import CallerError

if TYPE_CHECKING:
    import yaml

KeyPath = tuple[str | int, ...]

# No file that is read here is more than eight deep. Aliases may make a small text a huge document, or one without end.
_MOST_DEPTH = 10
_MOST_VALUES = 200_000
_MOST_SHOWN = 60


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
    try:
        loader = yaml.SafeLoader(text)
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
        raise YamlError(place, path[:_MOST_DEPTH], "nested too deep, or more values than a file may have")
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
        return loader.construct_object(node)
    except ValueError as error:  # an impossible date, say
        raise YamlError(place, path, f"not YAML: {error}") from None


def _key(node: yaml.Node, path: KeyPath) -> str:
    import yaml

    if not isinstance(node, yaml.ScalarNode):
        raise YamlError(_place(node.start_mark), path, "a key is a word, not a list or a mapping")
    return str(node.value)
