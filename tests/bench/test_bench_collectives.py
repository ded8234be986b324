# SPDX-License-Identifier: BSD-2-Clause
"""`mrc bench allreduce` and its siblings, without a lab: counts and formulas, the check, table, document."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc.bench.collectives import ranks as ranks_module
from mrc.bench.collectives.buffers import Buffers
from mrc.bench.collectives.content import origins, stream, wrong_values
from mrc.bench.collectives.kinds import DTYPES, IN_PLACE, KINDS, OUT_OF_PLACE, REDOPS
from mrc.bench.collectives.plan import CollectivesPlan, Job, swept
from mrc.bench.collectives.rank import measure
from mrc.bench.collectives.run import Results, document
from mrc.bench.collectives.subjects import BASELINES, Collective, make_subjects, row_of
from mrc.bench.collectives.table import header, ratios, table
from mrc.bench.rounds import Rounds
from mrc.cli import bench_collectives as command
from mrc.errors import CallerError, PeerError, SystemRefused
from mrc.lab import Lab


def plan(name: str = "allreduce", **changes: Any) -> CollectivesPlan:
    return CollectivesPlan(KINDS[name], changes.pop("sizes", (1024,)), **changes)


# ---------------------------------------------------------------------- nccl-tests


@pytest.mark.parametrize(
    ("name", "factors"),
    [  # doc/PERFORMANCE.md, "Summary", at 2, 4 and 8 ranks; sendrecv: src/sendrecv.cu
        ("allreduce", [1.0, 1.5, 1.75]),
        ("reducescatter", [0.5, 0.75, 0.875]),
        ("allgather", [0.5, 0.75, 0.875]),
        ("alltoall", [0.5, 0.75, 0.875]),
        ("broadcast", [1.0, 1.0, 1.0]),
        ("reduce", [1.0, 1.0, 1.0]),
        ("sendrecv", [1.0, 1.0, 1.0]),
    ],
)
def test_factors_of_the_bus_bandwidth(name: str, factors: list[float]) -> None:
    assert [KINDS[name].factor(ranks) for ranks in (2, 4, 8)] == factors


@pytest.mark.parametrize(
    ("name", "size", "itemsize", "ranks", "count", "told"),
    [
        ("allreduce", 1003, 4, 3, 250, 1000),
        # (1000 / 4 / 3) & ~(16 / 4 - 1) = 80 values of each rank.
        ("allgather", 1000, 4, 3, 80, 960),
        ("reducescatter", 1000, 2, 3, 160, 960),
        ("alltoall", 1 << 20, 8, 4, 32768, 1 << 20),
        ("sendrecv", 1 << 20, 8, 4, 131072, 1 << 20),
    ],
)
def test_counts(name: str, size: int, itemsize: int, ranks: int, count: int, told: int) -> None:
    kind = KINDS[name]
    assert kind.count(size, itemsize, ranks) == count
    assert kind.size(count, itemsize, ranks) == told
    assert kind.count(kind.least_size(itemsize, ranks), itemsize, ranks) >= 1
    assert kind.count(kind.least_size(itemsize, ranks) - 1, itemsize, ranks) == 0


def test_a_row_is_the_mean_of_the_ranks() -> None:
    told = [{"time_us": us, "wrong": wrong, "sums": [7], "cpu_seconds": 1.0} for us, wrong in ((80.0, 0), (120.0, 3))]
    row = row_of(plan(sizes=(1 << 20,), ranks=2), 262144, IN_PLACE, told)
    # 2^20 bytes in 100 us.
    assert row["time_us"] == 100.0
    assert row["algbw_gbytes_per_s"] == pytest.approx(10.48576)
    assert row["busbw_gbytes_per_s"] == pytest.approx(10.48576)
    assert (row["wrong"], row["ranks_identical"], row["cpu_seconds"]) == (3, True, 2.0)
    told[1]["sums"] = [8]
    assert row_of(plan(), 256, IN_PLACE, told)["ranks_identical"] is False
    assert row_of(plan("reducescatter"), 128, IN_PLACE, told)["ranks_identical"] is None


def test_sizes() -> None:
    assert swept(8, 128, 2) == (8, 16, 32, 64, 128)
    assert swept(1000, 5000, 4) == (1000, 4000)
    assert swept(64, 64, 4) == (64,)
    with pytest.raises(CallerError, match="above --maxbytes"):
        swept(65, 64, 2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ranks": 2, "hosts": 3}, "at least --hosts"),
        ({"root": 2}, r"0\.\.1"),
        ({"redop": "avg", "dtype": "int32"}, "avg is for"),
        ({"sizes": (2,)}, r"minbytes must be 4\.\."),
        ({"sizes": (1 << 33,)}, "minbytes"),
        ({"dtype": "int16"}, "datatype"),
        ({"redop": "xor"}, "op must"),
    ],
)
def test_plans_there_are_not(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(CallerError, match=said):
        plan(**changes)
    with pytest.raises(CallerError, match=r"minbytes must be 48\.\."):
        plan("allgather", sizes=(47,), ranks=3)


def test_neighbours_share_a_host() -> None:
    assert plan(ranks=4, hosts=2).places == ("h0", "h0", "h1", "h1")
    assert plan(ranks=5, hosts=2).places == ("h0", "h0", "h0", "h1", "h1")
    assert plan(ranks=3, hosts=3).places == ("h0", "h1", "h2")
    assert plan(ranks=3, hosts=3).shape.leaves == 3


def test_the_command_offers_what_there_is() -> None:
    assert tuple(command.COMMANDS) == tuple(KINDS)
    assert tuple(DTYPES) == command.DTYPES
    assert command.REDOPS == REDOPS
    assert command.BASELINES == BASELINES


# ---------------------------------------------------------------------- the check


def jobs(name: str, ranks: int, dtype: str = "int32", redop: str = "sum", count: int = 5, **more: Any) -> list[Job]:
    settings = {"iterations": 2, "warm_up": 1, "checks": 2, "root": ranks - 1} | more
    return [
        Job("mrc", name, (count,), dtype, redop, rank=rank, ranks=ranks, store="", **settings) for rank in range(ranks)
    ]


REDUCE: dict[str, Callable[..., Any]] = {
    "sum": np.add.reduce,
    "prod": np.multiply.reduce,
    "min": np.minimum.reduce,
    "max": np.maximum.reduce,
    "avg": lambda inputs, axis: np.add.reduce(inputs, axis=axis) / len(inputs),
}


def carried_out(name: str, buffers: list[Buffers], redop: str, root: int) -> None:
    """The operation, by hand, in one process."""
    sources = [each.source.copy() for each in buffers]
    count, ranks = len(buffers[0].result), len(buffers)
    for rank, each in enumerate(buffers):
        if name in ("allreduce", "reducescatter", "reduce"):
            whole = REDUCE[redop](np.stack(sources), axis=0).astype(sources[0].dtype)
            if name == "reduce" and rank != root:
                continue
            each.result[:] = whole[rank * count : (rank + 1) * count] if name == "reducescatter" else whole
        elif name == "allgather":
            each.result[:] = np.concatenate(sources)
        elif name == "alltoall":
            part = count // ranks
            each.result[:] = np.concatenate([source[rank * part : (rank + 1) * part] for source in sources])
        elif name == "broadcast":
            each.result[:] = sources[root]
        else:
            each.result[:] = sources[rank - 1]


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize(("name", "place"), [(kind.name, place) for kind in KINDS.values() for place in kind.places])
def test_the_check_finds_each_wrong_value(name: str, place: str, ranks: int) -> None:
    """70,000 values: more than one generator gives."""
    count = 70_000
    all_jobs = jobs(name, ranks, count=count)
    buffers = [Buffers.make(job, count, place) for job in all_jobs]
    for job, each in zip(all_jobs, buffers, strict=True):
        each.fill(job, 1)
    carried_out(name, buffers, "sum", ranks - 1)
    for job, each in zip(all_jobs, buffers, strict=True):
        assert wrong_values(each.result, job, 1) == 0
        if origins(job, count):
            each.result[[0, 65_536, -1]] += 1
            assert wrong_values(each.result, job, 1) == 3
            assert wrong_values(each.result, job, 0) > len(each.result) * 0.99


@pytest.mark.parametrize("redop", REDOPS)
@pytest.mark.parametrize("dtype", DTYPES.values())
def test_the_check_of_each_type(dtype: str, redop: str) -> None:
    if redop == "avg" and "float" not in dtype:
        pytest.skip("avg is for floats")
    count, ranks = 1000, 8
    all_jobs = jobs("allreduce", ranks, dtype, redop, count)
    buffers = [Buffers.make(job, count, IN_PLACE) for job in all_jobs]
    for job, each in zip(all_jobs, buffers, strict=True):
        each.fill(job, 0)
    sources = [each.source.copy() for each in buffers]
    # In another order, in the type itself: as a ring reduces.
    whole = sources[3]
    for source in sources[4:] + sources[:3]:
        with np.errstate(over="ignore"):
            whole = REDUCE["sum" if redop == "avg" else redop](np.stack([whole, source]), axis=0).astype(dtype)
    whole = (whole / ranks).astype(dtype) if redop == "avg" else whole
    assert wrong_values(whole, all_jobs[0], 0) == 0
    # One rank left out is noticed, and so is what is no number.
    if redop in ("sum", "avg"):
        assert wrong_values((whole - sources[0]).astype(dtype), all_jobs[0], 0) > count * 0.9
    if "float" in dtype:
        whole[7] = np.nan
        assert wrong_values(whole, all_jobs[0], 0) == 1


def test_what_ranks_put_in_differs() -> None:
    streams = [stream(rank, repetition, "int64", "sum", 0, 100) for rank in range(3) for repetition in range(3)]
    assert len({each.tobytes() for each in streams}) == 9
    whole = stream(1, 2, "float32", "sum", 0, 200_000)
    assert (stream(1, 2, "float32", "sum", 65_000, 70_000) == whole[65_000:135_000]).all()


class Wrong:
    """A transport that forgets one value."""

    def __init__(self) -> None:
        self.calls = 0

    def barrier(self) -> None:
        """There is one rank."""

    def bound(self, job: Job, buffers: Buffers) -> Callable[[], None]:
        def call() -> None:
            self.calls += 1
            buffers.result[1] = 0

        return call


def test_a_measurement_of_one_rank() -> None:
    job, transport = jobs("allreduce", 1, "float32", count=100)[0], Wrong()
    told = measure(transport, job, 100, IN_PLACE)
    assert transport.calls == 1 + 2 + 2
    assert told["wrong"] == 2
    assert told["time_us"] > 0
    assert len(told["sums"]) == 2


# ---------------------------------------------------------------------- table and document


def results(name: str = "allreduce", wrong: int = 0, **changes: Any) -> Results:
    """MRC in 100 and 200 us, then 300 and 200; gloo in twice the time of each."""
    measured = plan(name, sizes=(1 << 10, 1 << 20), baselines=("gloo",), rounds=2, **changes)

    def run(factor: float, faulty: int) -> dict[str, Any]:
        rows = []
        for count, us in zip(measured.counts, (100.0 * factor, 200.0), strict=True):
            for place in measured.kind.places:
                told = [{"time_us": us, "wrong": faulty, "sums": [1], "cpu_seconds": 0.5} for _ in range(2)]
                rows.append(row_of(measured, count, place, told))
        return {"rows": rows}

    return Results(measured, Rounds({"mrc": [run(1, wrong), run(3, 0)], "gloo": [run(2, 0), run(6, 0)]}))


def test_the_table_is_that_of_nccl_tests() -> None:
    assert table(results(), "mrc") == [
        "#",
        "# mrc",
        "#                                                                in-place",
        "#       size         count      type   redop    root     time   algbw   busbw  #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)",
        "        1024           256     float     sum      -1    200.0  0.0068  0.0068       0",
        "     1048576        262144     float     sum      -1    200.0    5.24    5.24       0",
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : 2.62485",
    ]


def test_both_places_stand_side_by_side() -> None:
    lines = table(results("allgather"), "mrc")
    assert lines[2].split() == ["#", "out-of-place", "in-place"]
    assert lines[3].split() == [
        "#",
        "size",
        "count",
        "type",
        "redop",
        "root",
        *2 * ["time", "algbw", "busbw", "#wrong"],
    ]
    assert lines[6].split() == ["1048576", "131072", "float", "none", "-1", *2 * ["200.0", "5.24", "2.62", "0"]]
    assert not any("only" in line for line in header(results("allgather")))
    assert any(line.startswith("# in place only") for line in header(results()))
    assert any(line.startswith("# out of place only") for line in header(results("sendrecv")))


def test_what_is_wrong_is_told() -> None:
    found = results(wrong=3)
    assert found.faults == ["mrc: 12 values are not what numpy computes"]
    assert "# Out of bounds values : 12 FAILED" in table(found, "mrc")
    assert "# Out of bounds values : 0 OK" in table(found, "gloo")
    unchecked = results(checks=0)
    assert unchecked.faults == []
    assert table(unchecked, "mrc")[5].endswith("N/A")
    assert not any("bounds" in line for line in table(unchecked, "mrc"))


def test_ratios_are_those_of_the_rounds() -> None:
    assert ratios(results()) == [
        "",
        "  busbw            mrc/gloo",
        "   1024  in-place  2.000 (2.000..2.000)",
        "1048576  in-place  1.000 (1.000..1.000)",
    ]


def test_the_document() -> None:
    told = json.loads(json.dumps(document(results())))
    assert (told["operation"], told["redop"], told["root"], told["ranks"]) == ("allreduce", "sum", None, 2)
    first = told["subjects"]["mrc"]["sizes"][0]
    assert (first["size_bytes"], first["count"], first["place"]) == (1024, 256, IN_PLACE)
    assert (first["time_us"], first["spread"]["time_us"], first["wrong"]) == (200.0, [100.0, 300.0], 0)
    assert [each["time_us"] for each in first["rounds"]] == [100.0, 300.0]
    assert first["ranks_identical"] is True
    assert told["pair_ratio"]["mrc/gloo"][0] == {
        "size_bytes": 1024,
        "place": IN_PLACE,
        "busbw_gbytes_per_s": {"median": 2.0, "min": 2.0, "max": 2.0},
    }
    assert told["lab"]["link_rate_bps"] is None
    assert document(results("reduce"))["root"] == 0
    assert document(results("sendrecv"))["subjects"]["gloo"]["sizes"][0]["place"] == OUT_OF_PLACE


# ---------------------------------------------------------------------- ranks and baselines


class Here(Lab):
    """A lab whose every host is this one, and whose ranks run the programs they are given."""

    def __init__(self, programs: list[str]) -> None:
        self._programs = list(programs)

    def popen(self, node: str, argv: Any, env: Any = None, start: Any = None, **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen([sys.executable, "-c", self._programs.pop(0)], **options)


@contextmanager
def running(*programs: str) -> Iterator[ranks_module.Ranks]:
    places = [f"h{number}" for number in range(len(programs))]
    with ranks_module.started(Here(list(programs)), jobs("allreduce", len(programs)), places, {}) as ranks:
        yield ranks


SAYS = "import json; print(json.dumps({'time_us': %d}), flush=True);"


def test_ranks_are_heard_in_order() -> None:
    with running(SAYS % 1 + SAYS % 3, SAYS % 2 + SAYS % 4) as ranks:
        assert [each["time_us"] for each in ranks.hear(30)] == [1, 2]
        assert [each["time_us"] for each in ranks.hear(30)] == [3, 4]
        ranks.end(30)


LOST = "import json, sys; print(json.dumps({'error': 'rank 1 is gone', 'lost': True}), flush=True); sys.exit(1)"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import os; os.kill(os.getpid(), 9)", "rank 1 on h1 failed: killed by signal 9"),
        ("import sys; sys.exit('no such thing')", "rank 1 on h1 failed: no such thing"),
        ("import json; print(json.dumps({'error': 'no memory', 'lost': False}))", "rank 1 on h1 failed: no memory"),
    ],
)
def test_the_error_is_that_of_the_rank_that_failed(program: str, said: str) -> None:
    with running(LOST, program) as ranks, pytest.raises(PeerError) as caught:
        ranks.hear(30)
    assert str(caught.value) == said


def test_a_rank_that_fails_at_its_end() -> None:
    with running(SAYS % 1, SAYS % 2 + "import sys; sys.exit(3)") as ranks:
        ranks.hear(30)
        with pytest.raises(PeerError, match="rank 1 on h1 failed: exit status 3"):
            ranks.end(30)


def test_a_rank_that_says_nothing() -> None:
    with running(SAYS % 1, "import time; time.sleep(60)") as ranks, pytest.raises(PeerError, match="of rank 1 for"):
        ranks.hear(1)


@pytest.mark.parametrize("name", ["gloo", "gloo-mptcp"])
def test_without_torch(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("mrc.bench.torch_build.find_spec", lambda _: None)
    subject = make_subjects(plan(baselines=(name,)), lambda *_: None)[1]
    with pytest.raises(SystemRefused, match=rf"baseline {name} needs PyTorch: pip install torch"):
        subject.check()


def test_a_baseline_there_is_not() -> None:
    with pytest.raises(CallerError, match="gloo-mptcp"):
        make_subjects(plan(baselines=("nccl",)), lambda *_: None)


def test_the_subject_is_named_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its own folder nor that of one that was killed an hour ago. Its own lasts as long as the subject, longer
    than the lab: a rank that is left to the lab makes none again."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed = tmp_path / "mrc-bench-killed"
    killed.mkdir()
    (killed / "address of rank 0").write_text("somewhere")
    os.utime(killed, (time.time() - 3600,) * 2)
    subject = Collective("mrc", plan(), lambda *_: None)
    with pytest.raises(PeerError, match="mrc: rank 1 on h1 failed: killed by signal 9"):
        subject.run(Here([LOST, "import os; os.kill(os.getpid(), 9)"]))
    (own,) = tmp_path.iterdir()
    assert own != killed
    del subject
    gc.collect()  # the traceback of the error held it
    assert list(tmp_path.iterdir()) == []
