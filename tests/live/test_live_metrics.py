# SPDX-License-Identifier: BSD-2-Clause
"""`mrc ctl metrics` of endpoints that run: held to their own reports, to promtool, and scraped by a real Prometheus."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import programs
import pytest
import yaml
from live_run import Running, Transfers, missing
from patience import PATIENCE_S, eventually
from programs import MRC
from prometheus_client.parser import text_string_to_metric_families

from mrc.lab import Lab

pytestmark = pytest.mark.root

GRAFANA = Path(__file__).parents[2] / "docs" / "grafana"


@pytest.fixture(scope="module")
def lab(slow_lab: Lab) -> Lab:
    return slow_lab


@pytest.fixture
def ends(transfers: Transfers) -> Iterator[tuple[Running, Running]]:
    """The two ends of a measurement that writes one packet after another, and would for longer than any test."""
    server = transfers.start("h1", [*MRC, "bench", "serve"])
    assert server.process.stdout is not None
    ticket = server.process.stdout.readline().strip()
    size = ("--size", "4096", "--depth", "1", "--seconds", "600s")
    client = transfers.start("h0", [*MRC, "bench", "write", ticket, *size])
    assert client.process.stdout is not None
    assert "#bytes" in client.process.stdout.readline()
    yield server, client
    for each in (client, server):
        each.kill()


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        missing(name)
    assert found is not None
    return found


def metrics(pids: set[int]) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """By name, the samples of these processes: other endpoints of this machine are left out."""
    done = programs.run([*MRC, "ctl", "metrics"], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(done.stdout):
        for sample in family.samples:
            if "pid" not in sample.labels or int(sample.labels["pid"]) in pids:
                found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_figures_are_those_of_the_endpoints(transfers: Transfers, ends: tuple[Running, Running]) -> None:
    receiver, sender = (each.process.pid for each in ends)

    def status() -> dict[str, Any]:
        listed = programs.run([*MRC, "ctl", "list", "--json"], capture_output=True, text=True, check=True)
        return {each["pid"]: each for each in json.loads(listed.stdout)["endpoints"]}

    before, first = status(), metrics({receiver, sender})
    time.sleep(0.2)
    second = metrics({receiver, sender})
    assert {receiver, sender} <= before.keys()

    def of(found: dict[str, Any], name: str, pid: int) -> dict[tuple[tuple[str, str], ...], float]:
        return {labels: value for labels, value in found[name].items() if ("pid", str(pid)) in labels}

    sent = [sum(of(each, "mrc_data_packets_sent_total", sender).values()) for each in (first, second)]
    assert 0 < sent[0] < sent[1]
    # Each packet was on one of eight paths; the counts were read together.
    paths = of(second, "mrc_path_packets_total", sender)
    assert len(paths) == 8
    assert sum(paths.values()) == sent[1]
    assert {dict(labels)["plane"] for labels in paths} == {"0", "1"}
    states = of(second, "mrc_path_state", sender)
    assert len(states) == 8
    assert set(states.values()) == {1.0}
    assert of(second, "mrc_bytes_placed_total", receiver) != {}
    assert set(of(second, "mrc_port_up", sender).values()) == {1.0}
    (rtt,) = of(second, "mrc_qp_srtt_seconds", sender).values()
    assert 0 < rtt < 10
    (labels,) = of(second, "mrc_qps", sender)
    assert dict(labels)["endpoint"].endswith("h0")
    assert dict(labels)["program"] == "mrc bench write"


def test_promtool_finds_nothing_wrong(ends: tuple[Running, Running]) -> None:
    done = programs.run([*MRC, "ctl", "metrics"], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"], input=done.stdout, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    names = set(re.findall(r"^# TYPE (\w+)", done.stdout, re.MULTILINE))
    dashboard = json.loads((GRAFANA / "mrc.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for each in expressions for name in re.findall(r"\bmrc_\w+", each)}
    assert len(used) >= 10
    assert used <= names
    assert all(panel["gridPos"]["w"] + panel["gridPos"]["x"] <= 24 for panel in dashboard["panels"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_real_prometheus_scrapes_them(transfers: Transfers, ends: tuple[Running, Running]) -> None:
    prometheus = program("prometheus")
    ports = free_port(), free_port()
    serving = programs.start(
        [*MRC, "ctl", "metrics", "--listen", f"127.0.0.1:{ports[0]}"], stderr=subprocess.PIPE, text=True
    )
    config = yaml.safe_load((GRAFANA / "prometheus.yml").read_text())
    config["global"]["scrape_interval"] = "300ms"
    config["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{ports[0]}"]
    (transfers.scratch / "prometheus.yml").write_text(yaml.safe_dump(config))
    assert serving.stderr is not None
    assert f"http://127.0.0.1:{ports[0]}/metrics" in serving.stderr.readline()
    running = subprocess.Popen(
        [
            *(prometheus, f"--config.file={transfers.scratch}/prometheus.yml"),
            *(f"--storage.tsdb.path={transfers.scratch}/data", f"--web.listen-address=127.0.0.1:{ports[1]}"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    sender = ends[1].process.pid

    def asked(expression: str) -> list[Any]:
        url = f"http://127.0.0.1:{ports[1]}/api/v1/query?query={urllib.parse.quote(expression)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                result: list[Any] = json.load(answer)["data"]["result"]
        except (urllib.error.URLError, ConnectionError):
            return []
        return result

    try:
        (one,) = eventually(lambda: asked(f'mrc_data_bytes_sent_total{{pid="{sender}"}} > 0'))
        assert one["metric"]["program"] == "mrc bench write"
        assert one["metric"]["job"] == "mrc"
        assert len(eventually(lambda: asked(f'rate(mrc_data_bytes_sent_total{{pid="{sender}"}}[10s]) * 8 > 0'))) == 1
        assert len(asked(f'mrc_path_state{{pid="{sender}"}}')) == 8
    finally:
        running.kill()
        running.wait()
        serving.send_signal(signal.SIGINT)
        said = serving.communicate(timeout=PATIENCE_S)[1]
    assert serving.returncode == 130
    assert "Traceback" not in said


def test_an_address_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        done = programs.run(
            [*MRC, "ctl", "metrics", "--listen", listen],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "choose another with --listen" in done.stderr
