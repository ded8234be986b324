# SPDX-License-Identifier: BSD-2-Clause
"""A lab in whose hosts the ranks of a job run, each a process of its own."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from patience import eventually
from torch_ranks import Rank, Ready

from mrc.fabric import Clos
from mrc.lab import Lab

PROGRAM = Path(__file__).with_name("torch_rank.py")
# A job takes seconds; importing torch in four processes on a busy machine takes many of them.
PATIENCE_S = 240.0


def _missing(what: str) -> None:
    """Skip, or fail where everything is supposed to be installed."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"needs {what}")
    pytest.skip(f"needs {what}")


class Jobs:
    """Runs jobs of torch_rank.py, one rank a host."""

    def __init__(self, lab: Lab, ready: Ready, folder: Path) -> None:
        self._lab = lab
        self._ready = ready
        self.folder = folder
        self._port = 29500
        self._running: list[Rank] = []
        self._what = ""

    def run(
        self,
        job: str,
        size: int,
        *,
        backend: str = "mrc",
        expect: Sequence[int] = (),
        **env: str,
    ) -> list[str]:
        """What each rank wrote. They have to end with the exit codes `expect`, 0 where nothing else is said."""
        self._port += 1
        program = [str(PROGRAM), job, str(self.folder)]
        address, port = self._lab.addresses("h0")[0], str(self._port)
        settings = {"TEST_BACKEND": backend, **env}
        self._running = []
        self._what = f"{job} over {backend}"
        for rank in range(size):
            job_of = {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": address, "MASTER_PORT": port}
            self._running.append(self._ready.start(f"h{rank}", program, self._environment(rank) | settings | job_of))
        return self._ended(expect)

    def run_until_it_ends_well(self, program: Path, size: int, **env: str) -> list[str]:
        """What torchrun and its processes wrote on each host, started again on all of them until all have ended well.
        The hosts know their own addresses and no fabric."""
        from torch.distributed import run

        self._port += 1
        self._what = f"{program} until it ends well"
        where = ["--nnodes", str(size), "--master-addr", self._lab.addresses("h0")[0], "--master-port", str(self._port)]
        written = [""] * size
        for _ in range(3):
            self._running = []
            for rank in range(size):
                argv = [run.__file__, *where, "--node-rank", str(rank), str(program)]
                bound = {"MRC_FABRIC": "", "MRC_BIND": ",".join(self._lab.addresses(f"h{rank}"))}
                self._running.append(self._ready.start(f"h{rank}", argv, self._environment(rank) | bound | env))
            written = [before + now for before, now in zip(written, self._written(), strict=True)]
            if not any(process.returncode for process in self._running):
                return written
        raise AssertionError("\n".join([self._what, *written]))

    def _ended(self, expect: Sequence[int] = ()) -> list[str]:
        written = self._written()
        codes = [process.returncode for process in self._running]
        assert codes == (list(expect) or [0] * len(codes)), "\n".join([self._what, *written])
        return written

    def _written(self) -> list[str]:
        deadline = time.monotonic() + PATIENCE_S
        return [process.communicate(timeout=deadline - time.monotonic())[0] for process in self._running]

    def _environment(self, rank: int) -> dict[str, str]:
        host = f"h{rank}"
        interface = json.loads(self._lab.fabric_path(host).read_text())["ports"][0]["interface"]
        return self._lab.environment(host) | {"GLOO_SOCKET_IFNAME": interface}

    def saved(self, rank: int, backend: str = "mrc") -> Any:
        """The document of tensors that a rank left."""
        import torch

        return torch.load(self.folder / f"{backend}-{rank}.pt")

    def told(self, rank: int) -> Any:
        """The JSON document that a rank left."""
        return json.loads((self.folder / f"{rank}.json").read_text())

    def close(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.communicate()
        # A child that outlived its rank ends when it sees that all is over.
        eventually(lambda: not self._lab.processes())


@pytest.fixture(scope="session", autouse=True)
def need_torch() -> None:
    try:
        version("torch")
    except PackageNotFoundError:
        _missing("torch: pip install softmrc[torch]")


@pytest.fixture(scope="session")
def torch_lab(need_torch: None) -> Iterator[Lab]:
    if os.geteuid() != 0:
        _missing("root")
    with Lab.up(f"torch-{os.getpid()}", Clos(planes=2, leaves=2, spines=2, hosts_per_leaf=2)) as built:
        yield built


@pytest.fixture(scope="session")
def ready(torch_lab: Lab) -> Iterator[Ready]:
    made = Ready(torch_lab)
    yield made
    made.close()


@pytest.fixture
def jobs(torch_lab: Lab, ready: Ready, tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(torch_lab, ready, tmp_path)
    yield made
    made.close()
