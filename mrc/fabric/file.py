# SPDX-License-Identifier: BSD-2-Clause
"""Topology files: YAML that describes a lab, held to a published schema, then to what the fabric can be.

Every error says file, line, column, key and what would be right, in one line each:

    fabric.yaml:7:1: sipnes: unknown key, did you mean spines?

Structure (which keys, which types) is the schema's and nobody else's; meaning (links that exist, thresholds in order)
is checked here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from mrc.errors import CallerError
from mrc.fabric.block import check_block, parse_block
from mrc.fabric.description import Description, Direction
from mrc.fabric.impairment import Impairment
from mrc.fabric.link_keys import LINK_KEYS
from mrc.fabric.names import Link
from mrc.fabric.shape import Shape, ShapeError
from mrc.fabric.shapes import shape_of
from mrc.fabric.structure import Problem, shape_keys
from mrc.fabric.yaml_file import FileProblems, parse_tree, read_text
from mrc.fabric.yaml_tree import KeyPath, YamlTree, key_text

__all__ = ["TopologyFile"]

# Bytes waiting in a queue, in the order in which a queue that fills must meet them.
_THRESHOLDS = ("ecn_at", "trim_at", "queue")
_OF_QUEUES = (*_THRESHOLDS, "trim_to", "trim_dscp", "trim_dscp_lasthop")


class TopologyFile:
    """A file whose structure is the schema's. Made by `read` or `parsed`; `description` says what it means."""

    def __init__(self, name: str, tree: YamlTree) -> None:
        self._file = name
        self._tree = tree
        self._said: dict[str, Any] = {} if tree.value is None else tree.value

    @classmethod
    def read(cls, path: str | Path) -> TopologyFile:
        """Raises FileProblems for what is not YAML or not of the schema, CallerError for what cannot be read."""
        return cls.parsed(read_text(path, "topology file"), str(path))

    @classmethod
    def parsed(cls, text: str, name: str = "topology") -> TopologyFile:
        """Read a topology from text at hand; `name` stands for the file in errors.

        >>> topology = TopologyFile.parsed("planes: 2\\nlinks:\\n  p0l0-p0s1: {loss: 1%}\\n").description()
        >>> topology.impairments["p0l0-p0s1", "p0s1"].loss
        0.01
        """
        return cls(name, parse_tree(text, name))

    @property
    def name(self) -> str | None:
        """The lab's name, where the file gives one."""
        return self._said.get("name")

    @property
    def shape(self) -> dict[str, Any]:
        """What the file says of `shape_keys`, as `shape_of` takes it. Raises FileProblems for a wrong block."""
        found = {key: self._said[key] for key in shape_keys() if key in self._said}
        if "block" in found:
            try:
                found["block"] = parse_block(found["block"])
                check_block(found["block"])
            except CallerError as error:
                raise FileProblems([self._problem(("block",), str(error))]) from None
        # To JSON Schema 2.0 is a whole number too.
        return {key: int(value) if isinstance(value, float) else value for key, value in found.items()}

    def where(self, key: str) -> str:
        """File and line of a key on the top level that the file has: "fabric.yaml:3"."""
        return f"{self._file}:{self._tree.keys[key,].line}"

    def text(self, key: str) -> str:
        """How the file writes the value of a key on the top level that it has."""
        return self._tree.values[key,].text

    def description(self, shape: Mapping[str, Any] | None = None) -> Description:
        """What the file describes; `shape` gives values of `shape_keys` that take the place of the file's.

        Raises FileProblems.
        """
        fabric = self._shape(shape or {})
        problems: list[Problem] = []
        impairments = dict(self._impairments(fabric, problems))
        if problems:
            raise FileProblems(problems)
        return Description(fabric, impairments)

    def _shape(self, given: Mapping[str, Any]) -> Shape:
        try:
            return shape_of({**self.shape, **given})
        except ShapeError as error:
            blamed = [key for key in error.keys if key in self._said and key not in given]
            if not blamed:
                raise
            raise FileProblems([self._problem((blamed[0],), str(error))]) from None

    # ------------------------------------------------------------------ links

    def _impairments(self, fabric: Shape, problems: list[Problem]) -> Iterator[tuple[Direction, Impairment]]:
        if not {"host_links", "fabric_links", "links"} & self._said.keys():
            return
        links = {link.name: link for link in fabric.links}
        for name in self._said.get("links", {}):
            problems.extend(self._link_problems(name, links))
        values = {path: value for path in self._link_paths() for value in self._value_of(path, problems)}
        if problems:
            return
        for link in links.values():
            tier = "host_links" if link.is_host_link else "fabric_links"
            for toward in (link.upper, link.lower):
                sources = self._sources(link, tier, toward, values)
                effective = {key: values[path] for key, path in sources.items()}
                if found := list(self._order_problems(effective, sources)):
                    problems += found
                else:
                    yield (link.name, toward), _impairment(effective)

    def _sources(self, link: Link, tier: str, toward: str, values: Mapping[KeyPath, Any]) -> dict[str, KeyPath]:
        """Which place gives each key of one direction of a link: the closest to it that says it."""
        sources: dict[str, KeyPath] = {}
        for place in ((tier,), ("links", link.name), ("links", link.name, "toward", toward)):
            said = {str(path[-1]): path for path in self._keys_in(place)}
            if "rate" in said and not values[said["rate"]]:
                # Without a rate there is no queue: what was said of it further out does not count here.
                sources = {key: path for key, path in sources.items() if key not in _OF_QUEUES}
            sources |= said
        return sources

    def _link_problems(self, name: str, links: Mapping[str, Link]) -> Iterator[Problem]:
        path: KeyPath = ("links", name)
        link = links.get(name)
        if link is None:
            lower, _, upper = name.partition("-")
            turned = [f"{upper}-{lower}"] if f"{upper}-{lower}" in links else []
            near = turned or difflib.get_close_matches(name, links, 3)
            advice = f"did you mean {' or '.join(near)}?" if near else "links are h0-p0l0, p0l0-p0s0 and so on"
            yield self._problem(path, f"this fabric has no such link, {advice}", at_key=True)
            return
        for toward in self._said["links"][name].get("toward", {}):
            if toward not in (link.lower, link.upper):
                message = f"no end of {name}: its ends are {link.lower} and {link.upper}"
                yield self._problem((*path, "toward", toward), message, at_key=True)

    def _link_paths(self) -> Iterator[KeyPath]:
        """Every place that gives a rate, a queue and so on."""
        yield from self._keys_in(("host_links",))
        yield from self._keys_in(("fabric_links",))
        for name, said in self._said.get("links", {}).items():
            yield from self._keys_in(("links", name))
            for toward in said.get("toward", {}):
                yield from self._keys_in(("links", name, "toward", toward))

    def _keys_in(self, place: KeyPath) -> Iterator[KeyPath]:
        said: Any = self._said
        for key in place:
            said = said.get(key, {})
        return ((*place, key) for key in said if key in LINK_KEYS)

    def _value_of(self, path: KeyPath, problems: list[Problem]) -> Iterator[Any]:
        """The value at `path` in the unit of Impairment; none, and a problem more, when it is out of range."""
        said: Any = self._said
        for step in path:
            said = said[step]
        key = LINK_KEYS[str(path[-1])]
        try:
            value = key.parse(said)
            Impairment(**{key.field: value})
        except CallerError as error:
            # The key is named already.
            problems.append(self._problem(path, str(error).removeprefix(f"{key.field} ")))
        else:
            yield value

    def _order_problems(self, effective: Mapping[str, Any], sources: Mapping[str, KeyPath]) -> Iterator[Problem]:
        of_queue = [key for key in _OF_QUEUES if effective.get(key)]
        if of_queue and not effective.get("rate"):
            message = "needs a rate beside it: nothing waits before a link that has none"
            yield self._problem(sources[of_queue[0]], message)
        waiting = [key for key in of_queue if key in _THRESHOLDS]
        for key, larger in pairwise(waiting):
            if effective[key] >= effective[larger]:
                other = self._tree.values[sources[larger]].text
                yield self._problem(sources[key], f"must be below {larger}, which is {other}")

    def _problem(self, path: KeyPath, message: str, at_key: bool = False) -> Problem:
        place = (self._tree.keys if at_key else self._tree.values)[path]
        return Problem(self._file, place.line, place.column, key_text(path), message)


def _impairment(effective: Mapping[str, Any]) -> Impairment:
    return replace(Impairment(), **{LINK_KEYS[key].field: value for key, value in effective.items()})
