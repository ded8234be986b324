# SPDX-License-Identifier: BSD-2-Clause
"""Programs on the nodes of a lab that are talked with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from subprocess import Popen
from typing import Any

from mrc.child import Child
from mrc.lab.nodes import LabNodes


def start_on(
    lab: LabNodes,
    node: str,
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    start: Callable[..., Popen[Any]] = Popen,
    **options: Any,
) -> Child:
    """Start `argv` on a node; errors call it `name`.

    `env` and `start` as in `Lab.popen`, `options` are those of Child.
    Raises CallerError for no such node, SystemRefused when the program cannot be started.
    """
    return Child(name, argv, partial(lab.popen, node, start=start), env=env, **options)
