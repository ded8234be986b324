# SPDX-License-Identifier: BSD-2-Clause
"""The names of a fabric's nodes and cables.

Hosts are `h0`, `h1`, ...; leaves `p0l0` (plane 0, leaf 0); spines `p0s0`. A link is named by its two ends, the lower
tier first, within a tier the lower number: `h0-p0l0`, `p0l0-p0s1`, `p0l0-p0l1`.
"""

from __future__ import annotations

import re

from mrc.errors import CallerError
from mrc.records import record

LEAF, SPINE = "l", "s"
_SWITCH = re.compile(r"p(\d+)([ls])(\d+)\Z")
_HOST = re.compile(r"h(\d+)\Z")


def host_name(host: int) -> str:
    return f"h{host}"


def leaf_name(plane: int, leaf: int) -> str:
    return f"p{plane}{LEAF}{leaf}"


def spine_name(plane: int, spine: int) -> str:
    return f"p{plane}{SPINE}{spine}"


def parse_host(name: str) -> int | None:
    """The number of a host; None for any other name."""
    match = _HOST.match(name)
    return None if match is None else int(match[1])


def parse_switch(name: str) -> tuple[int, str, int]:
    """(plane, LEAF or SPINE, number) of a switch's name. Raises CallerError when it is not one."""
    match = _SWITCH.match(name)
    if match is None:
        raise CallerError(f"{name!r} is not a switch name: leaves are p0l0, spines p0s0")
    return int(match[1]), match[2], int(match[3])


@record(frozen=True, slots=True)
class Link:
    """One cable. `lower` is the end nearer to the hosts, and at equal distance the switch of the lower number."""

    lower: str
    upper: str

    @classmethod
    def between(cls, one: str, other: str) -> Link:
        """The cable between two nodes, given in any order. Raises CallerError for two hosts.

        >>> Link.between("p0s1", "p0l0").name
        'p0l0-p0s1'
        """
        return cls(*sorted((one, other), key=_place))

    @property
    def name(self) -> str:
        """Both ends, the lower one first: `p0l0-p0s1`."""
        return f"{self.lower}-{self.upper}"

    @property
    def ends(self) -> tuple[str, str]:
        """The names of both ends, the lower one first."""
        return self.lower, self.upper

    @property
    def is_host_link(self) -> bool:
        """Whether one end is a host."""
        return parse_host(self.lower) is not None

    @property
    def plane(self) -> int:
        """The number of the plane that it is in."""
        return parse_switch(self.upper)[0]


def _place(name: str) -> tuple[str, int]:
    """Sorts hosts before leaves before spines, and each kind by number."""
    host = parse_host(name)
    return ("", host) if host is not None else parse_switch(name)[1:]
