# SPDX-License-Identifier: BSD-2-Clause
"""What a measurement in a lab is made with, and what a comparison changes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mrc.bench.client import BenchOptions
from mrc.bench.terms import LATENCY, WRITE
from mrc.endpoint.config import PATH_MTUS
from mrc.errors import CallerError


@dataclass(frozen=True, slots=True)
class Settings:
    """`size` and `mtu` in bytes; `loss` a share of 1 on every path, each way; `paths` and `depth` None: all there are,
    chosen by the size. Raises CallerError for what no measurement can be made with."""

    size: int = 1 << 20
    seconds: float = 3.0
    qps: int = 1
    idle_qps: int = 0
    paths: int | None = None
    loss: float = 0.0
    mtu: int = 4096
    depth: int | None = None
    latency: bool = False

    def __post_init__(self) -> None:
        if self.mtu not in PATH_MTUS:
            raise CallerError(f"the path MTU must be one of {PATH_MTUS}, got {self.mtu}")
        if not 0 <= self.loss < 1:
            raise CallerError(f"loss must be from 0% and below 100%, got {self.loss:%}")
        options = BenchOptions(self.test, (self.size,), self.seconds, self.qps, self.idle_qps, self.depth)
        options.terms(self.size, self.mtu)

    @property
    def test(self) -> str:
        return LATENCY if self.latency else WRITE

    def changed(self, **changes: object) -> Settings:
        return replace(self, **changes)  # type: ignore[arg-type]

    def arguments(self) -> list[str]:
        """Those of the `mrc bench write` or `latency` that measures so."""
        arguments = ["--size", str(self.size), "--seconds", f"{self.seconds}s", "--mtu", str(self.mtu)]
        arguments += ["--idle-qps", str(self.idle_qps)]
        if not self.latency:
            arguments += ["--qps", str(self.qps)]
            if self.depth is not None:
                arguments += ["--depth", str(self.depth)]
        if self.paths is not None:
            arguments += ["--paths", str(self.paths)]
        return arguments


@dataclass(frozen=True, slots=True)
class Variant:
    """MRC with something changed; `label` is what the results call it."""

    label: str
    settings: Settings
