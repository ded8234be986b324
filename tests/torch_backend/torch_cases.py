# SPDX-License-Identifier: BSD-2-Clause
"""Runs torch's own DistributedTest cases, as a program: torch_cases.py FOLDER DESCRIPTOR...

Importing them takes seconds of a processor: each rank is a fork, and has one of the descriptors, a socket. A line of
JSON comes there for each case, [backend, name], and one goes back: its name, its outcome ("passed", "skipped" or
"failed"), why, and the seconds that it took. Cases share the default group, as making one costs more than most of them
compute, except those whose waits end it. The groups that a case makes end with it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys
import time
import traceback
import unittest
from datetime import timedelta
from pathlib import Path
from typing import Any

from torch_ready import OF_A_GROUP

FOLDER, SIZE = Path(sys.argv[1]), len(sys.argv) - 2
GROUP_TIMEOUT_S = 60.0
# The cases decide when they are imported which of them a backend can take: all that gloo takes.
os.environ.update(BACKEND="gloo", WORLD_SIZE=str(SIZE), TEMP_DIR=str(FOLDER), MASTER_ADDR="127.0.0.1")
# It would go through all that is imported.
gc.disable()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal import common_distributed, common_utils  # noqa: E402

# Cases with groups of some ranks are for 8 ranks and more, but for no other reason than that torch's own runs of other
# sizes are meant for something else: three are enough for all of them.
common_distributed.skip_if_small_worldsize = lambda case: case
from torch.testing._internal.distributed import distributed_test as cases  # noqa: E402

# torch has loaded no extensions: this registers the backend, and loads no more of it.
import mrc.torch  # noqa: E402, F401


class Clock:
    """The time, for the cases. Twice in each of them all ranks meet, and look whether they have met every 100 ms."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        time.sleep(0.01 if seconds == 0.1 else seconds)


cases.time = Clock()
assert dist.is_backend_available("mrc")
assert "mrc.net.node" not in sys.modules
# Once, not in each rank.
for module in OF_A_GROUP:
    importlib.import_module(module)


class Name(str):
    """The backend's name. What a case does for gloo only, comparing names, it does for this one."""

    def __eq__(self, other: object) -> bool:
        return other in (str(self), "gloo")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash("gloo")


class Cases(cases.TestDistBackend, cases.DistributedTest._DistTestBase):  # type: ignore[misc]
    """All of them. A case is run by `outcome_of`, in this process."""


def names() -> list[str]:
    return [name for name in unittest.TestLoader().getTestCaseNames(Cases) if callable(getattr(Cases, name))]


def outcome_of(rank: int, backend: str, name: str) -> dict[str, Any]:
    folder = FOLDER / backend / name
    for each in (folder, folder / "barrier", folder / "test_dir", folder / "init_dir"):
        each.mkdir(parents=True, exist_ok=True)
    before = dict(os.environ)
    os.environ["TEMP_DIR"] = str(folder)
    cases.BACKEND = Name(backend)
    cases.Barrier.barrier_id = 0
    case = Cases(name)
    case.rank, case.file_name = rank, str(folder / "store")
    began = time.monotonic()
    outcome, why = "passed", ""
    timeout = timedelta(seconds=cases.CUSTOM_PG_TIMEOUT.get(name, GROUP_TIMEOUT_S))
    ends_it = "timeout" in name or name in cases.CUSTOM_PG_TIMEOUT
    try:
        common_utils.set_rng_seed()
        if dist.is_initialized() and (ends_it or dist.get_backend() != backend):
            dist.destroy_process_group()
        if not dist.is_initialized():
            dist.init_process_group(
                init_method=case.init_method, backend=backend, world_size=SIZE, rank=rank, timeout=timeout
            )
        cases.Barrier.sync(timeout=GROUP_TIMEOUT_S)
        getattr(case, name)()
        cases.Barrier.sync(timeout=GROUP_TIMEOUT_S)
    except (unittest.SkipTest, SystemExit) as skipped:
        outcome, why = "skipped", str(skipped)
    except BaseException:
        outcome, why = "failed", traceback.format_exc()
    if outcome != "failed" and dist.is_initialized():
        for group in [None] if ends_it else list(dist.distributed_c10d._world.pg_map):
            if group is not dist.group.WORLD:
                dist.destroy_process_group(group)
    os.environ.clear()
    os.environ.update(before)
    dist.set_debug_level(dist.DebugLevel.OFF)
    return {"name": name, "outcome": outcome, "why": why, "seconds": time.monotonic() - began}


def run(rank: int, asked: socket.socket) -> None:
    torch.set_num_threads(1)
    with asked.makefile("rw") as lines:
        print(json.dumps({"names": names()}), file=lines, flush=True)
        for line in lines:
            print(json.dumps(outcome_of(rank, *json.loads(line))), file=lines, flush=True)


def main() -> None:
    gc.freeze()
    gc.enable()
    asked = [socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[2:]]
    for rank, mine in enumerate(asked):
        if not os.fork():
            # One that others held open too would not end with its rank.
            for other in asked:
                if other is not mine:
                    other.close()
            run(rank, mine)
            os._exit(0)


if __name__ == "__main__":
    main()
