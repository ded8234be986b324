# SPDX-License-Identifier: BSD-2-Clause
"""What is to be measured, and what each rank gets of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mrc.bench.collectives.kinds import DTYPES, FLOATS, KINDS, REDOPS, Kind
from mrc.errors import CallerError
from mrc.fabric import Clos

MOST_SIZES = 64
MOST_BYTES = 1 << 32


def swept(least: int, most: int, factor: int) -> tuple[int, ...]:
    """`least` and each `factor` times the one before, up to `most`. Raises CallerError for none, and for too many."""
    if least > most:
        raise CallerError(f"--minbytes ({least}) is above --maxbytes ({most})")
    sizes = [least]
    while (following := sizes[-1] * factor) <= most and len(sizes) <= MOST_SIZES:
        sizes.append(following)
    if len(sizes) > MOST_SIZES:
        raise CallerError(f"these are more than {MOST_SIZES} sizes: take a larger --stepfactor")
    return tuple(sizes)


@dataclass(frozen=True, slots=True)
class CollectivesPlan:
    """One operation of `ranks` processes on `hosts` hosts, each of `sizes` bytes, `rounds` times over each transport.

    `iterations` calls are timed after `warm_up` that are not; then `checks` calls are compared with numpy's result.
    `link_rate_bps` limits every link, each way. Raises CallerError for what cannot be measured.
    """

    kind: Kind
    sizes: tuple[int, ...]
    ranks: int = 2
    hosts: int = 2
    dtype: str = "float"
    redop: str = "sum"
    root: int = 0
    iterations: int = 20
    warm_up: int = 5
    checks: int = 1
    rounds: int = 3
    planes: int = 2
    spines: int = 4
    link_rate_bps: int | None = None
    baselines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise CallerError(f"--datatype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        if self.redop not in REDOPS:
            raise CallerError(f"--op must be one of {', '.join(REDOPS)}, got {self.redop!r}")
        if self.redop == "avg" and self.dtype not in FLOATS:
            raise CallerError(f"--op avg is for {', '.join(FLOATS)}, not for {self.dtype}")
        if self.ranks < self.hosts:
            raise CallerError(
                f"--ranks ({self.ranks}) must be at least --hosts ({self.hosts}): each host runs one or more"
            )
        if not 0 <= self.root < self.ranks:
            raise CallerError(f"--root must be a rank, 0..{self.ranks - 1}, got {self.root}")
        least = self.kind.least_size(self.itemsize, self.ranks)
        if not self.sizes or min(self.sizes) < least or max(self.sizes) > MOST_BYTES:
            raise CallerError(
                f"--minbytes must be {least}..{MOST_BYTES} for {self.kind.name} of {self.dtype} at {self.ranks} ranks"
            )

    @property
    def itemsize(self) -> int:
        """Bytes of a value. The name ends with its bits: a command asks before it has a use for numpy."""
        return int(re.sub("[a-z]", "", DTYPES[self.dtype])) // 8

    @property
    def shape(self) -> Clos:
        """Every host has leaves of its own, so all that goes from host to host crosses spines."""
        return Clos(planes=self.planes, leaves=self.hosts, spines=self.spines)

    @property
    def places(self) -> tuple[str, ...]:
        """The host of each rank: neighbouring ranks share one."""
        return tuple(f"h{rank * self.hosts // self.ranks}" for rank in range(self.ranks))

    @property
    def counts(self) -> tuple[int, ...]:
        """Values in a call, one for each size."""
        return tuple(self.kind.count(size, self.itemsize, self.ranks) for size in self.sizes)

    def job(self, transport: str, rank: int, store: str) -> Job:
        return Job(
            transport=transport,
            kind=self.kind.name,
            counts=self.counts,
            dtype=DTYPES[self.dtype],
            redop=self.redop,
            root=self.root,
            iterations=self.iterations,
            warm_up=self.warm_up,
            checks=self.checks,
            rank=rank,
            ranks=self.ranks,
            store=store,
        )


@dataclass(frozen=True, slots=True)
class Job:
    """What one rank does. `transport` is `mrc` or `gloo`, `dtype` numpy's name, `store` a folder that all ranks see."""

    transport: str
    kind: str
    counts: tuple[int, ...]
    dtype: str
    redop: str
    root: int
    iterations: int
    warm_up: int
    checks: int
    rank: int
    ranks: int
    store: str

    @property
    def operation(self) -> Kind:
        return KINDS[self.kind]
