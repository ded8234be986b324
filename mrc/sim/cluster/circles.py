# SPDX-License-Identifier: BSD-2-Clause
"""Flows that wait for each other in a circle: none of them would ever start."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mrc.errors import CallerError

_SHOWN = 8


def check_no_circle(count: int, waiting: NDArray[np.int64], wanted: NDArray[np.int64]) -> None:
    """Of `count` flows, flow `waiting[i]` starts after flow `wanted[i]`. Raises CallerError that names a circle."""
    # Most are listed in an order in which they can start.
    if (wanted < waiting).all():
        return
    waits_for: dict[int, list[int]] = {}
    dependents: dict[int, list[int]] = {}
    for flow, before in zip(waiting.tolist(), wanted.tolist(), strict=True):
        waits_for.setdefault(flow, []).append(before)
        dependents.setdefault(before, []).append(flow)
    left = {flow: len(before) for flow, before in waits_for.items()}
    ready = [flow for flow in dependents if flow not in left]
    while ready:
        for flow in dependents.get(ready.pop(), ()):
            left[flow] -= 1
            if not left[flow]:
                del left[flow]
                ready.append(flow)
    if left:
        raise CallerError(f"writes wait for each other in a circle, and none would start: {_text(left, waits_for)}")


def _text(left: dict[int, int], waits_for: dict[int, list[int]]) -> str:
    """`3 after 5 after 3`: a circle among flows that can never start."""
    at, seen = next(iter(left)), dict[int, int]()
    while at not in seen:
        seen[at] = len(seen)
        at = next(before for before in waits_for[at] if before in left)
    circle = [*list(seen)[seen[at] :], at]
    shown = [str(flow) for flow in circle]
    if len(shown) > _SHOWN:
        shown = [*shown[: _SHOWN - 1], f"({len(circle) - _SHOWN:,} more)", shown[-1]]
    return " after ".join(shown)
