# SPDX-License-Identifier: BSD-2-Clause
"""Counters of a lab's links, as a drill wants them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mrc.lab import Lab


def counted(lab: Lab, link: str, toward: str) -> dict[str, Any]:
    """What `mrc lab status` reports of one direction of a link."""
    found = next(each for each in lab.status().links if each.name == link)
    return asdict(found.toward[toward])


def total(lab: Lab, counter: str) -> int:
    """One counter over both directions of every link."""
    return sum(int(getattr(way, counter)) for link in lab.status().links for way in link.toward.values())
