# SPDX-License-Identifier: BSD-2-Clause
"""A sender that is gone is not served to the end of its last request: packs and sums of large files take a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mrc.errors import PeerError
from mrc.fabric import Clos
from mrc.net.session.qps import TUNING
from mrc.net.transfer import pack_arrival
from mrc.net.transfer.arrivals import Arrivals
from mrc.net.transfer.bounds import DEFAULT_BOUNDS, FilePlaces
from mrc.net.transfer.directory import Directory
from mrc.net.transfer.sums import CHUNK, FileSum, Sums
from mrc.sim import SimFabric
from mrc.sim.device import SimDevice
from mrc.verbs import PD, Context

FILES = 5
WHY = "the sender went away"


@pytest.fixture
def pd() -> Iterator[PD]:
    context = Context(SimDevice(SimFabric(Clos(spines=2)), "h0"), tuning=TUNING)
    yield context.pd()
    context.close()


@pytest.fixture
def arrivals(pd: PD, tmp_path: Path) -> Iterator[Arrivals]:
    directory = Directory(tmp_path, overwrite=False)
    made = Arrivals(pd, directory, DEFAULT_BOUNDS, FilePlaces(), lambda: FILES)
    yield made
    made.close()
    assert not pd.mrs
    directory.close()


def pack(arrivals: Arrivals) -> dict[str, Any]:
    """FILES files of one byte."""
    sums = arrivals.sums
    files = [[[f"f{n}"], 1, 0o644, 0, sums.of_content(n, bytes([n]))] for n in range(FILES)]
    return {"first": 0, "files": files}


def announce(arrivals: Arrivals, pd: PD) -> None:
    opened = arrivals.pack(pack(arrivals))
    region = pd.memory.find(opened["rkey"])
    assert region is not None
    region.array[:] = bytearray(range(FILES))


def test_a_pack_is_put_on_disk_as_far_as_it_had_come(
    arrivals: Arrivals, pd: PD, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    announce(arrivals, pd)
    real = pack_arrival.put_whole

    def put(*arguments: Any) -> None:
        real(*arguments)
        if len(os.listdir(tmp_path)) == 2:
            arrivals.give_up(WHY)

    monkeypatch.setattr(pack_arrival, "put_whole", put)
    reports, refused = arrivals.commit_pack({})
    # What is on disk is reported, and nothing else is.
    assert sorted(os.listdir(tmp_path)) == sorted(report.name for report in reports) == ["f0", "f1"]
    assert refused == []
    with pytest.raises(PeerError, match=WHY):
        arrivals.go_on()


def test_a_pack_is_put_on_disk_whole_for_a_sender_that_is_there(arrivals: Arrivals, pd: PD, tmp_path: Path) -> None:
    announce(arrivals, pd)
    reports, _ = arrivals.commit_pack({})
    assert len(reports) == len(os.listdir(tmp_path)) == FILES
    arrivals.go_on()


def test_no_file_of_a_pack_is_looked_up_for_a_sender_that_is_gone(arrivals: Arrivals, pd: PD) -> None:
    arrivals.give_up(WHY)
    with pytest.raises(PeerError, match=WHY):
        arrivals.pack(pack(arrivals))
    assert not pd.mrs


def test_a_file_that_is_there_is_not_summed_for_a_sender_that_is_gone(arrivals: Arrivals, tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(bytes(3 * CHUNK))
    asked = {"index": 0, "path": ["there"], "size": 3 * CHUNK}
    assert arrivals.open(asked)["there"] == "whole"
    arrivals.give_up(WHY)
    with pytest.raises(PeerError, match=WHY):
        arrivals.compare({"index": 0, "sum": ""})


def test_a_sum_ends_between_two_chunks(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(4 * CHUNK))
    chunks = []

    def check() -> None:
        chunks.append(len(chunks))
        if len(chunks) == 3:
            raise PeerError(WHY)

    summed = FileSum(Sums(), 0, check)
    with file.open("rb") as opened:
        with pytest.raises(PeerError, match=WHY):
            summed.read(opened.fileno(), 0, 4 * CHUNK, 4 * CHUNK)
        # What was read is known.
        assert summed.missing(4 * CHUNK) == 2 * CHUNK
