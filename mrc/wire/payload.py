"""Memory of the application's that packets carry: named by every packet out of it, copied by none."""

from __future__ import annotations

import numpy as np


class Payload:
    """`view` is the memory; `address` where its first byte really lies, 0 where there is none."""

    __slots__ = ("address", "data", "view")

    def __init__(self, view: memoryview) -> None:
        self.view = self.data = view
        self.address = int(np.frombuffer(view, np.uint8).__array_interface__["data"][0]) if len(view) else 0
