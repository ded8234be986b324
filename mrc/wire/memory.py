"""Where the application's memory lies: packets name their payload by its address, and nobody copies it."""

from __future__ import annotations

from typing import Any

import numpy as np


def address_of(buffer: Any) -> int:
    """The address of the first byte of a buffer, 0 for an empty one. It stays there while something holds it."""
    view = memoryview(buffer)
    return int(np.asarray(view).__array_interface__["data"][0]) if view.nbytes else 0
