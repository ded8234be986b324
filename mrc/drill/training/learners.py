# SPDX-License-Identifier: BSD-2-Clause
"""Models and their data, as a rank uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]


class Examples(Protocol):
    """The data of a job, drawn by seed: no two ranks or steps share an example."""

    def batch(self, rank: int, step: int) -> tuple[Any, Any]:
        """Return the inputs of one rank in one step and what the model is to make of them."""


class Learner(Protocol):
    """A model with its gradient, whose parts are summed over all ranks."""

    def differentiate(self, inputs: Any, wanted: Any, ready: Callable[[F32], None]) -> float:
        """Compute the gradient and return the mean loss. `ready` receives each bucket of the gradient once it is
        filled, while others are still computed."""

    def learn(self, ranks: int) -> None:
        """Change the weights, the gradient being the sum over so many ranks."""

    def digest(self) -> str:
        """Return the SHA-256 of the weights' bytes."""
