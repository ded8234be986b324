# SPDX-License-Identifier: BSD-2-Clause
"""Where a host stands in one plane: what its paths to other hosts and the loops of its probes follow from."""

from __future__ import annotations

from mrc.records import record

DEFAULT_SHAPE = "clos"


@record(frozen=True, slots=True)
class Place:
    """In `plane` of a fabric of the shape `shape`: on `leaf` of `leaves`, each with `uplinks` ways to another leaf.

    `leaves` is 0 where that is not known. `mrc.fabric.shapes.shape_class(place.shape)` tells paths and loops.
    """

    plane: int
    leaf: int
    leaves: int
    uplinks: int
    shape: str = DEFAULT_SHAPE
