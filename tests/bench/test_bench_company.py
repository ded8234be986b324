# SPDX-License-Identifier: BSD-2-Clause
"""Baselines that are programs of others: what they print, from recorded runs, and which package is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc.bench import processes
from mrc.bench.baselines import BASELINES, LATENCY_BASELINES, make_baseline
from mrc.bench.baselines.iperf3 import Iperf3
from mrc.bench.baselines.no_offload import offloads_off, offloads_on
from mrc.bench.baselines.sized import Sized, Sizing
from mrc.bench.baselines.ucx import read_row
from mrc.bench.settings import Settings
from mrc.bench.subject import RECEIVER, SENDER
from mrc.errors import PeerError, SystemRefused
from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.lab.children import start_on

HEADINGS = "iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr\n"
# ucx_perftest 1.13.1 between two hosts of a lab: 1 MiB messages, and a ping-pong of 2 bytes.
UCX_MESSAGES = HEADINGS + "1500,0.861,924.250,775.674,1081.96,1289.20,1082,1289\n"
UCX_PING_PONG = HEADINGS + "10000,12.555,13.584,13.584,0.14,0.14,73615,73615\n"
UCX_WITHOUT_DEVICE = (
    HEADINGS + "[1795436842.002092] [vm:17783:0]     ucp_context.c:1014 UCX  WARN  network device 'p0' is not "
    "available, please use one or more of: \n"
)
# ethtool 6.1 on a veth, as far as it is read.
ETHTOOL = (
    '[{"ifname": "p0", "tcp-segmentation-offload": {"active": true, "fixed": null, "requested": null}, '
    '"generic-segmentation-offload": {"active": true, "fixed": false, "requested": true}, '
    '"generic-receive-offload": {"active": false, "fixed": false, "requested": false}}]'
)
# iperf3 3.12 over loopback, TCP, as far as it is read.
TCP_RUN = {
    "end": {
        "sum_sent": {"seconds": 1.000106, "bytes": 977666048, "bits_per_second": 7820499411.06, "retransmits": 6},
        "sum_received": {"seconds": 1.017065, "bytes": 974258032, "bits_per_second": 7663290208.590404},
        "cpu_utilization_percent": {"host_total": 24.321067939086618, "remote_total": 17.83816681611528},
    }
}


def need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            if os.environ.get("CI") == "true":
                pytest.fail(f"needs the program {program}")
            pytest.skip(f"needs the program {program}")


def test_a_row_of_ucx_perftest() -> None:
    row = read_row(UCX_MESSAGES)
    # 1500 messages of 1 MiB, each in 775.674 us: its own 1289.20 MB/s are of 2^20 bytes.
    assert row["iterations"] == 1500
    assert 1e6 / row["overall_lat"] == pytest.approx(row["overall_bw"], rel=1e-4)
    assert read_row(UCX_PING_PONG)["50.0_percentile_lat"] == 12.555


@pytest.mark.parametrize(
    "told", ["", HEADINGS, UCX_WITHOUT_DEVICE, UCX_MESSAGES + "1500,0.8\n", HEADINGS + "0,0,0,0,0,0,0,0\n"]
)
def test_a_ucx_perftest_nobody_knows(told: str) -> None:
    with pytest.raises(PeerError, match="form"):
        read_row(told)


def test_which_offloads_are_on() -> None:
    assert offloads_on(ETHTOOL) == ["tso", "gso"]


@pytest.mark.parametrize("told", ["", "[ ]", '[{"ifname": "p0"}]', '{"a": 1, "b": 2}'])
def test_an_ethtool_nobody_knows(told: str) -> None:
    with pytest.raises(PeerError, match="form"):
        offloads_on(told)


def test_processor_time_for_a_gigabyte_of_tcp() -> None:
    figures = Iperf3("tcp", 1.0, 4096, 0.0)._figures(TCP_RUN)
    # 42.16 % of one CPU for 1.017065 s, and 0.974258 GB.
    assert figures["cpu_seconds_per_gb"] == pytest.approx(0.4215923 * 1.017065 / 0.974258, rel=1e-4)
    assert figures["retransmitted_packets"] == 6


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("ngtcp2", "the package ngtcp2-server"),
        ("ucx", "the package ucx-utils"),
        ("tcp-no-offload", "the package iperf3"),
    ],
)
def test_without_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, packages: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(processes, "SYSTEM_PROGRAMS", ())
    with pytest.raises(SystemRefused, match=rf"baseline {name} needs the program .*: install {packages}$"):
        make_baseline(name, Settings()).check()


@pytest.mark.parametrize(("there", "package"), [("gtlsserver", "ngtcp2-client"), ("iperf3", "ethtool")])
def test_with_one_of_two_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: str, package: str) -> None:
    (tmp_path / there).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(processes, "SYSTEM_PROGRAMS", ())
    name = "ngtcp2" if there == "gtlsserver" else "tcp-no-offload"
    with pytest.raises(SystemRefused, match=f"install the package {package}$"):
        make_baseline(name, Settings()).check()


def test_a_program_where_no_path_leads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "gtlsserver").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(processes, "SYSTEM_PROGRAMS", (str(tmp_path),))
    assert processes.find_program("gtlsserver", "it", "ngtcp2-server") == str(tmp_path / "gtlsserver")


def test_every_entry_makes_a_subject_of_its_name() -> None:
    for name in BASELINES:
        assert make_baseline(name, Settings()).name == name
    for name in LATENCY_BASELINES:
        assert make_baseline(name, Settings(size=2, latency=True)).name == name
    assert set(LATENCY_BASELINES) == {"udp", "ucx"}


def test_amounts_grow_until_they_take_long_enough() -> None:
    asked: list[int] = []

    def measure(amount: int) -> Sized:
        asked.append(amount)
        return Sized(amount * 0.01, {"amount": amount})

    sizing = Sizing(first=2, seconds=2.0)
    assert sizing.run(measure) == {"amount": 220}
    # 16 times as much at most, then what takes a tenth longer than the time.
    assert asked == [2, 32, 220]
    # The next run begins with what was enough.
    assert sizing.run(measure) == {"amount": 220}
    assert asked == [2, 32, 220, 220]


def test_amounts_shrink_for_the_next_run_where_this_one_took_long() -> None:
    sizing = Sizing(first=100, seconds=1.0)
    assert sizing.run(lambda amount: Sized(amount * 0.1, {"amount": amount})) == {"amount": 100}
    assert sizing.run(lambda amount: Sized(amount * 0.1, {"amount": amount})) == {"amount": 11}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with Lab.up(f"test-{os.getpid()}-company", Clos(spines=2)) as built:
        yield built


def offloads(lab: Lab, host: str, interface: str) -> dict[str, bool]:
    out, _ = lab.popen(
        host, ["/usr/sbin/ethtool", "--json", "-k", interface], stdout=subprocess.PIPE, text=True
    ).communicate()
    (features,) = json.loads(out)
    return {
        name: features[f"{name}-offload"]["active"]
        for name in ("tcp-segmentation", "generic-segmentation", "generic-receive")
    }


@pytest.mark.root
def test_offloads_are_off_meanwhile_and_put_back(lab: Lab) -> None:
    need("ethtool")
    interfaces = [(host, f"p{plane}") for host in (SENDER, RECEIVER) for plane in range(2)]
    before = [offloads(lab, *each) for each in interfaces]
    assert all(each["tcp-segmentation"] for each in before)

    def fail() -> None:
        with offloads_off(lab):
            assert not any(value for each in interfaces for value in offloads(lab, *each).values())
            raise PeerError("it failed")

    with pytest.raises(PeerError):
        fail()
    assert [offloads(lab, *each) for each in interfaces] == before


def arrived(lab: Lab) -> tuple[int, int]:
    """(bytes, packets) at plane 0 of the receiver."""

    def read() -> tuple[int, int]:
        (line,) = (line for line in Path("/proc/thread-self/net/dev").read_text().splitlines() if "p0:" in line)
        received, packets = line.partition(":")[2].split()[:2]
        return int(received), int(packets)

    return lab.inside(RECEIVER, read)


@pytest.mark.root
@pytest.mark.parametrize(("name", "whole"), [("tcp", True), ("tcp-no-offload", False)])
def test_without_offload_no_packet_is_larger_than_the_mtu(lab: Lab, name: str, whole: bool) -> None:
    need("iperf3", "ethtool")
    before = arrived(lab)
    make_baseline(name, Settings(seconds=1.0)).run(lab)
    received, packets = (now - then for now, then in zip(arrived(lab), before, strict=True))
    ethernet = 14
    assert (received / packets > lab.topology.mtu + ethernet) is whole


@pytest.mark.root
@pytest.mark.parametrize(("name", "programs"), [("ngtcp2", ("gtlsserver", "gtlsclient")), ("ucx", ("ucx_perftest",))])
def test_figures_agree_with_each_other(lab: Lab, name: str, programs: tuple[str, ...]) -> None:
    need(*programs)
    baseline = make_baseline(name, Settings(seconds=0.3))
    baseline.check()
    baseline.prepare(lab)
    figures = baseline.run(lab)
    assert figures["goodput_gbps"] > 0
    # The same bytes as in CPU seconds a GB, in at least 0.6 of the time.
    gigabytes = figures["cpu_seconds"] / figures["cpu_seconds_per_gb"]
    assert gigabytes * 8 / figures["goodput_gbps"] >= 0.3 * 0.6 * 0.99
    if name == "ucx":
        assert figures["message_rate_mps"] * (1 << 20) * 8 / 1e9 == pytest.approx(figures["goodput_gbps"])


@pytest.mark.root
def test_ucx_tells_half_round_trips(lab: Lab) -> None:
    need("ucx_perftest")
    figures = make_baseline("ucx", Settings(size=2, seconds=0.2, latency=True)).run(lab)
    assert set(figures) == {"t_typical_us", "t_avg_us"}
    assert figures["t_typical_us"] > 0


@pytest.mark.root
def test_a_program_that_ends_before_it_listens(lab: Lab) -> None:
    with (
        start_on(lab, SENDER, "it", ["sh", "-c", "echo no room >&2"]) as program,
        pytest.raises(PeerError, match="it did not start: no room"),
    ):
        processes.wait_until_bound(program, "tcp6", 1)
