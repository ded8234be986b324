# SPDX-License-Identifier: BSD-2-Clause
"""Runs torch's own DistributedTest cases in one rank, as a program: torch_cases.py BACKEND RANK SIZE FOLDER.

Names of cases come on stdin, one a line; a line of JSON goes to stdout for each: its name, its outcome ("passed",
"skipped" or "failed"), why, and the seconds that it took. Each case has a process group of its own, so groups come and
go in one process as well.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
import unittest
from datetime import timedelta
from pathlib import Path
from typing import Any

BACKEND, RANK, SIZE, FOLDER = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
GROUP_TIMEOUT_S = 60.0
# The cases decide when they are imported which of them a backend can take: all that gloo takes.
os.environ.update(BACKEND="gloo", WORLD_SIZE=str(SIZE), TEMP_DIR=str(FOLDER), MASTER_ADDR="127.0.0.1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal import common_distributed, common_utils  # noqa: E402

# Cases with groups of some ranks are for 8 ranks and more, but for no other reason than that torch's own runs of other
# sizes are meant for something else: three are enough for all of them.
common_distributed.skip_if_small_worldsize = lambda case: case
from torch.testing._internal.distributed import distributed_test as cases  # noqa: E402


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


def outcome_of(name: str) -> dict[str, Any]:
    folder = FOLDER / name
    for each in (folder, folder / "barrier", folder / "test_dir", folder / "init_dir"):
        each.mkdir(parents=True, exist_ok=True)
    before = dict(os.environ)
    os.environ["TEMP_DIR"] = str(folder)
    cases.BACKEND = Name(BACKEND)
    cases.Barrier.barrier_id = 0
    case = Cases(name)
    case.rank, case.file_name = RANK, str(folder / "store")
    began = time.monotonic()
    outcome, why = "passed", ""
    timeout = timedelta(seconds=cases.CUSTOM_PG_TIMEOUT.get(name, GROUP_TIMEOUT_S))
    try:
        common_utils.set_rng_seed()
        dist.init_process_group(
            init_method=case.init_method, backend=BACKEND, world_size=SIZE, rank=RANK, timeout=timeout
        )
        cases.Barrier.sync(timeout=GROUP_TIMEOUT_S)
        getattr(case, name)()
        cases.Barrier.sync(timeout=GROUP_TIMEOUT_S)
    except (unittest.SkipTest, SystemExit) as skipped:
        outcome, why = "skipped", str(skipped)
    except BaseException:
        outcome, why = "failed", traceback.format_exc()
    if outcome != "failed" and dist.is_initialized():
        dist.destroy_process_group()
    os.environ.clear()
    os.environ.update(before)
    dist.set_debug_level(dist.DebugLevel.OFF)
    return {"name": name, "outcome": outcome, "why": why, "seconds": time.monotonic() - began}


def main() -> None:
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    # What cases print belongs to nobody.
    os.dup2(2, 1)
    print(json.dumps({"names": names()}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(outcome_of(line.strip())), file=answers, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
