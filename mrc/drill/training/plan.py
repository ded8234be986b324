# SPDX-License-Identifier: BSD-2-Clause
"""The job of one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

MRC, TCP, MPTCP = "mrc", "tcp", "mptcp"
# What is trained: a model in numpy, and one in PyTorch.
PERCEPTRON, TRANSFORMER = "perceptron", "transformer"
STEPS = 100


@dataclass(frozen=True, slots=True)
class RankPlan:
    """One rank of `ranks` that trains `model` over one `transport`.

    `store` is an empty folder that all ranks see, `address` what gloo listens on. Gloo gives up a sum that is not done
    after `timeout_s`.
    """

    transport: str
    rank: int
    ranks: int
    seed: int
    store: str
    address: str
    timeout_s: float
    steps: int = STEPS
    model: str = PERCEPTRON

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RankPlan:
        return cls(**document)
