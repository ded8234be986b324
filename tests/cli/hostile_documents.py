# SPDX-License-Identifier: BSD-2-Clause
"""Documents of which one value is not what belongs there, drawn; used by the tests of what reads files."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

_ODD = [
    *(1e308, -1e308, 10**39, -(10**39), 2**63, 2**64, 2**64 - 1, -(2**63) - 1, -1, 0, 0.5, 1e-320),
    *("x", "", "\x00", "\x1b[31m", "9" * 60, "9" * 5000, None, True, [], {}, [[]], {"a": []}, [1e308], [None], ["x"]),
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _places(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _places(each, (*path, number))


def odd_document(document: Any, draw: random.Random) -> Any:
    """The document with one value left out, or with another in its place."""
    path = draw.choice(list(_places(document)))
    if not path:
        return draw.choice(_ODD)
    changed = inner = copy.deepcopy(document)
    for step in path[:-1]:
        inner = inner[step]
    if draw.random() < 0.15:
        del inner[path[-1]]
    else:
        inner[path[-1]] = draw.choice(_ODD)
    return changed
