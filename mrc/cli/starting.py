"""A quick start for commands of which many may start at once."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

# How many threads numpy's linear algebra has. It is not used here, and each thread spins for a while as it starts.
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"


@contextmanager
def importing() -> Iterator[None]:
    """A block that imports what a command runs on: without looking for garbage in it, now and later."""
    chosen = os.environ.get(_BLAS_THREADS)
    os.environ[_BLAS_THREADS] = chosen or "1"
    gc.disable()
    try:
        import numpy  # noqa: F401 - while the variable is set, which is not for the processes this one starts

        yield
    finally:
        if chosen is None:
            del os.environ[_BLAS_THREADS]
        gc.freeze()
        gc.enable()
