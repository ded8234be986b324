# SPDX-License-Identifier: BSD-2-Clause
"""Captures and traces of hosts in virtual time: files that the project's readers take, with what the fabric did."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc.capture.columns import RIGHT, read_columns
from mrc.endpoint.config import QpConfig
from mrc.endpoint.endpoint import Endpoint
from mrc.errors import CallerError, SystemRefused
from mrc.fabric import Clos
from mrc.sim import HostCapture, LinkModel, SimFabric
from mrc.trace import read_trace

LINK = LinkModel(rate_bps=10**10, delay_ns=1_000)
MILLISECOND = 1_000_000


@pytest.fixture
def recorded() -> tuple[SimFabric, dict[str, HostCapture]]:
    """64 kB over eight paths, one of which loses two fifths."""
    fabric = SimFabric(Clos(planes=2, spines=4), LINK, seed=3, traced=("h0",))
    captures = {host: fabric.capture(host) for host in ("h0", "h1")}
    qp, _ = fabric.connect("h0", "h1", QpConfig(path_mtu=1024))
    fabric.impair("p1l0-p1s2", toward="p1s2", loss=0.4)
    write = fabric.write(qp, 256_000)
    fabric.run(1000 * MILLISECOND, lambda: write.done)
    assert write.arrived
    fabric.endpoints["h0"].destroy_qp(qp)
    return fabric, captures


def test_a_capture_has_what_the_cables_of_a_host_carried(
    recorded: tuple[SimFabric, dict[str, HostCapture]], tmp_path: Path
) -> None:
    fabric, captures = recorded
    for host, capture in captures.items():
        capture.write(tmp_path / "host.pcap")
        with (tmp_path / "host.pcap").open("rb") as stream:
            runs = list(read_columns(stream, "host.pcap"))
        cables = [egress.counters for (name, _), egress in fabric.egresses.items() if name.startswith(f"{host}-")]
        # The run may end with a packet on a cable, counted where it was put on and not yet where it arrives.
        assert 0 <= sum(counters.packets for counters in cables) - sum(map(len, runs)) <= 2
        for columns in runs:
            assert (columns.icrc == RIGHT).all()
            assert (columns.frames.time_ns >= 0).all()
            assert columns.frames.time_ns.max() <= fabric.now
            assert not columns.malformed


def test_a_trace_is_on_the_time_line_of_the_capture(
    recorded: tuple[SimFabric, dict[str, HostCapture]], tmp_path: Path
) -> None:
    fabric, _ = recorded
    fabric.traces["h0"].write(tmp_path / "h0.trace")
    with (tmp_path / "h0.trace").open("rb") as stream:
        header, events = read_trace(stream)
        found = list(events)
    assert (header.clock, header.realtime_offset_ns) == ("virtual", 0)
    assert events.ended
    assert not events.skipped
    losses = [event for event in found if event.name == "recovery:packet_lost"]
    assert {event["ev"] for event in losses} == {1 << 24 | 2}
    assert 0 < len(losses) <= fabric.link("p1l0-p1s2", "p1s2").counters.lost
    assert max(event.time_ns for event in found) <= fabric.now


def test_what_runs_no_endpoint_of_the_fabric_cannot_be_traced() -> None:
    with pytest.raises(CallerError, match="h9 runs no endpoint"):
        SimFabric(Clos(2, 2, 4), LINK, traced=("h9",))
    with pytest.raises(CallerError, match="h0 runs no endpoint"):
        SimFabric(Clos(2, 2, 4), LINK, agents={"h0": Endpoint()}, traced=("h0",))
    with pytest.raises(CallerError, match="no host 'h9'"):
        SimFabric(Clos(2, 2, 4), LINK).capture("h9")


def test_a_file_that_cannot_be_written_is_named(
    recorded: tuple[SimFabric, dict[str, HostCapture]], tmp_path: Path
) -> None:
    fabric, captures = recorded
    for write in (captures["h0"].write, fabric.traces["h0"].write):
        with pytest.raises(SystemRefused, match="nowhere"):
            write(tmp_path / "nowhere" / "file")
