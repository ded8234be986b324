# SPDX-License-Identifier: BSD-2-Clause
"""The suite: which figures each subject gives, what is told of them, and stalls by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from mrc.bench.baselines import BASELINES
from mrc.bench.lab_run import LabPlan, lab_document
from mrc.bench.rounds import Rounds
from mrc.bench.settings import Settings
from mrc.bench.stall import Cut, Stall, longest_stall
from mrc.bench.suite import CUT, GOODPUT, LATENCY, LOSSY, MEASURES, MESSAGES, parts_of, resumed, suite_document
from mrc.errors import PeerError
from mrc.fabric import Clos
from mrc.lab import Lab

ALL = set(MEASURES)


def test_a_stall_reaches_from_the_first_to_the_last_look_at_a_state() -> None:
    # Nothing new from 0.1 on; what came between the looks at 0.3 and 0.4 ended it at 0.3 or later.
    looks = [(0.0, 0), (0.1, 5000), (0.2, 5000), (0.3, 5000), (0.4, 9000), (0.5, 14000)]
    assert longest_stall(looks) == Stall(pytest.approx(0.2), resumed=True)


def test_a_look_that_comes_late_makes_no_stall() -> None:
    assert longest_stall([(0.0, 0), (0.001, 5000), (1.0, 9_000_000)]) == Stall(0.0, resumed=True)


def test_small_packets_are_no_progress() -> None:
    looks = [(index / 10, 500 * index) for index in range(11)]
    assert longest_stall(looks) == Stall(pytest.approx(1.0), resumed=False)


def test_data_that_does_not_come_again() -> None:
    looks = [(0.0, 0), (0.1, 5000), (0.2, 5000), (0.9, 5000)]
    assert longest_stall(looks) == Stall(pytest.approx(0.8), resumed=False)


def test_a_pause_at_the_end_that_is_one_of_many() -> None:
    looks = [(0.0, 0), (0.2, 0), (0.21, 5000), (0.4, 5000), (0.41, 9000), (0.61, 9000)]
    assert longest_stall(looks) == Stall(pytest.approx(0.2), resumed=True)


@pytest.mark.parametrize(
    ("who", "missing"),
    [
        ("mrc", set()),
        ("udp", set()),
        ("ucx", set()),
        ("bare", {LATENCY, MESSAGES, CUT}),
        ("tcp", {LATENCY, MESSAGES}),
        ("ngtcp2", {LATENCY, MESSAGES}),
    ],
)
def test_what_is_measured_of_whom(who: str, missing: set[str]) -> None:
    parts = parts_of(who, Settings(seconds=1.0))
    assert {part.measure for part in parts} == ALL - missing
    assert {part.measure: part.loss for part in parts if part.loss} == {LOSSY: 0.01}
    assert len({part.name for part in parts}) == len(parts)


def test_every_baseline_has_goodput_and_loss() -> None:
    for who in BASELINES:
        assert {part.measure for part in parts_of(who, Settings())} >= {GOODPUT, LOSSY}


def test_the_document() -> None:
    found = Rounds(
        {
            "mrc: goodput": [{"goodput_gbps": 2.0, "cpu_seconds_per_gb": 3.0}, {"goodput_gbps": 4.0}],
            "mrc: latency": [{"t_typical_us": 70.0}, {"t_typical_us": 80.0}],
            "mrc: messages": [{"message_rate_mps": 60000.0}, {"message_rate_mps": 50000.0}],
            "mrc: loss": [{"goodput_gbps": 1.0}, {"goodput_gbps": 2.0}],
            "mrc: cut": [{"stall_ms": 4.0, "resumed": True}, {"stall_ms": 6.0, "resumed": True}],
            "tcp: goodput": [{"goodput_gbps": 9.0}, {"goodput_gbps": 9.5}],
            "tcp: loss": [{"goodput_gbps": 3.0}, {"goodput_gbps": 3.0}],
            "tcp: cut": [{"stall_ms": 2999.0, "resumed": False}, {"stall_ms": 3000.0, "resumed": True}],
        }
    )
    plan = LabPlan(Clos(), Settings(), (), ("tcp", "bare"), 2)
    found = Rounds({**found.documents, "bare: goodput": [{}, {}], "bare: loss": [{}, {}]})
    document = suite_document(plan, found)
    assert document["mrc"] | {"spread": None, "rounds": None} == {
        "goodput_gbps": 3.0,
        "cpu_seconds_per_gb": 3.0,
        "t_typical_us": 75.0,
        "message_rate_mps": 55000.0,
        "lossy_goodput_gbps": 1.5,
        "stall_ms": 5.0,
        "resumed": True,
        "spread": None,
        "rounds": None,
    }
    assert document["mrc"]["spread"]["stall_ms"] == [4.0, 6.0]
    assert set(document["mrc"]["rounds"]) == ALL
    assert document["tcp"]["t_typical_us"] is document["tcp"]["message_rate_mps"] is None
    assert (document["tcp"]["stall_ms"], document["tcp"]["resumed"]) == (2999.5, False)
    assert document["bare"]["resumed"] is None
    assert resumed(found, "mrc") is True
    assert document["lab"]["rounds"] == 2
    assert (document["lab"]["paths"], document["lab"]["depth"]) == (None, None)


def test_the_document_says_what_was_chosen() -> None:
    plan = LabPlan(Clos(), Settings(qps=3, idle_qps=5, paths=2, depth=7), (), (), 1)
    chosen = {"qps": 3, "idle_qps": 5, "paths": 2, "depth": 7}
    assert lab_document(plan).items() >= chosen.items()


class _Pinned:
    """UDP datagrams through one plane alone."""

    name = "pinned"
    loss = 0.0

    def __init__(self, plane: int) -> None:
        self._plane = plane

    def check(self) -> None:
        """Nothing is needed."""

    def prepare(self, lab: Lab) -> None:
        """Nothing."""

    def run(self, lab: Lab) -> Mapping[str, Any]:
        raise NotImplementedError

    @contextmanager
    def stream(self, lab: Lab) -> Iterator[None]:
        address = lab.addresses("h1")[self._plane]
        script = (
            "import socket, sys, time\n"
            "s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n"
            "while True:\n"
            "    for _ in range(20): s.sendto(bytes(4000), (sys.argv[1], 9))\n"
            "    time.sleep(0.005)\n"
        )
        process = lab.popen("h0", ["python3", "-c", script, address])
        try:
            yield
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with Lab.up(f"test-{os.getpid()}-suite", Clos(spines=2)) as built:
        yield built


@pytest.mark.root
def test_who_is_pinned_to_the_plane_that_is_cut_gets_nothing_through(lab: Lab) -> None:
    document = Cut(_Pinned(0)).run(lab)
    assert document["resumed"] is False
    # Nothing but at most a few looks of the three seconds.
    assert 0.9 * document["watched_ms"] < document["stall_ms"] <= document["watched_ms"]
    assert lab.differences() == ()


@pytest.mark.root
def test_who_is_in_the_other_plane_does_not_notice(lab: Lab) -> None:
    document = Cut(_Pinned(1)).run(lab)
    assert document["resumed"] is True
    assert document["stall_ms"] < 0.5 * document["watched_ms"]


@pytest.mark.root
def test_a_stream_that_never_begins(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc.bench.stall.START_TIMEOUT_S", 0.2)

    class Silent(_Pinned):
        @contextmanager
        def stream(self, lab: Lab) -> Iterator[None]:
            yield

    with pytest.raises(PeerError, match="sent nothing"):
        Cut(Silent(0)).run(lab)
    assert lab.differences() == ()
