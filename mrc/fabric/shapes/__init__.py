# SPDX-License-Identifier: BSD-2-Clause
"""The shapes that a fabric can have, found by name: the file `clos.py` here is the shape `clos`, its `SHAPE` the class.

The schema of topology files (mrc/fabric/topology.schema.json) lists the same names under `shape`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mrc.errors import CallerError
from mrc.fabric.place import DEFAULT_SHAPE

if TYPE_CHECKING:
    from mrc.fabric.shape import Shape


def shape_names() -> tuple[str, ...]:
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


@cache
def shape_class(name: str) -> type[Shape]:
    """The class of the shape `name`. Raises CallerError when there is none."""
    if name != DEFAULT_SHAPE and name not in shape_names():
        raise CallerError(f"no shape {name!r}: there are {', '.join(shape_names())}")
    found: type[Shape] = import_module(f"{__name__}.{name}").SHAPE
    return found


def shape_of(document: Mapping[str, Any]) -> Shape:
    """The fabric that `Shape.to_json` or a part of it describes; without `shape` of the default one.

    Raises CallerError for values out of range, and for a value that fabrics of this shape do not have.
    """
    values = dict(document)
    kind = shape_class(values.pop("shape", DEFAULT_SHAPE))
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            from mrc.fabric.shape import ShapeError  # a sender finds its paths without it

            raise ShapeError(f"a fabric of shape {kind.kind} has no {key}: it has {', '.join(known)}", key)
    return kind(**values)
