# SPDX-License-Identifier: BSD-2-Clause
"""Everything a lab is built from: its shape, and what each direction of each link is to be like from the start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from mrc.errors import CallerError
from mrc.fabric.block import block_text
from mrc.fabric.impairment import Impairment
from mrc.fabric.link_keys import differing
from mrc.fabric.place import DEFAULT_SHAPE
from mrc.fabric.shape import Shape
from mrc.fabric.shapes import shape_class, shape_of

# The name of a link and the end that packets travel toward.
Direction = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Description:
    """`impairments` holds every direction that is not `Impairment()`, by link name and the end travelled toward.

    Raises CallerError for a link or an end that `shape` does not have.
    """

    shape: Shape = field(default_factory=lambda: shape_class(DEFAULT_SHAPE)())
    impairments: Mapping[Direction, Impairment] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.impairments:
            ends = {link.name: (link.lower, link.upper) for link in self.shape.links}
            for link, toward in self.impairments:
                if toward not in ends.get(link, ()):
                    raise CallerError(f"no direction {link!r} toward {toward!r} in this fabric")
            # Those with nothing wrong are left out, so that equal descriptions compare equal.
            kept = {direction: each for direction, each in self.impairments.items() if not each.is_off}
            object.__setattr__(self, "impairments", kept)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON, which `from_json` reads."""
        listed = [{"link": link, "toward": toward, **asdict(each)} for (link, toward), each in self.impairments.items()]
        return {"topology": self.shape.to_json(), "impairments": listed}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Description:
        """What `to_json` made. Raises CallerError, KeyError or TypeError when it is not that."""
        impairments = {}
        for each in document.get("impairments", ()):
            values = dict(each)
            direction = values.pop("link"), values.pop("toward")
            impairments[direction] = Impairment(**values)
        return cls(shape_of(document["topology"]), impairments)

    def differences(self, other: Description) -> Iterator[str]:
        """What is not the same in `other`, one sentence each: "planes is 2, not 4". Nothing when they are equal."""
        mine, others = self.shape.to_json(), other.shape.to_json()
        for name in dict.fromkeys((*mine, *others)):
            here, there = mine.get(name), others.get(name)
            if here is not None and there is not None and here != there:
                shown = block_text if name == "block" else str
                yield f"{name} is {shown(here)}, not {shown(there)}"
        for link, toward in sorted({*self.impairments, *other.impairments}):
            found = self.impairments.get((link, toward), Impairment())
            asked = other.impairments.get((link, toward), Impairment())
            for key, value, wanted in differing(found, asked):
                yield f"{key} of {link} toward {toward} is {value}, not {wanted}"
