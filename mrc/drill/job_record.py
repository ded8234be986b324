# SPDX-License-Identifier: BSD-2-Clause
"""What was seen of one training job: when each of its steps ended, and what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mrc.errors import CallerError


@dataclass(frozen=True, slots=True)
class RankRecord:
    """One rank. `ends_ns` and `losses` have a value for each step it finished; `digest` is that of its weights after
    all of them; `error` what ended it before; `ended_ns` when it was over, or knew of the error."""

    began_ns: int
    ended_ns: int
    ends_ns: Sequence[int]
    losses: Sequence[float]
    digest: str | None
    error: str | None

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RankRecord:
        return cls(**document)


@dataclass(frozen=True, slots=True)
class JobRecord:
    """All ranks of a job over one `transport`, under one `weather`. A step has ended when it has at every rank."""

    transport: str
    weather: str
    ranks: Sequence[RankRecord]

    @property
    def began_ns(self) -> int:
        return max(rank.began_ns for rank in self.ranks)

    @property
    def ended_ns(self) -> int:
        """The end of the last step; of a job that failed, when the last rank knew."""
        if self.failed:
            return max(rank.ended_ns for rank in self.ranks)
        return int(self.ends_ns[-1])

    @property
    def failed(self) -> bool:
        return any(rank.error is not None for rank in self.ranks)

    @property
    def errors(self) -> list[str]:
        return [rank.error for rank in self.ranks if rank.error is not None]

    @property
    def ends_ns(self) -> npt.NDArray[np.int64]:
        """Of each step that all ranks finished."""
        finished = min(len(rank.ends_ns) for rank in self.ranks)
        latest: npt.NDArray[np.int64] = np.array([rank.ends_ns[:finished] for rank in self.ranks], np.int64).max(axis=0)
        return latest

    @property
    def steps_s(self) -> npt.NDArray[np.float64]:
        """How long each of these took."""
        return np.diff(np.concatenate([[self.began_ns], self.ends_ns])) / 1e9

    @property
    def took_s(self) -> float:
        return (self.ended_ns - self.began_ns) / 1e9

    def median_step_s(self, until_ns: int) -> float:
        """Of the steps that ended before a moment. Raises CallerError where none did."""
        before = self.steps_s[self.ends_ns < until_ns]
        if not len(before):
            raise CallerError(f"the job over {self.transport} finished no step before the moment asked about")
        return float(np.median(before))

    def losses(self) -> npt.NDArray[np.float64]:
        """Of each step the mean over the ranks."""
        finished = min(len(rank.losses) for rank in self.ranks)
        mean: npt.NDArray[np.float64] = np.array([rank.losses[:finished] for rank in self.ranks]).mean(axis=0)
        return mean

    def to_json(self) -> dict[str, Any]:
        return {
            "transport": self.transport,
            "weather": self.weather,
            "took_s": round(self.took_s, 4),
            "steps_ms": [round(step * 1e3, 2) for step in self.steps_s.tolist()],
            "losses": [round(loss, 6) for loss in self.losses().tolist()],
            "weights_sha256": [rank.digest for rank in self.ranks],
            "errors": self.errors,
        }
