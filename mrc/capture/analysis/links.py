# SPDX-License-Identifier: BSD-2-Clause
"""On which links the losses of a path, a switch or a plane may lie: those that all of its paths take, without those
that other packets came through meanwhile. Where a packet is lost nobody sees; those that came show where it was not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from mrc.capture.analysis.direction import Direction
from mrc.capture.analysis.figures import AnyPath
from mrc.capture.analysis.finding import Finding
from mrc.capture.analysis.path_findings import stands_out
from mrc.capture.frames import Bools

_OF_LOSSES = ("lossy-path", "lossy-plane", "lossy-switch", "dead-path", "dead-plane", "dead-switch")
# More are no help.
_MOST = 3

# From one node to the next in the direction of travel; of the first link only its end is in a route.
Link = str


def links_of(path: AnyPath) -> list[Link]:
    """The links of a route that names its nodes, in order."""
    nodes = path.way.split(">")
    if len(nodes) < 2:
        return []
    return [f">{nodes[0]}", *(f"{one}>{other}" for one, other in pairwise(nodes))]


def with_links(found: Sequence[Finding], directions: Sequence[Direction]) -> list[Finding]:
    """Findings about losses, with the links that these may lie on."""
    if not any(each.kind in _OF_LOSSES for each in found):
        return list(found)
    by_name = {each.figures.name: each for each in directions}
    named = []
    for each in found:
        links: tuple[Link, ...] = ()
        if each.kind in _OF_LOSSES and each.qp in by_name:
            evs = set(each.evs) if each.ev is None else {each.ev}
            links = tuple(_suspects(by_name[each.qp], evs, directions))
        if links:
            each = replace(each, text=each.text + on_links(links), links=links)
        named.append(each)
    return named


def _suspects(direction: Direction, evs: set[int], directions: Sequence[Direction]) -> list[Link]:
    paths = [path for path in direction.figures.paths if path.ev in evs and path.packets]
    common = [link for link in links_of(paths[0]) if all(link in links_of(path) for path in paths)] if paths else []
    requests = direction.fates.requests
    of_these = np.isin(requests["ev"], list(evs))
    times = requests["time"][of_these & direction.lost]
    if not common or not len(times):
        return []
    # What came through before it began, or after it was over, shows nothing.
    span = int(times.min()), int(times.max())
    lost, sent = _during(direction, of_these, span)
    through: dict[Link, list[int]] = defaultdict(lambda: [0, 0])
    for other in directions:
        for path in other.figures.paths:
            if path.lost is None or not path.packets or (other is direction and path.ev in evs):
                continue
            elsewhere = _during(other, other.fates.requests["ev"] == path.ev, span)
            for link in links_of(path):
                through[link][0] += elsewhere[0]
                through[link][1] += elsewhere[1]
    left = [link for link in common if not stands_out(lost, sent, through[link][0], through[link][1], 1)]
    # Of one path the route says as much where all of them are left.
    helps = len(left) < len(common) or len(paths) > 1
    return left if helps and len(left) <= _MOST else []


def _during(direction: Direction, which: Bools, span: tuple[int, int]) -> tuple[int, int]:
    """How many of these packets were lost, and how many sent, in a span of time."""
    time = direction.fates.requests["time"]
    inside = which & (time >= span[0]) & (time <= span[1])
    return int((inside & direction.lost).sum()), int(inside.sum())


def links_of_none(slow: Sequence[AnyPath], others: Sequence[AnyPath]) -> tuple[Link, ...]:
    """The links that all of the slow paths take and none of the others, which are not slow; none where these are too
    many to help."""
    taken = {link for path in others for link in links_of(path)}
    common = [link for link in links_of(slow[0]) if all(link in links_of(path) for path in slow)]
    left = tuple(link for link in common if link not in taken)
    return left if len(left) <= _MOST else ()


def on_links(links: tuple[Link, ...], origin: str = "sender") -> str:
    """In words, to stand behind a sentence: which links these are, of packets that `origin` sent."""
    return f"; on the link {_words(links, origin)}" if links else ""


def _words(links: tuple[Link, ...], origin: str) -> str:
    said = [f"from the {origin} to {link[1:]}" if link.startswith(">") else link for link in links]
    return " or ".join(said) if len(said) < 3 else f"{', '.join(said[:-1])} or {said[-1]}"
