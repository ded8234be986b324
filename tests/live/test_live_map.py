# SPDX-License-Identifier: BSD-2-Clause
"""`mrc map` as processes in a lab: agents on every host, the map beside it, and what both say from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import programs
import pytest
from live_run import eventually
from patience import PATIENCE_S, undisturbed
from programs import MRC
from prometheus_client.parser import text_string_to_metric_families

from mrc.control import deny_list
from mrc.fabric import Clos
from mrc.lab import Lab
from mrc.map.probe import UDP_PORT, ProbeCodec
from mrc.wire.usid import DEFAULT_BLOCK, address_text, container, host_usid, leaf_usid, spine_usid

pytestmark = pytest.mark.root


@dataclass
class Map:
    """A running `mrc map serve`, with agents on all hosts."""

    lab: Lab
    directory: Path
    port: int

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())

    @property
    def picture(self) -> dict[str, Any]:
        return dict(json.loads(self.get("/map.json")))

    @property
    def faults(self) -> dict[str, dict[str, Any]]:
        return {fault["name"]: fault for fault in self.picture["faults"]}

    def only(self, name: str) -> dict[str, Any]:
        """The fault of this name, once it is named; no other is, ever."""

        def look() -> dict[str, Any] | None:
            found = self.faults
            assert set(found) <= {name}
            return found.get(name)

        return dict(eventually(look, PATIENCE_S))

    def all_well(self) -> None:
        eventually(lambda: not self.faults, PATIENCE_S)


def start(*argv: str | Path, **options: Any) -> subprocess.Popen[str]:
    return programs.start([*MRC, *argv], stderr=subprocess.PIPE, text=True, **options)


def stop(program: subprocess.Popen[str]) -> str:
    """End it by SIGTERM; what it said."""
    program.terminate()
    said = program.communicate(timeout=PATIENCE_S)[1]
    assert program.returncode == 143, said
    assert "Traceback" not in said
    return str(said)


def served(program: subprocess.Popen[str]) -> int:
    """The port of the page, from the first line of `mrc map serve`."""
    assert program.stderr is not None
    line = program.stderr.readline()
    match = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
    assert match, line
    return int(match[1])


@pytest.fixture(scope="module")
def lab(need_root: None) -> Iterator[Lab]:
    """Three leaves, so that cables of one spine are told apart quickly."""
    with Lab.up(f"live-{os.getpid()}-map", Clos(planes=2, leaves=3, spines=2)) as built:
        yield built


@pytest.fixture(scope="module")
def fabric_map(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Map]:
    directory = tmp_path_factory.mktemp("map")
    options = ("--name", lab.name, "--listen", "127.0.0.1:0", "--deny-list", directory / "deny.json")
    serve = start("map", "serve", *options)
    agents = start("map", "agent", "--all", "--name", lab.name)
    try:
        running = Map(lab, directory, served(serve))
        eventually(lambda: sum(each["sent"] > 0 for each in running.picture["agents"]) == 3, PATIENCE_S)
        yield running
        assert "probing 100 times a second" in stop(agents)
        stop(serve)
        assert not lab.processes()
    finally:
        for program in (agents, serve):
            program.kill()
            program.communicate()


@pytest.fixture
def whole(fabric_map: Map) -> Iterator[Map]:
    """The map of a fabric with nothing wrong, before and after."""
    fabric_map.all_well()
    yield fabric_map
    for node in fabric_map.lab.topology.nodes:
        fabric_map.lab.heal(node)
    fabric_map.all_well()


def show(running: Map, *options: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [*MRC, "map", "show", "--name", running.lab.name, *map(str, options)]
    return programs.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)


def test_all_probes_come_back_from_a_fabric_with_nothing_wrong(whole: Map) -> None:
    eventually(lambda: all(len(each["planes"]) == 2 for each in whole.picture["agents"]), PATIENCE_S)
    picture = whole.picture
    assert [each["host"] for each in picture["agents"]] == ["h0", "h1", "h2"]
    for agent in picture["agents"]:
        assert not agent["silent"]
        for plane in agent["planes"]:
            assert plane["back"] > 0
            assert plane["lost"] == 0
            assert plane["rtt_us"] is not None
    # It is written down every second.
    eventually(lambda: "3 of 3 hosts report, 300 probes a second" in show(whole).stdout, PATIENCE_S)
    done = show(whole)
    assert done.returncode == 0, done.stderr
    assert "nothing is wrong" in done.stdout


def test_metrics_are_what_prometheus_reads(whole: Map) -> None:
    found = {family.name: family for family in text_string_to_metric_families(whole.get("/metrics"))}
    up = {sample.labels["host"]: sample.value for sample in found["mrc_map_agent_up"].samples}
    assert up == {"h0": 1.0, "h1": 1.0, "h2": 1.0}
    probes = [each for each in found["mrc_map_probes"].samples if each.name.endswith("_total")]
    assert {each.labels["result"] for each in probes} == {"back", "lost"}
    assert found["mrc_map_faults"].samples[0].value == 0


def test_a_cut_cable_is_named_shown_and_denied_and_is_over_when_it_is_healed(whole: Map) -> None:
    cut_ns = whole.lab.cut("p1l2-p1s0")
    fault = whole.only("p1l2-p1s0")
    assert (fault["kind"], fault["state"], fault["plane"]) == ("link", "down", 1)
    events, _ = whole.lab.events.read()
    (cut,) = [each for each in events if each.event == "cut" and each.at_monotonic_ns == cut_ns]
    # The first probe lost is one of the first sent after the cut.
    assert -50_000_000 < fault["since_unix_ns"] - cut.at_unix_ns < 3_000_000_000
    assert fault["named_unix_ns"] > fault["since_unix_ns"]

    eventually(lambda: "p1l2-p1s0" in (whole.directory / "deny.json").read_text(), PATIENCE_S)
    deny_list.read(whole.directory / "deny.json")
    listed = json.loads((whole.directory / "deny.json").read_text())["deny"]
    ends = {(each.get("endpoint"), each.get("peer"), each["plane"], each["ev"]) for each in listed}
    assert ends == {("h2", None, 1, "0x01000000"), (None, "h2", 1, "0x01000000")}
    eventually(lambda: "p1l2-p1s0 is down" in show(whole).stdout, PATIENCE_S)
    done = show(whole, "--deny-list", "-")
    assert {each["ev"] for each in json.loads(done.stdout)["deny"]} == {"0x01000000"}
    gauge = [line for line in whole.get("/metrics").splitlines() if line.startswith("mrc_map_fault_loss_ratio{")]
    assert len(gauge) == 1
    assert 'name="p1l2-p1s0"' in gauge[0]

    whole.lab.heal("p1l2-p1s0")
    whole.all_well()
    eventually(lambda: not json.loads((whole.directory / "deny.json").read_text())["deny"], PATIENCE_S)

    def over() -> list[dict[str, Any]]:
        done = show(whole, "--json", "--since", "10m")
        return [each for each in json.loads(done.stdout)["past"] if each["name"] == "p1l2-p1s0"]

    (past,) = eventually(over, PATIENCE_S)
    assert past["since_unix_ns"] == fault["since_unix_ns"]
    assert not past["withdrawn"]
    assert past["until_unix_ns"] > past["since_unix_ns"]


def test_a_spine_that_forwards_nothing_though_its_links_are_up_is_named(whole: Map) -> None:
    forwarding = Path("/proc/sys/net/ipv6/conf/all/forwarding")
    whole.lab.inside("p0s1", lambda: forwarding.write_text("0"))
    try:
        assert all(link.state == "up" for link in whole.lab.status().links)
        fault = whole.only("p0s1")
        assert (fault["kind"], fault["state"]) == ("spine", "down")
    finally:
        whole.lab.inside("p0s1", lambda: forwarding.write_text("1"))


def test_a_hosts_own_port_is_named(whole: Map) -> None:
    whole.lab.cut("h1-p0l1")
    assert whole.only("h1-p0l1")["kind"] == "host-port"


def test_a_browser_draws_it_and_it_updates_itself(whole: Map, tmp_path: Path) -> None:
    chromium = shutil.which("chromium")
    if chromium is None and os.environ.get("CI") != "true":
        pytest.skip("needs the program chromium")
    assert chromium is not None, "install chromium"
    whole.lab.cut("p0l1-p0s0")
    whole.only("p0l1-p0s0")
    flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    flags += "--disable-component-update --disable-sync --virtual-time-budget=4000 --dump-dom"
    argv = [chromium, *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", f"http://127.0.0.1:{whole.port}/"]

    def draw() -> str:
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=600).stdout

    def marked(dom: str) -> list[tuple[str, str]]:
        return re.findall(r'<line [^>]*class="(\w+)" data-name="([^"]+)"', dom)

    dom = draw()
    assert int(re.findall(r'data-updates="(\d+)"', dom)[0]) >= 2
    # A browser that starts keeps the kernel from forwarding, and what is lost meanwhile casts a suspicion that passes.
    assert [each for each in marked(dom) if each[0] != "suspect"] == [("down", "p0l1-p0s0")]
    boxes = re.findall(r'<rect [^>]*data-name="([^"]+)"', dom)
    assert sorted(boxes) == sorted((*whole.lab.topology.nodes, *whole.lab.topology.hosts))
    assert "p0l1-p0s0 is down" in dom
    assert re.search(r'<div id="gone"[^>]*style="display: none', dom)


def test_what_others_send_to_an_agents_host_changes_nothing(whole: Map) -> None:
    """Probes of another process, noise on the probes' port, and MRC's own port: from h1 to h0 through the fabric."""
    usids = (leaf_usid(0, 1), spine_usid(0, 0), leaf_usid(0, 0), host_usid(0, 0))
    target = address_text(container(DEFAULT_BLOCK, usids))
    stranger = ProbeCodec(whole.lab.addresses("h0")[0], *ProbeCodec.new_secrets(), traffic_class=0)
    noise = [stranger.build(number, 0) for number in range(50)]
    noise += [noise[0][:cut] for cut in (1, 40, 48, 60)] + [noise[0] + b"more" * 300]
    elsewhere = bytearray(noise[0])
    elsewhere[42:44] = (4791).to_bytes(2, "big")

    def send() -> None:
        with socket.socket(socket.AF_INET6, socket.SOCK_RAW, 41) as raw:
            raw.bind((whole.lab.addresses("h1")[0], 0))
            for packet in (*noise, bytes(elsewhere)):
                raw.sendto(packet, (target, 0))

    def foreign() -> int:
        return int(whole.picture["agents"][0]["foreign"])

    def lost() -> int:
        return sum(plane["lost"] for agent in whole.picture["agents"] for plane in agent["planes"])

    def attempt() -> tuple[int, list[Any], list[Any]]:
        """Probes lost, faults and suspicions."""
        eventually(lambda: whole.picture["suspicions"] == [], PATIENCE_S)
        before, lost_before = foreign(), lost()
        whole.lab.inside("h1", send)
        # Those with a whole UDP header for the port arrive and are known for what they are; the rest the filter keeps
        # out.
        eventually(lambda: foreign() >= before + 53, PATIENCE_S)
        assert foreign() == before + 53
        picture = whole.picture
        return lost() - lost_before, picture["faults"], picture["suspicions"]

    assert UDP_PORT not in (4791, 4971)
    assert undisturbed(attempt, lambda found: found != (0, [], [])) == (0, [], [])


@pytest.mark.parametrize(
    "said",
    [
        b"\xff\xfe\n",
        b"{}\n",
        b"[" * 100_000 + b"\n",
        b'{"version":1,"host":7,"rate":100,"loops":[[0,0,null,null,null]]}\n',
        b'{"version":2,"host":0,"rate":100,"loops":[[4096,16384]]}\n',
        b'{"version":1,"host":2,"rate":100,"loops":[[0,2,null,null,null]]}\n{"sent_ns":0,"back":[5]}\n',
    ],
)
def test_who_talks_nonsense_to_the_collector_is_shown_the_door(whole: Map, said: bytes) -> None:
    """Agents that are there already, and what they told, are left alone."""
    before = whole.picture["malformed"]
    path = Path("/run/mrc") / whole.lab.name / "map.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as intruder:
        intruder.settimeout(PATIENCE_S)
        intruder.connect(str(path))
        intruder.sendall(said)
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := intruder.recv(4096):
                heard += chunk
    welcome, refusal = map(json.loads, heard.splitlines())
    assert welcome["leaves"] == 3
    assert refusal["refused"]
    eventually(lambda: whole.picture["malformed"] == before + 1, PATIENCE_S)
    assert not any(agent["silent"] for agent in whole.picture["agents"])


def test_nobody_reports_for_a_host_that_it_is_not_on(whole: Map) -> None:
    """As the agent of a lab that is gone would, whose name another has now."""
    argv = [*MRC, "map", "agent", "--fabric", str(whole.lab.fabric_path("h0"))]
    before = whole.picture
    stray = whole.lab.popen("p0l0", argv, start=programs.start, stderr=subprocess.PIPE, text=True)
    try:
        # It has no port of that address there to begin with, or is refused by the map.
        assert stray.stderr is not None
        assert "is the fabric up?" in stray.stderr.readline()
    finally:
        stray.kill()
        stray.communicate()
    path = Path("/run/mrc") / whole.lab.name / "map.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as intruder:
        intruder.settimeout(PATIENCE_S)
        intruder.connect(str(path))
        intruder.sendall(b'{"version":2,"host":0,"rate":100,"loops":[[4096,16384]]}\n')
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := intruder.recv(4096):
                heard += chunk
    assert f"process {os.getpid()} is not on h0" in json.loads(heard.splitlines()[1])["refused"]
    eventually(lambda: whole.picture["malformed"] == before["malformed"] + 1, PATIENCE_S)


def test_the_page_takes_nothing_but_questions(whole: Map) -> None:
    for request in (
        urllib.request.Request(f"http://127.0.0.1:{whole.port}/", data=b"x", method="POST"),
        urllib.request.Request(f"http://127.0.0.1:{whole.port}/../../etc/passwd"),
        urllib.request.Request(f"http://127.0.0.1:{whole.port}/map.sqlite"),
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=PATIENCE_S)
        assert refused.value.code in (404, 501)
        refused.value.close()
    with urllib.request.urlopen(f"http://127.0.0.1:{whole.port}/", timeout=PATIENCE_S) as answer:
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        page = answer.read().decode()
    # Nothing is fetched from anywhere else.
    assert set(re.findall(r"https?://[^\s\"'`]+", page)) == {"http://www.w3.org/2000/svg"}


def test_a_second_map_of_a_lab_is_refused(whole: Map) -> None:
    argv = [*MRC, "map", "serve", "--name", whole.lab.name, "--listen", "127.0.0.1:0"]
    done = programs.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert "another collector listens" in done.stderr


def test_agents_wait_for_a_map_that_went_away_and_history_goes_on(whole: Map, tmp_path: Path) -> None:
    """One more agent, with a map of its own on another socket, twice."""
    lab = whole.lab
    sock, history = tmp_path / "s", tmp_path / "history.sqlite"
    agent = lab.popen(
        "h0",
        [*MRC, "map", "agent", "--rate", "50", "--collector", str(sock)],
        start=programs.start,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert agent.stderr is not None
        assert "no collector at" in agent.stderr.readline()
        from mrc.map.service import MapService

        for turn in range(2):
            service = MapService(lab.name, lab.topology, sock, history, ("127.0.0.1", 0))
            try:
                heard = Map(lab, tmp_path, service.http.port)

                def is_over(heard: Map = heard) -> bool:
                    return any(each["sent"] > 0 for each in heard.picture["agents"])

                service.run(is_over)
                (state,) = heard.picture["agents"]
                assert (state["host"], state["rate_per_s"], state["connected"]) == ("h0", 50, True)
            finally:
                service.close()
            assert not sock.exists()
            assert history.exists()
            said = agent.stderr.readline()
            assert "probing 50 times a second" in said, (turn, said)
            assert "looking for a collector" in agent.stderr.readline()
            if turn == 0:
                assert "no collector at" in agent.stderr.readline()
    finally:
        agent.terminate()
        agent.communicate(timeout=PATIENCE_S)
    assert agent.returncode == 143


def test_commands_say_what_to_do_where_there_is_nothing(whole: Map, tmp_path: Path) -> None:
    def run(*argv: str | Path) -> subprocess.CompletedProcess[str]:
        return programs.run([*MRC, "map", *argv], capture_output=True, text=True, timeout=PATIENCE_S)

    for argv, why in (
        (("show", "--history", tmp_path / "none"), "mrc map serve"),
        (("serve", "--name", "no-such-lab"), "there is no lab"),
        (("agent",), "mrc lab exec"),
    ):
        done = run(*argv)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert why in done.stderr
    assert run("serve", "--listen", "nowhere").returncode == 2
    assert run("agent", "--rate", "0").returncode == 2
    for command in ("agent", "serve", "show"):
        assert "Examples:" in run(command, "--help").stdout
