"""A lab in whose hosts the ranks of a job run, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

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

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._lab = lab
        self.folder = folder
        self._port = 29500
        self._running: list[subprocess.Popen[str]] = []

    def run(
        self,
        job: str,
        size: int,
        *,
        backend: str = "mrc",
        expect: Sequence[int] = (),
        torchrun: bool = False,
        **env: str,
    ) -> list[str]:
        """What each rank wrote. They have to end with the exit codes `expect`, 0 where nothing else is said."""
        self._port += 1
        self._running = [self._start(job, rank, size, backend, torchrun, env) for rank in range(size)]
        deadline = time.monotonic() + PATIENCE_S
        written = [process.communicate(timeout=deadline - time.monotonic())[0] for process in self._running]
        codes = [process.returncode for process in self._running]
        assert codes == (list(expect) or [0] * size), "\n".join(written)
        return written

    def _start(
        self, job: str, rank: int, size: int, backend: str, torchrun: bool, env: dict[str, str]
    ) -> subprocess.Popen[str]:
        lab, host = self._lab, f"h{rank}"
        interface = json.loads(lab.fabric_path(host).read_text())["ports"][0]["interface"]
        whole = lab.environment(host) | {"TEST_BACKEND": backend, "GLOO_SOCKET_IFNAME": interface} | env
        address, port = lab.addresses("h0")[0], str(self._port)
        program = [str(PROGRAM), job, str(self.folder)]
        if torchrun:
            options = [f"--nnodes={size}", f"--node-rank={rank}", f"--master-addr={address}", f"--master-port={port}"]
            argv = [sys.executable, "-m", "torch.distributed.run", *options, *program]
        else:
            argv = [sys.executable, *program]
            whole |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": address, "MASTER_PORT": port}
        process: subprocess.Popen[str] = lab.popen(
            host, argv, env=whole, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return process

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
        assert not self._lab.processes()


@pytest.fixture(scope="session", autouse=True)
def need_torch() -> None:
    try:
        version("torch")
    except PackageNotFoundError:
        _missing("torch: pip install mrc[torch]")


@pytest.fixture(scope="session")
def torch_lab(need_torch: None) -> Iterator[Lab]:
    if os.geteuid() != 0:
        _missing("root")
    with Lab.up(f"torch-{os.getpid()}", Clos(planes=2, leaves=2, spines=2, hosts_per_leaf=2)) as built:
        yield built


@pytest.fixture
def jobs(torch_lab: Lab, tmp_path: Path) -> Iterator[Jobs]:
    made = Jobs(torch_lab, tmp_path)
    yield made
    made.close()
