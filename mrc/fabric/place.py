# SPDX-License-Identifier: BSD-2-Clause
"""Where a host stands in one plane, and what follows from it: its paths to other hosts, the loops of its probes."""

from __future__ import annotations

from mrc.fabric.shapes import DEFAULT_SHAPE, shape_class
from mrc.records import record
from mrc.wire.usid import DEFAULT_BLOCK, PathTemplate


@record(frozen=True, slots=True)
class Place:
    """In `plane` of a fabric of the shape `shape`: on `leaf` of `leaves`, each with `uplinks` ways to another leaf.

    `leaves` is 0 where that is not known.
    """

    plane: int
    leaf: int
    leaves: int
    uplinks: int
    shape: str = DEFAULT_SHAPE

    def template(self, leaf: int, host: int, block: int = DEFAULT_BLOCK) -> PathTemplate:
        """The paths from here to host `host` on leaf `leaf` of the same plane.

        Raises CallerError for a shape that does not exist or a leaf that it does not have.
        """
        return shape_class(self.shape).template(self, leaf, host, block)

    def near_loops(self, host: int) -> tuple[tuple[int, ...], ...]:
        """The uSIDs of loops of `host`, which stands here, that turn at a node and come back the same way."""
        return shape_class(self.shape).near_loops(self, host)

    def far_loops(self, host: int) -> tuple[tuple[int, ...], ...]:
        """The uSIDs of loops of `host`, which stands here, that come back another way than they went out."""
        return shape_class(self.shape).far_loops(self, host)
