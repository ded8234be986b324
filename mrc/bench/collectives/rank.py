# SPDX-License-Identifier: BSD-2-Clause
"""One rank: it measures each size, and prints what it found, a line of JSON for each.

    python -m mrc.bench.collectives.rank JOB           (a `Job` as JSON)

It prints {} once all ranks have come. What ends it early is its last line, {"error": text, "lost": bool}: lost is true
where another rank's end has ended it. Its standard input is the other end of a pipe: a rank ends with who holds that.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from typing import Any

from mrc.bench.collectives.buffers import Buffers
from mrc.bench.collectives.content import origins, wrong_values
from mrc.bench.collectives.plan import Job
from mrc.bench.collectives.transports import Transport, open_transport
from mrc.errors import MrcError
from mrc.threads import start_thread
from mrc.untrusted import own_json


def measure(transport: Transport, job: Job, count: int, place: str) -> dict[str, Any]:
    """Time the calls, then check some: `time_us` of one, `wrong` values, and what the results sum up to."""
    buffers = Buffers.make(job, count, place)
    call = transport.bound(job, buffers)
    buffers.rest(job)
    for _ in range(job.warm_up):
        call()
    transport.barrier()
    cpu, began = time.process_time(), time.perf_counter_ns()
    for _ in range(job.iterations):
        call()
    took, cpu = time.perf_counter_ns() - began, time.process_time() - cpu
    wrong, sums = 0, []
    for repetition in range(job.checks):
        # Nobody sends what is to be checked while another rank still fills its arrays.
        buffers.fill(job, repetition)
        transport.barrier()
        call()
        wrong += wrong_values(buffers.result, job, repetition)
        if origins(job, count):
            sums.append(zlib.crc32(buffers.result.view("uint8").data))
    return {
        "time_us": took / job.iterations / 1e3,
        "cpu_seconds": cpu,
        "wrong": wrong,
        "sums": sums,
    }


def main() -> int:
    given = own_json(sys.argv[1])
    job = Job(**{**given, "counts": tuple(given["counts"])})
    start_thread(_end_with_the_parent, name="mrc parent")
    try:
        with open_transport(job) as transport:
            _tell({})
            for count in job.counts:
                for place in job.operation.places:
                    _tell(measure(transport, job, count, place))
    except MrcError as error:
        from mrc.collectives import RankLost

        _tell({"error": str(error), "lost": isinstance(error, RankLost)})
        return 1
    except RuntimeError as error:
        # What torch raises, at each rank that talks to one that is gone.
        _tell({"error": (str(error).strip().splitlines() or [type(error).__name__])[0], "lost": True})
        return 1
    return 0


def _end_with_the_parent() -> None:
    """Whatever ends the process that started this one, also in the midst of starting it."""
    # Past sys.stdin, whose lock nobody may hold when the interpreter ends.
    while os.read(0, 1):
        pass
    os._exit(1)


def _tell(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)


if __name__ == "__main__":
    sys.exit(main())
