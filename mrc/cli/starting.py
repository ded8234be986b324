# SPDX-License-Identifier: BSD-2-Clause
"""A quick start for commands of which many may start at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """A block that imports what a command runs on: without looking for garbage in it, now and later."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
