# SPDX-License-Identifier: BSD-2-Clause
"""What groups hold in memory: torch_memory.py BACKEND HELD MADE PORT ..., four words for each job of two ranks.

Prints a line of JSON for each job, the larger of what both ranks found: bytes that HELD groups hold, and that MADE
groups leave which were made and destroyed one after another. BACKEND "subgroups" is HELD and MADE of
`mrc.collectives.Group.subgroup`. Importing torch takes seconds of a processor: each rank is a fork.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

RANKS = 2
WARM_UP = 20


def resident() -> int:
    """Bytes of this process in memory, without what it has freed."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(make: Callable[[], Any], end: Callable[[Any], None], held: int, made: int) -> dict[str, int]:
    for _ in range(WARM_UP):
        end(make())
    before = resident()
    groups = [make() for _ in range(held)]
    found = {"held": resident() - before, "threads": len(os.listdir("/proc/self/task"))}
    while groups:
        end(groups.pop())
    before = resident()
    for _ in range(made):
        end(make())
    return found | {"left": resident() - before}


def of_torch(backend: str, held: int, made: int) -> dict[str, int]:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group(backend)
    dist.all_reduce(torch.ones(4))

    def end(group: dist.ProcessGroup) -> None:
        # A group of gloo's that one rank destroys while another still makes it fails there.
        dist.barrier()
        dist.destroy_process_group(group)

    found = measure(dist.new_group, end, held, made)
    dist.barrier()
    dist.destroy_process_group()
    return found


def of_subgroups(held: int, made: int) -> dict[str, int]:
    import numpy as np

    from mrc.collectives import FileStore, Group
    from mrc.net.device import open_device

    rank = int(os.environ["RANK"])
    with (
        open_device(addresses=[os.environ["MRC_BIND"]]) as device,
        Group(device, FileStore(os.environ["STORE"]), rank, 2) as group,
    ):
        group.all_reduce(np.ones(4)).wait()
        found = measure(lambda: group.subgroup([0, 1]), lambda each: each.close(), held, made)
        # What was closed is closed at both, and what is made now is of use.
        last = group.subgroup([1, 0])
        assert last is not None
        array = np.array([float(rank)])
        last.all_reduce(array).wait()
        assert array[0] == 1.0
        group.barrier().wait()
    return found


def of_a_rank(backend: str, held: int, made: int) -> dict[str, int]:
    return of_subgroups(held, made) if backend == "subgroups" else of_torch(backend, held, made)


def of_job(backend: str, held: int, made: int, port: str) -> dict[str, int]:
    """Two ranks. Ends this program where one of them fails."""
    os.environ.update(MASTER_PORT=port, WORLD_SIZE=str(RANKS))
    reading, writing = os.pipe()
    ranks = []
    for rank in range(RANKS):
        ranks.append(os.fork())
        if not ranks[-1]:
            os.environ["RANK"] = str(rank)
            status = 1
            try:
                os.write(writing, json.dumps(of_a_rank(backend, held, made)).encode() + b"\n")
                status = 0
            except BaseException:
                traceback.print_exc()
            os._exit(status)
    os.close(writing)
    with open(reading) as lines:
        found = [json.loads(line) for line in lines]
    if any(os.waitpid(rank, 0)[1] for rank in ranks):
        sys.exit(f"a rank over {backend} failed")
    return {name: max(each[name] for each in found) for name in found[0]}


def main(words: list[str]) -> None:
    if words[0] != "subgroups":
        import torch.distributed  # noqa: F401
    gc.freeze()
    for at in range(0, len(words), 4):
        backend, held, made, port = words[at : at + 4]
        print(json.dumps(of_job(backend, int(held), int(made), port)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
